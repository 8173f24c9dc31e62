"""The loop of ``solus dedup`` against a handle that can fail at any step (R25, R8)."""

import os
from collections.abc import Hashable, Iterable, Iterator, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from solus_core.cli.failures import EXIT_BAD_RECORD, CommandError
from solus_core.cli.keys import KeyOf, csv_key, json_key, line_key, nul_key
from solus_core.cli.records import Chunk, Format, Layout, begin
from solus_core.cli.sources import Source
from solus_core.cli.stream import OnError, Run, Tally
from solus_core.errors import BatchError, ErrorCode

NULL = os.open(os.devnull, os.O_RDONLY)
LINES = Layout(Format.LINES)


class Crash(BaseException):
    """The process dies here."""


class Fake:
    """A handle and two outputs in one, which log what happens in order and crash at the ``crash_at``-th step."""

    def __init__(self, marked: set[bytes] | None = None, crash_at: int = -1) -> None:
        self.marked = set() if marked is None else marked
        self.steps: list[str] = []
        self.written: list[bytes] = []
        self.duplicates: list[bytes] = []
        self.crash_at = crash_at
        self.error_at: dict[str, Exception] = {}

    def _step(self, name: str) -> None:
        if len(self.steps) == self.crash_at:
            raise Crash
        self.steps.append(name)
        if name in self.error_at:
            raise self.error_at[name]

    def check_absence_many(self, entities: Iterable[bytes], /) -> dict[bytes, bool]:
        self._step("check")
        return {entity: entity not in self.marked for entity in entities}

    def add_many(self, entities: Iterable[bytes], ttl: int, /) -> None:
        self._step(f"mark for {ttl}")
        self.marked.update(entities)

    def add_if_absent_many(self, entities: Iterable[bytes], ttl: int, /) -> dict[bytes, bool]:
        self._step(f"claim for {ttl}")
        answers = {entity: entity not in self.marked for entity in entities}
        self.marked.update(answers)
        return answers

    def write(self, records: Sequence[bytes], /) -> None:
        self._step("write")
        self.written += records
        self._step("written")

    @property
    def repeats(self) -> "FakeRepeats":
        return FakeRepeats(self)


class FakeRepeats:
    def __init__(self, fake: Fake) -> None:
        self.fake = fake

    def write(self, records: Sequence[bytes], /) -> None:
        self.fake._step("write repeats")
        self.fake.duplicates += records


def run(
    fake: Fake,
    chunks: Iterable[list[bytes]],
    *,
    key_of: KeyOf = line_key,
    layout: Layout = LINES,
    on_error: OnError = OnError.FAIL,
    mark_first: bool = False,
    tally: Tally | None = None,
) -> Tally:
    tally = tally or Tally()
    Run(fake, key_of, layout, 5, fake, fake.repeats, on_error, mark_first, lambda: fake.steps.append("done")).over(
        numbered(chunks), tally
    )
    return tally


def numbered(chunks: Iterable[list[bytes]]) -> Iterator[Chunk]:
    first = 1
    for records in chunks:
        yield Chunk(records, "f", first)
        first += len(records)


def first_of_each(keys: Iterable[bytes]) -> list[bytes]:
    return list(dict.fromkeys(keys))


RECORDS = st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=12)
CHUNKS = st.lists(RECORDS, max_size=5)


def test_a_chunk_is_checked_then_written_then_marked() -> None:
    """R25."""
    fake = Fake()
    tally = run(fake, [[b"a\n", b"b\n", b"a\r\n"], [b"b"]])
    chunk = ["check", "write", "written", "write repeats", "mark for 5", "done"]
    assert fake.steps == chunk + chunk
    assert (fake.written, fake.duplicates) == ([b"a\n", b"b\n"], [b"a\r\n", b"b"])
    assert (tally.records, tally.first_seen, tally.repeats) == (4, 2, 2)


@given(CHUNKS, st.booleans())
def test_the_first_of_each_key_comes_out_in_order_however_it_is_chunked(
    chunks: list[list[bytes]], mark_first: bool
) -> None:
    fake = Fake()
    run(fake, chunks, mark_first=mark_first)
    everything = [record for chunk in chunks for record in chunk]
    assert fake.written == first_of_each(everything)
    assert sorted(fake.written + fake.duplicates) == sorted(everything)
    assert fake.marked == set(everything)


@given(CHUNKS, st.integers(0, 40))
def test_a_crash_at_any_step_loses_nothing(chunks: list[list[bytes]], crash_at: int) -> None:
    """R25: run again over the same input with the same marks; together nothing is missing."""
    fake = Fake(crash_at=crash_at)
    try:
        run(fake, chunks)
    except Crash:
        assert fake.marked <= set(fake.written)
    again = Fake(fake.marked)
    run(again, chunks)
    assert set(fake.written + again.written) == {record for chunk in chunks for record in chunk}


@pytest.mark.parametrize("step", ["write", "written", "write repeats"])
def test_what_could_not_be_written_is_not_marked_and_not_counted(step: str) -> None:
    fake, tally = Fake(), Tally()
    fake.error_at[step] = CommandError("no space")
    with pytest.raises(CommandError):
        run(fake, [[b"a"]], tally=tally)
    assert fake.marked == set()
    assert tally.records == 0


def batch_error(unprocessed: list[bytes], doubtful: list[bytes], answers: dict[Hashable, bool]) -> BatchError:
    return BatchError(
        ErrorCode.INTERNAL_ERROR, "node down", unprocessed=unprocessed, doubtful=doubtful, answers=answers
    )


