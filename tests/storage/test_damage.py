"""Damaged logs yield all records before the damage, then an error with position, expectation and finding.

A torn or zeroed tail is no error but the value of `end_of_data`. No record is wrong, and none is left out silently.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import FileMessageSet, MessageSet, Record, RecordBatch
from kafkalog.errors import CorruptRecordError, InvalidRecordError, KafkaLogError
from tests.helpers.reading import Open, Outcome, column_records, in_file, memory, outcome
from tests.helpers.strategies import damaged, message_sets
from tests.reference.compression import GZIP
from tests.reference.encode import (
    FORMATS,
    LegacyMessage,
    PlainRecord,
    V2Batch,
    compressed,
    entries,
    records,
    varint,
    with_right_checksum,
)

# Seven and eight have no common divisor: every seventh bit flips each bit of a byte somewhere.
every_seventh_or_all = pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
BEFORE = [b"a", b"b"]
AFTER = [b"e", b"f"]


@pytest.fixture(params=["memory", "file", "sealed file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Every way to read the same bytes."""
    path = tmp_path / "00000000000000000000.log"
    if request.param == "memory":
        return memory
    if request.param == "file":
        return in_file(path)
    # One file for each set of bytes: a sealed one is not written to again.
    places = iter(range(10**9))

    def sealed(data: bytes) -> MessageSet:
        place = path.with_name(f"{next(places):020}.log")
        place.write_bytes(data)
        messages = FileMessageSet(place, sealed=True)
        if os.name == "posix":
            place.unlink()
        return messages

    return sealed


def batch(values: Iterable[bytes], magic: int, codec: int, offset: int) -> bytes:
    return entries(records(*values, offset=offset), magic, codec)


def around(broken: bytes, magic: int = 2, codec: int = 0) -> bytes:
    """`broken` between two sound batches."""
    return batch(BEFORE, magic, codec, 0) + broken + batch(AFTER, magic, codec, 4)


def readings(messages: MessageSet) -> list[Iterable[Record]]:
    return [messages, column_records(messages.columns()), column_records(messages.columns(threads=2))]


def assert_stops_at_damage(messages: MessageSet, position: int, kind: type[KafkaLogError]) -> None:
    """Assert that every way of reading yields the records before `position`, then a complete error."""
    for reading in readings(messages):
        found = outcome(reading)
        assert found.values == BEFORE
        assert_names_the_damage(found, messages, kind)
        assert found.error is not None
        assert found.error.position == position


def assert_names_the_damage(found: Outcome, messages: MessageSet, kind: type[KafkaLogError]) -> None:
    assert type(found.error) is kind
    path = messages.path if isinstance(messages, FileMessageSet) else None
    assert found.error.path == path
    assert found.error.expected is not None
    assert found.error.found is not None
    text = str(found.error)
    assert path is None or path in text
    assert f"position {found.error.position}" in text
    assert str(found.error.expected) in text
    assert str(found.error.found) in text


# --- one damage, named


PLACE = len(batch(BEFORE, 2, 0, 0))
WHOLE = batch([b"c", b"d"], 2, 0, 2)


def with_field(form: str, place: int, value: int) -> bytes:
    field = struct.pack(form, value)
    return WHOLE[:place] + field + WHOLE[place + len(field) :]


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(with_field(">i", 8, 13), id="a size too small"),
        pytest.param(with_field(">i", 8, 0), id="a size of zero"),
        pytest.param(with_field(">i", 8, -1), id="a negative size"),
        pytest.param(with_field(">b", 16, 3), id="magic 3"),
        pytest.param(with_field(">b", 16, -1), id="magic -1"),
        pytest.param(with_field(">I", 17, 0), id="a checksum of zero"),
        pytest.param(WHOLE[:-1] + b"\x7f", id="another last byte"),
        pytest.param(WHOLE[:40] + bytes(len(WHOLE) - 40), id="a page of zeros"),
        pytest.param(bytes(4096), id="zeros before more entries"),
        pytest.param(struct.pack(">qii", 0, 48, 0) + b"\x02" + bytes(43), id="a batch shorter than its header"),
    ],
)
def test_bytes_that_are_no_batch_are_corrupt(opened: Open, broken: bytes) -> None:
    assert_stops_at_damage(opened(around(broken)), PLACE, CorruptRecordError)


