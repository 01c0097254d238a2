"""Records to message sets: what `from_records` writes is read back, and is what Kafka writes for the same records."""

from __future__ import annotations

import random
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, Record, TimestampType
from kafkalog.record.message_set import batches_of_records
from kafkalog.record.records_builder import BatchSettings
from tests.helpers.reading import inside
from tests.helpers.strategies import CHARACTERS
from tests.reference.encode import FORMATS

CREATE_TIME, LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
THREE = [Record(b"1", b"a", timestamp=10), Record(b"2", b"b", timestamp=30), Record(b"3", b"c", timestamp=20)]
# What Kafka's own test of checksums writes.
GOLDEN = [Record(b"value1", b"key1", timestamp=283843), Record(b"value2", b"key2", timestamp=1234)]

every_format = pytest.mark.parametrize(("magic", "codec"), FORMATS)
legacy_wrappers = pytest.mark.parametrize(
    ("magic", "codec"), [(magic, codec) for magic, codec in FORMATS if magic < 2 and codec]
)


def written(records: list[Record], magic: int = 2, codec: int = 0, **settings: Any) -> ByteBufferMessageSet:
    return ByteBufferMessageSet.from_records(records, magic=magic, compression_type=CompressionType(codec), **settings)


def offsets(message_set: ByteBufferMessageSet) -> list[int]:
    return [record.offset for record in message_set]


# --- what is written


@pytest.mark.parametrize(("magic", "checksum"), [(0, 1978725405), (1, 109425508), (2, 3851219455)])
def test_the_checksums_are_those_of_kafkas_own_test(magic: int, checksum: int) -> None:
    assert next(written(GOLDEN, magic).batches()).checksum == checksum


@every_format
def test_every_record_comes_back_from_every_format(magic: int, codec: int) -> None:
    headers = (("h", b"1"), ("n", None)) if magic == 2 else ()
    given = [Record(b"", None, headers, 5), Record(None, b"", headers, -1), Record(bytes(9000), b"k", headers, 7)]
    message_set = written(given, magic, codec, base_offset=100)
    found = [(r.value, r.key, r.headers, r.timestamp, r.offset) for r in message_set]
    times = [record.timestamp if magic else -1 for record in given]
    assert found == [
        (r.value, r.key, headers, time, 100 + i) for i, (r, time) in enumerate(zip(given, times, strict=True))
    ]
    assert all(batch.is_valid and batch.compression_type == codec for batch in message_set.batches())


@every_format
def test_no_records_make_an_empty_set(magic: int, codec: int) -> None:
    assert written([], magic, codec).size_in_bytes == 0


@every_format
def test_messages_are_entries_of_their_own_and_all_else_is_one(magic: int, codec: int) -> None:
    entries = 1 if magic == 2 or codec else len(THREE)
    assert len(list(written(THREE, magic, codec).batches())) == entries


_sized = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(CHARACTERS, max_size=5), _sized), max_size=3)


@given(st.sampled_from(FORMATS), st.lists(st.tuples(_sized, _sized, _headers, st.integers(-1, 2**63 - 1)), max_size=20))
def test_records_of_any_content_are_read_as_they_were_written(form: tuple[int, int], fields: list[Any]) -> None:
    given = [Record(v, k, h if form[0] == 2 else (), t if form[0] else -1) for v, k, h, t in fields]
    found = list(written(given, *form))
    assert [(r.value, r.key, r.headers, r.timestamp) for r in found] == [
        (r.value, r.key, r.headers, r.timestamp) for r in given
    ]


# --- offsets


@legacy_wrappers
def test_a_wrapper_has_the_offset_of_its_last_message(magic: int, codec: int) -> None:
    wrapper = next(written(THREE, magic, codec, base_offset=40).batches())
    assert (wrapper.base_offset, wrapper.last_offset) == (40, 42)


@legacy_wrappers
def test_offsets_inside_a_wrapper_count_from_0_in_format_1_only(magic: int, codec: int) -> None:
    wrapper = next(written(THREE, magic, codec, base_offset=40).batches())
    assert offsets(inside(wrapper)) == ([0, 1, 2] if magic == 1 else [40, 41, 42])


