"""Repair in place: what verify finds is mended, no readable batch is dropped unasked, and undo restores everything."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogConfig, LogManager, Record
from kafkalog.errors import LogLockedError, LogStateError, NotALogError
from kafkalog.fsck import Mending, RepairPlan, Severity, apply_repair, plan_repair, salvage, undo_repair, verify_path
from kafkalog.fsck.consequences import RULES
from kafkalog.fsck.repair_journal import Journal
from kafkalog.fsck.repair_plan import MENDINGS
from kafkalog.record.layout import BATCH_LEADER_EPOCH_AT
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint, write_leader_epoch_checkpoint
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    segment_base_offset,
    segment_files,
)
from tests.damage.kinds import BY_NAME, DELETED_RECORDS, KINDS, Kind
from tests.damage.ways import CannotDamage
from tests.fsck.repairs import changes_of, contents, damaged, tree
from tests.helpers.broker_dirs import EPOCHS, METADATA, TRANSACTIONS, broker_dir
from tests.helpers.damage import with_bytes
from tests.helpers.damage_kinds import places_of
from tests.helpers.golden import Partition
from tests.helpers.partitions import sampled_partition

# Of so many kinds one is in the fast tier.
FEW = 100
# How often a repair is killed; with KAFKALOG_KILLS in the environment, that often.
TIMES = int(os.environ.get("KAFKALOG_KILLS", "30"))
HEX = "0123456789abcdef0123456789abcdef"
# The kinds of files that a partition of segments alone does not have.
REMOVED = {"index", "timeindex", "txnindex", "snapshot", LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA}


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the partitions that kinds of damage are made of."""
    return broker_dir(
        tmp_path_factory.mktemp("source"), METADATA, "v2-zstd-0", *sorted({kind.partition for kind in KINDS})
    )


def findings(path: Path) -> set[tuple[str, str]]:
    """Code and path of all that verify finds, but for what is normal."""
    found = verify_path(path)
    return {(each.code, each.path) for each in found if each.severity is not Severity.INFO or each.code == "left-over"}


def batches_in_logs(directory: Path) -> set[bytes]:
    """All whole batches that can be framed from the beginning of a segment."""
    files = [path for path in directory.glob("*.log") if path.is_file() and segment_base_offset(path.name) is not None]
    contents = [path.read_bytes() for path in files]
    pieces = {content[start:end] for content in contents for start, end in pairwise(places_of(content))}
    return {piece for piece in pieces if len(piece) == 12 + int.from_bytes(piece[8:12])}


def everything(directory: Path) -> list[tuple[int, int]]:
    """The base offset and the checksum of each batch."""
    with kafkalog.open(directory) as log:
        return [(batch.base_offset, batch.checksum) for batch in log.batches()]


def ensure_mended(plan: RepairPlan) -> None:
    """Fail unless verify finds nothing of what the plan mends, and nothing new."""
    left = {(each.finding.code, each.finding.path) for each in plan.left}
    assert findings(plan.path) - left == set()


