"""Log entries in a file: the cases of Kafka's own tests of FileRecords and its input stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import ByteBufferMessageSet, FileMessageSet
from kafkalog.errors import CorruptRecordError
from kafkalog.storage.files.readable_file import ReadableFile
from tests.helpers.reading import batch_fields, outcome, record_fields
from tests.reference.compression import GZIP
from tests.reference.encode import (
    FORMATS,
    LegacyMessage,
    PlainRecord,
    V2Batch,
    entries,
    records,
)

Write = Callable[[bytes], FileMessageSet]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Puts bytes into a file and opens it."""

    def written(data: bytes) -> FileMessageSet:
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(data)
        return FileMessageSet(path)

    return written


def one(offset: int, timestamp: int = 1000, epoch: int = -1, value: bytes = b"v", magic: int = 2) -> bytes:
    """An entry of one record."""
    record = PlainRecord(offset, timestamp, b"k", value)
    if magic < 2:
        return LegacyMessage(record, magic).encoded()
    return V2Batch([record], partition_leader_epoch=epoch).encoded()


def spanning(first: int, *offsets: int) -> bytes:
    """A batch whose base offset is `first`, with records at `offsets`."""
    return V2Batch([PlainRecord(offset) for offset in offsets], base_offset=first).encoded()


# --- iterating


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_a_torn_second_entry_is_the_end_and_no_error(write: Write, magic: int, codec: int) -> None:
    whole = entries(records(b"a"), magic, codec)
    messages = write(whole + entries(records(b"b", offset=1), magic, codec)[:-1])
    assert [batch.last_offset for batch in messages.batches()] == [0]
    assert [record.value for record in messages] == [b"a"]
    assert (messages.end_of_data.kind.name, messages.end_of_data.position) == ("TORN", len(whole))
    assert messages.valid_bytes == len(whole)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_a_file_is_read_as_memory_is(write: Write, magic: int, codec: int) -> None:
    data = b"".join(entries(records(b"a", None, offset=offset), magic, codec) for offset in (0, 2))
    messages, in_memory = write(data), ByteBufferMessageSet(data)
    assert list(map(batch_fields, messages.batches())) == list(map(batch_fields, in_memory.batches()))
    assert list(map(record_fields, messages)) == list(map(record_fields, in_memory))
    assert messages.headers().tolist() == in_memory.headers().tolist()


def test_every_field_of_a_header_is_read(write: Write) -> None:
    data = V2Batch(
        records(b"a"), producer_id=83843, producer_epoch=15, base_sequence=234, partition_leader_epoch=9832, flags=0x10
    ).encoded()
    (batch,) = write(data).batches()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (83843, 15, 234)
    assert (batch.partition_leader_epoch, batch.is_transactional, batch.is_control) == (9832, True, False)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (2**31 - 1, 2**31 - 1), (2**40, None)])
def test_a_range_without_bytes_holds_no_entry(write: Write, start: int, end: int | None) -> None:
    path = write(one(0)).path
    messages = FileMessageSet(path, start=start, end=end)
    assert list(messages.batches()) == []
    assert messages.size_in_bytes == 0


@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4), (0, -1)])
def test_an_invalid_range_is_refused(write: Write, start: int, end: int | None) -> None:
    path = write(one(0)).path
    with pytest.raises(ValueError, match=r"(start|end) is -?\d+ bytes"):
        FileMessageSet(path, start=start, end=end)


@pytest.mark.parametrize("stray", [0, 2, 4, 5, 6])
def test_stray_bytes_at_the_end_hide_no_entry(write: Write, stray: int) -> None:
    data = one(0) + one(1) + one(2)
    messages = write(data + b"\x05" * stray)
    assert [record.offset for record in messages] == [0, 1, 2]
    assert messages.valid_bytes == len(data)
    assert messages.size_in_bytes == len(data) + stray


def test_a_preallocated_tail_is_the_end_and_no_error(write: Write) -> None:
    messages = write(one(0) + bytes(1 << 20))
    assert [record.offset for record in messages] == [0]
    assert (messages.end_of_data.kind.name, messages.end_of_data.position) == ("ZEROED", len(one(0)))
    assert messages.size_in_bytes == len(one(0)) + (1 << 20)


def test_a_batch_larger_than_the_largest_allowed_is_damage(write: Write) -> None:
    small, large = one(0), one(1, value=bytes(100))
    batches = write(small + large).batches(max_message_size=len(small) - 12)
    assert next(batches).last_offset == 0
    with pytest.raises(CorruptRecordError) as error:
        next(batches)
    assert (error.value.position, error.value.expected, error.value.found) == (
        len(small),
        len(small) - 12,
        len(large) - 12,
    )


def test_batches_are_read_from_a_position_on(write: Write) -> None:
    messages = write(one(0) + one(1) + one(2))
    assert [(batch.last_offset, batch.position) for batch in messages.batches(len(one(0)))] == [
        (1, len(one(0))),
        (2, 2 * len(one(0))),
    ]


