"""Damage in the offsets of a batch, which no checksum covers, and in its last offset, which may hide all others."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from kafkalog import Record
from kafkalog.errors import ChangedWhileReading, CorruptRecordError
from kafkalog.record.layout import BATCH_LAST_OFFSET_DELTA_AT
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from tests.helpers.broker_dirs import PLAIN, broker_dir

SEGMENT = f"{1152:020}.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A copy of a partition of 1,200 records, whose last segment has the offsets 1152..1196 and 1197..1199."""
    return broker_dir(tmp_path, PLAIN) / PLAIN


def flip(path: Path, position: int, mask: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def test_a_last_batch_that_ends_before_it_begins_does_not_hide_the_log_from_readers(partition: Path) -> None:
    flip(partition / SEGMENT, 5896 + BATCH_LAST_OFFSET_DELTA_AT, 0x80)
    with kafkalog.open(partition) as log:
        assert (log.log_end_offset, log.count()) == (1197, 1197)
        with pytest.raises(CorruptRecordError, match="position 5896: the checksum"):
            list(log)


def test_a_last_batch_that_ends_before_it_begins_refuses_appends_after_a_clean_stop(partition: Path) -> None:
    flip(partition / SEGMENT, 5896 + BATCH_LAST_OFFSET_DELTA_AT, 0x80)
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    with pytest.raises(CorruptRecordError, match="the last batch ends before its segment begins") as raised:
        kafkalog.open(partition, "a")
    assert (raised.value.path, raised.value.expected) == (str(partition / SEGMENT), "1152 or more")
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before


def test_recovery_cuts_a_last_batch_that_ends_before_it_begins(partition: Path) -> None:
    flip(partition / SEGMENT, 5896 + BATCH_LAST_OFFSET_DELTA_AT, 0x80)
    (partition.parent / CLEAN_SHUTDOWN_FILE).unlink()
    with kafkalog.open(partition, "a") as log:
        assert log.append([Record(b"v")]).first_offset == 1197
        assert log.count() == 1198


def test_a_batch_that_continues_in_the_next_segment_is_damage_and_no_change(partition: Path) -> None:
    flip(partition / f"{640:020}.log", 5612 + 7, 0x40)
    with kafkalog.open(partition) as log:
        found: list[int] = []
        with pytest.raises(CorruptRecordError, match="position 5612: an offset that is not of this segment") as raised:
            found.extend(record.offset for record in log)
        assert not isinstance(raised.value, ChangedWhileReading)
        assert found == list(range(found[-1] + 1))
