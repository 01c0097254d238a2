"""The specification against what is known from elsewhere: published check values, and the way there and back."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from crc32c import crc32c

from tests.reference.codes import DamageError, FaultCode, Status
from tests.reference.cursor import Cursor
from tests.reference.encode import FORMATS, LegacyMessage, PlainRecord, V2Batch, entries, raw_snappy, records, varint
from tests.reference.framing import HEADER_DTYPE, scan_headers
from tests.reference.message_set import decode_batches
from tests.reference.regions import regions

KAFKA_CHECKSUM_RECORDS = [
    PlainRecord(0, 283843, b"key1", b"value1"),
    PlainRecord(1, 1234, b"key2", b"value2"),
]


def decoded(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of every record of `data`, by the reference alone."""
    rows, status, *_ = scan_headers(data)
    assert status == Status.END
    arguments = regions(data, rows)
    block, _, count, fault = decode_batches(*arguments)
    assert fault is None
    found = []
    for offset, timestamp, key, key_length, value, value_length, _, _ in block[:, :count].T.tolist():
        parts = _part(arguments.buffer, key, key_length), _part(arguments.buffer, value, value_length)
        found.append((offset, timestamp, *parts))
    return found


def _part(buffer: bytes, start: int, length: int) -> bytes | None:
    return None if length < 0 else buffer[start : start + length]


@pytest.mark.parametrize(("magic", "checksum"), [(0, 1978725405), (1, 109425508), (2, 3851219455)])
def test_the_encoder_gives_the_check_values_of_kafkas_own_test(magic: int, checksum: int) -> None:
    rows, *_ = scan_headers(entries(KAFKA_CHECKSUM_RECORDS, magic))
    assert rows["checksum"][0] == checksum


def test_the_castagnoli_crc_is_the_one_kafka_tests() -> None:
    assert crc32c(b"Some String") == 608512271


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (300, "d804"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints_are_kafkas(number: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    assert varint(number) == data
    assert Cursor(data, 0, len(data)).varint() == number
    assert Cursor(data, 0, len(data)).varlong() == number


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_longest_varlong_has_ten_bytes(number: int) -> None:
    data = varint(number)
    assert len(data) == 10
    assert Cursor(data, 0, 10).varlong() == number


def test_a_varint_that_goes_on_is_told_from_one_that_is_cut_off() -> None:
    with pytest.raises(DamageError) as too_long:
        Cursor(b"\xff" * 11, 0, 11).varint()
    assert (too_long.value.code, too_long.value.expected, too_long.value.found) == (FaultCode.VARINT_TOO_LONG, 5, 6)
    with pytest.raises(DamageError) as cut_off:
        Cursor(b"\xff" * 11, 8, 11).varint()
    assert (cut_off.value.code, cut_off.value.at, cut_off.value.expected) == (FaultCode.UNDERRUN, 8, 4)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_encoded_entries_are_decoded_alike(magic: int, codec: int) -> None:
    written = records(b"one", None, b"", b"four" * 20000, offset=57)
    expected = [(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in written]
    assert decoded(entries(written, magic, codec)) == expected


def test_snappy_without_its_framing_is_decoded() -> None:
    batch = V2Batch(records(b"one", b"two"), codec=2)
    batch = V2Batch(batch.records, codec=2, payload=raw_snappy(batch.plain_region()))
    assert [value for *_, value in decoded(batch.encoded())] == [b"one", b"two"]


@pytest.mark.parametrize(
    ("magic", "key", "value", "size"), [(1, None, b"hello", 39), (2, b"key", b"value", 76), (2, None, b"a", 69)]
)
def test_one_record_has_the_size_it_has_in_kafka(magic: int, key: bytes | None, value: bytes, size: int) -> None:
    record = PlainRecord(0, 0, key, value)
    encoded = LegacyMessage(record).encoded() if magic == 1 else V2Batch([record]).encoded()
    assert len(encoded) == size


def test_an_end_of_transaction_marker_has_78_bytes() -> None:
    marker = PlainRecord(0, 0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))
    assert len(V2Batch([marker], flags=0x30, producer_id=1, producer_epoch=0).encoded()) == 78


def test_a_row_of_the_header_table_is_laid_out_as_c_would() -> None:
    assert HEADER_DTYPE.itemsize == 80
    fields = HEADER_DTYPE.fields
    assert fields is not None
    assert [fields[name][1] for name in ("size_in_bytes", "attributes", "magic")] == [48, 68, 72]


def test_an_empty_table_is_still_a_table() -> None:
    rows, *_ = scan_headers(b"")
    assert rows.dtype == HEADER_DTYPE
    assert rows.shape == (0,)
    block, batch, count, fault = decode_batches(b"", rows, np.empty(0, np.int64), np.empty(0, np.int64))
    assert (block.shape, batch.shape, count, fault) == ((8, 0), (0,), 0, None)
