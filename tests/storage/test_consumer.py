"""Consumers: a position that is committed to a file, resumed after a crash, and checked after a truncation."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, Record, WritableLog
from kafkalog.errors import CorruptCheckpointError, LogTruncatedError, OffsetOutOfRangeError
from kafkalog.fsck import verify_path


@pytest.fixture
def log(tmp_path: Path) -> Iterator[WritableLog]:
    """Offsets 0..9 of leader epoch 3."""
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(file_delete_delay_ms=0)) as made:
        append(made, 10, 3)
        yield made


def append(log: WritableLog, count: int, epoch: int) -> None:
    records = [Record(b"%d" % epoch) for _ in range(count)]
    log.append_as_leader(ByteBufferMessageSet.from_records(records), epoch)


def test_a_consumer_resumes_after_the_last_committed_record(log: WritableLog) -> None:
    consumer = log.consumer("billing")
    assert consumer.position is None
    reading = consumer.records()
    assert [next(reading).offset for _ in range(4)] == [0, 1, 2, 3]
    consumer.commit()
    assert [next(reading).offset for _ in range(2)] == [4, 5]
    assert consumer.path.read_bytes() == b"0\n1\n3 4\n"
    again = log.consumer("billing")
    assert (again.position, [record.offset for record in again.records()]) == (4, [4, 5, 6, 7, 8, 9])
    again.commit()
    assert list(log.consumer("billing").records()) == []
    assert log.consumer("other").position is None


def test_a_commit_syncs_the_records_before_the_position(log: WritableLog) -> None:
    """Else a power failure could move the log's end back behind the position, and new records would be left out."""
    consumer = log.consumer("billing")
    reading = consumer.records()
    next(reading)
    assert log.recovery_point == 0
    consumer.commit()
    assert log.recovery_point == 10


def test_a_consumer_follows_the_log_from_its_position(log: WritableLog) -> None:
    consumer = log.consumer("billing")
    consumer.position = 8
    assert [record.offset for record in consumer.follow(timeout=0)] == [8, 9]
    append(log, 2, 3)
    assert [record.offset for record in consumer.follow(timeout=0)] == [10, 11]
    consumer.commit()
    assert log.consumer("billing").position == 12


def test_a_log_that_is_only_read_has_its_positions_elsewhere(log: WritableLog, tmp_path: Path) -> None:
    path = tmp_path / "mine.position"
    with kafkalog.open(log.directory) as reader:
        with pytest.raises(io.UnsupportedOperation, match="give consumer a path"):
            reader.consumer("billing")
        consumer = reader.consumer(path=path)
        assert len(list(consumer.records())) == 10
        consumer.commit()
        assert reader.consumer(path=path).position == 10
    assert not list(log.directory.glob("*.position"))


def test_a_truncation_below_the_position_is_noticed_even_if_the_log_has_grown_again(log: WritableLog) -> None:
    consumer = log.consumer("billing")
    list(consumer.records())
    consumer.commit()
    log.truncate_to(0)
    append(log, 4, 3)
    append(log, 20, 5)
    with pytest.raises(LogTruncatedError, match="up to offset 9; its end is 24 now"):
        log.consumer("billing")
    resumed = log.consumer("billing", on_out_of_range="latest")
    assert [record.value for record in resumed.records()] == [b"5"] * 20


def test_retention_of_unread_records_is_an_error_unless_the_consumer_says_where_to_go_on(log: WritableLog) -> None:
    consumer = log.consumer("billing")
    next(consumer.records())
    consumer.commit()
    log.update_high_watermark(10)
    log.delete_records(7)
    with pytest.raises(OffsetOutOfRangeError):
        list(log.consumer("billing").records())
    resumed = log.consumer("billing", on_out_of_range="earliest")
    assert [record.offset for record in resumed.records()] == [7, 8, 9]


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "either a name or a path"),
        ({"name": "a", "path": "b"}, "either a name or a path"),
        ({"name": "../a"}, "no name of a consumer"),
        ({"name": ""}, "no name of a consumer"),
        ({"name": "a", "on_out_of_range": "first"}, "on_out_of_range"),
        ({"name": "a", "isolation": "dirty"}, "isolation"),
    ],
)
def test_a_wrong_argument_of_a_consumer_is_named(log: WritableLog, wanted: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        log.consumer(**wanted)


def test_a_missing_directory_for_the_position_is_an_error_before_anything_is_read(log: WritableLog) -> None:
    missing = log.directory.parent / "no" / "such"
    with pytest.raises(FileNotFoundError, match="no such directory") as error:
        log.consumer(path=missing / "billing.position")
    assert error.value.filename == str(missing)


def test_a_damaged_position_is_named_and_not_taken_for_a_new_consumer(log: WritableLog) -> None:
    (log.directory / "billing.position").write_bytes(b"0\n1\n3 fo")
    with pytest.raises(CorruptCheckpointError, match=r"billing\.position"):
        log.consumer("billing")


def test_a_position_beside_the_segments_is_no_finding(log: WritableLog) -> None:
    consumer = log.consumer("billing")
    list(consumer.records())
    consumer.commit()
    log.close()
    assert list(verify_path(log.directory.parent)) == []


@pytest.mark.slow
def test_a_killed_consumer_sees_each_record_again_or_further_on_but_leaves_none_out(
    log: WritableLog, tmp_path: Path
) -> None:
    append(log, 3000, 3)
    log.flush()
    program = (
        "import sys, kafkalog\n"
        "consumer = kafkalog.open(sys.argv[1]).consumer(path=sys.argv[2])\n"
        "for record in consumer.records():\n"
        "    print(record.offset, flush=True)\n"
        "    consumer.commit()\n"
    )
    command = [sys.executable, "-c", program, str(log.directory), str(tmp_path / "position")]
    seen: list[int] = []
    for kill in range(6):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
            assert process.stdout is not None
            for line in process.stdout:
                seen.append(int(line))
                if len(seen) >= 100 * (kill + 1):
                    break
            process.send_signal(signal.SIGKILL)
            seen += [int(line) for line in process.stdout if line.endswith("\n")]
    assert len(seen) >= 600
    assert seen[0] == 0
    # One that was printed but not committed comes again.
    assert all(later in (earlier, earlier + 1) for earlier, later in pairwise(seen))


@pytest.mark.parametrize("content", [b"", b"0\n0\n", b"0\n2\n0 5\n0 3\n"])
def test_a_position_file_without_its_one_line_is_damaged(log: WritableLog, content: bytes) -> None:
    (log.directory / "billing.position").write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="a position has one line"):
        log.consumer("billing")


@pytest.mark.parametrize("position", [2.5, -1, 1 << 63])
def test_what_is_no_offset_is_not_committed(log: WritableLog, position: Any) -> None:
    consumer = log.consumer("billing")
    consumer.position = 5
    consumer.commit()
    consumer.position = position
    with pytest.raises((TypeError, ValueError)):
        consumer.commit()
    assert log.consumer("billing").position == 5