@pytest.mark.parametrize(
    ("kind", "drop_corrupt"),
    [
        pytest.param(kind, drop, id=f"{kind.name}-{'drop' if drop else 'keep'}", marks=marks)
        for number, kind in enumerate(KINDS)
        for marks in [() if number % FEW == 0 else pytest.mark.slow]
        # It makes a difference to damaged batches only.
        for drop in ((False, True) if kind.file == "log" else (number % 2 == 0,))
    ],
)
def test_every_kind_of_damage_is_mended_and_comes_back(
    kind: Kind, drop_corrupt: bool, tmp_path: Path, source: Path
) -> None:
    data = damaged(kind, tmp_path / "data", source)
    partition, before = data / kind.partition, tree(data)
    plan = plan_repair(data, drop_corrupt=drop_corrupt)
    assert tree(data) == before
    there = batches_in_logs(partition)
    journal = apply_repair(plan)
    assert (journal is not None) == bool(plan.changes)
    ensure_mended(plan)
    if not drop_corrupt and kind.file != "leftover":
        assert batches_in_logs(partition) >= there
    if any(change.mending is Mending.DROP for change in plan.changes):
        shutil.copytree(data / kind.partition, tmp_path / kind.partition)
        repaired = everything(tmp_path / kind.partition)
        if journal is not None:
            undo_repair(journal)
        salvage(partition, tmp_path / "salvaged" / kind.partition)
        assert repaired == everything(tmp_path / "salvaged" / kind.partition)
    elif journal is not None:
        assert plan_repair(data, drop_corrupt=drop_corrupt).changes == ()
        undo_repair(journal)
    assert tree(data) == before
    assert list(tmp_path.glob("data.repair-*")) == []


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if number % FEW == 0 else pytest.mark.slow)
        for number, kind in enumerate(kind for kind in KINDS if not kind.alone and kind.file not in REMOVED)
    ],
)
def test_one_repair_of_a_partition_with_segments_alone_is_enough(kind: Kind, tmp_path: Path, source: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(source, data, symlinks=True)
    for path in (data / kind.partition).iterdir():
        if path.suffix != ".log":
            path.unlink()
    try:
        kind.damage(data, kind.partition)
    except CannotDamage as why:
        pytest.skip(str(why))
    before = tree(data)
    plan = plan_repair(data, drop_corrupt=True)
    journal = apply_repair(plan)
    ensure_mended(plan)
    assert plan_repair(data, drop_corrupt=True).changes == ()
    if journal is not None:
        undo_repair(journal)
    assert tree(data).items() - before.items() <= {(".lock", tree(data).get(".lock"))}


@sampled_partition
def test_torn_tails_of_all_formats_are_cut(partition: Partition, tmp_path: Path) -> None:
    directory = tmp_path / partition.directory.name
    shutil.copytree(partition.directory, directory)
    log = max(directory.glob("*.log"))
    if len(places := places_of(log.read_bytes())) < 2:
        pytest.skip("no batch")
    sound = everything(directory)
    with log.open("r+b") as file:
        file.truncate(places[-1] - 1)
    before = tree(directory)
    plan = plan_repair(directory)
    journal = apply_repair(plan)
    assert journal is not None
    assert journal.parent == tmp_path
    ensure_mended(plan)
    assert everything(directory) == sound[:-1]
    undo_repair(journal)
    assert tree(directory) == before
    assert sorted(tmp_path.iterdir()) == [directory]


def test_an_undamaged_directory_needs_nothing(source: Path) -> None:
    before = tree(source)
    plan = plan_repair(source)
    assert (plan.changes, apply_repair(plan)) == ((), None)
    assert tree(source) == before


def test_what_a_repair_mends_is_told_by_verify() -> None:
    for code, mending in MENDINGS.items():
        told = "kafkalog repair {" in RULES[code].mend
        assert told == (mending not in {Mending.DROP, Mending.SETTLE}), code
    assert {code.partition(",")[0] for code in MENDINGS} <= {code.partition(",")[0] for code in RULES}


# --- interruptions


def several_kinds(tmp_path: Path, source: Path) -> Path:
    """A directory with changes of each form: replaced, created, removed and cut files, and a directory moved aside."""
    data = damaged(BY_NAME["log-torn-active"], tmp_path / "data", source)
    for name in ("epochs-malformed", "leftover-swap-only", "snapshot-all-missing", "directory-foreign"):
        kind = BY_NAME[name]
        kind.damage(data, "v2-zstd-0" if name == "leftover-swap-only" else kind.partition)
    return data


def repaired(data: Path) -> None:
    apply_repair(plan_repair(data))


def only_journal(data: Path) -> Path:
    (journal,) = data.parent.glob("data.repair-*")
    return journal


@pytest.mark.slow
@pytest.mark.parametrize("undoing", [False, True], ids=["apply", "undo"])
def test_a_killed_repair_is_finished_or_undone(undoing: bool, tmp_path: Path, source: Path) -> None:
    chosen, home = random.Random(16), tmp_path / "home"
    original = several_kinds(tmp_path / "original", source)
    before, done = tree(original), dict[str, str]()
    action_count = 0
    for run in range(TIMES + 1):
        shutil.rmtree(home, ignore_errors=True)
        data, journal = home / "data", home
        shutil.copytree(original, data, symlinks=True)
        shutil.copystat(original, data)
        if undoing:
            repaired(data)
            done = contents(data)
            journal = only_journal(data)
        stop_at = chosen.randint(1, action_count) if run else 0
        made = changes_of(partial(undo_repair, journal) if undoing else partial(repaired, data), stop_at)
        if not run:
            # The first is not killed: so many moments there are.
            action_count, done = made, done or contents(data)
            continue
        assert made == -1
        plan = plan_repair(data)
        if plan.unfinished is None:
            assert tree(data) == before or contents(data) == done
        elif chosen.random() < 0.5:
            apply_repair(plan)
            # The rest of an interrupted undo is an undo.
            assert (tree(data) == before) if undoing else (contents(data) == done)
        else:
            undo_repair(plan.unfinished)
            assert tree(data) == before


@pytest.mark.slow
def test_what_is_left_of_a_killed_plan_is_removed_by_the_next(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    before = tree(data)
    assert changes_of(lambda: repaired(data), 20) == -1
    assert tree(data) == before
    assert len(list(tmp_path.glob("data.repair-*"))) == 1
    apply_repair(plan_repair(data))
    assert len(list(tmp_path.glob("data.repair-*"))) == 1


def test_an_error_before_the_first_change_leaves_all_as_it_was(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = several_kinds(tmp_path, source)
    (data / ".lock").unlink()
    before = tree(data)
    plan = plan_repair(data)
    monkeypatch.setattr(Journal, "stage_cut", lambda *_: os.stat(tmp_path / "full"))  # noqa: PTH116 - any OSError
    with pytest.raises(FileNotFoundError):
        apply_repair(plan)
    assert tree(data) == before
    assert sorted(tmp_path.iterdir()) == [data]


@pytest.mark.slow
def test_an_error_in_the_middle_leaves_a_journal(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = several_kinds(tmp_path, source)
    before, plan, take = tree(data), plan_repair(data), Journal._take

    def fail(self: Journal, step: object, *paths: Path) -> None:
        if step is self.steps[-1]:
            raise OSError(28, "No space left on device", str(self.steps[-1].path))
        take(self, step, *paths)  # type: ignore[arg-type]

    monkeypatch.setattr(Journal, "_take", fail)
    with pytest.raises(OSError, match="No space"):
        apply_repair(plan)
    monkeypatch.undo()
    unfinished = plan_repair(data)
    assert unfinished.unfinished == only_journal(data)
    assert apply_repair(unfinished) == only_journal(data)
    ensure_mended(plan_repair(data))
    undo_repair(only_journal(data))
    assert tree(data) == before


# --- others in the directory


def test_the_lock_is_respected(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    for path in (data, data / "v2-none-0"):
        plan = plan_repair(path)
        lock = DirectoryLock(data).acquire()
        with pytest.raises(LogLockedError):
            apply_repair(plan)
        lock.release()
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    lock = DirectoryLock(data, "v2-none-0").acquire()
    with pytest.raises(LogLockedError):
        undo_repair(journal)
    lock.release()


def test_a_repair_that_somebody_undoes_meanwhile_is_not_undone_twice(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = several_kinds(tmp_path, source)
    before = tree(data)
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    acquire = DirectoryLock.acquire

    def later(self: DirectoryLock) -> DirectoryLock:
        monkeypatch.undo()
        undo_repair(str(journal))
        return acquire(self)

    monkeypatch.setattr(DirectoryLock, "acquire", later)
    with pytest.raises(NotALogError, match="no journal"):
        undo_repair(journal)
    assert tree(data) == before


def test_a_lock_file_that_the_repair_created_goes_with_its_undo(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    (data / ".lock").unlink()
    before = tree(data)
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    undo_repair(journal)
    assert tree(data) == before


def test_what_has_changed_since_the_plan_is_not_repaired(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    plan = plan_repair(data)
    (data / "v2-none-0" / f"{7777:020}.log").touch()
    with pytest.raises(LogStateError, match="planned"):
        apply_repair(plan)


def test_what_has_changed_since_the_repair_is_not_undone(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    repaired_tree = tree(data)
    log = max((data / "v2-none-0").glob("*.log"))
    with log.open("ab") as file:
        file.write(b"more")
    with pytest.raises(LogStateError, match=log.name):
        undo_repair(journal)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 4)
    os.utime(log, ns=(0, repaired_tree[str(log.relative_to(data))][1]))
    undo_repair(journal)


def test_a_preallocated_tail_is_cut_where_recovery_rebuilds_and_left_elsewhere(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LogManager(data, "a") as manager:
        for name in ("orders-0", "orders-1"):
            manager.create(name).append([Record(b"v")])
    (data / CLEAN_SHUTDOWN_FILE).unlink()
    size = {}
    for path in data.glob("*/*.log"):
        size[path.parent.name] = path.stat().st_size
        os.truncate(path, size[path.parent.name] + 4096)
    (data / "orders-0" / LEADER_EPOCH_CHECKPOINT).write_bytes(b"x")
    before = tree(data)
    plan = plan_repair(data)
    assert {change.mending for change in plan.changes} == {Mending.CUT, Mending.EPOCHS}
    journal = apply_repair(plan)
    assert journal is not None
    found = {path.parent.name: path.stat().st_size for path in data.glob("*/*.log")}
    assert found == {"orders-0": size["orders-0"], "orders-1": size["orders-1"] + 4096}
    assert not plan_repair(data).changes
    undo_repair(journal)
    assert tree(data) == before


def test_a_path_that_is_no_journal_is_not_undone(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NotALogError):
            undo_repair(path)
    (tmp_path / "journal.json").write_text('{"version": 2}')
    with pytest.raises(NotALogError):
        undo_repair(tmp_path)


# --- places


def test_one_partition_of_a_data_directory(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = several_kinds(tmp_path, source)
    (tmp_path / "link").symlink_to(data)
    before = tree(data)
    monkeypatch.chdir(data / "v2-none-0")
    for path in (".", f"{tmp_path}/link/v2-none-0/", f"{data}/../data/v2-none-0"):
        plan = plan_repair(path)
        assert {change.mending for change in plan.changes} >= {Mending.CUT, Mending.ACCEPT_LOSS}
        journal = apply_repair(plan)
        assert journal is not None
        assert journal.parent == tmp_path
        assert read_offset_checkpoint(data / HIGH_WATERMARK_CHECKPOINT)[TopicPartition("v2-none", 0)] < 1200
        undo_repair(journal)
        assert tree(data) == before


def test_files_whose_names_a_broker_misreads_are_moved_aside(tmp_path: Path, source: Path) -> None:
    shutil.copytree(source, data := tmp_path / "data")
    partition = data / "v2-none-0"
    for name in ("5.log", "x.snapshot", f"{'9' * 20}.log", "x.log.cleaned", "x.index.swap", ".log"):
        shutil.copy2(partition / f"{0:020}.log", partition / name)
    before = tree(data)
    plan = plan_repair(data)
    assert {change.mending for change in plan.changes} == {Mending.ASIDE}
    journal = apply_repair(plan)
    assert journal is not None
    assert findings(data) == set()
    undo_repair(journal)
    assert tree(data) == before


@pytest.mark.slow
def test_a_partition_that_is_a_link_to_elsewhere(tmp_path: Path, source: Path) -> None:
    data, elsewhere = several_kinds(tmp_path / "here", source), tmp_path / "there" / "v2-none-0"
    elsewhere.parent.mkdir()
    shutil.move(data / "v2-none-0", elsewhere)
    (data / "v2-none-0").symlink_to(elsewhere)
    before = tree(data), tree(elsewhere.parent)
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    ensure_mended(plan_repair(data))
    assert (data / "v2-none-0").is_symlink()
    undo_repair(journal)
    assert (tree(data), tree(elsewhere.parent)) == before


@pytest.mark.slow
def test_a_segment_that_is_a_link(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    log = max((data / "v2-none-0").glob("*.log"))
    shutil.move(log, tmp_path / "aside.log")
    log.symlink_to(tmp_path / "aside.log")
    before = tree(data), (tmp_path / "aside.log").read_bytes()
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    ensure_mended(plan_repair(data))
    undo_repair(journal)
    assert (tree(data), (tmp_path / "aside.log").read_bytes()) == before


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no other file system")
def test_a_journal_on_another_file_system(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    if data.stat().st_dev == os.stat("/dev/shm").st_dev:  # noqa: PTH116 - a device
        pytest.skip("no other file system")
    before, journals = tree(data), Path("/dev/shm") / f"kafkalog-{os.getpid()}"
    journals.mkdir()
    try:
        plan = plan_repair(data, drop_corrupt=True, journals=journals)
        assert [each.finding.code for each in plan.left] == ["foreign-directory"]
        journal = apply_repair(plan)
        assert journal is not None
        ensure_mended(plan)
        undo_repair(journal)
        assert tree(data) == before
    finally:
        shutil.rmtree(journals)


def test_the_journal_is_never_in_the_data_directory(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    for path in (data, data / "v2-none-0"):
        with pytest.raises(ValueError, match="would not start"):
            plan_repair(path, journals=data / "v2-none-0")


def test_the_journal_of_a_partition_is_not_beside_other_partitions(tmp_path: Path, source: Path) -> None:
    for name in ("v2-none-0", "v2-epochs-0"):
        shutil.copytree(source / name, tmp_path / "copies" / name)
    BY_NAME["epochs-malformed"].damage(tmp_path / "copies", "v2-epochs-0")
    journal = apply_repair(plan_repair(tmp_path / "copies" / "v2-epochs-0"))
    assert journal is not None
    assert journal.parent == tmp_path
    undo_repair(journal)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "copies"]


def test_a_file_is_not_repaired(source: Path) -> None:
    with pytest.raises(NotALogError, match="partition directory"):
        plan_repair(next((source / "v2-none-0").glob("*.log")))


# --- details


def test_new_files_have_the_mode_of_the_old(tmp_path: Path, source: Path) -> None:
    data = damaged(BY_NAME["epochs-malformed"], tmp_path / "data", source)
    path = data / "v2-epochs-0" / LEADER_EPOCH_CHECKPOINT
    path.chmod(0o640)
    apply_repair(plan_repair(data))
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_clean_mark_stays(tmp_path: Path, source: Path) -> None:
    data = several_kinds(tmp_path, source)
    assert (data / CLEAN_SHUTDOWN_FILE).exists()
    apply_repair(plan_repair(data))
    assert (data / CLEAN_SHUTDOWN_FILE).exists()


@pytest.mark.parametrize("how", ["given", "siblings", "divided", "none"])
def test_the_topic_id(how: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LogManager(data, "a") as manager:
        for number in range(3):
            manager.create(f"orders-{number}").append([Record(b"1")])
    path = data / "orders-0" / PARTITION_METADATA
    known = read_partition_metadata(path)
    assert known is not None
    path.write_text("version: 0\n")
    for number in range(1, {"given": 3, "siblings": 1, "divided": 2, "none": 3}[how]):
        (data / f"orders-{number}" / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {'B' * 21}A")
    if how == "none":
        for number in (1, 2):
            (data / f"orders-{number}" / PARTITION_METADATA).unlink()
    plan = plan_repair(data / "orders-0", topic_ids={"orders": known.topic_id} if how == "given" else {})
    apply_repair(plan)
    found = [each.topic_id for each in plan.changes]
    assert found == ([known.topic_id] if how in {"given", "siblings"} else [])
    assert [each.finding.code for each in plan.left] == ([] if found else ["partition-metadata-format"])
    if found:
        assert read_partition_metadata(path) == known


def test_a_topic_id_that_is_given_is_written_also_where_nothing_seems_wrong(tmp_path: Path, source: Path) -> None:
    data = damaged(BY_NAME["partition-metadata-other-id"], tmp_path / "data", source)
    (change,) = plan_repair(data / "v2-none-0", topic_ids={"v2-none": "C" * 21 + "A"}).changes
    assert (change.mending, change.topic_id) == (Mending.TOPIC_ID, "C" * 21 + "A")
    with pytest.raises(ValueError, match="not a topic id"):
        plan_repair(data, topic_ids={"v2-none": "short"})


@pytest.mark.parametrize("name", ["partition-metadata-other-id", "partition-metadata-missing"])
def test_a_topic_id_that_the_cluster_does_not_have_is_written_with_a_word(
    tmp_path: Path, source: Path, name: str
) -> None:
    of_cluster = read_partition_metadata(source / "v2-none-0" / PARTITION_METADATA)
    assert of_cluster is not None
    data = damaged(BY_NAME[name], tmp_path / "data", source)
    (change,) = plan_repair(data, topic_ids={"v2-none": "C" * 21 + "A"}).changes
    assert change.cluster_topic_id == of_cluster.topic_id
    assert f"the cluster has {of_cluster.topic_id}, and a broker sets the partition aside" in str(change)
    (change,) = plan_repair(data, topic_ids={"v2-none": of_cluster.topic_id}).changes
    assert change.cluster_topic_id is None


@pytest.mark.parametrize("how", ["malformed", "empty", "missing"])
def test_a_lost_log_start_is_taken_from_the_leader_epochs(tmp_path: Path, source: Path, how: str) -> None:
    data = damaged(BY_NAME[f"log-start-{how}"], tmp_path / "data", source)
    known = read_offset_checkpoint(source / LOG_START_OFFSET_CHECKPOINT)
    apply_repair(plan_repair(data))
    partition = TopicPartition(DELETED_RECORDS.removesuffix("-0"), 0)
    assert read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT)[partition] == known[partition]
    assert contents(data / DELETED_RECORDS) == contents(source / DELETED_RECORDS)
    assert findings(data) == set()


def test_the_offsets_that_go_are_named(tmp_path: Path) -> None:
    with LogManager(tmp_path / "data", "a", LogConfig(segment_bytes=3000)) as manager:
        log = manager.create("orders-0")
        for number in range(100):
            log.append([Record(b"%d" % number)])
    path = min((tmp_path / "data" / "orders-0").glob("*.log"))
    places = places_of(content := path.read_bytes())
    content = with_bytes(content, places[7] + 16, b"\7")
    path.write_bytes(with_bytes(content, places[9] - 1, b"\7"))
    (change,) = plan_repair(tmp_path / "data", drop_corrupt=True).changes
    assert change.lost == ((7, 8),)
    assert "offsets 7..8 are lost" in str(change)


def test_what_is_moved_aside_in_one_partition_is_not_passed_over_in_another(tmp_path: Path, source: Path) -> None:
    data = damaged(BY_NAME["leftover-swap-torn"], tmp_path / "data", source)
    shutil.copytree(data / "v2-none-0", data / "v2-none-1")
    torn = next((data / "v2-none-1").glob("*.log.swap"))
    shutil.copy2(torn.with_name(torn.name.removesuffix(".swap")), torn)
    torn.with_name(torn.name.removesuffix(".swap")).unlink()
    sound = torn.read_bytes()
    apply_repair(plan_repair(data))
    assert torn.with_name(torn.name.removesuffix(".swap")).read_bytes() == sound


@pytest.mark.slow
def test_kinds_that_a_repair_cannot_mend_are_left_with_a_reason(tmp_path: Path, source: Path) -> None:
    for name in ("meta-garbage", "directory-gone", "log-segment-missing-sealed"):
        data = damaged(BY_NAME[name], tmp_path / name, source)
        plan = plan_repair(data)
        assert plan.changes == ()
        assert plan.left
        assert all(each.why for each in plan.left)


def test_a_log_of_cluster_metadata_gets_no_gap(tmp_path: Path, source: Path) -> None:
    data = damaged(BY_NAME["metadata-flipped"], tmp_path / "data", source)
    plan = plan_repair(data, drop_corrupt=True)
    assert plan.changes == ()
    assert "another controller" in plan.left[0].why


# --- journals


@pytest.mark.slow
def test_directories_of_one_name_may_have_their_journals_in_one_place(tmp_path: Path, source: Path) -> None:
    kind, journals = BY_NAME["epochs-malformed"], tmp_path / "journals"
    journals.mkdir()
    one, other = (damaged(kind, tmp_path / name / "data", source) for name in ("one", "other"))
    killed = changes_of(partial(apply_repair, plan_repair(one, journals=journals)), 12)
    assert killed == -1
    before = tree(one)
    plan = plan_repair(other, journals=journals)
    assert plan.unfinished is None
    apply_repair(plan)
    ensure_mended(plan)
    assert tree(one) == before
    apply_repair(plan_repair(one, journals=journals))
    ensure_mended(plan_repair(one))


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: os.truncate(path, 0)])
def test_an_undo_without_a_file_of_the_journal_changes_nothing(
    harm: Callable[[Path], object], tmp_path: Path, source: Path
) -> None:
    data = damaged(BY_NAME["epochs-malformed"], tmp_path / "data", source)
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    harm(next(path for path in (journal / "old").iterdir() if path.is_file()))
    before = tree(data)
    with pytest.raises(LogStateError, match="a file of the journal is missing or has another size"):
        undo_repair(journal)
    assert tree(data) == before
    assert journal.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [{"times": []}, {"steps": [{"path": "x", "before": [1], "after": None, "is_cut": False}]}]
)
def test_a_damaged_journal_is_named(wrong: dict[str, object], tmp_path: Path, source: Path) -> None:
    data = damaged(BY_NAME["epochs-malformed"], tmp_path / "data", source)
    journal = apply_repair(plan_repair(data))
    assert journal is not None
    file = journal / "journal.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | wrong))
    with pytest.raises(NotALogError, match="no journal of a repair") as error:
        undo_repair(journal)
    assert error.value.path == str(file)
    assert plan_repair(data).changes == ()


def test_a_segment_with_batches_of_another_one_and_a_tail_is_mended_at_once(tmp_path: Path, source: Path) -> None:
    data = damaged(BY_NAME["log-torn-active"], tmp_path / "data", source)
    *_, other, log = sorted((data / "v2-none-0").glob("*.log"))
    content = other.read_bytes()
    end = places_of(content)[2]
    log.write_bytes(content[:end] + bytes(len(content) - end))
    before = tree(data)
    journal = apply_repair(plan_repair(data, drop_corrupt=True))
    assert journal is not None
    assert plan_repair(data, drop_corrupt=True).changes == ()
    undo_repair(journal)
    assert tree(data) == before


def test_two_changes_of_one_file_are_undone(tmp_path: Path, source: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(source, data)
    log = data / "v2-none-0" / f"{0:020}.log"
    log.rename(log.with_name(log.name + ".swap"))
    before = tree(data)
    journal = apply_repair(plan_repair(data, drop_corrupt=True))
    assert journal is not None
    undo_repair(journal)
    assert tree(data) == before


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata", f"{0:020}.txnindex"])
def test_a_directory_in_the_place_of_a_file_is_left_and_the_rest_is_mended(
    tmp_path: Path, source: Path, name: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(source, data)
    (data / "v2-none-0" / f"{0:020}.index").unlink()
    path = data / "v2-txn-0" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    plan = plan_repair(data)
    apply_repair(plan)
    assert (data / "v2-none-0" / f"{0:020}.index").exists()
    assert any(f"mv {path} ASIDE" in each.why for each in plan.left)
    assert path.is_dir()


@pytest.mark.parametrize("name", [LEADER_EPOCH_CHECKPOINT, f"{20:020}.txnindex"])
def test_what_keeps_a_broker_from_starting_is_mended_also_beside_a_damaged_log(tmp_path: Path, name: str) -> None:
    data = broker_dir(tmp_path, TRANSACTIONS)
    (data / ".lock").touch()
    partition = data / TRANSACTIONS
    log, state = segment_files(partition)[2][1], partition / name
    sound = state.read_bytes()
    with log.open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"!!!")
    (partition / f"{0:020}.timeindex").write_bytes(bytes(24))
    state.write_bytes(b"\1" + sound[1:])
    before, damaged_before = tree(data), log.read_bytes()
    plan = plan_repair(data)
    assert [change.path for change in plan.changes] == [state if state.suffix == "" else state.with_suffix(".log")]
    assert {each.finding.code for each in plan.left} == {"crc-mismatch", "index-zeros"}
    journal = apply_repair(plan)
    assert journal is not None
    assert [name for name, entry in tree(data).items() if entry[2] != before[name][2]] == [
        f"{TRANSACTIONS}/{state.name}"
    ]
    assert state.read_bytes() == sound
    assert log.read_bytes() == damaged_before
    undo_repair(journal)
    assert tree(data) == before


@pytest.fixture
def with_a_wrong_epoch(tmp_path: Path) -> Path:
    """A partition with a batch whose leader epoch is too high; recovery would take it for all batches behind."""
    partition = broker_dir(tmp_path, EPOCHS) / EPOCHS
    log = segment_files(partition)[0][1]
    log.write_bytes(with_bytes(log.read_bytes(), BATCH_LEADER_EPOCH_AT, (3).to_bytes(4, "big")))
    return partition


@pytest.mark.parametrize("epochs", [[(0, 0), (2, 400), (4, 800), (6, 1200)], [(17, 0)]])
def test_leader_epochs_are_not_rebuilt_from_a_batch_with_a_wrong_one(
    with_a_wrong_epoch: Path, epochs: list[tuple[int, int]]
) -> None:
    path = with_a_wrong_epoch / LEADER_EPOCH_CHECKPOINT
    write_leader_epoch_checkpoint(path, epochs)
    plan = plan_repair(with_a_wrong_epoch)
    assert not plan.changes
    left = {each.finding.code: each.why for each in plan.left}
    assert left.keys() == {"leader-epoch", "leader-epoch-differs"}
    assert "a batch has a wrong leader epoch, which a rebuilt file would have too" in left["leader-epoch-differs"]
    assert f"mv {path} ASIDE" in left["leader-epoch-differs"]


def test_leader_epochs_that_keep_a_broker_from_starting_are_rebuilt_also_beside_a_wrong_one(
    with_a_wrong_epoch: Path,
) -> None:
    (with_a_wrong_epoch / LEADER_EPOCH_CHECKPOINT).write_text("no checkpoint")
    (with_a_wrong_epoch.parent / ".lock").touch()
    apply_repair(plan_repair(with_a_wrong_epoch))
    assert {each.code for each in verify_path(with_a_wrong_epoch)} == {"leader-epoch"}