@every_format
def test_an_assigner_gives_the_offsets(magic: int, codec: int) -> None:
    message_set = written(THREE, magic, codec, offsets=[7, 9, 4000])
    assert offsets(message_set) == [7, 9, 4000]
    assert next(message_set.batches()).base_offset == 7


@every_format
def test_an_assigner_may_go_on_for_ever(magic: int, codec: int) -> None:
    assigner = count(5)
    assert offsets(written(THREE, magic, codec, offsets=assigner)) == [5, 6, 7]
    assert next(assigner) == 8


@pytest.mark.parametrize("assigned", [[], [1], [1, 2], [1, 1, 2], [3, 2, 1], [-1, 0, 1], [0, 1, 2**31]])
def test_offsets_that_are_too_few_or_do_not_rise_are_refused(assigned: list[int]) -> None:
    with pytest.raises(ValueError, match="offset"):
        written(THREE, offsets=assigned)


def test_a_base_offset_beside_an_assigner_is_refused() -> None:
    with pytest.raises(ValueError, match="exclude"):
        written(THREE, base_offset=1, offsets=[1, 2, 3])


def test_a_set_of_an_assigner_without_records_is_empty() -> None:
    assert written([], offsets=[]).size_in_bytes == 0


# --- timestamps


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] == 2 or (form[0] == 1 and form[1])])
def test_the_batch_has_the_largest_timestamp_of_its_records(magic: int, codec: int) -> None:
    assert next(written(THREE, magic, codec).batches()).max_timestamp == 30


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0] == 2 or (form[0] == 1 and form[1])])
def test_a_given_timestamp_is_the_batchs_and_the_records_keep_theirs(magic: int, codec: int) -> None:
    message_set = written(THREE, magic, codec, timestamp=99)
    assert next(message_set.batches()).max_timestamp == 99
    assert next(message_set.batches()).is_valid
    assert [record.timestamp for record in message_set] == [10, 30, 20]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_without_a_wrapper_keep_their_timestamps(magic: int) -> None:
    assert written(THREE, magic, timestamp=99).buffer == written(THREE, magic).buffer


@pytest.mark.parametrize(("magic", "codec"), [form for form in FORMATS if form[0]])
def test_append_time_is_every_records(magic: int, codec: int) -> None:
    message_set = written(THREE, magic, codec, timestamp_type=LOG_APPEND_TIME, timestamp=15)
    assert {(record.timestamp, record.timestamp_type) for record in message_set} == {(15, LOG_APPEND_TIME)}


def test_append_time_needs_a_time() -> None:
    with pytest.raises(ValueError, match="log_append_time"):
        written(THREE, timestamp_type=LOG_APPEND_TIME)


# --- producers


def test_a_batch_says_who_produced_it() -> None:
    settings = {"producer_id": 23423, "producer_epoch": 145, "base_sequence": 983, "partition_leader_epoch": 9832}
    batch = next(written(THREE, is_transactional=True, **settings).batches())
    assert {name: getattr(batch, name) for name in settings} == settings
    assert batch.is_transactional
    assert not batch.is_control


def test_sequences_begin_again_at_0_inside_a_batch() -> None:
    settings = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 2}
    assert next(written(THREE, **settings).batches()).last_sequence == 0


def test_a_marker_takes_78_bytes() -> None:
    marker = Record(b"\0\0\0\0\0\7", b"\0\0\0\1", timestamp=5)
    message_set = written([marker], is_control=True, is_transactional=True, producer_id=7, producer_epoch=0)
    assert message_set.size_in_bytes == 78
    assert next(message_set.batches()).is_control
    assert list(message_set) == []


# --- what is refused

