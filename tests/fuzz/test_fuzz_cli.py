"""Any command line ends with a documented exit code and, if something is wrong, one line that says what."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from solus_core.cli.app import solus

pytestmark = pytest.mark.needs_memory

FUZZ = settings.get_profile("solus-fuzz")
DOCUMENTED = {0, 1, 2, 3}

EVENTS = b'{"id": "a", "n": {"x": 1}}\n{"id": "b"}\n{"id": "a"}\n{"id": null}\nno json\n'
FILES = {
    "in.jsonl": EVENTS,
    "in.csv": b'id,name\n1,"a\nb"\n2,c\n1,d\n3\n',
    "in.gz": gzip.compress(EVENTS, mtime=0),
    "cut.gz": gzip.compress(EVENTS, mtime=0)[:30],
    "empty": b"",
    "lines": b"a\nb\r\na\n\xff\n",
    "damaged": b"SOLUS, or not",
}

# What a shell can pass on: any character but NUL; bytes that are not UTF-8 arrive as lone surrogates. No "/", so that
# nothing outside the folder of the example is read or written.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/") | st.sampled_from("\udc80\udcff"), max_size=12
)
NUMBERS = st.one_of(
    st.integers(-3, 40).map(str),
    st.integers(0, 10**25).map(str),
    st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?[kMGTB%smhdw]?", fullmatch=True),
    st.sampled_from(
        ["1e-6", "1e15", "1e16", "0.1%", "-1", "1_000", "1e999", "nan", "inf", "٣", "10d", "5000w", "99ms"]
    ),
)
NAMES = st.sampled_from([*["d", "default"] * 4, "päck it", "x" * 300, "", "a|b", "-", "--", "a\nb", "\udcff"])
STORES = st.builds(
    "{}{}{}".format,
    st.sampled_from(
        [*["memory://{here}/state"] * 9, "memory://", "memory://{here}/damaged", "MEMORY:", "nosuch://h", ""]
    ),
    st.sampled_from([*[""] * 19, "x", "@", "#", "%", "%zz"]),
    st.sampled_from([*[""] * 19, "?", "?name=x", "?name=x&name=y", "?max_bytes=1000", "?nosuch=1", "?farm=%20"]),
)
COUNTS = ["1", "1000", "5M", "100_000_000", "1e9"]
# By parameter: what a run gets far with, mostly.
OWN = {
    "store": STORES,
    "name": NAMES,
    "deduper": NAMES,
    "files": st.sampled_from([*FILES, "in.jsonl", "in.csv", "-", "nosuch", "."]),
    "output": st.sampled_from(["-", "out", "out", "in.jsonl", "nosuch/out", ".", ""]),
    "duplicates": st.sampled_from(["-", "out", "again", "again", "in.csv", "nosuch/out", ".", ""]),
    "plot": st.sampled_from(["p.gif", "p", "", "nosuch/p.svg"]),  # drawing is slow, and has tests of its own
    "key": st.sampled_from(["id", "id", "n.x", "name", "1", "0", "", "data..id"]),
    "keys": st.sampled_from(COUNTS),
    "expect": st.sampled_from(COUNTS),
    "planned_keys": st.sampled_from(COUNTS),
    "per_second": st.sampled_from(["0.5", "2000", "1M"]),
    "rate": st.sampled_from(["0.1%", "1e-6", "0.5", "1e-30"]),
    "ttl": st.sampled_from(["1s", "90m", "500ms", "10d", "1s", "90m", "11d"]),
    "expiry": st.sampled_from(["10d", "1s", "90m", "500ms", "9d", "1w", "600w"]),
    "hash_functions": st.sampled_from(["7", "9", "13", "14"]),
    "shards": st.sampled_from(["1000000", "150000000", "7"]),
    "bits_per_shard": st.sampled_from(["1000", "30000", "7"]),
    "delimiter": st.sampled_from([",", ";", "\\t", "\t"]),
    "client_id": st.sampled_from(["solus", "x.y-z"]),
    "hasher": st.sampled_from(["murmur3-md5", "murmur3-double"]),
    "batch_size": st.sampled_from(["1", "2", "1000"]),
}
INSIDE = {"store", "output", "duplicates", "files", "plot"}  # odd values of these could be places outside


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = sorted(leaves(solus), key=lambda each: each[0])


def values_of(param: click.Parameter) -> st.SearchStrategy[str]:
    """Values that fit the parameter mostly, and odd ones."""
    name = "key" if isinstance(param, click.Option) and param.multiple else str(param.name)
    choices = [str(choice) for choice in param.type.choices] if isinstance(param.type, click.Choice) else []
    fitting = st.sampled_from(choices) if choices else OWN[name]
    return fitting if name in INSIDE else st.integers(0, 14).flatmap(lambda n: fitting if n < 14 else NUMBERS | TEXTS)


@st.composite
def command_lines(draw: st.DrawFn, path: tuple[str, ...], command: click.Command) -> list[str]:
    args: list[str] = []
    rarely, mostly = st.integers(0, 4).map(lambda n: n == 4), st.integers(0, 19).map(lambda n: n < 19)
    for param in command.params:
        if isinstance(param, click.Argument):
            args += draw(st.lists(values_of(param), min_size=int(draw(mostly)), max_size=3 if param.nargs < 0 else 1))
        elif draw(mostly if param.required or param.name == "keys" else rarely):
            args.append(draw(st.sampled_from([*param.opts, *param.secondary_opts])))
            if not (isinstance(param, click.Option) and param.is_flag):
                args.append(draw(values_of(param)))
    if draw(st.integers(0, 14)) == 14:
        args.insert(
            draw(st.integers(0, len(args))), draw(TEXTS | st.sampled_from(["--", "-", "--json", "-x", "--help"]))
        )
    return [*path, *args]


def check(done: Any, args: list[str]) -> None:
    assert done.code in DOCUMENTED, done
    assert "Traceback" not in done.err, done.err
    assert "solus: unexpected" not in done.err, done.err
    assert all(line.isprintable() for line in done.err.split("\n") if line.startswith("solus: ")), done.err
    event(f"exit code {done.code}")
    if done.code == 2:
        # click says how to use a command in two lines more, and names near misses in another.
        said = [line for line in done.err.splitlines() if line and not line.startswith(("Usage:", "Try "))]
        assert len(said) >= 1, done
    assert FILES.items() <= done.files.items() or {"-o", "--output", "--duplicates"} & set(args), "an input was changed"


@pytest.fixture
def state(command: Callable[..., Any]) -> bytes:
    """A state file with the de-duper that most command lines name."""
    done = command(["dedup", "-q", "--deduper", "d", "--store", "memory://{here}/state"], {}, b"a\nb\n")
    assert done.code == 0
    kept: bytes = done.files["state"]
    return kept


# The oldest matplotlib that we allow calls what the newest pyparsing deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib")
@pytest.mark.parametrize(("path", "command_"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
@settings(FUZZ)
@given(data=st.data())
def test_options_of_every_command(
    command: Callable[..., Any], state: bytes, path: tuple[str, ...], command_: click.Command, data: st.DataObject
) -> None:
    args = data.draw(command_lines(path, command_))
    files = FILES if data.draw(st.booleans()) else FILES | {"state": state}
    check(command(args, files, data.draw(st.sampled_from([b"", b"a\nb\na\n", EVENTS]))), args)


@settings(FUZZ)
@given(args=st.lists(TEXTS | st.sampled_from(["dedup", "plan", "dedupers", "list", "--help", "--version"]), max_size=5))
def test_any_words(command: Callable[..., Any], args: list[str]) -> None:
    check(command(args, FILES, b""), args)


def test_the_harness_sees_what_a_run_writes(command: Callable[..., Any]) -> None:
    done = command(["dedup", "-q", "-k", "id", "--on-error", "skip", "-", "-o", "out"], FILES, EVENTS)
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert done.files["out"].count(b"\n") == 2
    done = command(["dedup", "nosuch"], FILES, b"")
    assert done.code == 2
    assert "nosuch" in done.err