def test_a_file_can_be_iterated_many_times_at_once(write: Write) -> None:
    messages = write(one(0) + one(1))
    readers = [iter(messages) for _ in range(3)]
    assert [[next(reader).offset for reader in readers] for _ in range(2)] == [[0, 0, 0], [1, 1, 1]]


def test_a_file_that_grows_is_read_as_far_as_it_has_grown(write: Write) -> None:
    messages = write(one(0) + one(1)[:20])
    assert [record.offset for record in messages] == [0]
    with Path(messages.path).open("ab") as file:
        file.write(one(1)[20:] + one(2))
    assert [record.offset for record in messages] == [0, 1, 2]
    assert messages.end_of_data.kind.name == "END"


def test_a_file_cut_while_it_is_read_does_not_kill_the_process(write: Write) -> None:
    """Leaders change and followers cut their logs; touching a mapped page that is gone would end the process."""
    data = b"".join(one(offset, value=bytes(3000)) for offset in range(2000))
    messages = write(data)
    reader = iter(messages)
    assert next(reader).offset == 0
    with Path(messages.path).open("r+b") as file:
        file.truncate(len(one(0, value=bytes(3000))) * 3)
    found = outcome(reader)
    assert found.offsets == list(range(1, 1 + len(found.offsets)))
    assert found.error is None or found.error.path == messages.path
    assert [record.offset for record in messages] == [0, 1, 2]


def test_batches_and_columns_outlive_the_file(write: Write) -> None:
    with write(one(0) + one(1)) as messages:
        batch, *_ = messages.batches()
        columns, *_ = messages.columns()
    Path(messages.path).unlink()
    assert [record.value for record in batch] == [b"v"]
    assert columns.value(1) == b"v"


# --- slices


def test_a_slice_of_exactly_one_batch_holds_it_and_one_byte_less_holds_none(write: Write) -> None:
    messages = write(one(0) + one(1) + one(2))
    size = len(one(0))
    assert [batch.last_offset for batch in messages.read(size, size).batches()] == [1]
    assert list(messages.read(size, size - 1).batches()) == []
    assert [batch.last_offset for batch in messages.read(size, 2**40).batches()] == [1, 2]


def test_a_slice_of_a_slice_is_a_slice_of_the_file(write: Write) -> None:
    messages = write(one(0) + one(1) + one(2))
    size = len(one(0))
    inner = messages.read(size, 2 * size).read(size, size)
    assert [(batch.last_offset, batch.position) for batch in inner.batches()] == [(2, 2 * size)]
    assert inner.size_in_bytes == size
    assert messages.read(size, size).read(0, 2**40).size_in_bytes == size


def test_a_slice_past_the_end_is_refused(write: Write) -> None:
    messages = write(one(0))
    assert messages.read(len(one(0)), 5).size_in_bytes == 0
    for position, length in [(len(one(0)) + 1, 5), (-1, 5), (0, -1)]:
        with pytest.raises(ValueError, match=r"(position|length) is -?\d+ bytes"):
            messages.read(position, length)


def test_a_slice_has_an_end_of_its_own(write: Write) -> None:
    messages = write(one(0) + one(1))
    part = messages.read(0, len(one(0)) + 17)
    assert (part.end_of_data.kind.name, part.end_of_data.position) == ("TORN", len(one(0)))
    assert part.valid_bytes == len(one(0))


# --- looking up


def test_search_gives_the_batch_that_holds_an_offset_or_the_next_one(write: Write) -> None:
    sizes = [len(one(0)), len(one(1, value=b"longer")), len(one(2))]
    messages = write(one(0) + one(1, value=b"longer") + one(2) + one(50))
    assert [messages.search(offset) for offset in (0, 1, 2)] == [
        (0, 0, sizes[0]),
        (1, sizes[0], sizes[1]),
        (2, sum(sizes[:2]), sizes[2]),
    ]
    assert {messages.search(offset) for offset in range(3, 51)} == {(50, sum(sizes), len(one(50)))}
    assert messages.search(51) is None


def test_search_starts_at_the_given_position(write: Write) -> None:
    messages = write(one(0) + one(1) + one(2))
    found = messages.search(0, start=len(one(0)))
    assert found is not None
    assert (found.offset, found.position) == (1, len(one(0)))


