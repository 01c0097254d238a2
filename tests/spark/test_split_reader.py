"""Splits become Arrow batches that Spark takes: their columns, sizes and values, and what a vanished file means."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, Record
from kafkalog.errors import ChangedWhileReading, CorruptRecordError, InvalidRecordError
from kafkalog.record.control import ControlRecordType
from kafkalog.spark import plan_splits, read_records, read_split
from kafkalog.spark.schema import arrow_schema, columns_of
from kafkalog.storage.files import readable_file
from kafkalog.storage.files.readable_file import MappedFile, ReadableFile
from kafkalog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tests.helpers.partition_dirs import NOW, batch, marker, write_segments
from tests.helpers.spark_logs import log_of, offsets, options, rows, splits
from tests.reference.encode import with_right_v2_checksum

COLUMNS = [column.source for column in columns_of(None, options("/", includeHeaders=True, includeMetadata=True))]


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return log_of(tmp_path_factory.mktemp("data") / "orders-0")


def written(directory: Path, *batches: bytes) -> Path:
    return write_segments(directory / "orders-0", {0: batches})


def one_batch(*records: Record, **settings: Any) -> bytes:
    return bytes(ByteBufferMessageSet.from_records(records, **settings).buffer)


# --- columns


def test_every_batch_has_the_schema_that_was_asked_for(orders: Path) -> None:
    parsed = options(orders, includeHeaders=True, includeMetadata=True)
    for wanted in (None, ["offset"], [("value", True), ("offset", False)], COLUMNS[::-1]):
        schema = arrow_schema(columns_of(wanted, parsed))
        found = [each for split in plan_splits(parsed) for each in read_split(split, wanted, parsed)]
        assert found
        for each in found:
            each.validate(full=True)
            assert each.schema.equals(schema, check_metadata=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True))
def test_any_columns_in_any_order_hold_what_they_hold_among_all(orders: Path, wanted: list[str]) -> None:
    everything = rows(orders, columns=COLUMNS)
    assert rows(orders, columns=wanted) == [{name: row[name] for name in wanted} for row in everything]


def test_a_record_has_all_columns(tmp_path: Path) -> None:
    record = Record(b"v", None, (("h", b"1"), ("h", None)), NOW)
    directory = written(
        tmp_path, batch(0), one_batch(record, base_offset=1, producer_id=7, producer_epoch=2, base_sequence=40)
    )
    assert rows(directory, includeHeaders=True, includeMetadata=True)[1] == {
        "key": None,
        "value": b"v",
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "timestamp": dt.datetime.fromtimestamp(NOW / 1000, dt.UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        "producerId": 7,
        "producerEpoch": 2,
        "sequence": 40,
        "leaderEpoch": -1,
        "isControl": False,
        "file": str(directory / f"{0:020d}.log"),
        "position": len(batch(0)),
    }


def test_sequences_go_around_after_the_largest(tmp_path: Path) -> None:
    data = one_batch(*[Record(b"")] * 3, producer_id=7, producer_epoch=0, base_sequence=2**31 - 2)
    assert [row["sequence"] for row in rows(written(tmp_path, data), columns=["sequence"])] == [2**31 - 2, 2**31 - 1, 0]


def test_a_record_without_headers_has_null_and_keys_that_are_no_text_are_mended(tmp_path: Path) -> None:
    data = one_batch(Record(b"v", None, (("key", b""),)), Record(b"v")).replace(b"key", b"k\xff\xfe")
    found = rows(written(tmp_path, with_right_v2_checksum(data)), columns=["headers"])
    assert found == [{"headers": [{"key": "k\ufffd\ufffd", "value": b""}]}, {"headers": None}]


def test_a_message_without_a_time_has_minus_one_millisecond_as_in_sparks_source(tmp_path: Path) -> None:
    (row,) = rows(written(tmp_path, one_batch(Record(b"v"), magic=0)))
    assert row["timestamp"] == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, dt.UTC)
    assert row["timestampType"] == -1


def test_a_time_that_microseconds_cannot_hold_is_an_error_that_names_the_record(tmp_path: Path) -> None:
    directory = written(tmp_path, one_batch(Record(b"v", timestamp=2**62)))
    with pytest.raises(
        InvalidRecordError, match=r"orders-0/0+\.log: position 0: the timestamp of the record at offset 0"
    ):
        rows(directory)
    assert rows(directory, columns=["offset"]) == [{"offset": 0}]


def test_null_in_a_column_declared_not_null_is_refused(tmp_path: Path) -> None:
    directory = written(tmp_path, one_batch(Record(b"a", b"k"), Record(b"b")))
    with pytest.raises(ValueError, match="column key is not nullable, and the record at offset 1 of orders-0 has null"):
        rows(directory, columns=[("key", False)])
    assert rows(directory, columns=[("value", False)]) == [{"value": b"a"}, {"value": b"b"}]


# --- sizes


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.ZSTD])
def test_batches_have_at_most_8192_rows_and_about_four_megabytes(tmp_path: Path, codec: CompressionType) -> None:
    many = one_batch(*[Record(b"")] * 20_000, compression_type=codec)
    large = one_batch(
        *[Record(bytes(1 << 20), None)] * 9, Record(bytes(9 << 20)), base_offset=20_000, compression_type=codec
    )
    parsed = options(written(tmp_path, many, large))
    found = [each for split in plan_splits(parsed) for each in read_split(split, None, parsed)]
    assert sum(each.num_rows for each in found) == 20_010
    assert max(each.num_rows for each in found) <= 8192
    assert all(each.nbytes < 4.5 * 2**20 or each.num_rows == 1 for each in found)


def test_nothing_to_read_is_no_batch() -> None:
    assert list(read_split(None)) == []
    assert list(read_records(None)) == []


def test_windows_smaller_than_batches_give_the_same_bytes(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readable_file, "WINDOW_BYTES", 100)
    assert offsets(orders, splitBytes=3000) == list(range(240))


def test_no_more_of_a_file_is_mapped_than_a_window(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 30)
    mapped = MappedFile(path)
    before = _mapped_bytes()
    for position in range(0, 1 << 30, 100 << 20):
        assert len(mapped.view(position, 1000)) == 1000
        assert _mapped_bytes() - before < 2 * readable_file.WINDOW_BYTES
    mapped.close()


def _mapped_bytes() -> int:
    status = Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("no /proc to count mapped bytes in")
    return int(status.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


# --- transactions


def test_aborted_transactions_are_left_out_of_committed_records_and_the_open_one_ends_them(tmp_path: Path) -> None:
    def of(producer: int, offset: int) -> bytes:
        return batch(
            offset,
            [b"%d" % producer],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=offset,
            is_transactional=True,
        )

    log = [
        of(1, 0),
        of(2, 1),
        batch(2),
        of(1, 3),
        marker(4, 1, ControlRecordType.ABORT),
        of(2, 5),
        marker(6, 2, ControlRecordType.COMMIT),
        of(3, 7),
        batch(8),
    ]
    directory = write_segments(tmp_path / "orders-0", {0: log[:4], 4: log[4:]})
    TransactionIndex(directory / f"{4:020d}.txnindex", 4).append(AbortedTxn(1, 0, 4, 1))
    committed = {"kafka.isolation.level": "read_committed"}
    for size in (1 << 20, 80):
        assert offsets(directory, splitBytes=size) == [0, 1, 2, 3, 5, 7, 8]
        assert offsets(directory, splitBytes=size, **committed) == [1, 2, 5]
    assert offsets(directory, includeControl=True, **committed) == [1, 2, 4, 5, 6]
    control = rows(directory, columns=["offset", "isControl"], includeControl=True)
    assert [row["offset"] for row in control if row["isControl"]] == [4, 6]


# --- files that go


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = log_of(tmp_path / "orders-0")
    (first, second), parsed = splits(directory), options(directory)
    Path(first.path).unlink()
    with pytest.raises(FileNotFoundError, match=first.path):
        list(read_split(first, None, parsed))
    tolerant = options(directory, failOnDataLoss=False)
    assert list(read_split(first, None, tolerant)) == []
    assert f"{first.path} of orders-0 is lost" in caplog.text
    assert [record.offset for record in read_records(second, tolerant)] == list(range(120, 240))


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_shrank_is_an_error_that_names_it(tmp_path: Path, which: int) -> None:
    directory = log_of(tmp_path / "orders-0")
    split = splits(directory)[which]
    os.truncate(split.path, 1000)
    with pytest.raises(ChangedWhileReading, match=rf"{split.path}: .*not as long as it was .* found 1000") as caught:
        list(read_split(split, None, options(directory)))
    assert "failOnDataLoss=false" in caught.value.__notes__[0]
    left = [record.offset for record in read_records(split, options(directory, failOnDataLoss=False))]
    assert left == list(range(which * 120, which * 120 + len(left)))
    assert 0 < len(left) < 12


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_shrinks_while_it_is_read_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    monkeypatch.setattr("kafkalog.fsck.walk.RUN_BYTES", 1000)
    directory = log_of(tmp_path / "orders-0")
    split = splits(directory)[which]
    for fail in (True, False):
        reading = read_records(split, options(directory, failOnDataLoss=fail))
        first = next(reading)
        data = Path(split.path).read_bytes()
        os.truncate(split.path, 4000)
        if fail:
            with pytest.raises(ChangedWhileReading, match=split.path):
                list(reading)
        else:
            assert [first.offset + 1 + i for i in range(3)] == [next(reading).offset for _ in range(3)]
            assert len(list(reading)) < 60
        Path(split.path).write_bytes(data)


@pytest.mark.parametrize("which", [0, 1])
def test_a_file_that_shrinks_within_one_run_of_batches_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    monkeypatch.setattr("kafkalog.record.decoding.RECORDS_A_PIECE", 6)
    directory = log_of(tmp_path / "orders-0", batches=400)
    parsed = options(directory)
    split = splits(directory)[which]
    reading, records = read_split(split, ["offset", "value"], parsed), read_records(split, parsed)
    assert next(reading).num_rows == 6
    next(records)
    os.truncate(split.path, 4000)
    assert [next(records).offset % 1200 for _ in range(5)] == [1, 2, 3, 4, 5]
    if which == 0:
        for rest in (reading, records):
            with pytest.raises(ChangedWhileReading, match=split.path):
                list(rest)


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_size_field_takes_no_memory_before_the_checksum_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    directory = log_of(tmp_path / "orders-0")
    path = splits(directory)[which].path
    data = bytearray(Path(path).read_bytes())
    size = int.from_bytes(data[8:12], "big") + 12
    data[2 * size + 8 : 2 * size + 12] = (8000).to_bytes(4, "big")
    Path(path).write_bytes(data)
    monkeypatch.setattr("kafkalog.fsck.walk.RUN_BYTES", 500)
    loaded: list[int] = []
    monkeypatch.setattr(ReadableFile, "view", noted(ReadableFile.view, loaded))
    monkeypatch.setattr(MappedFile, "view", noted(MappedFile.view, loaded))
    monkeypatch.setattr("kafkalog.fsck.batch_search._PIECE_BYTES", 1000)
    monkeypatch.setattr("kafkalog.fsck.batch_search.WINDOW_BYTES", 1000)
    monkeypatch.setattr("kafkalog.fsck.range_checksums.BLOCK_BYTES", 500)
    monkeypatch.setattr("kafkalog.fsck.range_checksums._READ_BYTES", 1000)
    with pytest.raises(
        CorruptRecordError, match=rf"{path}: position {2 * size}: the checksum of a batch does not hold"
    ):
        offsets(directory)
    assert max(loaded) < 2000
    assert offsets(directory, onCorrupt="skip") == [n for n in range(240) if n - 120 * which not in (6, 7, 8)]


def test_a_large_batch_whose_checksum_holds_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkalog.fsck.walk.RUN_BYTES", 500)
    directory = written(tmp_path, batch(0), batch(1, [b"x" * 5000]), batch(2))
    assert offsets(directory) == [0, 1, 2]


def noted(load: Any, lengths: list[int]) -> Any:
    def loading(self: Any, position: int, length: int) -> Any:
        lengths.append(length)
        return load(self, position, length)

    return loading


def test_a_segment_replaced_since_planning_is_an_error(tmp_path: Path) -> None:
    directory = log_of(tmp_path / "orders-0")
    split = splits(directory)[0]
    Path(split.path).write_bytes(Path(split.path).read_bytes() + batch(1000))
    with pytest.raises(ChangedWhileReading, match="not as long as it was"):
        list(read_split(split, None, options(directory)))


# --- positions and offsets that cannot be


def test_a_split_that_begins_inside_a_batch_goes_on_at_the_next_one(
    orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (split, *_) = splits(orders)
    moved = type(split)(**{name: getattr(split, name) for name in split.__slots__} | {"start_pos": 5})
    assert [record.offset for record in read_records(moved, options(orders))] == list(range(3, 120))
    assert "no batch begins at 5" in caplog.text


def test_an_offset_that_is_not_of_the_segment_is_damage(tmp_path: Path) -> None:
    directory = write_segments(tmp_path / "orders-0", {0: [batch(0), batch(77)], 10: [batch(10)]})
    with pytest.raises(
        CorruptRecordError, match=r"an offset that is not of this segment \(expected 0\.\.9, found 77\)"
    ):
        rows(directory)


def test_an_offset_behind_the_end_of_the_active_segment_is_damage_too(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecordError, match=r"not of this segment \(expected 0\.\.2, found 77\)"):
        rows(write_segments(tmp_path / "orders-0", {0: [batch(0), batch(77), batch(2)]}))
