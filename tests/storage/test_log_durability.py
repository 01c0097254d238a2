"""What of a log is on the disk when it says so, whatever a power cut, a full disk or late work in the background do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, LogManager, Record, WritableLog
from kafkalog.errors import LogStateError
from kafkalog.storage.file_names import INDEX_SUFFIX, LOG_SUFFIX, RECOVERY_POINT_CHECKPOINT
from tests.crash.background import HeldScheduler
from tests.crash.disk import Disk, Fail

NOW = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=300, index_interval_bytes=1, segment_index_bytes=240)


class Machine:
    """A data directory on a disk that may lose power; its file `orders-0`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "0" / "data").mkdir(parents=True)
        self.generation = 0
        self.disk = Disk(root / "0", remembers=True)
        self.scheduler = HeldScheduler()
        self.open: list[LogManager[WritableLog]] = []

    def start(self, config: LogConfig = SMALL) -> WritableLog:
        self.scheduler = HeldScheduler()
        manager = LogManager(self.data_dir, "a", config, scheduler=self.scheduler, clock=lambda: NOW)
        self.open.append(manager)
        return manager["orders-0"] if "orders-0" in manager else manager.create("orders-0")

    @property
    def data_dir(self) -> Path:
        return self.root / str(self.generation) / "data"

    def lose_power(self) -> None:
        """Only what was synced is left."""
        self.generation += 1
        self.disk.image(self.root / str(self.generation))

    def stop(self) -> None:
        for manager in self.open:
            for log in manager.logs():
                log.abandon()
            manager.close()
        self.disk.forget()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    running = Machine(tmp_path)
    with running.disk:
        yield running
    running.stop()


def append(log: WritableLog, *values: bytes) -> None:
    log.append([Record(value, timestamp=NOW) for value in values])


def values(log: kafkalog.Log) -> list[bytes | None]:
    return [record.value for record in log]


# --- when the power goes


def test_flushed_records_of_a_new_partition_are_there(machine: Machine) -> None:
    log = machine.start()
    append(log, b"a", b"b")
    log.flush()
    machine.lose_power()
    assert values(machine.start()) == [b"a", b"b"]


def test_a_flush_makes_a_partition_durable_whose_directory_entry_was_lost_in_a_crash(
    machine: Machine,
) -> None:
    (machine.data_dir / "orders-0").mkdir()
    log = machine.start()
    append(log, b"a")
    log.flush()
    machine.lose_power()
    assert values(machine.start()) == [b"a"]


@pytest.mark.parametrize("preallocate", [False, True])
def test_a_segment_that_was_flushed_before_it_was_rolled_is_whole(machine: Machine, preallocate: bool) -> None:
    log = machine.start(replace(SMALL, flush_messages=1, preallocate=preallocate))
    for value in (b"a" * 150, b"b" * 150, b"c" * 150):
        append(log, value)
    assert len(log.segments) == 3
    machine.lose_power()
    again = machine.start()
    assert [value and value[:1] for value in values(again)] == [b"a", b"b", b"c"]
    assert [list(segment.time_index) for segment in again.segments[:2]] == [[(NOW, 0)], [(NOW, 1)]]


def test_truncated_segments_do_not_return_after_later_appends(machine: Machine) -> None:
    log = machine.start()
    for value in (b"a", b"b" * 200, b"c" * 200):
        append(log, value)
    log.flush()
    log.truncate_to(0)
    append(log, b"d")
    log.flush()
    machine.lose_power()
    assert values(machine.start()) == [b"d"]


def test_truncated_records_do_not_return_after_a_crash(machine: Machine) -> None:
    log = machine.start()
    append(log, b"a")
    append(log, b"b")
    log.flush()
    log.truncate_to(1)
    machine.lose_power()
    assert values(machine.start()) == [b"a"]


def test_records_appended_after_a_truncation_below_the_checkpoint_are_recovered(
    machine: Machine,
) -> None:
    log = machine.start()
    for _ in range(4):
        append(log, b"x" * 100)
    log.flush()
    machine.open[0].checkpoint()
    log.truncate_to(1)
    assert (machine.data_dir / RECOVERY_POINT_CHECKPOINT).read_text().endswith("orders 0 1\n")
    append(log, b"y")
    log.roll()
    append(log, b"z")
    path = log.segments[1].path
    path.write_bytes(path.read_bytes()[:-1])
    machine.stop()
    assert values(machine.start()) == [b"x" * 100]


def test_records_appended_before_an_earlier_log_start_are_kept(machine: Machine) -> None:
    log = machine.start()
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    log.delete_records(3)
    machine.open[0].checkpoint()
    log.truncate_to(1)
    append(log, b"e")
    log.flush()
    machine.lose_power()
    assert values(machine.start()) == [b"e"]


def test_a_lost_index_behind_a_torn_segment_keeps_no_log_from_being_opened(machine: Machine) -> None:
    log = machine.start()
    for _ in range(6):
        append(log, b"x" * 100)
    first, last = log.segments[0].path, log.segments[-1].path
    machine.stop()
    first.write_bytes(bytes(first.stat().st_size))
    last.with_suffix(INDEX_SUFFIX).unlink()
    for path in first.parent.glob("*.snapshot"):
        path.write_bytes(b"")
    again = machine.start()
    assert (values(again), len(list(first.parent.glob(f"*{LOG_SUFFIX}")))) == ([], 1)


# --- work that comes late


def test_a_segment_flushed_after_it_was_truncated_away_moves_no_recovery_point_beyond_the_log(machine: Machine) -> None:
    log = machine.start()
    append(log, b"a", b"b")
    append(log, b"c", b"d")
    log.roll()
    log.truncate_to(2)
    machine.scheduler.run()
    assert (log.recovery_point, log.log_end_offset) == (2, 2)


# --- where the disk refuses


def test_an_empty_segment_that_cannot_be_replaced_takes_no_records(machine: Machine) -> None:
    log = machine.start()
    machine.disk.fault = Fail(machine.disk.calls + 1, 1000)
    with pytest.raises(OSError, match="No space"):
        log.roll()
    machine.disk.heal()
    with pytest.raises(LogStateError, match="No space"):
        append(log, b"a")


def test_a_failed_truncation_closes_the_log_to_appends_and_loses_no_earlier_record(machine: Machine) -> None:
    log = machine.start()
    for _ in range(6):
        append(log, b"x" * 100)
    machine.disk.fault = Fail(machine.disk.calls + 2, 1000, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.truncate_to(1)
    machine.disk.heal()
    with pytest.raises(LogStateError, match="open it again"):
        append(log, b"a")
    with pytest.raises(LogStateError):
        log.flush()
    machine.stop()
    assert values(machine.start())[:1] == [b"x" * 100]


# --- offsets within a batch


def test_no_watermark_is_before_a_log_start_within_a_batch(machine: Machine) -> None:
    log = machine.start()
    batch = ByteBufferMessageSet.from_records(
        [Record(b"a", timestamp=NOW), Record(b"b", timestamp=NOW)],
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    log.append_as_leader(batch, 0)
    log.update_high_watermark(2)
    log.delete_records(1)
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark) == (1, 1, 2)
    log.update_high_watermark(1)
    assert log.high_watermark_metadata.message_offset == 1


def test_a_time_is_found_behind_a_segment_whose_only_such_records_are_deleted(machine: Machine) -> None:
    log = machine.start()
    for value in (b"a", b"b"):
        append(log, value * 200)
    log.delete_records(1)
    found = log.offset_for_timestamp(NOW)
    assert found is not None
    assert found.offset == 1
