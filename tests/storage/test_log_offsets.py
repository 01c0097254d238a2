"""Offsets that a log holds to, whoever sends or asks: they rise, and there is always one for the next record."""

import copy
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kafkalog import ByteBufferMessageSet, LogManager, Record, WritableLog
from kafkalog.errors import InvalidRecordError, OffsetsOutOfOrderError
from tests.helpers.logs import batch, fill, opened

LAST = 2**63 - 1


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def sent(base: int, last: int, count: int = 1) -> bytes:
    """A batch whose header says that it ends at an offset, be it so or not; its checksum holds."""
    data = bytearray(batch(*[b"x"] * count, base_offset=base, partition_leader_epoch=0).buffer)
    data[23:27] = struct.pack(">i", last - base)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return bytes(data)


def refused(log: WritableLog, data: bytes, error: type[Exception]) -> None:
    before = log.log_end_offset, log.high_watermark, log.segments[-1].size
    with pytest.raises(error):
        log.append_as_follower(ByteBufferMessageSet(data))
    assert (log.log_end_offset, log.high_watermark, log.segments[-1].size) == before
    fill(log, 1)
    log.update_high_watermark(log.log_end_offset)
    assert [record.offset for record in log] == list(range(log.log_end_offset))


@pytest.mark.parametrize("last", [4, 2, 0])
def test_a_batch_that_ends_before_it_begins_is_refused_before_a_byte_is_written(directory: Path, last: int) -> None:
    with opened(directory) as log:
        fill(log, 5)
        refused(log, sent(5, last), InvalidRecordError)


def test_a_batch_with_more_records_than_offsets_is_refused(directory: Path) -> None:
    with opened(directory) as log:
        refused(log, sent(0, 0, count=5), InvalidRecordError)


def test_a_batch_that_compaction_has_thinned_out_has_more_offsets_than_records(directory: Path) -> None:
    with opened(directory) as log:
        log.append_as_follower(ByteBufferMessageSet(sent(0, 9)))
        assert log.log_end_offset == 10


def test_batches_of_one_append_that_overlap_are_refused(directory: Path) -> None:
    with opened(directory) as log:
        refused(log, sent(0, 4, count=5) + sent(3, 7, count=5), OffsetsOutOfOrderError)


def test_a_batch_behind_which_no_record_has_an_offset_is_refused(directory: Path) -> None:
    with opened(directory) as log:
        refused(log, sent(LAST, LAST), InvalidRecordError)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_log_that_is_written_to_is_not_copied(directory: Path, copied: Callable[[Any], Any]) -> None:
    with opened(directory) as log:
        with pytest.raises(TypeError, match="one object alone"):
            copied(log)
        fill(log, 1)


def test_a_partition_that_is_deleted_and_created_again_begins_at_0(tmp_path: Path) -> None:
    with LogManager(tmp_path, "a") as manager:
        log = manager.create("t-0")
        log.append([Record(b"x")] * 10)
        log.delete_records(10)
    with LogManager(tmp_path, "a") as manager:
        manager.delete("t-0")
        log = manager.create("t-0")
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)


@pytest.mark.parametrize(
    ("offset", "error"), [(2**63 - 1, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_a_log_begins_only_where_there_is_an_offset_to_follow(
    tmp_path: Path, offset: int, error: type[Exception]
) -> None:
    with opened(tmp_path / "t-0") as log:
        fill(log, 3)

        with pytest.raises(error, match="offset"):
            log.truncate_fully_and_start_at(offset)

        assert (log.log_start_offset, log.log_end_offset) == (0, 3)
