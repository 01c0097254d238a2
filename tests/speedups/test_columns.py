"""The decoder: every fault it can find, and the same columns as the plain twin whatever the bytes."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups import columns
from tests.helpers.equivalence import (
    assert_same_reading,
    assert_same_records,
    some_or_all_bits,
    with_each_bit_flipped,
)
from tests.helpers.guard import guarded
from tests.helpers.strategies import damaged, message_sets, v2_with_damaged_records, wrappers_with_damaged_messages
from tests.reference.codes import FaultCode
from tests.reference.encode import (
    FORMATS,
    LOG_APPEND_TIME,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    compressed,
    entries,
    records,
    v2_record,
    varint,
)
from tests.reference.framing import V2_HEADER_BYTES, Headers, scan_headers
from tests.reference.regions import Regions, regions

TWO = records(b"one", b"two")
ONE = records(b"one")


@pytest.mark.parametrize("code", FaultCode, ids=lambda code: code.name)
def test_a_fault_has_the_same_name_and_number(code: FaultCode) -> None:
    assert getattr(columns, code.name) == code


# --- v2


def v2_region(region: bytes, count: int) -> bytes:
    return V2Batch(base_offset=0, base_timestamp=0, records_count=count, region=region).encoded()


def body(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return varint(len(joined)) + joined


NO_DELTAS = bytes(3)
EMPTY_KEY_AND_VALUE = bytes(2)
NO_HEADERS = bytes(1)
RECORD = body(NO_DELTAS, EMPTY_KEY_AND_VALUE, NO_HEADERS)

AT = V2_HEADER_BYTES


@pytest.mark.parametrize(
    ("region", "count", "fault"),
    [
        pytest.param(b"", 1, (FaultCode.UNDERRUN, AT, 1, 0), id="a record that is not there"),
        pytest.param(b"\xff", 1, (FaultCode.UNDERRUN, AT, 2, 1), id="a length cut off"),
        pytest.param(b"\xff" * 5, 1, (FaultCode.VARINT_TOO_LONG, AT, 5, 6), id="a length of six bytes"),
        pytest.param(varint(-5) + RECORD, 1, (FaultCode.NEGATIVE_LENGTH, AT, 0, -5), id="a negative length"),
        pytest.param(varint(10) + bytes(9), 1, (FaultCode.UNDERRUN, AT + 1, 10, 9), id="a length past the end"),
        pytest.param(body(), 1, (FaultCode.UNDERRUN, AT + 1, 1, 0), id="no attributes"),
        pytest.param(body(b"\x00"), 1, (FaultCode.UNDERRUN, AT + 2, 1, 0), id="only attributes"),
        pytest.param(
            body(b"\x00", b"\xff" * 4) + RECORD, 1, (FaultCode.UNDERRUN, AT + 2, 5, 4), id="a varlong cut off"
        ),
        pytest.param(
            body(b"\x00", b"\xff" * 11), 1, (FaultCode.VARINT_TOO_LONG, AT + 2, 10, 11), id="a varlong of 11 bytes"
        ),
        pytest.param(
            body(b"\x00\x00", b"\xff" * 5, bytes(9)),
            1,
            (FaultCode.VARINT_TOO_LONG, AT + 3, 5, 6),
            id="an offset of six bytes",
        ),
        pytest.param(body(NO_DELTAS, varint(9)), 1, (FaultCode.UNDERRUN, AT + 5, 9, 0), id="a key past the end"),
        pytest.param(
            body(NO_DELTAS, varint(-1), varint(105), b"v"), 1, (FaultCode.UNDERRUN, AT + 7, 105, 1), id="a value past"
        ),
        pytest.param(
            body(NO_DELTAS, EMPTY_KEY_AND_VALUE, varint(-1)),
            1,
            (FaultCode.HEADER_COUNT, AT + 6, 0, -1),
            id="header count -1",
        ),
        pytest.param(
            body(NO_DELTAS, EMPTY_KEY_AND_VALUE, varint(3), bytes(2)),
            1,
            (FaultCode.HEADER_COUNT, AT + 6, 2, 3),
            id="more headers than bytes",
        ),
        pytest.param(
            body(NO_DELTAS, EMPTY_KEY_AND_VALUE, varint(1), varint(-1), bytes(2)),
            1,
            (FaultCode.HEADER_KEY_LENGTH, AT + 7, 0, -1),
            id="a null header key",
        ),
        pytest.param(
            body(NO_DELTAS, EMPTY_KEY_AND_VALUE, varint(1), varint(105), b"k", bytes(1)),
            1,
            (FaultCode.UNDERRUN, AT + 9, 105, 2),
            id="a header key past the end",
        ),
        pytest.param(
            body(NO_DELTAS, EMPTY_KEY_AND_VALUE, varint(1), varint(1), b"k", varint(105), b"v"),
            1,
            (FaultCode.UNDERRUN, AT + 11, 105, 1),
            id="a header value past the end",
        ),
        pytest.param(
            body(NO_DELTAS, EMPTY_KEY_AND_VALUE, NO_HEADERS, b"!"),
            1,
            (FaultCode.RECORD_LENGTH, AT + 7, 7, 6),
            id="a byte too many in a record",
        ),
        pytest.param(RECORD, -1, (FaultCode.RECORDS_COUNT, AT, 0, -1), id="a negative count"),
        pytest.param(RECORD, 2, (FaultCode.UNDERRUN, AT + 7, 1, 0), id="a count too large"),
        pytest.param(RECORD * 2, 1, (FaultCode.RECORDS_COUNT, AT + 7, 1, 7), id="a count too small"),
    ],
)
def test_a_broken_record_is_named_with_its_place(
    region: bytes, count: int, fault: tuple[FaultCode, int, int, int]
) -> None:
    code, *where = fault
    assert assert_same_reading(v2_region(region, count)) == (code, 0, *where)
    # Compressed, it is the same damage at the same place of the decompressed bytes.
    batch = V2Batch(base_offset=0, base_timestamp=0, records_count=count, region=region, codec=1)
    found = assert_same_reading(batch.encoded())
    assert found is not None
    assert (found[0], *found[3:]) == (code, *where[1:])


def decode(data: bytes) -> tuple[Regions, list[list[int]], list[int]]:
    """The region arguments, and what both decoders say: records and the rows they came from."""
    rows, *_ = scan_headers(data)
    arguments = regions(data, rows)
    assert_same_records(arguments)
    block, batch, count, _ = columns.decode_batches(*arguments)
    return arguments, block[:, :count].T.tolist(), batch[:count].tolist()


def test_the_records_before_a_broken_one_are_kept() -> None:
    broken = V2Batch(
        records(b"a", b"b", b"c"), region=v2_record(TWO[0], 0, 1000) + v2_record(TWO[1], 0, 1000) + b"\x7f"
    )
    _, found, rows = decode(V2Batch(ONE).encoded() + broken.encoded() + V2Batch(ONE).encoded())
    assert [record[0] for record in found] == [0, 0, 1]
    assert rows == [0, 1, 1]


@pytest.mark.parametrize("count", range(1, 9))
def test_a_record_too_short_to_be_one_spoils_none_of_those_before_it(count: int) -> None:
    """Room for the columns is reckoned from the bytes: one shorter than any can be is more than there is room for."""
    shortest = b"".join(
        body(b"\x00", b"\x02", varint(place), EMPTY_KEY_AND_VALUE, NO_HEADERS) for place in range(count)
    )
    for torn in (body(), body(b"\x00"), body(NO_DELTAS), body(NO_DELTAS, EMPTY_KEY_AND_VALUE)):
        _, found, _ = decode(v2_region(shortest + torn, count + 5))
        assert [record[:2] for record in found] == [[place, 1] for place in range(count)]


def test_null_and_empty_are_not_the_same() -> None:
    arguments, found, _ = decode(V2Batch([PlainRecord(0, 0, None, b""), PlainRecord(1, 0, b"", None)]).encoded())
    assert [(record[3], record[5]) for record in found] == [(-1, 0), (0, -1)]
    assert all(0 <= record[2] <= len(arguments.buffer) for record in found)


def test_a_length_below_minus_one_is_null_too() -> None:
    region = body(NO_DELTAS, varint(-2), varint(-(2**31)), varint(1), varint(0), varint(-7))
    _, ((*_, key_length, _, value_length, _, headers_length),), _ = decode(v2_region(region, 1))
    assert (key_length, value_length, headers_length) == (-1, -1, 2)


def test_headers_start_behind_their_count_and_end_with_the_record() -> None:
    with_headers = PlainRecord(0, 0, None, b"v", ((b"name", b"value"), (b"", None)))
    arguments, ((*_, start, length),), _ = decode(V2Batch([with_headers]).encoded())
    assert arguments.buffer[start : start + length] == b"\x08name\x0avalue\x00\x01"


@pytest.mark.parametrize("attributes", [1, -128, 127])
def test_the_attributes_of_a_record_mean_nothing_and_are_one_byte(attributes: int) -> None:
    """A decoder that takes them for a varint reads 0x80 as its first byte of two."""
    _, found, _ = decode(V2Batch([replace(record, attributes=attributes) for record in TWO]).encoded())
    assert [record[0] for record in found] == [0, 1]


def test_append_time_is_the_time_of_every_record() -> None:
    _, found, _ = decode(V2Batch(TWO, timestamp_type=LOG_APPEND_TIME, max_timestamp=15).encoded())
    assert [record[1] for record in found] == [15, 15]


def test_offsets_and_timestamps_wrap_as_javas_do() -> None:
    region = v2_record(PlainRecord(1, 1), 0, 0)
    batch = V2Batch(base_offset=2**63 - 1, base_timestamp=2**63 - 1, records_count=1, region=region)
    _, ((offset, timestamp, *_),), _ = decode(batch.encoded())
    assert (offset, timestamp) == (-(2**63), -(2**63))


def test_bits_of_a_varint_beyond_its_width_are_dropped() -> None:
    region = body(b"\x00", b"\x80" * 9 + b"\x7e", b"\x80" * 4 + b"\x70", EMPTY_KEY_AND_VALUE, NO_HEADERS)
    _, ((offset, timestamp, *_),), _ = decode(v2_region(region, 1))
    assert (offset, timestamp) == (0, 0)


def test_bytes_behind_a_header_that_counts_no_records_are_not_read() -> None:
    _, found, _ = decode(v2_region(b"\xff" * 40, 0) + V2Batch(ONE).encoded())
    assert len(found) == 1


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_header_that_claims_two_billion_records_takes_no_memory_for_them(magic: int) -> None:
    data = v2_region(RECORD * 3, 2**31 - 1) if magic == 2 else entries(ONE, magic)
    rows, *_ = scan_headers(data)
    rows["records_count"] = 2**31 - 1
    block, *_ = columns.decode_batches(*regions(data, rows))
    assert block.nbytes < 1024


# --- v0 and v1


def inner(message: bytes) -> bytes:
    return LegacyWrapper(ONE, inner=message).encoded()


def message(*, size: int | None = None, magic: int = 1, codec: int = 0, offset: int = 0) -> bytes:
    return LegacyMessage(PlainRecord(offset, 7, b"key", b"value"), magic=magic, size=size, codec=codec).encoded()


SHORT_KEY = struct.pack(">qiIbbq", 0, 14, 0, 1, 0, 0)
WHOLE = message()


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        pytest.param(b"", (FaultCode.EMPTY_WRAPPER, 0, 1, 0), id="nothing"),
        pytest.param(WHOLE[:-1], (FaultCode.EMPTY_WRAPPER, 0, 1, 0), id="only a part of a message"),
        pytest.param(message(size=13), (FaultCode.MESSAGE_SIZE, 0, 14, 13), id="size 13"),
        pytest.param(WHOLE + message(size=-1), (FaultCode.MESSAGE_SIZE, len(WHOLE), 14, -1), id="size -1"),
        pytest.param(WHOLE + message(magic=2), (FaultCode.MESSAGE_MAGIC, len(WHOLE), 1, 2), id="a message of magic 2"),
        pytest.param(message(magic=-1), (FaultCode.MESSAGE_MAGIC, 0, 1, -1), id="a message of magic -1"),
        pytest.param(WHOLE + message(codec=3), (FaultCode.NESTED_WRAPPER, len(WHOLE), 0, 3), id="a wrapper inside"),
        pytest.param(SHORT_KEY, (FaultCode.UNDERRUN, 26, 4, 0), id="no room for a key length"),
        pytest.param(
            struct.pack(">qiIbbqi", 0, 18, 0, 1, 0, 0, 5), (FaultCode.UNDERRUN, 30, 5, 0), id="a key past the end"
        ),
        pytest.param(
            struct.pack(">qiIbbqii", 0, 22, 0, 1, 0, 0, -1, 2**31 - 1),
            (FaultCode.UNDERRUN, 34, 2**31 - 1, 0),
            id="a value past the end",
        ),
    ],
)
def test_a_broken_message_in_a_wrapper_is_named_with_its_place(
    run: bytes, fault: tuple[FaultCode, int, int, int]
) -> None:
    code, at, expected, found = fault
    data = inner(run)
    assert assert_same_reading(data) == (code, 0, len(data) + at, expected, found)


def test_a_wrapper_with_one_broken_message_gives_none_and_those_before_it_all() -> None:
    _, found, rows = decode(entries(TWO, 1, 1) + inner(WHOLE + message(magic=2)) + entries(TWO, 1))
    assert [record[0] for record in found] == [0, 1]
    assert rows == [0, 0]


def test_a_wrapper_in_a_wrapper_is_refused_before_it_is_unpacked() -> None:
    fault = assert_same_reading(inner(entries(TWO, 1, 1)))
    assert fault is not None
    assert fault[0] == FaultCode.NESTED_WRAPPER


def test_a_message_that_runs_out_of_its_wrapper_ends_it_silently() -> None:
    _, found, _ = decode(inner(WHOLE + WHOLE[:20]))
    assert len(found) == 1


def test_a_wrapper_that_says_less_than_its_last_message_is_refused() -> None:
    run = b"".join(message(offset=offset) for offset in range(3))
    data = LegacyWrapper(ONE, inner=run, offset=1).encoded()
    assert assert_same_reading(data) == (FaultCode.WRAPPER_OFFSET, 0, len(data), 2, 1)


@pytest.mark.parametrize(("magic", "offsets"), [(0, [3, 5]), (1, [98, 100])])
def test_inner_offsets_are_relative_in_v1_and_absolute_in_v0(magic: int, offsets: list[int]) -> None:
    run = message(magic=magic, offset=3) + message(magic=magic, offset=5)
    _, found, _ = decode(LegacyWrapper(ONE, magic=magic, inner=run, offset=100).encoded())
    assert [record[0] for record in found] == offsets


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_at_offset_zero_leaves_its_messages_the_offsets_they_have(magic: int) -> None:
    data = LegacyWrapper(records(b"a", b"b", b"c"), magic=magic, offset=0).encoded()
    _, found, _ = decode(data)
    assert [record[0] for record in found] == [0, 1, 2]


def test_append_time_of_a_wrapper_is_that_of_its_messages() -> None:
    _, found, _ = decode(LegacyWrapper(TWO, timestamp_type=LOG_APPEND_TIME, timestamp=15).encoded())
    assert [record[1] for record in found] == [15, 15]


def test_create_time_of_a_wrapper_leaves_its_messages_their_own() -> None:
    _, found, _ = decode(LegacyWrapper(TWO, timestamp=1500).encoded())
    assert [record[1] for record in found] == [1000, 1001]


def test_a_v0_message_in_a_v1_wrapper_has_no_timestamp() -> None:
    run = message(magic=0, offset=0) + message(magic=1, offset=1)
    _, found, _ = decode(
        LegacyWrapper(ONE, inner=run, offset=9, timestamp=15, timestamp_type=LOG_APPEND_TIME).encoded()
    )
    assert [record[:2] for record in found] == [[8, -1], [9, 15]]


def test_bytes_behind_a_value_are_ignored() -> None:
    padded = WHOLE[:8] + struct.pack(">i", len(WHOLE) - 12 + 5) + WHOLE[12:] + b"extra"
    _, found, _ = decode(padded + WHOLE)
    assert [record[5] for record in found] == [5, 5]


@pytest.mark.parametrize("magic", [-128, -1])
def test_a_message_of_a_negative_magic_is_framed_but_not_decoded(magic: int) -> None:
    fault = assert_same_reading(message(magic=magic))
    assert fault == (FaultCode.MESSAGE_MAGIC, 0, 0, magic, magic)


# --- what the caller may ask


def test_regions_outside_the_buffer_are_refused() -> None:
    data = V2Batch(ONE).encoded()
    rows, *_ = scan_headers(data)
    for start, end in [(-1, 5), (5, 4), (0, len(data) + 1), (2**62, 2**62)]:
        with pytest.raises(ValueError, match="outside the buffer"):
            columns.decode_batches(guarded(data), rows, np.array([start]), np.array([end]))


def test_as_many_regions_as_rows_are_wanted() -> None:
    data = V2Batch(ONE).encoded()
    rows, *_ = scan_headers(data)
    with pytest.raises(ValueError, match="1 rows, 2 starts"):
        columns.decode_batches(data, rows, np.array([0, 0]), np.array([1]))


@given(damaged(message_sets()), st.data())
def test_rows_that_contradict_their_region_read_nothing_outside_it(data: bytes, draw: st.DataObject) -> None:
    """The rows come from the caller: whatever they say, wherever the region lies, both decoders say the same of it."""
    rows = lying_rows(data, draw)
    bounds = sorted(draw.draw(st.tuples(st.integers(0, len(data)), st.integers(0, len(data)))))
    starts, ends = (np.full(len(rows), bound, dtype=np.int64) for bound in bounds)
    assert_same_records(Regions(data, rows, starts, ends))


def lying_rows(data: bytes, draw: st.DataObject) -> Headers:
    rows, *_ = scan_headers(data, limit=1)
    for row in rows:
        row["magic"] = draw.draw(st.sampled_from([0, 1, 2]))
        # Without a codec the region of a v0/v1 row is one entry by contract: only wrappers may lie about theirs.
        row["compression_type"] = draw.draw(st.integers(1, 4)) if row["magic"] < 2 else 0
        row["records_count"] = draw.draw(st.integers(-1, 5))
    return rows


# --- everything at once


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_format_and_codec_decodes_to_the_twins_columns(magic: int, codec: int) -> None:
    written = records(b"one", None, b"", b"four" * 30000, offset=57)
    _, found, _ = decode(entries(written, magic, codec) + entries(TWO, magic, codec))
    assert [record[0] for record in found] == [57, 58, 59, 60, 0, 1]
    assert [record[5] for record in found] == [3, -1, 0, 120000, 3, 3]


@pytest.mark.parametrize(("magic", "codec"), [(magic, codec) for magic, codec in FORMATS if codec or magic == 2])
def test_every_truncation_of_a_region_gives_the_same_records_and_fault(magic: int, codec: int) -> None:
    data = entries([PlainRecord(0, 5, b"key", b"value", ((b"h", None),)), PlainRecord(1, 6)], magic, codec)
    rows, *_ = scan_headers(data)
    buffer, rows, starts, ends = regions(data, rows)
    for length in range(int(ends[0] - starts[0])):
        assert_same_records(Regions(buffer, rows[:1], starts[:1], starts[:1] + length))


@some_or_all_bits
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_flipped_bit_gives_the_same_records_and_fault(magic: int, codec: int, step: int) -> None:
    run = [PlainRecord(0, 5, b"key", b"value", ((b"h", None),)), PlainRecord(1, 6)]
    for damaged_data in with_each_bit_flipped(entries(run, magic, codec), step):
        assert_same_reading(damaged_data)


@some_or_all_bits
@pytest.mark.parametrize(("magic", "codec"), [(magic, codec) for magic, codec in FORMATS if codec])
def test_every_bit_flipped_before_compression_gives_the_same_records_and_fault(
    magic: int, codec: int, step: int
) -> None:
    run = [PlainRecord(0, 5, b"key", b"value", ((b"h", None),)), PlainRecord(1, 6)]
    plain = V2Batch(run).plain_region() if magic == 2 else LegacyWrapper(run, magic=magic).inner_bytes()
    for damaged_data in with_each_bit_flipped(plain, step):
        if magic == 2:
            assert_same_reading(V2Batch(run, codec, payload=compressed(damaged_data, codec)).encoded())
        else:
            assert_same_reading(LegacyWrapper(run, codec, magic, inner=damaged_data).encoded())


@given(message_sets())
def test_whole_logs_decode_to_the_twins_columns(data: bytes) -> None:
    assert_same_reading(data)


@given(damaged(message_sets()))
def test_damaged_logs_decode_to_the_same_records_and_fault(data: bytes) -> None:
    assert_same_reading(data)


@given(v2_with_damaged_records())
def test_damaged_records_in_sound_framing_give_the_same_records_and_fault(data: bytes) -> None:
    assert_same_reading(data)


@given(wrappers_with_damaged_messages())
def test_damaged_messages_in_a_sound_wrapper_give_the_same_records_and_fault(data: bytes) -> None:
    assert_same_reading(data)


@given(st.binary(max_size=120), st.integers(1, 4), st.integers(0, 2), st.integers(0, 1))
def test_random_bytes_in_sound_framing_give_the_same_fault(data: bytes, count: int, magic: int, kind: int) -> None:
    if magic == 2:
        whole = V2Batch(base_offset=0, base_timestamp=0, records_count=count, region=data, timestamp_type=kind)
        assert_same_reading(whole.encoded())
    else:
        assert_same_reading(LegacyWrapper(ONE, inner=data, magic=magic, timestamp_type=kind).encoded())
