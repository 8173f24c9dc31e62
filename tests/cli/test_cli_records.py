"""Inputs become records: byte for byte, wherever the input was cut, gzip by content (case 7)."""

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solus_core.cli.failures import CommandError
from solus_core.cli.keys import BadRecordError, csv_fields
from solus_core.cli.records import (
    BOM,
    Chunk,
    CsvSplitter,
    Format,
    Layout,
    LineSplitter,
    Splitter,
    Stream,
    begin,
    layout_by_name,
)
from solus_core.cli.sources import Inputs, Source


def source(data: bytes, cuts: list[int] | None = None, name: str = "f") -> Source:
    """A source that reads ``data`` in pieces; its descriptor is only asked whether it is ready."""
    pieces = iter(pieces_of(data, cuts or []))
    return Source(NULL, name, lambda _fd, _size: next(pieces, b""))


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(edges)]


NULL = os.open(os.devnull, os.O_RDONLY)  # always ready


def stream_of(*sources: Source, layout: Layout | None = None, batch_size: int = 100) -> Stream:
    return begin(iter(sources), layout, True, batch_size)


def records_of(stream: Stream) -> list[bytes]:
    return [record for chunk in stream.chunks for record in chunk.records]


def content(read: Source) -> bytes:
    blocks: Iterator[bytes | None] = iter(read.read, None)
    return b"".join(block for block in blocks if block)


SPLITTERS: list[Callable[[], Splitter]] = [
    lambda: LineSplitter(b"\n"),
    lambda: LineSplitter(b"\0"),
    lambda: CsvSplitter(b","),
]
AWKWARD = st.lists(st.sampled_from([b'"', b",", b"\n", b"\r\n", b"\0", b"a", b"\xff", b"{"])).map(b"".join)


@pytest.mark.parametrize("make", SPLITTERS)
@given(data=AWKWARD, cuts=st.lists(st.integers(0, 100)))
def test_where_the_input_is_cut_never_changes_the_records(
    make: Callable[[], Splitter], data: bytes, cuts: list[int]
) -> None:
    whole, cut = make(), make()
    expected = whole.feed(data) + whole.finish()
    found = [record for piece in pieces_of(data, cuts) for record in cut.feed(piece)] + cut.finish()
    assert found == expected
    assert b"".join(found) == data


@given(AWKWARD)
def test_lines_are_split_at_their_terminator_and_nothing_else(data: bytes) -> None:
    for terminator in (b"\n", b"\0"):
        splitter = LineSplitter(terminator)
        records = splitter.feed(data) + splitter.finish()
        assert all(terminator not in record[:-1] for record in records)
        assert all(record.endswith(terminator) for record in records[:-1])


def rows_of(records: list[bytes]) -> list[list[str]]:
    return [[cell.decode() for cell in csv_fields(record, b",")] for record in records]


@given(st.text('a",\n'))
def test_csv_records_and_fields_agree_with_the_csv_module(text: str) -> None:
    splitter = CsvSplitter(b",")
    records = splitter.feed(text.encode()) + splitter.finish()
    try:
        expected = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        with pytest.raises(BadRecordError):
            rows_of(records)
        return
    found = rows_of(records)
    assert [[] if row == [""] else row for row in found] == [[] if row == [""] else row for row in expected]


def test_a_huge_record_takes_linear_time() -> None:
    splitter = CsvSplitter(b",")
    line = b'"' + b'""\n' * 200_000
    assert [r for at in range(0, len(line), 1000) for r in splitter.feed(line[at : at + 1000])] == []
    assert splitter.feed(b'"\n') + splitter.finish() == [line + b'"\n']


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_batch_size_bounds_the_chunks_and_lines_are_numbered(size: int) -> None:
    data = b"".join(b"%d\n" % n for n in range(10))
    chunks = list(stream_of(source(data, [3, 9, 11]), layout=Layout(Format.LINES), batch_size=size).chunks)
    assert max(len(chunk.records) for chunk in chunks) <= size
    for chunk in chunks:
        assert int(chunk.records[0]) + 1 == chunk.first
    assert b"".join(r for chunk in chunks for r in chunk.records) == data