@pytest.mark.parametrize("values", [[], BEFORE])
def test_text_is_a_torn_end_in_a_file_and_damage_in_memory(tmp_path: Path, values: list[bytes]) -> None:
    """Four letters read as a size are a gigabyte and more: a file that is shorter ends there, as in Kafka."""
    before = batch(values, 2, 0, 0) if values else b""
    data = before + b"To be, or not to be: that is the question.\n" * 99
    messages = in_file(tmp_path / "0.log")(data)
    assert outcome(messages).values == values
    assert (messages.end_of_data.kind.name, messages.end_of_data.position) == ("TORN", len(before))
    found = outcome(memory(data))
    assert found.values == values
    assert type(found.error) is CorruptRecordError
    assert (found.error.position, found.error.found) == (len(before), data[len(before) + 16])


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize(
    ("region", "count"),
    [
        pytest.param(bytes([12]) + bytes(6), 2, id="a count too large"),
        pytest.param((bytes([12]) + bytes(6)) * 2, 1, id="a count too small"),
        pytest.param(bytes([12]) + bytes(6), -1, id="a negative count"),
        pytest.param(varint(1000) + bytes(6), 1, id="a record length past the end"),
        pytest.param(varint(-3) + bytes(6), 1, id="a negative record length"),
        pytest.param(b"\xff" * 11, 1, id="a varint of 11 bytes"),
        pytest.param(varint(17) + b"\x00" + b"\xff" * 11 + bytes(5), 1, id="a varlong of 11 bytes"),
        pytest.param(bytes([12]) + bytes(5) + varint(20), 1, id="more headers than bytes"),
    ],
)
def test_a_batch_of_a_good_checksum_with_bad_records_is_invalid(
    opened: Open, region: bytes, count: int, codec: int
) -> None:
    broken = V2Batch(base_offset=2, base_timestamp=0, region=region, records_count=count, codec=codec).encoded()
    messages = opened(around(broken))
    for reading in readings(messages):
        found = outcome(reading)
        assert found.values[: len(BEFORE)] == BEFORE
        assert not set(found.values) & set(AFTER)
        assert_names_the_damage(found, messages, InvalidRecordError)
        assert found.error is not None
        assert found.error.position is not None
        # Where nothing is compressed, the very byte is named; the first one missing is the one after the batch.
        assert PLACE <= found.error.position <= PLACE + len(broken)
        assert codec == 0 or found.error.position == PLACE


def test_bits_that_name_no_codec_are_invalid(opened: Open) -> None:
    broken = V2Batch(records(b"c"), codec=6, payload=b"?").encoded()
    assert_stops_at_damage(opened(around(broken)), PLACE, InvalidRecordError)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_bytes_of_another_codec_are_invalid(opened: Open, codec: int) -> None:
    broken = V2Batch(records(b"c"), codec, payload=b"these are not compressed").encoded()
    for reading in readings(messages := opened(around(broken))):
        found = outcome(reading)
        assert found.values == BEFORE
        assert type(found.error) is InvalidRecordError
        assert found.error.position == PLACE
        assert found.error.path == getattr(messages, "path", None)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("length", [-2, 2**31 - 1, 100])
def test_a_message_whose_value_overruns_it_is_invalid(opened: Open, magic: int, length: int) -> None:
    message = LegacyMessage(PlainRecord(2, 7, None, b"value"), magic).encoded()
    at = len(message) - len(b"value") - 4
    broken = with_right_checksum(message[:at] + struct.pack(">i", length) + message[at + 4 :])
    found = outcome(opened(around(broken, magic)))
    if length < 0:
        assert found.values == [*BEFORE, None, *AFTER]
    else:
        assert found.values == BEFORE
        assert type(found.error) is InvalidRecordError


