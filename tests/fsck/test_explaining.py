"""`explain` says what real brokers did."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import NotALogError
from kafkalog.fsck import Consequence, explain, verify_path
from kafkalog.fsck.explaining import Explanation, Stage
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.damage.broker_base import CLEAN, UNFLUSHED
from tests.damage.kinds import BY_NAME
from tests.damage.test_verify import NOT_FOUND, TABLE, VERSION
from tests.damage.ways import checkpoint_of, segments
from tests.helpers.broker_dirs import METADATA, broker_dir
from tests.helpers.golden import partitions, unpacked

ARCHIVES = sorted({each.archive for each in partitions()})
# Of so many rows one is in the fast tier.
FEW = 240
EVERY_STOP = "clean", "unclean", "unflushed"
_ELSEWHERE = "server.properties decide, or metadata that are gone; or compaction leaves the same"
_EMPTIED = "no rule has it: a broker empties a segment whose index refuses the offsets"
_INDEX = "an index entry that leads into the middle of a batch decides on the log's end"
_ONLY_COPY = "the files are deleted; that these records are nowhere else is told as a gap"
EXCEPTIONS = {
    **{
        (kind, stop): _ELSEWHERE
        for kind in (*NOT_FOUND, "meta-other-node", "metadata-emptied")
        for stop in (CLEAN, "unclean")
    },
    ("log-base-offset-active", "unclean"): _EMPTIED,
    ("log-is-a-directory", "unclean"): "no rule has it: the partition is loaded, but not served",
    ("log-base-offset-active", "unflushed"): _EMPTIED,
    ("log-base-offset-sealed", "unflushed"): _EMPTIED,
    ("log-batch-removed-active", CLEAN): _INDEX,
    ("log-batch-repeated-active", CLEAN): _INDEX,
    **{(kind, stop): _ONLY_COPY for kind in ("leftover-deleted-only",) for stop in EVERY_STOP},
    ("leftover-swap-torn", "unflushed"): "it is told to be put in place, not what its recovery cuts then",
    ("log-start-in-the-log", "unclean"): "deleting what is before the log start is usual: it is told, not as a loss",
    ("log-start-in-the-log", "unflushed"): "as after an unclean stop",
    **{
        ("directory-is-a-file", stop): "the partition is told to be gone, not that its name is taken"
        for stop in (CLEAN, "unclean")
    },
    **{
        ("directory-copied-with-space", stop): "it starts once, as it was started here, and not on what it writes then"
        for stop in (CLEAN, "unclean")
    },
}


def _rows() -> list[Any]:
    rows = [row for row in json.loads(TABLE.read_text()) if row["version"] == VERSION and row["kind"] in BY_NAME]
    return [
        pytest.param(row, id=f"{row['kind']}-{row['stop']}", marks=() if number % FEW == 0 else pytest.mark.slow)
        for number, row in enumerate(each for each in rows if (each["kind"], each["stop"]) not in EXCEPTIONS)
    ]


def stopped(data: Path, stop: str) -> None:
    """Change a data directory of a broker that stopped in order, as `broker_base.copy_of_base` does."""
    if stop == CLEAN:
        return
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    lines = []
    for each in sorted(path for path in data.iterdir() if path.is_dir() and path.name != "__cluster_metadata-0"):
        topic, _, number = each.name.rpartition("-")
        lines.append(f"{topic} {number} {0 if stop == UNFLUSHED else int(segments(each)[-1].stem)}")
    (data / RECOVERY_POINT_CHECKPOINT).write_text(checkpoint_of(lines))


@pytest.mark.parametrize("row", _rows())
def test_it_says_what_a_broker_did(row: dict[str, Any], tmp_path: Path) -> None:
    kind = BY_NAME[row["kind"]]
    data = broker_dir(tmp_path, METADATA, kind.partition, "v2-empty-0")
    stopped(data, row["stop"])
    kind.damage(data, kind.partition)
    found = explain(data)
    assert found.starts == row["started"], found.obstacles
    if not found.starts:
        return
    said = {each.consequence for each in found.all_steps}
    assert (Consequence.SET_ASIDE in said) == (row["consequence"] == "set-aside")
    of_it = [each for each in found.partitions if each.partition.path.name.startswith(kind.partition)]
    goes = [step for each in of_it for step in each.steps if step.cuts and step.first_offset is not None]
    if row["consequence"] == "data-deleted":
        assert goes or Consequence.DATA_DELETED in said
    else:
        # What is cut are the damaged batches, which are no data any more.
        assert Consequence.DATA_DELETED not in said
    if of_it and row["low"] is not None and of_it[0].partition.topic_partition is not None:
        log = of_it[0]
        assert (log.log_start_offset, log.log_end_offset) == (row["low"], row["log_end"])
        for step in goes:
            assert step.first_offset == row["log_end"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log-payload-flipped-sealed", "log-torn-sealed", "timeindex-missing"])
def test_the_consequence_of_a_finding_is_the_worst_of_the_starts_that_are_possible(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data", data)
    BY_NAME[name].damage(data, "v2-none-0")
    seen = []
    for _ in range(2):
        worst = min((each.consequence for each in verify_path(data)), key=[*Consequence].index)
        steps = [step for clean in (True, False) for step in explain(data, clean=clean).all_steps]
        assert worst == min((step.consequence for step in steps), key=[*Consequence].index)
        seen.append(worst)
        # Without a recovery point, all segments are recovered after an unclean stop.
        (data / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
    assert seen == [Consequence.SERVED_WRONGLY] * 2 or seen == [Consequence.RECORDS_LOST, Consequence.DATA_DELETED]


@pytest.mark.parametrize("stop", EVERY_STOP)
def test_the_damaged_directories_have_every_exception(stop: str) -> None:
    known = {(row["kind"], row["stop"]) for row in json.loads(TABLE.read_text()) if row["version"] == VERSION}
    assert {each for each in EXCEPTIONS if each[1] == stop} <= known


@pytest.mark.parametrize("clean", [None, True, False])
@pytest.mark.parametrize("archive", ARCHIVES)
def test_a_broker_starts_on_what_brokers_left_and_nothing_is_lost(archive: str, clean: bool | None) -> None:
    data = unpacked() / archive / "data"
    found = explain(data, clean=clean)
    assert found.starts
    assert [step for step in found.all_steps if step.finding] == []
    assert found.clean == ((data / CLEAN_SHUTDOWN_FILE).exists() if clean is None else clean)
    assert (found.bytes_to_recover > 0) == (not found.clean)
    assert all(each.log_end_offset is not None for each in found.partitions)


def test_no_segment_is_deleted_twice(tmp_path: Path) -> None:
    """As Kafka's LogLoaderTest.testLogEndLessThanStartAfterReopen has it: the log begins anew at its start."""
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data" / "v2-none-0", data / "v2-none-0")
    log = segments(data / "v2-none-0")[0]
    start = int(segments(data / "v2-none-0")[3].stem)
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    (data / LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\nv2-none 0 {start}\n")
    (unclean,) = explain(data, clean=False).partitions
    does = [each.does for each in unclean.steps]
    assert [each for each in does if "before the log start" in each] == []
    assert f"deletes all segments, as the log ends before its start, and begins anew at {start}" in does
    assert (unclean.log_start_offset, unclean.log_end_offset) == (start, start)
    (clean,) = explain(data, clean=True).partitions
    assert f"deletes 3 segments before the log start {start}" in [each.does for each in clean.steps]
    # A log start beyond the end deletes all of them, once.
    (data / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\nv2-none 0 99999\n")
    (beyond,) = explain(data, clean=True).partitions
    assert [each.does for each in beyond.steps if "deletes" in each.does] == [
        "deletes all segments, and begins anew at the log start"
    ]


def test_nothing_is_changed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data", data)
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    explain(data, clean=False)
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before


def test_the_steps_are_in_a_brokers_order(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data", data)
    for name in ("log-torn-active", "leftover-cleaned", "index-missing", "epochs-from-the-future"):
        BY_NAME[name].damage(data, "v2-none-0")
    stopped(data, UNFLUSHED)
    found = explain(data)
    order = list(Stage)
    for steps in (found.steps, *(each.steps for each in found.partitions)):
        places = [order.index(step.stage) for step in steps]
        assert places == sorted(places)
    assert cut_of(found) == (1197, None)


def cut_of(found: Explanation) -> tuple[int | None, int | None]:
    (log,) = (each for each in found.partitions if each.partition.name == "v2-none-0")
    (cut,) = (step for step in log.steps if step.cuts)
    return log.log_end_offset, cut.first_offset


def test_the_stop_can_be_assumed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data", data)
    BY_NAME["log-zeros-at-end-active"].damage(data, "v2-none-0")
    assert not explain(data).starts
    assert explain(data, clean=False).starts
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    assert explain(data).starts
    assert not explain(data, clean=True).starts


def test_a_locked_directory_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data", data)
    with DirectoryLock(data).acquire():
        (obstacle,) = explain(data).obstacles
    assert obstacle.stage is Stage.LOCK
    assert f"process {os.getpid()}" in obstacle.does
    assert explain(data).starts


def test_a_partition_is_refused() -> None:
    with pytest.raises(NotALogError, match="data directory"):
        explain(partitions()[0].directory)


def test_metadata_that_are_not_read_are_named_by_a_path_like_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker_dir(tmp_path, METADATA)
    monkeypatch.chdir(tmp_path)
    log = max(Path("data", METADATA).glob("*.log"))
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    (found,) = (each for each in verify_path("data") if each.code == "metadata-not-compared")
    assert found.path == str(log)