def test_a_check_that_failed_in_part_writes_and_marks_nothing() -> None:
    """R8, R23: no answer is neither True nor False."""
    fake = Fake()
    fake.error_at["check"] = batch_error([b"b"], [], {b"a": True})
    with pytest.raises(BatchError):
        run(fake, [[b"a", b"b"]])
    assert fake.steps == ["check"]


def test_a_mark_that_failed_comes_after_the_write() -> None:
    """R8: what is not confirmed comes again in the next run, and is in this output too."""
    fake, tally = Fake(), Tally()
    fake.error_at["mark for 5"] = batch_error([b"a", b"b"], [b"a"], {})
    with pytest.raises(BatchError):
        run(fake, [[b"a", b"b"]], tally=tally)
    assert fake.written == [b"a", b"b"]
    assert tally.first_seen == 2


def test_mark_first_claims_before_it_writes() -> None:
    fake = Fake(marked={b"b"})
    run(fake, [[b"a", b"b", b"a"]], mark_first=True)
    assert fake.steps[:2] == ["claim for 5", "write"]
    assert (fake.written, fake.duplicates) == ([b"a"], [b"b", b"a"])


def test_mark_first_writes_what_a_failed_claim_has_marked_or_may_have() -> None:
    """R8: the confirmed ones are in the store now: dropping them here would lose them for good."""
    fake = Fake()
    fake.error_at["claim for 5"] = batch_error([b"c", b"d"], [b"c"], {b"a": True, b"b": False})
    with pytest.raises(BatchError):
        run(fake, [[b"a", b"b", b"c", b"d", b"a"]], mark_first=True)
    assert (fake.written, fake.duplicates) == ([b"a", b"c"], [b"b", b"a"])


MIXED = [b'{"id": 1}\n', b"\n", b"junk\n", b'{"id": 1}\n', b'{"id": 2}\n']
JSON_ID = json_key(["id"])


def test_fail_stops_at_the_bad_record_after_what_came_before() -> None:
    fake, tally = Fake(), Tally()
    with pytest.raises(CommandError, match=r"f:4: not valid JSON \(Expecting value at character 1\)") as caught:
        run(fake, [[b'{"id": 0}\n'], MIXED], key_of=JSON_ID, layout=Layout(Format.JSONL), tally=tally)
    assert caught.value.exit_code == EXIT_BAD_RECORD
    assert fake.marked == {b"0", b"1"}
    assert fake.written == [b'{"id": 0}\n', b'{"id": 1}\n']
    assert (tally.records, tally.bad_count, tally.blank) == (3, 1, 1)


@pytest.mark.parametrize("on_error", [OnError.SKIP, OnError.PASS])
def test_skip_drops_and_pass_writes_unmarked(on_error: OnError) -> None:
    fake = Fake()
    tally = run(fake, [MIXED, MIXED], key_of=JSON_ID, layout=Layout(Format.JSONL), on_error=on_error)
    good = [b'{"id": 1}\n', b'{"id": 2}\n']
    assert fake.written == (good if on_error is OnError.SKIP else [good[0], b"junk\n", good[1], b"junk\n"])
    assert fake.marked == {b"1", b"2"}
    assert (tally.records, tally.first_seen, tally.repeats, tally.blank) == (8, 2, 4, 2)
    assert tally.bad["not valid JSON"].places == ["f:3", "f:8"]


def test_only_the_first_places_of_bad_records_are_kept() -> None:
    fake = Fake()
    tally = run(fake, [[b"junk\n"] * 1000], key_of=JSON_ID, on_error=OnError.SKIP)
    assert (tally.bad_count, len(tally.bad["not valid JSON"].places)) == (1000, 5)


FORMATS: list[tuple[Layout, KeyOf]] = [
    (Layout(Format.JSONL), json_key(["id"])),
    (Layout(Format.JSONL), json_key(["a.0.b", "id"])),
    (Layout(Format.CSV), csv_key(["1"], [0], None, b",")),
    (Layout(Format.CSV), csv_key(["1", "2"], [0, 1], 2, b",")),
    (LINES, line_key),
    (Layout(Format.NUL), nul_key),
]
PIECES = st.sampled_from(
    [b"{", b"}", b'"id"', b":", b'"', b"1", b"null", b"\\ud800", b"[", b",", b"\n", b"\r\n", b"\0", b"\xff", b"e9"]
)
ANY_BYTES = st.binary(max_size=100) | st.lists(PIECES, max_size=40).map(b"".join)


@pytest.mark.parametrize(("layout", "key_of"), FORMATS)
@given(data=ANY_BYTES, size=st.integers(1, 4))
def test_any_bytes_pass_byte_for_byte(layout: Layout, key_of: KeyOf, data: bytes, size: int) -> None:
    """Case 7. With repeats put back where they were, and but for blank lines, the output is the input."""
    assume(not data.startswith(b"\x1f\x8b\x08"))
    pieces = iter([data])
    fake = Fake()
    stream = begin(iter([Source(NULL, "f", lambda _fd, _size: next(pieces, b""))]), layout, True, size)
    Run(fake, key_of, layout, 5, fake, fake.repeats, OnError.PASS, False, lambda: None).over(stream.chunks, Tally())
    body = data.removeprefix(stream.prologue)
    left, repeats = fake.written, fake.duplicates
    while body:
        for queue in (left, repeats):
            if queue and body.startswith(queue[0]) and (len(queue[0]) == len(body) or queue[0][-1:] in b"\n\0"):
                body = body.removeprefix(queue.pop(0))
                break
        else:
            line, _, body = body.partition(b"\n")
            assert line.strip(b" \t\r") == b""
    assert left == repeats == []