def test_batches_and_headers_stop_at_damage_in_the_framing_too(opened: Open) -> None:
    messages = opened(around(with_field(">i", 8, 13)))
    seen: list[int] = []
    with pytest.raises(CorruptRecordError) as error:
        seen.extend(batch.last_offset for batch in messages.batches())
    assert seen == [1]
    for ask in (messages.headers, lambda: messages.valid_bytes, lambda: messages.end_of_data):
        with pytest.raises(CorruptRecordError) as again:
            ask()
        assert again.value.position == error.value.position == PLACE


def test_checksums_are_not_checked_where_that_is_requested(opened: Open) -> None:
    messages = opened(around(with_field(">I", 17, 0)))
    found = [columns.value(i) for columns in messages.columns(check_crcs=False) for i in range(len(columns))]
    assert found == [*BEFORE, b"c", b"d", *AFTER]


@every_seventh_or_all
@pytest.mark.parametrize(("magic", "codec"), [(magic, codec) for magic, codec in FORMATS if codec])
def test_damaged_compressed_bytes_are_invalid_or_still_records(magic: int, codec: int, step: int) -> None:
    """The checksum is right: any error of a codec's library becomes an InvalidRecordError."""
    whole = batch([b"c" * 40, b"d" * 40], magic, codec, 2)
    payload = {0: 26, 1: 34, 2: 61}[magic]
    for bit in range(8 * payload, 8 * len(whole), step):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        found = outcome(memory(around(with_right_checksum(bytes(flipped)), magic, codec)))
        assert found.values[:2] == BEFORE
        assert found.error is None or type(found.error) is InvalidRecordError


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_stream_cut_anywhere_gives_no_record_that_was_not_written(codec: int) -> None:
    written = V2Batch(records(b"c" * 40, b"d" * 40, offset=2), codec)
    stream = compressed(written.plain_region(), codec)
    for length in range(len(stream)):
        found = outcome(memory(around(replace(written, payload=stream[:length]).encoded())))
        assert found.values[2:] in ([], [b"c" * 40], [b"c" * 40, b"d" * 40], [b"c" * 40, b"d" * 40, *AFTER])
        assert found.error is None or type(found.error) is InvalidRecordError
        # Only a trailer may be missing where every record is there.
        assert (found.error is None) == (found.values[2:] == [b"c" * 40, b"d" * 40, *AFTER])


# --- the end of the data


def test_a_size_larger_than_the_file_is_a_torn_end(tmp_path: Path) -> None:
    for open_as in (memory, in_file(tmp_path / "0.log")):
        messages = open_as(around(with_field(">i", 8, 2**31 - 1)))
        assert outcome(messages).values == BEFORE
        assert (messages.end_of_data.kind.name, messages.end_of_data.position) == ("TORN", PLACE)


