"""Salvage: the good batches of a damaged partition as a new one."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import crc32c
import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, IsolationLevel, LogConfig, LogManager, Record
from kafkalog.errors import InconsistentTopicIdError, LogLockedError, NotALogError
from kafkalog.fsck import Finding, Options, Severity, salvage, salvaging, verify_path
from kafkalog.record.layout import BATCH_LEADER_EPOCH_AT
from kafkalog.storage.checkpoint.checkpoint_file import (
    read_leader_epoch_checkpoint,
    read_offset_checkpoint,
    write_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    segment_files,
)
from kafkalog.storage.producer.producer_snapshot import read_snapshot
from tests.helpers.broker_dirs import EPOCHS, METADATA, PLAIN, broker_dir, findings
from tests.helpers.golden import Partition
from tests.helpers.partition_dirs import write_segments
from tests.helpers.partitions import sampled_partition
from tests.reference.compression import GZIP, LZ4
from tests.reference.encode import LegacyWrapper, records

CONFIG = LogConfig(segment_bytes=3000)
RECORDS = 200


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A partition of several segments, a record a batch."""
    with LogManager(tmp_path / "source", "a", CONFIG) as manager:
        log = manager.create("orders-0")
        for number in range(RECORDS):
            log.append([Record(b"%d" % number)])
    return tmp_path / "source" / "orders-0"


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    return tmp_path / "new" / "orders-0"


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def offsets(directory: Path) -> list[int]:
    with kafkalog.open(directory) as log:
        return [record.offset for record in log]


def test_it_says_which_offsets_are_missing_between_segments(source: Path, destination: Path) -> None:
    (_, before), (base, gone), (following, _), *_ = segment_files(source)
    gone.unlink()
    told = list[Finding]()
    salvage(source, destination, report=told.append)
    assert [(each.code, each.first_offset, each.last_offset) for each in told] == [("segment-gap", base, following - 1)]
    assert before.name in told[0].message


@pytest.fixture
def unreadable_inside(tmp_path: Path) -> Path:
    """A segment of seven compressed batches; two cannot be decompressed, though their checksums hold."""
    directory, content = tmp_path / "source" / "orders-0", b""
    directory.mkdir(parents=True)
    for first in range(0, 35, 5):
        records = [Record(b"%d" % offset, timestamp=1000) for offset in range(first, first + 5)]
        batch = ByteBufferMessageSet.from_records(records, compression_type="gzip").with_offsets(first)
        made = bytearray(bytes(batch))
        if first in {10, 25}:
            made[-6:] = bytes(6)
            made[17:21] = crc32c.crc32c(made[21:]).to_bytes(4, "big")
        content += made
    (directory / f"{0:020}.log").write_bytes(content)
    return directory


