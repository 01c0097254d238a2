"""The files of a data directory: checkpoints, the clean shutdown file, meta.properties, quorum-state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkalog.fsck import Consequence, apply_repair, plan_repair
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_offset_checkpoint
from kafkalog.storage.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from tests.helpers.broker_dirs import COMPACTED, METADATA, PLAIN, broker_dir, checkpointed, findings, segments, told

CHECKPOINTS = (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_dir(tmp_path, PLAIN, COMPACTED, METADATA)


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize(
    "content",
    [
        "0\n1\nv2-none 0\n",
        "word\n1\nv2-none 0 5\n",
        "0\n2\nv2-none 0 5\n",
        "0\n0\nv2-none 0 5\n",
        "9\n1\nv2-none 0 5\n",
        "text",
    ],
)
def test_a_checkpoint_that_does_not_follow_the_format_takes_the_broker_down(
    data: Path, name: str, content: str
) -> None:
    (data / name).write_text(content)
    found = findings(data)[0]
    assert (found.code, found.path, found.consequence) == (
        "checkpoint-format", str(data / name), Consequence.NO_START
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "consequence"),
    [
        (RECOVERY_POINT_CHECKPOINT, "rebuilt"),
        (HIGH_WATERMARK_CHECKPOINT, "set-aside"),
        (LOG_START_OFFSET_CHECKPOINT, "served-wrongly"),
        (CLEANER_OFFSET_CHECKPOINT, "doubtful"),
    ],
)
def test_an_offset_that_is_no_number_is_met_in_another_way(data: Path, name: str, consequence: str) -> None:
    (data / name).write_text("0\n1\nv2-none 0 twelve\n")
    assert told(data) == [("checkpoint-format", consequence, name)]


def test_the_lines_of_a_damaged_checkpoint_that_can_be_read_are_checked_as_well(data: Path) -> None:
    shutil.rmtree(data / METADATA)
    (data / RECOVERY_POINT_CHECKPOINT).write_text("0\n3\nv2-none 0 x\nlost 0 10\nv2-compacted 0 99999\n")
    codes = {each.code for each in findings(data)}
    assert codes == {"checkpoint-format", "partition-gone", "log-too-short"}
    apply_repair(plan_repair(data, drop_corrupt=True))
    assert {each.code for each in findings(data)} == {"partition-gone"}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_may_be_missing_or_as_a_new_broker_creates_it(data: Path, name: str) -> None:
    (data / name).unlink()
    assert findings(data) == []
    (data / name).write_text("")
    (data / ".kafka_cleanshutdown").unlink()
    assert findings(data) == []


@pytest.mark.parametrize(
    ("name", "consequence"),
    [
        (RECOVERY_POINT_CHECKPOINT, "rebuilt"),
        (HIGH_WATERMARK_CHECKPOINT, "doubtful"),
        (LOG_START_OFFSET_CHECKPOINT, "served-wrongly"),
    ],
)
def test_a_checkpoint_without_a_byte_is_none_that_a_broker_leaves_when_it_stops(
    data: Path, name: str, consequence: str
) -> None:
    (data / name).write_text("")
    assert told(data) == [("checkpoint-empty", consequence, name)]


def test_a_cleaner_that_never_ran_leaves_its_checkpoint_without_a_byte(data: Path) -> None:
    (data / CLEANER_OFFSET_CHECKPOINT).write_text("")
    assert findings(data) == []


def test_a_broker_without_records_may_have_no_high_watermark(data: Path) -> None:
    (data / HIGH_WATERMARK_CHECKPOINT).write_text("")
    write_offset_checkpoint(data / RECOVERY_POINT_CHECKPOINT, {TopicPartition("v2-none", 0): 0})
    assert findings(data) == []


def test_a_log_start_behind_the_logs_end_deletes_the_log(data: Path) -> None:
    checkpointed(data, LOG_START_OFFSET_CHECKPOINT, PLAIN, 1201)
    (found,) = findings(data)
    assert (found.code, found.consequence) == ("log-start-beyond-end", Consequence.DATA_DELETED)
    assert (found.path, found.expected, found.found) == (
        str(data / LOG_START_OFFSET_CHECKPOINT), "at most 1200", 1201
    )  # fmt: skip


@pytest.mark.parametrize("name", [HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT])
def test_an_offset_that_the_log_does_not_reach_any_more_is_lost(data: Path, name: str) -> None:
    checkpointed(data, name, PLAIN, 1300)
    (found,) = findings(data)
    assert (found.code, found.consequence) == ("log-too-short", Consequence.RECORDS_LOST)
    assert (found.path, found.first_offset, found.last_offset) == (str(segments(data, PLAIN)[-1]), 1200, 1299)
    # The same of the partition alone, whose data directory is beside it.
    assert findings(data / PLAIN) == [found]


def test_offsets_within_the_log_are_right(data: Path) -> None:
    for name in (CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        checkpointed(data, name, PLAIN, 600)
    assert findings(data) == []


def test_a_log_start_that_the_leader_epochs_do_not_know_deletes_records(data: Path) -> None:
    checkpointed(data, LOG_START_OFFSET_CHECKPOINT, PLAIN, 600)
    (found,) = findings(data)
    assert (found.code, found.consequence) == ("log-start-unlike-epochs", Consequence.DATA_DELETED)
    # As brokers 3.9.1 and 4.2.0 did: `log-start-in-the-log` in `tests/damage/broker_truth.json`.
    assert "when retention first runs" in found.rule.clean
    assert (found.first_offset, found.last_offset) == (0, 599)
    (change,) = plan_repair(data).changes
    assert "the log start 600 becomes 0: what is before it is served again" in str(change)
    # The broker may have been about to forget the epochs.
    (data / ".kafka_cleanshutdown").unlink()
    assert findings(data) == []


def test_a_log_start_before_the_first_segment_is_none_that_a_broker_writes(data: Path) -> None:
    for path in segments(data, PLAIN)[0].parent.glob("00000000000000000000.*"):
        path.unlink()
    checkpointed(data, LOG_START_OFFSET_CHECKPOINT, PLAIN, 100)
    codes = {each.code: each.consequence for each in findings(data)}
    assert codes == {
        "first-segment-missing": Consequence.RECORDS_LOST,
        "log-start-before-log": Consequence.SERVED_WRONGLY,
    }


def test_a_first_segment_that_nobody_deleted_is_missing_but_not_of_tiered_storage(data: Path) -> None:
    for path in segments(data, PLAIN)[0].parent.glob("00000000000000000000.*"):
        path.unlink()
    (found,) = findings(data)
    assert (found.code, found.first_offset, found.last_offset) == ("first-segment-missing", 0, 127)
    (data / "remote-log-index-cache").mkdir()
    assert findings(data) == []


def test_a_first_segment_that_is_being_deleted_is_not_lost(data: Path) -> None:
    for path in segments(data, PLAIN)[0].parent.glob("00000000000000000000.*"):
        path.rename(f"{path}.deleted")
    assert told(data) == [("left-over", "harmless", f"{PLAIN}/00000000000000000000.index.deleted")]
    # A segment that nobody renamed is gone, whatever else is being deleted.
    for path in segments(data, PLAIN)[0].parent.glob("*.deleted"):
        path.rename(str(path).replace("00000.", "00064."))
    assert [code for code, *_ in told(data)] == ["left-over", "first-segment-missing"]


def test_compaction_behind_the_logs_end_begins_again(data: Path) -> None:
    checkpointed(data, CLEANER_OFFSET_CHECKPOINT, COMPACTED, 9999)
    assert told(data) == [("cleaner-offset-beyond-end", "doubtful", CLEANER_OFFSET_CHECKPOINT)]


def test_a_partition_that_is_only_in_a_checkpoint_is_gone_unless_it_was_empty(data: Path) -> None:
    checkpointed(data, HIGH_WATERMARK_CHECKPOINT, "empty-0", 0)
    assert findings(data) == []
    checkpointed(data, HIGH_WATERMARK_CHECKPOINT, "v2-gzip-3", 100)
    (found,) = findings(data)
    assert (found.code, found.first_offset, found.last_offset) == ("partition-gone", 0, 99)
    assert str(found.mend).startswith(f"mv ASIDE/{found.partition} {data} ")
    assert found.message.startswith("v2-gzip-3 ")


def test_a_partition_that_is_being_deleted_is_not_gone(data: Path) -> None:
    (data / PLAIN).rename(data / f"{PLAIN}.{'0' * 32}-delete")
    codes = [code for code, *_ in told(data)]
    assert codes == ["partition-gone", "directory-delete"]
    # A broker that renames a partition forgets its recovery point at once.
    offsets = read_offset_checkpoint(data / RECOVERY_POINT_CHECKPOINT)
    del offsets[TopicPartition("v2-none", 0)]
    write_offset_checkpoint(data / RECOVERY_POINT_CHECKPOINT, offsets)
    assert [code for code, *_ in told(data)] == ["directory-delete"]


def test_a_mark_of_a_clean_stop_without_an_epoch_is_found_but_an_empty_one_is_of_an_older_broker(data: Path) -> None:
    mark = data / ".kafka_cleanshutdown"
    mark.write_text("")
    assert findings(data) == []
    mark.write_text("{")
    assert told(data) == [("clean-shutdown-format", "doubtful", mark.name)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "version=0 or 1"),
        ("version=9\ncluster.id=a\nnode.id=1\n", "version=0 or 1"),
        ("version=1\nnode.id=1\n", "cluster.id="),
        ("version=1\ncluster.id=a\n", "node.id="),
        ("version=1\ncluster.id=a\nnode.id=one\n", "a number"),
    ],
)
def test_properties_that_a_broker_refuses(data: Path, content: str, expected: str) -> None:
    (data / "meta.properties").write_text(content)
    (found,) = findings(data)
    assert (found.code, found.consequence) == ("meta-properties-format", Consequence.NO_START)
    assert found.expected == expected


@pytest.mark.parametrize("content", ["version=0\nbroker.id=1\n", "#\n! x\nversion : 1\ncluster.id a\nnode.id=1\n"])
def test_properties_that_a_broker_accepts(data: Path, content: str) -> None:
    (data / "meta.properties").write_text(content)
    assert findings(data) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"leaderId":1,"leaderEpoch":4,"votedId":-1,"data_version":9}', "{}"]
)
def test_a_quorum_state_that_does_not_follow_the_format(data: Path, content: str) -> None:
    (data / METADATA / "quorum-state").write_text(content)
    assert told(data) == [("quorum-state-format", "no-start", f"{METADATA}/quorum-state")]


def test_a_broker_of_kraft_does_not_start_without_meta_properties(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, PLAIN, METADATA)
    (data / "meta.properties").unlink()
    assert ("meta-properties-missing", "no-start", "meta.properties") in told(data)
    shutil.rmtree(data / METADATA)
    assert told(data) == []