@every_seventh_or_all
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_truncation_yields_the_whole_batches_and_the_position_of_their_end(
    tmp_path: Path, magic: int, codec: int, step: int
) -> None:
    first, second = batch(BEFORE, magic, codec, 0), batch(AFTER, magic, codec, 2)
    data = first + second
    bounds = [0, len(first), len(data)]
    if codec == 0 and magic < 2:
        # A message is an entry of its own.
        bounds = [0, len(first) // 2, len(first), len(first) + len(second) // 2, len(data)]
    around_bounds = {bound + distance for bound in bounds for distance in (-1, 0, 1)}
    lengths = sorted({*range(0, len(data), step), *around_bounds} & {*range(len(data))})
    for open_as in (memory, in_file(tmp_path / "0.log")):
        for length in lengths:
            messages = open_as(data[:length])
            whole = max(bound for bound in bounds if bound <= length)
            found = outcome(messages)
            assert found.error is None
            assert found.values == [*BEFORE, *AFTER][: bounds.index(whole) * 4 // (len(bounds) - 1)]
            end = messages.end_of_data
            torn = length > whole
            zeroed = torn and not any(data[whole:length])
            assert (end.kind.name, end.position) == ("ZEROED" if zeroed else "TORN" if torn else "END", whole)


@every_seventh_or_all
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_flipped_bit_is_noticed_or_does_no_harm(tmp_path: Path, magic: int, codec: int, step: int) -> None:
    """No bit changes a record or makes one vanish in silence; only offsets and epochs are under no checksum."""
    before, broken, after = (
        batch(values, magic, codec, at) for values, at in ((BEFORE, 0), ([b"c", b"d"], 2), (AFTER, 4))
    )
    everything = [*BEFORE, b"c", b"d", *AFTER]
    file = in_file(tmp_path / "0.log")
    for bit in range(0, 8 * len(broken), step):
        flipped = bytearray(broken)
        flipped[bit // 8] ^= 1 << bit % 8
        messages = (memory if bit % 3 else file)(before + flipped + after)
        found = outcome(messages)
        assert found.values == everything[: len(found.values)]
        assert len(found.values) >= len(BEFORE)
        if found.error is not None:
            assert isinstance(found.error, (CorruptRecordError, InvalidRecordError))
            assert found.error.position is not None
            assert len(before) <= found.error.position < len(before) + len(broken)
        elif found.values != everything:
            assert messages.end_of_data.kind.name == "TORN"
            assert len(before) <= messages.end_of_data.position < len(before) + len(broken)


def test_a_sealed_file_may_not_end_in_a_torn_or_zeroed_tail(tmp_path: Path) -> None:
    """The next segment begins where this one should have ended: the records between are lost."""
    path = tmp_path / "0.log"
    for tail in (WHOLE[:-1], bytes(100)):
        path.write_bytes(batch(BEFORE, 2, 0, 0) + tail)
        found = outcome(FileMessageSet(path, sealed=True))
        assert found.values == BEFORE
        assert type(found.error) is CorruptRecordError
        assert (found.error.position, found.error.path) == (PLACE, str(path))


# --- anything at all


@given(damaged(message_sets()) | st.binary(max_size=300))
def test_records_and_columns_end_in_the_same_error_for_any_bytes(data: bytes) -> None:
    messages = memory(data)
    by_objects, *by_columns = map(outcome, readings(messages))
    for found in by_columns:
        # Columns keep no sequence.
        assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found.records] == [
            (r.offset, r.timestamp, r.key, r.value, r.headers) for r in by_objects.records
        ]
        assert repr(found.error) == repr(by_objects.error)
    if by_objects.error is not None:
        assert isinstance(by_objects.error, (CorruptRecordError, InvalidRecordError))
        assert by_objects.error.position is not None
        assert 0 <= by_objects.error.position <= len(data)


@given(damaged(message_sets()))
def test_a_batch_read_alone_yields_the_same_records_as_among_others_for_any_bytes(data: bytes) -> None:
    messages = memory(data)
    records: list[Record] = []
    error = None
    try:
        for each in messages.batches():
            found = outcome(each)
            if not each.is_control:
                records += found.records
            if found.error is not None:
                error = found.error
                break
    except KafkaLogError as framing:
        error = framing
    among_others = outcome(messages)
    if error is None or not any(each.is_control for each in _batches_before(messages, error)):
        assert among_others.records == records
        assert str(among_others.error) == str(error)


def _batches_before(messages: MessageSet, error: KafkaLogError) -> Iterable[RecordBatch]:
    """Yield the batches up to the damaged one: reading a set skips the content of control batches."""
    try:
        for each in messages.batches():
            if error.position is not None and each.position > error.position:
                return
            yield each
    except KafkaLogError:
        return