@pytest.mark.parametrize("deep", [False, True])
def test_batches_that_consumers_cannot_read_are_copied_unless_it_is_deep(
    unreadable_inside: Path, destination: Path, deep: bool
) -> None:
    found = list(verify_path(unreadable_inside, Options(deep=True)))
    assert [each.code for each in found] == ["invalid-records"] * 2
    assert {str(each.mend).split(" /")[0] for each in found} == {"kafkalog salvage --deep"}
    result = salvage(unreadable_inside, destination, deep=deep)
    assert (result.batches, result.batches_left_out) == ((5, 2) if deep else (7, 0))
    left = [each.code for each in verify_path(destination, Options(deep=True))]
    assert left == ([] if deep else ["invalid-records"] * 2)
    if deep:
        assert offsets(destination) == [offset for offset in range(35) if offset // 5 not in {2, 5}]


def everything(directory: Path) -> list[tuple[int, int]]:
    """The base offset and the checksum of each batch."""
    with kafkalog.open(directory) as log:
        return [(batch.base_offset, batch.checksum) for batch in log.batches()]


@pytest.mark.slow
@sampled_partition
def test_an_undamaged_partition_is_copied_byte_for_byte(partition: Partition, tmp_path: Path) -> None:
    source, destination = partition.directory, tmp_path / partition.directory.name
    findings: list[Finding] = []
    salvaged = salvage(source, destination, report=findings.append)
    assert everything(destination) == everything(source)
    assert [each for each in findings if each.severity is Severity.ERROR] == []
    assert [each for each in verify_path(destination, Options(deep=True)) if each.severity is Severity.ERROR] == []
    known = read_partition_metadata(source / PARTITION_METADATA)
    if known is not None:
        assert read_partition_metadata(destination / PARTITION_METADATA) == known
        assert salvaged.topic_id == known.topic_id
    with kafkalog.open(source) as before, kafkalog.open(destination) as after:
        assert after.log_end_offset == before.log_end_offset == salvaged.log_end_offset
        assert after.last_stable_offset == before.last_stable_offset
        # Loading removes an epoch that begins at the log end, as a broker does.
        known_epochs = [each for each in before.leader_epochs.entries if each.start_offset < before.log_end_offset]
        assert list(after.leader_epochs.entries) == known_epochs
        assert after.count(isolation=IsolationLevel.TXN_COMMITTED) == before.count(
            isolation=IsolationLevel.TXN_COMMITTED
        )


def test_everything_but_the_damage_is_copied(source: Path, destination: Path) -> None:
    first, second = (path for _, path in segment_files(source)[:2])
    overwrite(first, first.stat().st_size // 2, bytes(100))
    overwrite(second, second.stat().st_size // 2, b"x")
    findings: list[Finding] = []
    salvaged = salvage(source, destination, report=findings.append)
    found = offsets(destination)
    assert len(found) in (RECORDS - 3, RECORDS - 4)
    assert found == sorted(set(range(RECORDS)) & set(found))
    assert (salvaged.batches, salvaged.log_start_offset, salvaged.log_end_offset) == (len(found), 0, RECORDS)
    assert (
        salvaged.bytes_left_out
        == sum(path.stat().st_size for _, path in segment_files(source)) - salvaged.size_in_bytes
    )
    assert salvaged.batches_left_out >= 1
    assert len(findings) >= 2
    assert list(verify_path(destination)) == []


def test_only_the_batch_whose_offset_is_damaged_is_left_out(source: Path, destination: Path) -> None:
    """No checksum covers the base offset: a large one makes all that follow look like a step back."""
    last = segment_files(source)[-1][1]
    with kafkalog.FileMessageSet(last) as messages:
        batch = next(iter(messages.batches()))
    overwrite(last, batch.size_in_bytes, (10_000).to_bytes(8, "big"))
    salvaged = salvage(source, destination)
    assert sorted(set(range(RECORDS)) - set(offsets(destination))) == [batch.base_offset + 1]
    assert salvaged.batches_left_out == 1


def test_only_the_batch_whose_offset_is_damaged_is_left_out_before_lost_bytes(source: Path, destination: Path) -> None:
    last = segment_files(source)[-1][1]
    with kafkalog.FileMessageSet(last) as messages:
        batch = next(iter(messages.batches()))
    size = batch.size_in_bytes
    overwrite(last, size, (10_000).to_bytes(8, "big"))
    # The framing of the batch after it.
    overwrite(last, 2 * size + 8, b"\x7f")
    salvage(source, destination)
    lost = sorted(set(range(RECORDS)) - set(offsets(destination)))
    assert lost == [batch.base_offset + 1, batch.base_offset + 2]


def test_the_log_start_offset_stays(source: Path, destination: Path) -> None:
    checkpoint = source.parent / LOG_START_OFFSET_CHECKPOINT
    write_offset_checkpoint(checkpoint, {TopicPartition("orders", 0): 7})
    assert salvage(source, destination).log_start_offset == 7
    found = read_offset_checkpoint(destination.parent / LOG_START_OFFSET_CHECKPOINT)
    assert found == {TopicPartition("orders", 0): 7}
    with kafkalog.open(destination) as log:
        assert (log.log_start_offset, next(iter(log)).offset) == (7, 7)


def test_a_log_start_offset_beyond_the_end_hides_nothing(source: Path, destination: Path) -> None:
    write_offset_checkpoint(source.parent / LOG_START_OFFSET_CHECKPOINT, {TopicPartition("orders", 0): RECORDS + 1})
    assert salvage(source, destination).log_start_offset == 0
    assert offsets(destination) == list(range(RECORDS))


def test_producers_are_known_as_before(golden_logs: Path, tmp_path: Path) -> None:
    source, destination = golden_logs / "kafka-3.9" / "data" / "v2-txn-0", tmp_path / "v2-txn-0"
    salvage(source, destination)
    before, after = (max(each.glob("*.snapshot")) for each in (source, destination))
    assert before.name == after.name
    assert read_snapshot(after) == read_snapshot(before)


# --- topic ids


def test_the_topic_id_may_be_given(source: Path, destination: Path) -> None:
    topic_id = "bUPDMCVQRZiKdmIvGGjhHg"
    assert salvage(source, destination, topic_id=topic_id).topic_id == topic_id
    assert f"topic_id: {topic_id}" in (destination / PARTITION_METADATA).read_text()


def test_another_topic_id_than_its_siblings_is_refused(source: Path, destination: Path) -> None:
    with kafkalog.open(destination.with_name("orders-1"), "a"):
        pass
    with pytest.raises(InconsistentTopicIdError):
        salvage(source, destination)
    assert not destination.exists()
    (source / PARTITION_METADATA).unlink()
    siblings = read_partition_metadata(destination.with_name("orders-1") / PARTITION_METADATA)
    assert siblings is not None
    assert salvage(source, destination).topic_id == siblings.topic_id


def test_a_lost_topic_id_is_that_of_the_clusters_metadata(tmp_path: Path, destination: Path) -> None:
    lost = broker_dir(tmp_path, PLAIN, METADATA) / PLAIN / PARTITION_METADATA
    known = read_partition_metadata(lost)
    lost.unlink()
    copy = destination.with_name(PLAIN)
    salvage(lost.parent, copy)
    assert known is not None
    assert read_partition_metadata(copy / PARTITION_METADATA) == known


def test_a_damaged_topic_id_is_replaced(source: Path, destination: Path, caplog: pytest.LogCaptureFixture) -> None:
    (source / PARTITION_METADATA).write_text("version: 0\n")
    salvage(source, destination)
    assert read_partition_metadata(destination / PARTITION_METADATA) is not None
    assert "partition.metadata" in caplog.text


# --- what is refused, and what an interruption leaves


def test_a_destination_with_files_is_refused(source: Path, destination: Path) -> None:
    destination.mkdir(parents=True)
    salvage(source, destination)
    before = sorted(destination.iterdir())
    with pytest.raises(FileExistsError):
        salvage(source, destination)
    assert sorted(destination.iterdir()) == before


def test_a_locked_destination_is_refused(source: Path, destination: Path) -> None:
    with LogManager(destination.parent, "a"), pytest.raises(LogLockedError):
        salvage(source, destination)
    with pytest.raises(LogLockedError), kafkalog.open(source, "a"):
        salvage(source, source)


def test_names_that_are_no_partitions_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(NotALogError, match="<topic>-<number>"):
        salvage(source, tmp_path / "orders")
    with pytest.raises(NotALogError, match="no segments"):
        salvage(tmp_path, tmp_path / "orders-0")


def test_a_full_disk_leaves_no_partition(source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(salvaging.Copy, "_copy", full)
    with pytest.raises(OSError, match="no space"):
        salvage(source, destination)
    monkeypatch.undo()
    assert not destination.parent.exists()
    assert salvage(source, destination).log_end_offset == RECORDS


def test_a_full_disk_leaves_a_directory_that_was_there(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination.mkdir(parents=True)
    monkeypatch.setattr(salvaging, "write_partition_metadata", interrupt)
    with pytest.raises(KeyboardInterrupt):
        salvage(source, destination)
    assert list(destination.iterdir()) == []


@pytest.mark.slow
def test_a_killed_salvage_leaves_no_partition(source: Path, destination: Path) -> None:
    code = (
        "import time; from kafkalog.fsck import salvaging\n"
        "salvaging.write_partition_metadata = lambda *_: (print('copied', flush=True), time.sleep(60))\n"
        f"salvaging.salvage({str(source)!r}, {str(destination)!r})"
    )
    started = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"copied\n"
    started.send_signal(signal.SIGKILL)
    started.communicate()
    (left,) = (path for path in destination.parent.iterdir() if path.is_dir())
    assert left.name.startswith("orders-0.")
    assert left.name.endswith("-delete")
    assert salvage(source, destination).log_end_offset == RECORDS


def test_a_failed_salvage_keeps_the_clean_shutdown_marker(
    source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a broker would read every other partition there again."""
    with LogManager(destination.parent, "a") as manager:
        manager.create("others-0")
    marker = destination.parent / CLEAN_SHUTDOWN_FILE
    with pytest.raises(FileExistsError):
        salvage(source, destination.with_name("others-0"))
    assert marker.exists()
    monkeypatch.setattr(salvaging, "write_partition_metadata", interrupt)
    with pytest.raises(KeyboardInterrupt):
        salvage(source, destination)
    monkeypatch.undo()
    assert marker.exists()
    salvage(source, destination)
    assert marker.exists()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("target", ["missing", "there"])
def test_a_link_as_destination_is_refused_before_anything_is_written(source: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "orders-0").symlink_to(tmp_path / target)
    with pytest.raises(FileExistsError, match="link"):
        salvage(source, tmp_path / "new" / "orders-0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "source", "there"]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["orders-0"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_failed_write_names_the_file(source: Path, destination: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_open = Path.open

    def full(path: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        return path_open(Path("/dev/full") if (path.suffix, mode) == (".log", "wb") else path, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match="No space left") as raised:
        salvage(source, destination)
    assert raised.value.filename is not None
    assert not destination.parent.exists()


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([(0, 0), (2, 400), (4, 800), (6, 1200)], id="right"),
        pytest.param([(0, 0), (40, 100)], id="of another partition, later"),
        pytest.param([(17, 0)], id="of another partition, from the start on"),
        pytest.param([(0, 0), (2, 300), (4, 800)], id="another start"),
    ],
)
def test_leader_epochs_are_copied_unless_the_batches_refute_them(tmp_path: Path, there: list[tuple[int, int]]) -> None:
    source, target = broker_dir(tmp_path, EPOCHS) / EPOCHS, tmp_path / "new" / EPOCHS
    write_leader_epoch_checkpoint(source / LEADER_EPOCH_CHECKPOINT, there)
    salvage(source, target)
    # The log ends at 1200: Kafka drops an epoch that begins there when it loads the log.
    assert read_leader_epoch_checkpoint(target / LEADER_EPOCH_CHECKPOINT) == [(0, 0), (2, 400), (4, 800)]
    assert findings(target) == []


def test_one_batch_with_a_wrong_leader_epoch_does_not_refute_the_others(tmp_path: Path) -> None:
    source, target = broker_dir(tmp_path, EPOCHS) / EPOCHS, tmp_path / "new" / EPOCHS
    overwrite(segment_files(source)[0][1], BATCH_LEADER_EPOCH_AT, (3).to_bytes(4, "big"))
    salvage(source, target)
    assert read_leader_epoch_checkpoint(target / LEADER_EPOCH_CHECKPOINT) == [(0, 0), (2, 400), (4, 800)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [GZIP, LZ4])
@pytest.mark.parametrize("value", [b"?", None])
def test_a_wrapper_that_cannot_be_decompressed_is_left_out_alone(
    tmp_path: Path, destination: Path, magic: int, codec: int, value: bytes | None
) -> None:
    """A broker that searches for an offset reads the first one of a wrapper, and fails; in format 2 it is a field."""
    wrappers = [LegacyWrapper(records(b"a", b"b", offset=2 * i), codec, magic) for i in range(4)]
    damaged = replace(wrappers[0], value=b"?") if value else replace(wrappers[0], has_value=False)
    source = tmp_path / "source" / "orders-0"
    write_segments(
        source,
        {0: [damaged.encoded(), wrappers[1].encoded()], 4: [wrappers[2].encoded(), wrappers[3].encoded()]},
    )
    findings: list[Finding] = []
    salvaged = salvage(source, destination, report=findings.append)
    assert [(finding.code, finding.position) for finding in findings] == [("invalid-records", 0)]
    assert offsets(destination) == [2, 3, 4, 5, 6, 7]
    assert (salvaged.batches, salvaged.batches_left_out) == (3, 1)
    assert salvaged.bytes_left_out == len(damaged.encoded())