def test_places_count_lines_also_inside_quotes_and_across_chunks() -> None:
    data = b'id,c\n1,"a\nb"\n2,x\n3,"\n\n"\n4,y'
    layout = Layout(Format.CSV, header=True)
    places = [
        chunk.place(index, layout)
        for chunk in stream_of(source(data), layout=layout, batch_size=2).chunks
        for index in range(len(chunk.records))
    ]
    assert places == ["f:2", "f:4", "f:5", "f:8"]
    assert Chunk([b"a\0", b"b"], "f", 1).place(1, Layout(Format.NUL)) == "f:2"


# Formats


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a.jsonl"], Format.JSONL),
        (["A.NDJSON.GZ", "b.jsonl"], Format.JSONL),
        (["a.csv.gz"], Format.CSV),
        (["x.d/a.tsv"], Format.CSV),
        (["a.csv/b"], None),
        (["-", "a.log"], None),
        (["-", "a.csv"], Format.CSV),
        ([], None),
    ],
)
def test_format_by_name(paths: list[str], expected: Format | None) -> None:
    found = layout_by_name(paths)
    assert (found and found.format) == expected


def test_files_of_two_formats_need_a_word() -> None:
    with pytest.raises(CommandError, match="give --format"):
        layout_by_name(["a.csv", "b.jsonl"])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"id": 1}', Format.JSONL),
        (BOM + b'\n \r\n{"id": 1}', Format.JSONL),
        (b"[1]", Format.LINES),
        (b"\n\nplain", Format.LINES),
        (BOM, Format.LINES),
    ],
)
@pytest.mark.parametrize("cuts", [[], [1], [1, 2, 3, 4, 5]])
def test_format_by_content(data: bytes, expected: Format, cuts: list[int]) -> None:
    stream = stream_of(source(data, cuts))
    assert stream.layout.format is expected
    assert stream.prologue + b"".join(records_of(stream)) == data


def test_an_empty_input_has_the_format_that_suits_the_keys() -> None:
    assert begin(iter([source(b"")]), None, True, 10).layout.format is Format.JSONL
    assert begin(iter([source(b"")]), None, False, 10).layout.format is Format.LINES
    assert records_of(stream_of(source(b""), source(b"a\n"), source(b""))) == [b"a\n"]


# Byte-order mark and CSV header


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2, 3]])
def test_a_bom_is_no_part_of_a_record_and_comes_out_once(cuts: list[int]) -> None:
    stream = stream_of(source(BOM + b"a\n", cuts), source(BOM + b"b\n", cuts), layout=Layout(Format.LINES))
    assert stream.prologue == BOM
    assert records_of(stream) == [b"a\n", b"b\n"]


def test_the_csv_header_comes_once_and_every_file_must_have_it() -> None:
    layout = Layout(Format.CSV, header=True)
    first, second = source(BOM + b'id,"a\nb"\r\n1,x\r\n'), source(b'"id","a\nb"\n2,y\n')
    stream = stream_of(first, second, layout=layout)
    assert stream.prologue == BOM + b'id,"a\nb"\r\n'
    assert stream.columns == ("id", "a\nb")
    assert records_of(stream) == [b"1,x\r\n", b"2,y\n"]
    stream = stream_of(source(b"id,n\n"), source(b"n,id\n1,2\n", name="other.csv"), layout=layout)
    with pytest.raises(CommandError, match=r"other.csv: its CSV header has the columns n, id.* id, n"):
        records_of(stream)


def test_a_csv_header_at_the_end_of_its_input() -> None:
    stream = stream_of(source(b"id,n"), layout=Layout(Format.CSV, header=True))
    assert (stream.prologue, stream.columns, records_of(stream)) == (b"id,n", ("id", "n"), [])


@pytest.mark.parametrize("header", [b"caf\xe9,id\n", b'"id"x,n\n', b'"never closed\n'])
def test_a_header_that_can_not_be_read(header: bytes) -> None:
    with pytest.raises(CommandError, match="CSV header") as caught:
        stream_of(source(header), layout=Layout(Format.CSV, header=True))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["old.csv", "second.csv"])
def test_lines_of_an_old_mac_are_no_header(name: str) -> None:
    layout = Layout(Format.CSV, header=True)
    old = source(b"id,n\r1,a\r2,b\r", name=name)
    with pytest.raises(CommandError, match=rf"{name}: the CSV header never ends: it has carriage returns"):
        records_of(stream_of(*([old] if name == "old.csv" else [source(b"id,n\n"), old]), layout=layout))
    for header in (b"id,n\r", b'id,"n\rm"\n'):
        assert stream_of(source(header), layout=layout).prologue == header


