"""The header scan: every status it can end with, and the same rows as the plain twin whatever the bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kafkalog._speedups import framing
from kafkalog._speedups.header_table import first_unreadable
from tests.helpers.equivalence import assert_same_scan, some_or_all_bits, with_each_bit_flipped
from tests.helpers.guard import guarded
from tests.helpers.strategies import damaged, message_sets
from tests.reference.codes import Status
from tests.reference.encode import FORMATS, LegacyMessage, PlainRecord, V2Batch, entries, records
from tests.reference.framing import HEADER_DTYPE, find_entry
from tests.reference.framing import scan_headers as reference_scan

BATCH = V2Batch(records(b"one", b"two")).encoded()
MESSAGE = LegacyMessage(PlainRecord(5, 1000, b"key", b"value")).encoded()


def test_a_row_has_the_same_fields_at_the_same_places() -> None:
    assert framing.HEADER_DTYPE == HEADER_DTYPE


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_a_status_has_the_same_name_and_number(status: Status) -> None:
    assert getattr(framing, status.name) == status


@pytest.mark.parametrize(
    ("data", "arguments", "end"),
    [
        pytest.param(BATCH * 3, {"limit": 2}, (Status.LIMIT, 2 * len(BATCH), 0, 0), id="as many rows as asked"),
        pytest.param(BATCH, {"limit": 1}, (Status.LIMIT, len(BATCH), 0, 0), id="the limit at the very end"),
        pytest.param(b"\xff" * 20, {"limit": 0}, (Status.LIMIT, 0, 0, 0), id="no row asked of damage"),
        pytest.param(BATCH * 3, {"span": 1}, (Status.LIMIT, len(BATCH), 0, 0), id="an entry that leaves the span"),
        pytest.param(BATCH * 3, {"span": len(BATCH)}, (Status.LIMIT, len(BATCH), 0, 0), id="an entry that fills it"),
        pytest.param(BATCH * 3, {"span": len(BATCH) + 1}, (Status.LIMIT, 2 * len(BATCH), 0, 0), id="a byte more"),
        pytest.param(
            BATCH * 3,
            {"start": len(BATCH), "span": len(BATCH)},
            (Status.LIMIT, 2 * len(BATCH), 0, 0),
            id="a span counts from the start",
        ),
        pytest.param(BATCH, {"span": len(BATCH)}, (Status.LIMIT, len(BATCH), 0, 0), id="a span that ends with the log"),
        pytest.param(b"\xff" * 20, {"span": 0}, (Status.LIMIT, 0, 0, 0), id="no span asked of damage"),
        pytest.param(b"", {}, (Status.END, 0, 0, 0), id="nothing"),
        pytest.param(BATCH, {"start": len(BATCH)}, (Status.END, len(BATCH), 0, 0), id="start at the end"),
        pytest.param(bytes(1), {}, (Status.ZEROED, 0, 0, 0), id="one zero"),
        pytest.param(BATCH + bytes(4096), {}, (Status.ZEROED, len(BATCH), 0, 0), id="preallocated tail"),
        pytest.param(BATCH[:16], {}, (Status.TORN, 0, 17, 16), id="cut before the magic"),
        pytest.param(BATCH[:-1], {}, (Status.TORN, 0, len(BATCH), len(BATCH) - 1), id="cut at the last byte"),
        pytest.param(bytes(11) + b"\x0d" + bytes(244), {}, (Status.SIZE_TOO_SMALL, 0, 14, 13), id="size 13"),
        pytest.param(bytes(8) + b"\xff" * 92, {}, (Status.SIZE_TOO_SMALL, 0, 14, -1), id="negative size"),
        pytest.param(bytes(99) + b"\x01", {}, (Status.SIZE_TOO_SMALL, 0, 14, 0), id="zeros, but not to the end"),
        pytest.param(
            V2Batch(records(b""), magic=3).encoded(), {"strict_magic": True}, (Status.BAD_MAGIC, 0, 2, 3), id="magic 3"
        ),
        pytest.param(
            V2Batch(records(b""), magic=-1).encoded(),
            {"strict_magic": True},
            (Status.BAD_MAGIC, 0, 2, -1),
            id="magic -1",
        ),
        pytest.param(
            BATCH, {"max_size": len(BATCH) - 13}, (Status.SIZE_TOO_LARGE, 0, len(BATCH) - 13, len(BATCH) - 12), id="max"
        ),
        pytest.param(BATCH, {"max_size": len(BATCH) - 12}, (Status.END, len(BATCH), 0, 0), id="just not too large"),
    ],
)
def test_a_scan_returns_why_and_where_it_stopped(
    data: bytes, arguments: dict[str, int], end: tuple[Status, int, int, int]
) -> None:
    assert assert_same_scan(data, **arguments)[1:] == end


def test_a_damaged_size_is_reported_before_a_magic_and_a_torn_end() -> None:
    data = struct.pack(">qi", 0, 13) + b"\x09" * 5
    assert assert_same_scan(data, strict_magic=True, max_size=5)[1] == Status.SIZE_TOO_SMALL


def test_a_magic_is_reported_before_a_limit_of_size_and_that_before_a_torn_end() -> None:
    data = struct.pack(">qi", 0, 99) + b"\x09" * 5
    assert assert_same_scan(data, strict_magic=True, max_size=50)[1] == Status.BAD_MAGIC
    assert assert_same_scan(data, max_size=50)[1] == Status.SIZE_TOO_LARGE
    assert assert_same_scan(data)[1] == Status.TORN


@pytest.mark.parametrize("magic", [-128, -1, 3, 127])
def test_an_unknown_magic_is_read_as_the_nearest_known_one_as_kafkas_file_reader_does(magic: int) -> None:
    rows, status, *_ = assert_same_scan(V2Batch(records(b"one"), magic=magic, records_count=9).encoded())
    assert status == Status.END
    assert rows["records_count"][0] == (9 if magic >= 2 else -1)


@pytest.mark.parametrize("size", [14, 48])
def test_a_v2_entry_shorter_than_its_header_keeps_only_what_is_there(size: int) -> None:
    rows, *_ = assert_same_scan(struct.pack(">qi", 77, size) + b"\x02" * size)
    (row,) = rows
    assert (row["base_offset"], row["last_offset"], row["size_in_bytes"], row["magic"]) == (77, 77, 12 + size, 2)
    assert (row["records_count"], row["checksum"], row["attributes"], row["timestamp_type"]) == (-1, 0, 0, -1)


def test_positions_count_from_the_start_of_the_file_and_the_end_from_that_of_the_buffer() -> None:
    rows, status, at, *_ = assert_same_scan(b"junk" + BATCH + MESSAGE, position=1000, start=4)
    assert rows["position"].tolist() == [1004, 1004 + len(BATCH)]
    assert (status, at) == (Status.END, 4 + len(BATCH) + len(MESSAGE))


def test_a_last_offset_beyond_64_bits_wraps_as_javas_does() -> None:
    batch = V2Batch(records(b""), base_offset=2**63 - 1, last_offset_delta=1)
    rows, *_ = assert_same_scan(batch.encoded())
    assert rows["last_offset"].tolist() == [-(2**63)]


def test_more_entries_than_fit_in_the_first_guess_are_all_seen() -> None:
    smallest = struct.pack(">qi", 3, 14) + bytes(14)
    rows, status, *_ = assert_same_scan(smallest * 5000)
    assert (len(rows), status) == (5000, Status.END)


@pytest.mark.parametrize("start", [-1, 9])
def test_a_start_outside_the_buffer_is_refused(start: int) -> None:
    with pytest.raises(ValueError, match="outside the buffer"):
        framing.scan_headers(guarded(bytes(8)), start=start)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_truncation_ends_the_scan_as_the_twin_says(magic: int, codec: int) -> None:
    data = entries(records(b"one", None), magic, codec)
    statuses = {
        assert_same_scan(data[:length], strict_magic=strict)[1] for length in range(len(data)) for strict in (0, 1)
    }
    assert statuses <= {Status.END, Status.TORN, Status.ZEROED}


@some_or_all_bits
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_flipped_bit_is_read_as_the_twin_reads_it(magic: int, codec: int, step: int) -> None:
    for damaged_data in with_each_bit_flipped(entries(records(b"one", None), magic, codec), step):
        assert_same_scan(damaged_data)
        assert_same_scan(damaged_data, strict_magic=True, max_size=100)


@given(message_sets())
def test_whole_logs_are_read_to_their_end(data: bytes) -> None:
    assert assert_same_scan(data)[1:] == (Status.END, len(data), 0, 0)


@given(damaged(message_sets()), st.booleans(), st.integers(-1, 300), st.integers(0, 2**40))
def test_damaged_logs_are_read_up_to_the_same_byte(
    data: bytes, strict_magic: bool, max_size: int, position: int
) -> None:
    assert_same_scan(data, strict_magic=strict_magic, max_size=max_size, position=position)


@given(damaged(message_sets()), st.integers(-1, 5), st.integers(-1, 500))
def test_damaged_logs_are_read_as_far_as_asked(data: bytes, limit: int, span: int) -> None:
    assert_same_scan(data, limit=limit, span=span)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_at_the_same_byte(data: bytes) -> None:
    assert_same_scan(data)
    assert_same_scan(data, strict_magic=True)


@given(damaged(message_sets()), st.data())
def test_a_scan_taken_up_where_it_stopped_sees_what_one_scan_sees(data: bytes, draw: st.DataObject) -> None:
    whole, *end = framing.scan_headers(data)
    first, status, at, *_ = framing.scan_headers(data, limit=draw.draw(st.integers(0, len(whole))))
    assert status == Status.LIMIT
    rest, *rest_end = framing.scan_headers(data, start=at)
    assert [*first.tolist(), *rest.tolist()] == whole.tolist()
    assert rest_end == end


# --- the same scan over a file, of which it reads little more than the headers


class Views:
    """What is no file of this machine, and gives its bytes as views."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def view(self, position: int, length: int) -> memoryview:
        assert length >= 0
        found = memoryview(self._data)[position : position + length]
        if len(found) < length:
            raise EOFError(position)
        return found


