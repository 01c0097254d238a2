"""Columns: arrays that say where in a buffer the records lie, and the records they stand for."""

from __future__ import annotations

import random
import threading
import tracemalloc
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, FileMessageSet, Record, RecordColumns
from kafkalog._speedups import decompress as compression
from kafkalog.errors import CorruptRecordError, DecompressedSizeError, InvalidRecordError
from kafkalog.record.decoding import LEAST_FOR_A_THREAD
from tests.helpers.equivalence import assert_same_reading
from tests.reference.codes import FaultCode
from tests.reference.compression import GZIP, LZ4, NONE, ZSTD
from tests.reference.encode import PlainRecord, V2Batch, entries, records, varint

WRITTEN = [
    PlainRecord(0, 10, b"k0", b"v0", ((b"h", b"x"), (b"", None))),
    PlainRecord(2, 20, None, b""),
    PlainRecord(3, 30, b"", None),
]


def columns_of(data: bytes) -> RecordColumns:
    (columns,) = ByteBufferMessageSet(data).columns()
    return columns


@pytest.fixture(params=[0, GZIP, LZ4])
def columns(request: pytest.FixtureRequest) -> RecordColumns:
    return columns_of(V2Batch(WRITTEN, request.param).encoded())


def test_arrays_have_the_types_and_lengths_that_they_should(columns: RecordColumns) -> None:
    fields = ["key", "value", "headers"]
    names = ["offset", "timestamp", *(f"{field}_{part}" for field in fields for part in ("start", "length"))]
    arrays = [getattr(columns, name) for name in names]
    assert {(array.dtype, array.shape) for array in arrays} == {(np.dtype(np.int64), (3,))}
    assert (columns.batch.dtype, columns.batch.shape) == (np.dtype(np.int32), (3,))
    assert len(columns) == 3


def test_starts_and_lengths_lead_to_the_bytes(columns: RecordColumns) -> None:
    assert columns.offset.tolist() == [0, 2, 3]
    assert columns.timestamp.tolist() == [10, 20, 30]
    assert columns.key_length.tolist() == [2, -1, 0]
    assert columns.value_length.tolist() == [2, 0, -1]
    assert bytes(columns.buffer[columns.key_start[0] :][:2]) == b"k0"
    assert bytes(columns.buffer[columns.value_start[0] :][:2]) == b"v0"
    assert (columns.headers_length > 0).tolist() == [True, False, False]


def test_records_are_made_of_columns_one_by_one_or_all(columns: RecordColumns) -> None:
    expected = [
        Record(b"v0", b"k0", [("h", b"x"), ("", None)], 10, offset=0),
        Record(b"", None, (), 20, offset=2),
        Record(None, b"", (), 30, offset=3),
    ]
    assert list(columns) == expected
    assert [columns[i] for i in range(3)] == expected
    assert [columns.record(i) for i in range(3)] == expected
    assert [(columns.key(i), columns.value(i), columns.headers(i)) for i in range(3)] == [
        (record.key, record.value, record.headers) for record in expected
    ]


def test_sequences_are_those_of_the_records(columns: RecordColumns) -> None:
    assert columns.sequence.tolist() == [record.sequence for record in columns]
    settings: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31 - 2}
    (wrapped,) = ByteBufferMessageSet.from_records([Record(b"x")] * 4, **settings).columns()
    assert wrapped.sequence.tolist() == [2**31 - 2, 2**31 - 1, 0, 1] == [record.sequence for record in wrapped]


def test_a_slice_of_columns_is_columns(columns: RecordColumns) -> None:
    assert [record.offset for record in columns[1:]] == [2, 3]
    assert [record.offset for record in columns[::-1]] == [3, 2, 0]
    assert [record.offset for record in columns[1:2][0:1]] == [2]
    assert len(columns[3:]) == 0
    assert columns[-1].offset == 3


@pytest.mark.parametrize("i", [3, -4, 10**9])
def test_a_record_that_is_not_there_is_an_index_error(columns: RecordColumns, i: int) -> None:
    for ask in (columns.record, columns.__getitem__, columns.key, columns.value, columns.headers):
        with pytest.raises(IndexError):
            ask(i)


def test_the_batch_of_each_record_is_a_row_of_the_header_table() -> None:
    columns = columns_of(entries(records(b"a", b"b"), 2) + entries(records(b"c", offset=2), 1, GZIP))
    assert columns.batch.tolist() == [0, 0, 1]
    assert columns.batches["magic"][columns.batch].tolist() == [2, 2, 1]


def test_the_buffer_cannot_be_written_through_columns(columns: RecordColumns) -> None:
    assert columns.buffer.readonly