def test_a_quote_that_is_never_closed_is_held_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows is read as records again, and no byte is lost."""
    monkeypatch.setattr("solus_core.cli.records.RECORD_LIMIT", 100)
    lines = [b'1,"a\n', *(b"%08d\n" % n for n in range(30)), b'2,"b\nc"\n', b"3,d"]
    for size in (1, 7, 1000):
        splitter, data, records = CsvSplitter(b","), b"".join(lines), []
        for at in range(0, len(data), size):
            records += splitter.feed(data[at : at + size])
        records += splitter.finish()
        assert records == [b"".join(lines[:12]), *lines[12:]]


# gzip


@given(
    parts=st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 500)),
    padding=st.integers(0, 3),
)
def test_gzip_is_known_by_content_and_may_have_several_members(
    parts: list[bytes], cuts: list[int], padding: int
) -> None:
    packed = b"".join(map(gzip.compress, parts)) + b"\0" * padding
    assert content(source(packed, cuts)) == b"".join(parts)


@given(st.binary(), st.lists(st.integers(0, 100)))
def test_what_is_not_gzip_comes_as_it_is(data: bytes, cuts: list[int]) -> None:
    if not data.startswith(b"\x1f\x8b\x08"):
        assert content(source(data, cuts)) == data


@given(st.binary(min_size=1, max_size=300), st.data())
def test_a_truncated_gzip_is_an_error_and_what_came_before_is_read(data: bytes, draw: st.DataObject) -> None:
    packed = gzip.compress(data)
    cut = draw.draw(st.integers(3, len(packed) - 1))
    blocks: list[bytes] = []
    with pytest.raises(CommandError, match="cut short"):
        blocks.extend(filter(None, iter(source(packed[:cut]).read, None)))
    assert data.startswith(b"".join(blocks))


@pytest.mark.parametrize("garbage", [b"junk", b"\0\0junk"])
def test_a_damaged_gzip_is_an_error(garbage: bytes) -> None:
    packed = bytearray(gzip.compress(b"some text"))
    packed[-6] ^= 1  # the checksum
    with pytest.raises(CommandError, match="damaged"):
        content(source(bytes(packed)))
    with pytest.raises(CommandError, match="damaged"):
        content(source(gzip.compress(b"x") + garbage))


def test_a_gzip_bomb_comes_in_small_blocks() -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"\n" * 20_000_000) + packer.flush()
    read = source(packed)
    blocks: Iterator[bytes | None] = iter(read.read, None)
    sizes = [len(block or b"") for block in blocks]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 1 << 18


def test_gzip_output_that_is_still_due_needs_no_input() -> None:
    """A packed pipe must not fall into tiny chunks: what zlib still holds back is ready, the pipe is not."""
    reading, writing = os.pipe()
    pieces = iter([gzip.compress(b"\n" * 300_000)])
    read = Source(reading, "f", lambda _fd, _size: next(pieces, b""))
    assert not read.ready()
    read.read()
    assert read.ready()
    read.read()
    assert not read.ready()
    os.close(reading)
    os.close(writing)


# Inputs


def test_inputs_tell_their_size_and_how_far_they_are_read(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        Path(path).write_bytes(b"12345\n")
    inputs = Inputs(paths, lambda path: os.open(path, os.O_RDONLY), os.read)
    assert inputs.size() == 12
    assert [(content(each), inputs.consumed) for each in inputs] == [(b"12345\n", 6), (b"12345\n", 12)]
    reading, writing = os.pipe()
    assert Inputs([f"/dev/fd/{reading}"], inputs._open, os.read).size() is None
    os.close(reading)
    os.close(writing)


def test_a_file_that_is_gone_or_can_not_be_read(tmp_path: Path) -> None:
    def open_file(path: str) -> int:
        return os.open(path, os.O_RDONLY)

    with pytest.raises(CommandError, match=r"can't open .*No such file"):
        next(iter(Inputs([str(tmp_path / "gone")], open_file, os.read)))
    folder = iter(Inputs([str(tmp_path)], open_file, os.read))
    with pytest.raises(CommandError, match=r"can't read .*directory"):
        next(folder).read()
    folder.close()