@pytest.mark.parametrize(
    ("batches", "target", "place"),
    [
        pytest.param([(5, 5), (10, 10)], 5, 0, id="a base offset"),
        pytest.param([(3, 3, 5)], 5, 0, id="a last offset"),
        pytest.param([(3, 3, 5)], 4, 0, id="an offset between, gone by compaction"),
        pytest.param([(5, 5, 12), (15, 15, 20)], 20, 1, id="the last of the second"),
        pytest.param([(5, 5, 12), (15, 15, 20)], 10, 0, id="one in the first"),
        pytest.param([(5, 5, 12), (15, 15, 20)], 13, 1, id="one between two batches"),
        pytest.param([(5, 5), (8, 8, 9)], 10, None, id="one behind all"),
        pytest.param([(5, 5), (8, 8, 12)], 10, 1, id="one in a batch of few records"),
        pytest.param([(5, 5), (8, 10, 12)], 10, 1, id="one in a batch that lost its first record"),
    ],
)
def test_search_finds_the_first_batch_that_reaches_an_offset(
    write: Write, batches: list[tuple[int, ...]], target: int, place: int | None
) -> None:
    encoded = [spanning(*batch) for batch in batches]
    found = write(b"".join(encoded)).search(target)
    if place is None:
        assert found is None
    else:
        assert found is not None
        assert found.position == sum(map(len, encoded[:place]))
        assert found.offset == batches[place][0]


@pytest.mark.parametrize("wanted", [2**63, 2**80])
def test_searching_for_numbers_beyond_64_bits_finds_no_batch_above_and_the_first_below(
    write: Write, wanted: int
) -> None:
    message_set = write(V2Batch(records(b"a", offset=4)).encoded())
    assert message_set.search(wanted) is None
    assert message_set.search_timestamp(0, starting_offset=wanted) is None
    assert message_set.search(-wanted - 1) == message_set.search(4)


@pytest.mark.parametrize("wanted", [2**63, -(2**63) - 1])
def test_searching_for_a_time_beyond_64_bits_is_refused(write: Write, wanted: int) -> None:
    with pytest.raises(ValueError, match="timestamp is"):
        write(V2Batch(records(b"a")).encoded()).search_timestamp(wanted)


def test_search_finds_the_wrapper_that_holds_an_offset(write: Write) -> None:
    first, second = (entries(records(b"a", b"b", b"c", offset=offset), 1, GZIP) for offset in (10, 20))
    found = write(first + second).search(21)
    assert found is not None
    assert (found.offset, found.position, found.size) == (20, len(first), len(second))


@pytest.mark.parametrize(("timestamp", "expected"), [(9, (10, 5, 0)), (10, (10, 5, 0)), (11, (11, 6, 1)), (12, None)])
def test_search_by_time_gives_the_first_record_that_is_not_earlier(
    write: Write, timestamp: int, expected: tuple[int, int, int] | None
) -> None:
    messages = write(one(5, timestamp=10, epoch=0) + one(6, timestamp=11, epoch=1))
    assert messages.search_timestamp(timestamp) == expected


@pytest.mark.parametrize("timestamp", [-1, 0, 9, 12])
def test_search_by_time_finds_nothing_where_there_are_no_times(write: Write, timestamp: int) -> None:
    assert write(one(5, magic=0) + one(6, magic=0)).search_timestamp(timestamp) is None


def test_search_by_time_gives_a_leader_epoch_only_where_there_is_one(write: Write) -> None:
    assert write(one(5, timestamp=10, magic=1)).search_timestamp(9) == (10, 5, None)
    assert write(one(5, timestamp=10)).search_timestamp(9) == (10, 5, None)


def test_search_by_time_looks_inside_a_batch(write: Write) -> None:
    batch = V2Batch([PlainRecord(0, 10), PlainRecord(1, 30), PlainRecord(2, 20)], codec=GZIP).encoded()
    messages = write(one(9) + batch)
    assert messages.search_timestamp(15, start=len(one(9))) == (30, 1, None)
    assert messages.search_timestamp(15, start=len(one(9)), starting_offset=2) == (20, 2, None)


# --- opening


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        FileMessageSet(tmp_path / "missing.log")


def test_an_empty_file_holds_nothing(write: Write) -> None:
    messages = write(b"")
    assert list(messages) == []
    assert list(messages.columns(threads=2)) == []
    assert (messages.end_of_data.kind.name, messages.size_in_bytes, messages.valid_bytes) == ("END", 0, 0)
    assert messages.search(0) is None
    assert messages.search_timestamp(0) is None


# --- how much is read


@pytest.mark.parametrize("value_bytes", [1000, 100_000, 600_000, 1_100_000, 2_200_000])
def test_batches_of_every_size_are_read_once(write: Write, value_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of small batches, one is read twice for each megabyte: the one that does not end in it."""
    number = 6_000_000 // value_bytes
    batches = [entries(records(bytes(value_bytes), offset=i), 2) for i in range(number)]
    messages, read, view = write(b"".join(batches)), list[int](), ReadableFile.view

    def noted(self: ReadableFile, position: int, length: int) -> memoryview:
        read.append(length)
        return view(self, position, length)

    monkeypatch.setattr(ReadableFile, "view", noted)
    assert sum(1 for _ in messages.batches()) == number
    assert sum(map(len, batches)) <= sum(read) <= 1.15 * sum(map(len, batches))
