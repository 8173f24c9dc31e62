"""What a test may do to a server: rules for commands that match, gates, and counters of commands."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from aerospike_double import wire

KINDS = ("put", "get", "select", "exists", "remove", "touch", "operate", "batch", "row", "query", "info")
"""Kinds of commands; "row" is one record's part of a batch, and doesn't count as a command of its own."""
LONGEST_HOLD = 30.0


class Gate:
    """A command that waits: ``reached`` is set when it is there, ``release`` lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._go = threading.Event()

    def release(self) -> None:
        """Let the command (and those that come later) go on."""
        self._go.set()

    def pass_through(self) -> None:
        """Wait to be released; no longer than half a minute, so that a test that failed doesn't hang."""
        self.reached.set()
        self._go.wait(LONGEST_HOLD)


@dataclass
class Rule:
    """What happens to commands that match.

    Attributes:
        kinds: Which commands; empty for all but "info".
        digest: Only the command on this record, as ``aerospike.calc_digest(namespace, set, key)`` gives it.
        skip: How many that match go by first.
        times: How many it then happens to; ``None`` for all.
        code: Result code to answer instead of doing the command; 0 does it.
        applied: Whether the command is done before what ``lost`` or ``code`` say happens.
        lost: "closed" closes the connection instead of answering, "silent" never answers.
        delay: Seconds to wait first.
        gate: Where to wait first.
        when: Anything else about the message that must hold.
        hits: How often it happened.
    """

    kinds: frozenset[str] = frozenset()
    digest: bytes | None = None
    skip: int = 0
    times: int | None = 1
    code: int = 0
    applied: bool = False
    lost: str = ""
    delay: float = 0.0
    gate: Gate | None = None
    when: Callable[[wire.Message], bool] | None = None
    hits: int = 0
    _seen: int = field(default=0, repr=False)

    def takes(self, kind: str, message: wire.Message) -> bool:
        """Whether it happens to this command; counts it."""
        if kind not in self.kinds if self.kinds else kind in ("info", "row"):
            return False
        if self.digest is not None and self.digest != message.digest:
            return False
        if self.when is not None and not self.when(message):
            return False
        self._seen += 1
        if self._seen <= self.skip or (self.times is not None and self.hits >= self.times):
            return False
        self.hits += 1
        return True


class Hooks:
    """The rules and counters of one double; safe to use while commands run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._counts: Counter[str] = Counter()

    def add(self, rule: Rule) -> Rule:
        """Let ``rule`` hold from now on. The first that matches a command is the one that happens."""
        unknown = rule.kinds - set(KINDS)
        if unknown:
            raise ValueError(f"kinds {sorted(unknown)} are none of {KINDS}")
        with self._lock:
            self._rules.append(rule)
        return rule

    def fail(self, code: int, *kinds: str, times: int | None = 1, skip: int = 0, digest: bytes | None = None) -> Rule:
        """Answer ``code`` and do nothing."""
        return self.add(Rule(frozenset(kinds), digest, skip, times, code))

    def lose(
        self,
        *kinds: str,
        applied: bool,
        silent: bool = False,
        times: int | None = 1,
        skip: int = 0,
        digest: bytes | None = None,
    ) -> Rule:
        """Give no answer, with the command done (``applied``) or not: the connection is closed, or stays ``silent``."""
        lost = "silent" if silent else "closed"
        return self.add(Rule(frozenset(kinds), digest, skip, times, applied=applied, lost=lost))

    def delay(self, seconds: float, *kinds: str, times: int | None = 1, skip: int = 0) -> Rule:
        """Wait before doing the command."""
        return self.add(Rule(frozenset(kinds), None, skip, times, delay=seconds))

    def hold(self, *kinds: str, times: int | None = 1, skip: int = 0, digest: bytes | None = None) -> Gate:
        """Let commands wait, before they are done, until the gate is released."""
        gate = Gate()
        self.add(Rule(frozenset(kinds), digest, skip, times, gate=gate))
        return gate

    def clear(self) -> None:
        """Forget all rules and counters; who waits at a gate goes on."""
        with self._lock:
            for rule in self._rules:
                if rule.gate is not None:
                    rule.gate.release()
            self._rules.clear()
            self._counts.clear()

    def matching(self, kind: str, message: wire.Message) -> Rule | None:
        """The rule that happens to this command, which is counted."""
        with self._lock:
            self._counts[kind] += 1
            return next((rule for rule in self._rules if rule.takes(kind, message)), None)

    @property
    def counts(self) -> Counter[str]:
        """How many commands of each kind came since ``clear`` or ``reset_counts``."""
        with self._lock:
            return Counter(self._counts)

    @property
    def round_trips(self) -> int:
        """All commands but info; a batch is one."""
        return sum(count for kind, count in self.counts.items() if kind not in ("info", "row"))

    def reset_counts(self) -> None:
        """Count from nothing again."""
        with self._lock:
            self._counts.clear()


def kind_of(message: wire.Message) -> str:  # noqa: PLR0911  # one return a kind
    """What the client's method was, as far as the wire tells: an ``operate`` of plain writes alone is a put."""
    if wire.F_BATCH in message.fields or wire.F_BATCH_WITH_SET in message.fields:
        return "batch"
    if not message.digest:
        return "query"
    codes = {op.code for op in message.ops}
    if not message.info2 & wire.WRITE:
        if message.info1 & wire.NO_BINS:
            return "exists"
        if message.info1 & wire.GET_ALL:
            return "get"
        return "select" if codes <= {wire.OP_READ} and not message.info2 & wire.RESPOND_ALL else "operate"
    if message.info2 & wire.DELETE:
        return "remove"
    if codes == {wire.OP_TOUCH}:
        return "touch"
    return "put" if codes <= {wire.OP_WRITE} and not message.info2 & wire.RESPOND_ALL else "operate"
