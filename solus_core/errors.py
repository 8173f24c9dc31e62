"""The one error tree of Solus: everything that fails is a :class:`SolusError` with a ``code``.

A wrong Python *type* (``None`` as an entity, a float as a TTL) is a ``TypeError``, as anywhere in Python;
every other failure is a :class:`SolusError`. A driver's own error is always the ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import final

import numpy as np
from numpy.typing import NDArray


@final
class ErrorCode(str, Enum):
    """What went wrong, stable across releases and backends: switch on this, not on messages."""

    DEDUPER_NOT_FOUND = "DEDUPER_NOT_FOUND"
    INVALID_CONFIG = "INVALID_CONFIG"
    DEDUPER_CONFIG_MISMATCH = "DEDUPER_CONFIG_MISMATCH"
    AEROSPIKE_ERROR = "AEROSPIKE_ERROR"
    HBASE_ERROR = "HBASE_ERROR"
    TABLE_CREATION_ERROR = "TABLE_CREATION_ERROR"
    CACHE_ERROR = "CACHE_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    PLUGIN_ERROR = "PLUGIN_ERROR"

    def __str__(self) -> str:
        return self.value


class SolusError(Exception):
    """Base of all failures. ``str(error)`` is ``CODE: message``; the message names value, limits and place.

    ``in_doubt`` is true when a write may have been applied although it failed (a timeout after sending, say):
    repeating an ``add`` is safe then, repeating an ``add_if_absent`` can answer False for an entity that
    nobody has acted on.
    """

    def __init__(self, code: ErrorCode, message: str, *, in_doubt: bool = False) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.in_doubt = in_doubt

    def __str__(self) -> str:
        return f"{self.code.value}: {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        # The constructors of subclasses differ; an error must survive pickling between processes all the same.
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(cls: type[SolusError], args: tuple[object, ...], state: dict[str, object]) -> SolusError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


@final
class DeDuperNotFoundError(SolusError):
    """No de-duper of that name is registered, or it is inactive (R14)."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(ErrorCode.DEDUPER_NOT_FOUND, f"de-duper {name!r} {detail}")
        self.name = name


@final
class InvalidConfigError(SolusError):
    """A configuration was refused; ``problems`` holds every problem found, one line each (R12)."""

    def __init__(self, what: str, problems: Sequence[str]) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, f"{what}: " + "; ".join(problems))
        self.problems = tuple(problems)


@final
class ConfigMismatchError(SolusError):
    """A registered de-duper differs from what was asked for (R13, R18).

    ``differences`` maps each differing field to ``(registered, requested)``.
    """

    def __init__(self, name: str, differences: Mapping[str, tuple[object, object]]) -> None:
        listed = ", ".join(f"{field}: registered {a}, requested {b}" for field, (a, b) in differences.items())
        super().__init__(
            ErrorCode.DEDUPER_CONFIG_MISMATCH,
            f"de-duper {name!r} is registered with another config ({listed}); "
            "a registered config never changes: use the registered values or another name",
        )
        self.name = name
        self.differences = dict(differences)


@final
class InvalidArgumentError(SolusError):
    """An argument has the right type and a value that is not allowed."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_ARGUMENT, message)


@final
class PluginError(SolusError):
    """A plugin is missing, broken, incompatible, or clashes with another one."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.PLUGIN_ERROR, message)


@final
class StoreError(SolusError):
    """A store failed. Raised by backends, with the code that fits and the driver's error as ``__cause__``."""


@final
class StoreBatchError(SolusError):
    """A store failed part of the way through a batch. Raised by backends, in terms of ROWS of the batch.

    ``done[i]``: row i was processed. ``answers[i]``: its answer where done (False elsewhere, and for ``add``).
    ``doubtful[i]``: row i was not confirmed, but its write may have been applied. The engine turns this into
    a :class:`BatchError` that names entities.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        done: NDArray[np.bool_],
        answers: NDArray[np.bool_],
        doubtful: NDArray[np.bool_],
    ) -> None:
        super().__init__(code, message, in_doubt=bool(doubtful.any()))
        self.done = done
        self.answers = answers
        self.doubtful = doubtful


@final
class BatchError(SolusError):
    """A batch verb failed part of the way (R8): what was done stays done, and is told here.

    ``unprocessed``: the entities that were not processed, in input order. ``doubtful``: those among them whose
    write may have been applied all the same. ``answers``: the answers of the entities that were processed;
    for ``add_if_absent_many`` the True ones were added by this call, and repeating it would call them present.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        unprocessed: Sequence[Hashable],
        doubtful: Sequence[Hashable],
        answers: Mapping[Hashable, bool],
    ) -> None:
        shown = ", ".join(map(repr, unprocessed[:5])) + (", ..." if len(unprocessed) > 5 else "")
        super().__init__(
            code,
            f"{message}; {len(unprocessed)} of {len(unprocessed) + len(answers)} entities were not processed: {shown}",
            in_doubt=bool(doubtful),
        )
        self.unprocessed = tuple(unprocessed)
        self.doubtful = tuple(doubtful)
        self.answers = dict(answers)