def assert_file_is_scanned_as_memory(path: Path, data: bytes, **arguments: Any) -> None:
    path.write_bytes(data)
    expected, *expected_end = reference_scan(data, **arguments)
    with path.open("rb") as file:
        for source in (file.fileno(), Views(data)):
            rows, *end = framing.scan_file_headers(source, 0, len(data), **arguments)
            assert rows.tolist() == expected.tolist()
            assert end == [int(number) for number in expected_end]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scan") / "0.log"


@given(damaged(message_sets()), st.integers(-1, 5), st.integers(-1, 500), st.integers(-1, 300))
def test_a_damaged_file_is_scanned_as_memory_is(path: Path, data: bytes, limit: int, span: int, max_size: int) -> None:
    assert_file_is_scanned_as_memory(path, data, limit=limit, span=span, max_size=max_size)


@given(st.lists(st.sampled_from([0, 1, 60, 8000, 8122, 8192, 65475, 65535, 65536, 200_000]), max_size=12))
def test_a_file_scan_finds_entries_of_any_size_whatever_the_window(path: Path, sizes: list[int]) -> None:
    """Between small entries the file is read on, between large ones jumped over; neither may lose its place."""
    data = b"".join(LegacyMessage(PlainRecord(i, 0, None, bytes(size))).encoded() for i, size in enumerate(sizes))
    for tail in (b"", bytes(100_000), bytes(70_000) + b"\x01", b"\x01" * 16, b"\x01" * 30):
        assert_file_is_scanned_as_memory(path, data + tail)


