"""The checksums of many entries: the first that does not hold is found, wherever it is."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.checksum import first_invalid, first_unsound
from kafkalog._speedups.rows import first_unreadable
from tests.helpers.guard import guarded
from tests.helpers.strategies import damaged, message_sets
from tests.reference.encode import FORMATS, entries, records
from tests.reference.framing import Headers, scan_headers


def computed(data: bytes, row: Headers) -> int:
    """The checksum that the row's bytes call for; 0 where it is too short to have one."""
    entry = data[int(row["position"]) :][: int(row["size_in_bytes"])]
    if row["magic"] < 2:
        return zlib.crc32(entry[16:])
    return crc32c(entry[21:]) if len(entry) >= 61 else 0


def expected(data: bytes, rows: Headers) -> tuple[int, int]:
    for i, row in enumerate(rows):
        found = computed(data, row)
        if found != row["checksum"] or (row["magic"] >= 2 and row["size_in_bytes"] < 61):
            return i, found
    return len(rows), 0


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_checksums_of_encoded_entries_match_and_a_flipped_bit_is_found(magic: int, codec: int) -> None:
    data = b"".join(entries(records(b"x" * size), magic, codec) for size in range(5))
    rows, *_ = scan_headers(data)
    assert first_invalid(guarded(data), rows) == (5, 0)
    for i, end in enumerate((rows["position"] + rows["size_in_bytes"]).tolist()):
        broken = data[: end - 1] + bytes([data[end - 1] ^ 1]) + data[end:]
        assert first_invalid(guarded(broken), rows) == (i, computed(broken, rows[i]))


@pytest.mark.parametrize("sizes", [range(40), range(1900, 2100)], ids=str)
def test_checksums_of_batches_of_every_size_match(sizes: range) -> None:
    data = b"".join(entries(records(b"\xa5" * size), 2) for size in sizes)
    rows, *_ = scan_headers(data)
    assert first_invalid(guarded(data), rows) == expected(data, rows) == (len(sizes), 0)


@given(damaged(message_sets()))
def test_the_first_invalid_checksum_is_the_one_that_other_libraries_find(data: bytes) -> None:
    rows, *_ = scan_headers(data)
    assert first_invalid(guarded(data), rows) == expected(data, rows)


def test_an_entry_too_short_for_its_header_is_invalid() -> None:
    data = struct.pack(">qii", 0, 48, 0) + b"\x02" + bytes(43)
    assert first_invalid(guarded(data), scan_headers(data)[0]) == (0, 0)


def test_positions_count_from_where_the_buffer_begins_in_its_file() -> None:
    data = entries(records(b"a"), 2)
    rows, *_ = scan_headers(data, position=1000)
    assert first_invalid(guarded(data), rows, 1000) == (1, 0)


@given(st.integers(-(2**62), 2**62), st.integers(-(2**31), 2**31 - 1))
def test_an_entry_outside_the_buffer_is_refused(position: int, size: int) -> None:
    data = entries(records(b"a"), 2)
    rows, *_ = scan_headers(data)
    rows["position"], rows["size_in_bytes"] = position, size
    if position >= 0 and size >= 0 and position + size <= len(data):
        return
    with pytest.raises(ValueError, match="outside the buffer"):
        first_invalid(guarded(data), rows)


def test_no_entries_have_no_invalid_checksum() -> None:
    assert first_invalid(b"", np.empty(0, scan_headers(b"")[0].dtype)) == (0, 0)


@given(damaged(message_sets()), st.booleans())
def test_the_first_unsound_entry_is_the_first_unreadable_or_invalid_one(data: bytes, check_crcs: bool) -> None:
    rows, *_ = scan_headers(data, position=1000)
    readable = rows[: first_unreadable(rows)]
    bad, found = first_invalid(guarded(data), readable, 1000) if check_crcs else (len(readable), 0)
    before = rows[:bad]
    compressed = bool((before["compression_type"] != 0).any())
    control = bool(((before["attributes"] & 0x20 != 0) & (before["magic"] >= 2)).any())
    assert first_unsound(guarded(data), rows, 1000, check_crcs) == (bad, found, compressed, control)