def test_columns_come_in_chunks_whatever_the_number_of_records_in_a_batch() -> None:
    data = entries([PlainRecord(i, i, None, b"v") for i in range(3000)], 2)
    offsets = [columns.offset.tolist() for columns in ByteBufferMessageSet(data * 20).columns()]
    assert len(offsets) > 3
    assert list(chain.from_iterable(offsets)) == list(range(3000)) * 20


def one_record(offset: int, value: bytes) -> bytes:
    records = [Record(value)]
    return bytes(
        ByteBufferMessageSet.from_records(records, compression_type=CompressionType.ZSTD, base_offset=offset).buffer
    )


def batches_decompressed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which, from now on, the number of batches that are decompressed together is added."""
    made: list[int] = []
    real = compression.decompress_rows

    def decompress_rows(*arguments: Any) -> Any:
        found = real(*arguments)
        made.append(len(found[1]) - 1)
        return found

    monkeypatch.setattr("kafkalog.record.decoding.decompress_rows", decompress_rows)
    return made


def test_strongly_compressed_batches_are_not_decompressed_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.record.decoding.BYTES_A_PIECE", 80_000)
    data = b"".join(one_record(i, b"x" * 30_000) for i in range(20))
    pieces = list(ByteBufferMessageSet(data).columns())
    assert [len(each) for each in pieces] == [3, 3, 3, 3, 3, 3, 2]
    assert max(each.buffer.nbytes for each in pieces) <= 100_000
    assert [each.offset.tolist() for each in pieces] == [[*range(i, min(20, i + 3))] for i in range(0, 20, 3)]
    assert {record.value for record in ByteBufferMessageSet(data)} == {b"x" * 30_000}


def test_threads_decompress_no_more_ahead_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread decodes four chunks of the only batch range, and the next ones once the reader has come to them."""
    monkeypatch.setattr("kafkalog.record.decoding.BYTES_A_PIECE", 80_000)
    monkeypatch.setattr("kafkalog.record.message_set.MOST_WAITING_BYTES", 300_000)
    made = batches_decompressed(monkeypatch)
    chunks = ByteBufferMessageSet(b"".join(one_record(i, b"x" * 30_000) for i in range(40))).columns(threads=2)
    found = next(chunks).offset.tolist()
    assert (len(found), made) == (3, [3, 3, 3, 3])
    assert found + [offset for chunk in chunks for offset in chunk.offset.tolist()] == list(range(40))
    assert sum(made) == 40


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_damaged_batch_changes_nothing_in_the_reading_of_the_next_one(codec: CompressionType) -> None:
    whole = bytes(ByteBufferMessageSet.from_records([Record(b"v" * 5_000, b"k")] * 20, compression_type=codec))
    for size in range(70, len(whole), max(1, len(whole) // 20)):
        cut = whole[:8] + (size - 12).to_bytes(4, "big") + whole[12:size]
        with pytest.raises((CorruptRecordError, InvalidRecordError)):
            list(ByteBufferMessageSet(cut).columns(check_crcs=False))
        assert [record.value for record in ByteBufferMessageSet(whole)] == [b"v" * 5_000] * 20


def test_a_large_batch_is_decompressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches behind it do not change it either."""
    monkeypatch.setattr("kafkalog.record.decoding.BYTES_A_PIECE", 10_000)
    made = batches_decompressed(monkeypatch)
    large, small = one_record(0, b"x" * 30_000), one_record(1, b"y")
    first, *others = ByteBufferMessageSet(large + small + one_record(2, b"z" * 30_000)).columns()
    assert made == [1, 2]
    assert first.record(0).value == b"x" * 30_000
    assert [record.value for columns in others for record in columns] == [b"y", b"z" * 30_000]


def test_records_before_a_damaged_batch_of_the_same_chunk_are_given_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkalog.record.decoding.BYTES_A_PIECE", 1000)
    batches = [bytearray(one_record(i, b"x" * 600)) for i in range(9)]
    batches[7][-1] ^= 1
    found: list[int] = []
    with pytest.raises(CorruptRecordError, match=f"position {sum(map(len, batches[:7]))}: "):
        found.extend(record.offset for record in ByteBufferMessageSet(b"".join(batches)))
    assert found == [0, 1, 2, 3, 4, 5, 6]


def test_threads_change_neither_records_nor_their_order() -> None:
    data = b"".join(
        bytes(
            ByteBufferMessageSet.from_records(
                [Record(b"")] * 100, compression_type=CompressionType(i % 5), base_offset=i * 100
            ).buffer
        )
        for i in range(400)
    )
    for threads in (2, 3, 8):
        offsets = [columns.offset.tolist() for columns in ByteBufferMessageSet(data).columns(threads=threads)]
        assert list(chain.from_iterable(offsets)) == list(range(40_000))


@pytest.mark.parametrize(
    ("codec", "size", "in_thread"),
    [(LZ4, 2_000, False), (ZSTD, 500, False), (ZSTD, 2_000, True), (GZIP, 2_000, True), (NONE, 200, False)],
)
def test_small_batches_are_not_decoded_in_threads(
    monkeypatch: pytest.MonkeyPatch, codec: int, size: int, *, in_thread: bool
) -> None:
    """Passing the interpreter's lock from thread to thread takes longer than decompressing such a batch."""
    monkeypatch.setattr("kafkalog.record.decoding.LEAST_FOR_A_THREAD", LEAST_FOR_A_THREAD)
    data = entries([PlainRecord(0, 0, None, random.Random(7).randbytes(size))], 2, codec)
    chunks = ByteBufferMessageSet(data * 30).columns(threads=2)
    first = next(chunks)
    assert any(thread.name.startswith("kafkalog") for thread in threading.enumerate()) == in_thread
    assert len(first) + sum(map(len, chunks)) == 30


def test_threads_end_when_their_reader_goes_away() -> None:
    data = entries([PlainRecord(i, i, None, b"v" * 100) for i in range(3000)], 2, GZIP) * 50
    before = set(threading.enumerate())
    chunks = ByteBufferMessageSet(data).columns(threads=2)
    assert len(next(chunks)) > 0
    del chunks
    assert {thread for thread in threading.enumerate() if thread.is_alive()} <= before


@pytest.mark.slow
@pytest.mark.parametrize("threads", [None, 1, 2])
@pytest.mark.parametrize("codec", [0, LZ4])
def test_a_large_file_is_read_in_little_memory(tmp_path: Path, codec: int, threads: int | None) -> None:
    """100 MB of records; compressed, they take so little of the file that one batch range contains them all."""
    batch = entries([PlainRecord(i, i, None, bytes(1000)) for i in range(200)], 2, codec)
    path = tmp_path / "0.log"
    path.write_bytes(batch * 500)
    messages = FileMessageSet(path)
    tracemalloc.start()
    try:
        found = messages if threads is None else messages.columns(threads=threads)
        count = sum(1 if isinstance(each, Record) else len(each) for each in found)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 40_000_000


def test_the_first_records_of_a_large_log_come_before_the_last_are_read() -> None:
    sound = entries(records(b"a"), 2)
    messages = ByteBufferMessageSet(sound * 100_000 + b"\xff" * 100)
    assert [record.value for record in islice(messages, 1000)] == [b"a"] * 1000


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_records_chosen_are_those_and_in_their_order(chosen: list[bool]) -> None:
    columns = columns_of(V2Batch(records(*(b"%d" % n for n in range(12)))).encoded())
    found = columns.where(np.array(chosen))
    assert found.offset.tolist() == [n for n in range(12) if chosen[n]]
    assert [record.value for record in found] == [b"%d" % n for n in range(12) if chosen[n]]


def test_no_records_can_be_chosen_of_none() -> None:
    assert len(RecordColumns.empty().where(np.array([], bool))) == 0


def test_all_records_of_a_batch_are_refused_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.record.decoding.MOST_ARRAYS", 680)
    data = V2Batch(records(*[b"x"] * 12), ZSTD).encoded()
    (batch,) = ByteBufferMessageSet(data, decompression_limit=200).batches()
    with pytest.raises(DecompressedSizeError, match=r"position 0: .*more records.*at most 11, found more than"):
        batch.columns()
    assert len(list(batch)) == 12
    assert sum(map(len, ByteBufferMessageSet(data, decompression_limit=200).columns())) == 12


def _with_headers(count: int) -> bytes:
    body = bytes(3) + varint(-1) + varint(-1) + varint(count) + bytes(2 * count)
    return V2Batch(records_count=1, region=varint(len(body)) + body).encoded()


def test_a_record_of_more_headers_than_are_made_objects_is_refused_by_its_place() -> None:
    (record,) = ByteBufferMessageSet(_with_headers(2**18))
    assert len(record.headers) == 2**18
    data = _with_headers(2**18 + 1)
    with pytest.raises(DecompressedSizeError, match=r"more headers.*expected at most 262144, found 262145"):
        list(ByteBufferMessageSet(data))
    assert assert_same_reading(data) == (FaultCode.TOO_MANY_HEADERS, 0, 69, 2**18, 2**18 + 1)