def test_a_file_scan_finds_small_entries_across_every_window_border(path: Path) -> None:
    for size in (1, 7, 30):
        data = LegacyMessage(PlainRecord(1, 2, None, bytes(size))).encoded() * 3000
        assert_file_is_scanned_as_memory(path, data)
        assert_file_is_scanned_as_memory(path, data[:-1])


def test_a_file_scan_stops_at_the_end_of_its_range(path: Path) -> None:
    path.write_bytes(BATCH * 3)
    with path.open("rb") as file:
        rows, *end = framing.scan_file_headers(file.fileno(), len(BATCH), 3 * len(BATCH) - 1)
    assert rows["position"].tolist() == [len(BATCH)]
    assert end == [Status.TORN, 2 * len(BATCH), len(BATCH), len(BATCH) - 1]


def test_a_file_shorter_than_the_range_ends_at_its_last_byte(path: Path) -> None:
    path.write_bytes(BATCH * 2)
    with path.open("rb") as file:
        rows, *end = framing.scan_file_headers(file.fileno(), 0, 2**40)
        assert len(rows) == 2
        assert end[:2] == [Status.END, 2 * len(BATCH)]
        assert framing.scan_file_headers(file.fileno(), 2**40, 2**40 + 1)[1] == Status.END


def test_a_file_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.write_bytes(BATCH)
    with path.open("rb") as file:
        closed = file.fileno()
        for start, end in [(-1, 5), (5, 4)]:
            with pytest.raises(ValueError, match="range"):
                framing.scan_file_headers(closed, start, end)
    with pytest.raises(OSError, match="Bad file descriptor"):
        framing.scan_file_headers(closed, 0, 5)


def test_an_error_while_views_are_taken_ends_a_scan_and_a_search() -> None:
    views = Views(BATCH * 2)
    for scan in (
        lambda: framing.scan_file_headers(views, 0, 2**40),
        lambda: framing.find_file_entry(views, 0, 2**40, 2**60),
        lambda: framing.load_file_entry(views, 0, 2**40, 2**60),
        lambda: framing.load_file_entry(Views(BATCH[:-1]), 0, len(BATCH), 0),
    ):
        with pytest.raises(EOFError):
            scan()
    with pytest.raises(AttributeError):
        framing.scan_file_headers(object(), 0, 5)  # type: ignore[arg-type]


