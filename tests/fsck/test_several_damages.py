"""Several kinds of damage in one partition: a repair of one loses nothing because of another."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import crc32c
import pytest

import kafkalog
from kafkalog.errors import KafkaLogError
from kafkalog.fsck import Mending, apply_repair, plan_repair, recover, salvage, undo_repair
from kafkalog.record.layout import BATCH_CRC_AT, BATCH_CRC_FROM
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.fsck.repairs import tree
from tests.helpers.broker_dirs import PLAIN, broker_dir, findings, segments
from tests.helpers.damage_kinds import places_of

TRANSACTIONAL = "v2-txn-0"
ATTRIBUTES_AT, CONTROL = 21, 0x20


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_dir(tmp_path, PLAIN, TRANSACTIONAL)


def batches(path: Path) -> list[bytes]:
    content = path.read_bytes()
    places = [*places_of(content), len(content)]
    return [content[start:end] for start, end in itertools.pairwise(places) if start < end]


def made_control(batch: bytes) -> bytes:
    """The batch as a control batch with a sound checksum, whose records are none of a marker."""
    changed = bytearray(batch)
    changed[ATTRIBUTES_AT + 1] |= CONTROL
    changed[BATCH_CRC_AT : BATCH_CRC_AT + 4] = crc32c.crc32c(changed[BATCH_CRC_FROM:]).to_bytes(4)
    return bytes(changed)


def test_a_batch_at_which_recovery_would_cut_is_an_error_and_nothing_is_cut(data: Path) -> None:
    directory = data / TRANSACTIONAL
    log = segments(data, TRANSACTIONAL)[-2]
    first, second, *others = batches(log)
    log.write_bytes(b"".join([first, made_control(second), *others]))
    # Every index of the partition is made anew by a recovery of all of its segments.
    segments(data, TRANSACTIONAL)[0].with_suffix(".timeindex").write_bytes(b"garbage")
    before = tree(directory)
    with pytest.raises(KafkaLogError) as error:
        apply_repair(plan_repair(data))
    assert error.value.path == str(log)
    assert tree(directory) == before
    with pytest.raises(KafkaLogError) as error:
        salvage(directory, data.parent / "new" / TRANSACTIONAL)
    assert error.value.path == str(log)
    assert tree(directory) == before


def test_what_is_wrong_in_a_directory_that_is_moved_aside_goes_with_it(data: Path) -> None:
    copy = data / f"my {PLAIN}"
    shutil.copytree(data / PLAIN, copy)
    next(iter(sorted(copy.glob("*.timeindex")))).write_bytes(b"garbage")
    (copy / PARTITION_METADATA).write_text("garbage")
    before = tree(data)
    plan = plan_repair(data)
    assert [(each.mending, each.path) for each in plan.changes] == [(Mending.ASIDE, copy)]
    assert not plan.left
    journal = apply_repair(plan)
    assert findings(data) == []
    assert journal is not None
    undo_repair(journal)
    assert tree(data) == before


def test_the_offsets_of_sound_batches_that_are_dropped_are_named(data: Path) -> None:
    log = segments(data, PLAIN)[0]
    with kafkalog.FileMessageSet(log) as file:
        _, moved, *_ = ((each.base_offset, each.last_offset) for each in file.batches())
    first, second, third, *others = batches(log)
    log.write_bytes(b"".join([first, third, second, *others]))
    (change,) = (each for each in plan_repair(data, drop_corrupt=True).changes if each.mending is Mending.DROP)
    assert change.lost == (moved,)


def test_a_batch_that_is_there_twice_is_not_lost(data: Path) -> None:
    log = segments(data, PLAIN)[0]
    first, second, *others = batches(log)
    log.write_bytes(b"".join([first, second, first, *others]))
    (change,) = (each for each in plan_repair(data, drop_corrupt=True).changes if each.mending is Mending.DROP)
    assert change.lost == ()


@pytest.mark.parametrize("suffix", [".tmp", ".cleaned", ".deleted"])
def test_the_records_of_a_left_over_file_that_is_the_only_copy_are_told(data: Path, suffix: str) -> None:
    log = segments(data, PLAIN)[3]
    left_over = log.rename(log.with_name(log.name + suffix))
    (change,) = (each for each in plan_repair(data).changes if each.mending is Mending.SETTLE)
    assert left_over.name in str(change)
    with kafkalog.FileMessageSet(left_over) as file:
        assert change.holds is not None
        assert change.holds.records == sum(1 for batch in file.batches() for _ in batch)


@pytest.mark.parametrize("name", [PARTITION_METADATA, LEADER_EPOCH_CHECKPOINT])
@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_a_left_over_file_of_any_name_is_removed_once(data: Path, name: str, suffix: str) -> None:
    shutil.copy(data / PLAIN / name, data / PLAIN / (name + suffix))
    plan = plan_repair(data)
    # A broker takes no offset from the name of a file that it deletes.
    assert [each.mending for each in plan.changes] == [Mending.SETTLE if suffix == ".deleted" else Mending.ASIDE]
    apply_repair(plan)
    assert not (data / PLAIN / (name + suffix)).exists()
    assert plan_repair(data).changes == ()


def test_a_segment_that_is_put_in_place_keeps_its_indexes(data: Path) -> None:
    log = segments(data, TRANSACTIONAL)[1]
    log.rename(log.with_name(log.name + ".swap"))
    apply_repair(plan_repair(data))
    assert log.exists()
    assert log.with_suffix(".index").exists()
    assert findings(data) == []


def test_an_index_entry_that_leads_before_the_file_is_ignored(data: Path) -> None:
    log = segments(data, PLAIN)[3]
    base = int(log.stem)
    with kafkalog.FileMessageSet(log) as file:
        assert file.search(base + 2, -256, hint=base + 1) == file.search(base + 2)


def test_a_line_of_a_checkpoint_without_a_topic_does_not_stop_a_recovery(data: Path) -> None:
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    file = data / RECOVERY_POINT_CHECKPOINT
    file.write_text("0\n1\n 0 2000\n")
    assert [each.error for each in recover(data)] == [None, None]
    assert file.read_text().splitlines()[1] == "2"


@pytest.mark.parametrize("line", ["-1 0", "0 -1"])
def test_a_negative_leader_epoch_does_not_stop_a_salvage(data: Path, tmp_path: Path, line: str) -> None:
    (data / PLAIN / LEADER_EPOCH_CHECKPOINT).write_text(f"0\n1\n{line}\n")
    salvaged = salvage(data / PLAIN, tmp_path / "new" / PLAIN)
    assert salvaged.bytes_left_out == 0
    assert findings(tmp_path / "new") == []