REFUSED: dict[str, dict[str, Any]] = {
    "zstd in format 0": {"magic": 0, "compression_type": CompressionType.ZSTD},
    "zstd in format 1": {"magic": 1, "compression_type": CompressionType.ZSTD},
    "no timestamp type in format 1": {"magic": 1, "timestamp_type": TimestampType.NO_TIMESTAMP_TYPE},
    "no timestamp type in format 2": {"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE},
    "a fourth format": {"magic": 3},
    "a transaction without a producer": {"is_transactional": True},
    "a producer without an epoch": {"producer_id": 1, "base_sequence": 0},
    "a producer without a sequence": {"producer_id": 1, "producer_epoch": 0},
    "a transaction in format 1": {"magic": 1, "is_transactional": True, "producer_id": 1, "producer_epoch": 0},
    "a producer in format 1": {"magic": 1, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0},
    "control records in format 0": {"magic": 0, "is_control": True},
    "a level that snappy does not have": {"compression_type": CompressionType.SNAPPY, "compression_level": 1},
    "a level that gzip does not have": {"compression_type": CompressionType.GZIP, "compression_level": 10},
    "a negative offset": {"base_offset": -1},
    "a timestamp before none": {"timestamp": -2},
}


@pytest.mark.parametrize("settings", REFUSED.values(), ids=REFUSED)
def test_settings_that_kafka_refuses_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        ByteBufferMessageSet.from_records(THREE, **settings)


@pytest.mark.parametrize("magic", [0, 1])
def test_headers_are_refused_below_format_2(magic: int) -> None:
    with pytest.raises(ValueError, match="headers"):
        written([Record(b"", headers=[("h", b"")])], magic)


def test_a_negative_timestamp_is_refused() -> None:
    with pytest.raises(ValueError, match="timestamp"):
        written([Record(b"", timestamp=-2)])


def test_levels_are_heeded() -> None:
    given = [Record(b"%d" % (i * i * i), timestamp=i) for i in range(2000)]
    for codec, least, most in ((1, 1, 9), (3, 1, 12), (4, -50, 19)):
        sizes = [written(given, codec=codec, compression_level=level).size_in_bytes for level in (least, most)]
        assert sizes[0] > sizes[1], CompressionType(codec)


# --- batches by size


def filled(records: list[Record], magic: int, codec: int, max_size: int, **fields: Any) -> list[ByteBufferMessageSet]:
    settings = BatchSettings(magic=magic, compression_type=CompressionType(codec), **fields)
    return list(batches_of_records(records, settings, max_size=max_size))


@every_format
@pytest.mark.parametrize("max_size", [300, 1000, 16384])
def test_no_batch_is_larger_than_allowed_and_no_record_is_lost(magic: int, codec: int, max_size: int) -> None:
    draw = random.Random(1)
    # What compresses well comes first, so that the guess about the rest is wrong.
    given = [Record(b"a" * 150, b"key", timestamp=i) for i in range(300)]
    given += [Record(draw.randbytes(150), b"key", timestamp=i) for i in range(300)]
    sets = filled(given, magic, codec, max_size, base_offset=10)
    assert max(each.size_in_bytes for each in sets) <= max_size
    found = [record for each in sets for record in each]
    assert [record.offset for record in found] == list(range(10, 610))
    assert [record.value for record in found] == [record.value for record in given]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_is_full_before_the_next_begins(magic: int) -> None:
    given = [Record(bytes(i * 37 % 200), b"key", timestamp=i) for i in range(500)]
    sets = filled(given, magic, 0, 1000)
    for left, right in pairwise(sets):
        first = next(iter(right))
        assert written([*left, first], magic).size_in_bytes > 1000


def test_compressed_batches_get_fuller_as_the_ratio_is_learnt() -> None:
    given = [Record(b"a" * 150, b"key", timestamp=i) for i in range(60_000)]
    counts = [each.headers()["records_count"][0] for each in filled(given, 2, 4, 16384)]
    assert counts[0] == pytest.approx(100, rel=0.1)
    assert counts[-2] > 2 * counts[0]


@every_format
def test_a_record_too_large_for_any_batch_has_one_of_its_own(magic: int, codec: int) -> None:
    draw = random.Random(2)
    given = [Record(b"small"), Record(draw.randbytes(5000)), Record(b"small")]
    sets = filled(given, magic, codec, 200)
    assert [[record.offset for record in each] for each in sets] == [[0], [1], [2]]
    assert sets[1].size_in_bytes > 200


def test_sequences_run_on_from_batch_to_batch_and_begin_again_at_0() -> None:
    given = [Record(bytes(100))] * 50
    sets = filled(given, 2, 0, 500, producer_id=9, producer_epoch=1, base_sequence=2**31 - 20)
    batches = [next(each.batches()) for each in sets]
    expected = 2**31 - 20
    for batch in batches:
        assert batch.base_sequence == expected
        expected = (batch.last_sequence + 1) % 2**31
    assert expected == 30


def test_no_records_make_no_batches() -> None:
    assert list(batches_of_records([])) == []