def test_an_entry_that_no_reader_can_read_is_found() -> None:
    sound, short = BATCH, struct.pack(">qi", 0, 48) + b"\x02" * 48
    unknown = [V2Batch(records(b""), magic=magic).encoded() for magic in (-1, 3)]
    assert first_unreadable(framing.scan_headers(sound * 2)[0]) == 2
    for bad in (short, *unknown):
        assert first_unreadable(framing.scan_headers(sound + bad + sound)[0]) == 1


# --- a search in a file, which sees what the scan sees


def found_in(path: Path, data: bytes, **arguments: int) -> tuple[Any, ...]:
    path.write_bytes(data)
    start = arguments.pop("start")
    with path.open("rb") as file:
        found = framing.find_file_entry(file.fileno(), start, len(data), **arguments)
    assert framing.find_file_entry(Views(data), start, len(data), **arguments) == found
    return found


@given(damaged(message_sets()), st.data())
def test_a_damaged_file_is_searched_as_its_table_is(path: Path, data: bytes, draw: st.DataObject) -> None:
    rows = reference_scan(data)[0]
    near = st.sampled_from([-1, 0, 1])
    pick = draw.draw(st.integers(0, max(0, len(rows) - 1)))
    offset, timestamp, hint = -(2**63), -(2**63), -1
    if len(rows):
        offset = (
            min(int(rows["last_offset"][pick]), 2**63 - 2) + draw.draw(near) if draw.draw(st.booleans()) else offset
        )
        timestamp = int(rows["max_timestamp"][pick]) if draw.draw(st.booleans()) else timestamp
        hint = max(-1, int(rows["base_offset"][0]) + draw.draw(near)) if draw.draw(st.booleans()) else hint
    assume(-(2**63) <= offset < 2**63 and hint < 2**63)
    start = draw.draw(st.sampled_from([0, *rows["position"].tolist()[:3], min(5, len(data))]))
    found = found_in(path, data, start=start, offset=offset, timestamp=timestamp, hint=hint)
    assert found == find_entry(data, start, offset, timestamp, hint)
    assert_loaded(path, data, found, start, offset, timestamp, hint)


def assert_loaded(path: Path, data: bytes, found: tuple[Any, ...], start: int, *figures: int) -> None:
    """What a search finds is loaded: its row of the table, and its bytes."""
    with path.open("rb") as file:
        for source in (file.fileno(), Views(data)):
            entry, *end = framing.load_file_entry(source, start, len(data), *figures)
            assert tuple(end) == found[1:]
            if found[0] is None:
                assert entry is None
                continue
            assert entry is not None
            rows, view, position, size = entry
            assert (position, size) == found[0][:2]
            assert view.readonly
            assert bytes(view) == data[position : position + size]
            assert rows.tolist() == reference_scan(data[: position + size], start=position)[0].tolist()


@given(st.lists(st.sampled_from([0, 1, 60, 900, 3990, 4050, 4096, 8100, 8192, 70_000]), min_size=1, max_size=12))
def test_a_search_passes_entries_of_any_size_whatever_the_window(path: Path, sizes: list[int]) -> None:
    data = b"".join(LegacyMessage(PlainRecord(i, i, None, bytes(size))).encoded() for i, size in enumerate(sizes))
    for tail in (b"", bytes(10_000), bytes(9_000) + b"\x01", b"\x01" * 30):
        for offset in range(len(sizes) + 1):
            found = found_in(path, data + tail, start=0, offset=offset)
            assert found == find_entry(data + tail, 0, offset, -(2**63))


@pytest.mark.parametrize(
    ("start", "hint", "status"),
    [(0, 69, Status.LIMIT), (1, 70, Status.TORN), (40, 70, Status.SIZE_TOO_SMALL)],
)
def test_a_search_stops_where_the_hint_names_an_entry_that_is_not_there(
    path: Path, start: int, hint: int, status: Status
) -> None:
    batch = V2Batch(records(b"x"), base_offset=70, last_offset_delta=0).encoded()
    assert found_in(path, batch, start=0, offset=70, hint=70)[0] == (0, len(batch), 70, 70, 1000, 2)
    assert found_in(path, batch, start=start, offset=70, hint=hint)[:3] == (None, status, start)


def test_a_search_in_a_reversed_range_is_refused(path: Path) -> None:
    path.write_bytes(BATCH)
    with path.open("rb") as file, pytest.raises(ValueError, match="not a range"):
        framing.find_file_entry(file.fileno(), 5, 4, 0)
