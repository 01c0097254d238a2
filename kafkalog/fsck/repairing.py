"""Repair in place: `apply_repair`, `undo_repair`.

    plan = plan_repair("/var/lib/kafka")        what is wrong, and what would be changed: only reads
    journal = apply_repair(plan)                new files are made in the journal; then the changes are made
    undo_repair(journal)                        the directory is as before, byte for byte

What is made anew follows from the log, by the same code as a recovery (`rebuilding`), or is kept from what can be read
of a damaged file.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from filecmp import cmp
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, LogStateError
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.rebuilding import Work, rebuilt
from kafkalog.fsck.repair_journal import (
    STAGING,
    UNDOING,
    Journal,
    lock_files,
    restore_directories,
)
from kafkalog.fsck.repair_plan import REBUILDING, Change, Mending, Place, RepairPlan, mending_of
from kafkalog.fsck.repair_planning import PathLike, journals_at, states_of
from kafkalog.fsck.walk import header_at
from kafkalog.storage.checkpoint.checkpoint_file import (
    read_damaged_offset_checkpoint,
    read_leader_epoch_checkpoint,
    write_offset_checkpoint,
)
from kafkalog.storage.checkpoint.clean_shutdown_file import write_clean_shutdown
from kafkalog.storage.checkpoint.partition_metadata_file import write_partition_metadata
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    TopicPartition,
    parse_partition_dir,
    real_path,
    segment_base_offset,
    segment_files,
)
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.remote_path import local_path


def apply_repair(plan: RepairPlan) -> Path | None:
    """Carry out a plan; if it has an unfinished journal, finish that: an interrupted repair or undo.

    Everything new is made in the journal first. After an error before that is complete, nothing has changed, and there
    is no journal; after one behind it, and after an interruption, the next plan has the unfinished journal.

    Returns:
        The journal, for `undo_repair`; None if there was nothing to do, or an undo was finished.

    Raises:
        LogLockedError: A broker or another writer has locked the directory.
        LogStateError: Files have changed since the plan was made, or since the interruption.
        KafkaLogError: Recovery refuses a log.
        OSError: A file cannot be read or written.
    """
    if not plan.changes and plan.unfinished is None:
        return None
    place = plan.place
    with _locked(place) as (times, locks):
        if plan.unfinished is not None:
            return _finish(Journal.read(plan.unfinished))
        if states_of({each.parent for each in plan.states}) != plan.states:
            what = "files have changed since the repair was planned, perhaps by a broker: plan it again"
            raise LogStateError(what, str(place.data_dir))
        for each in journals_at(plan.journal_stem, place).found:
            if each.state == STAGING:
                # Interrupted before it changed anything.
                shutil.rmtree(each.path)
        journal: Journal | None = None
        try:
            journal = Journal.create(plan.journal_stem, place.data_dir, times, locks)
            _Staging(plan, journal).stage()
        except BaseException:
            if journal is None:
                restore_directories(times, locks)
            else:
                journal.discard()
            raise
        journal.apply()
        return journal.path


def undo_repair(journal: PathLike) -> Path:
    """Restore what a repair changed: contents, names, modes and mtimes; then delete its journal.

    Returns:
        The data directory.

    Raises:
        NotALogError: This is no journal of a repair.
        LogLockedError: A broker or another writer has locked the directory.
        LogStateError: A file is not as the repair left it: somebody has written to it. Nothing is changed.
        OSError: A file cannot be read or written. Calling this again goes on.
    """
    path = Path(os.path.abspath(local_path(journal)))  # noqa: PTH100 - a link keeps its name
    found = Journal.read(path)
    place = Place(found.directory, tuple(each.path.parent for each in found.steps), ())
    with _locked(place):
        # Somebody may have undone it, or gone on with it, before the lock was free.
        Journal.read(path).undo()
    return found.directory


def _finish(journal: Journal) -> Path | None:
    if journal.state == UNDOING:
        journal.undo()
        return None
    journal.apply()
    return journal.path


@contextmanager
def _locked(place: Place) -> Iterator[tuple[dict[Path, int], list[Path]]]:
    """Lock the data directory, and partitions that are links to elsewhere.

    Returns:
        The mtimes of directories that had no lock file, and these lock files.
    """
    data_dir = real_path(place.data_dir)
    real = {path for each in place.partitions if (path := real_path(each)) != data_dir and path.parent != data_dir}
    created = lock_files({place.data_dir, *(each.parent for each in real)})
    with ExitStack() as locks:
        locks.enter_context(DirectoryLock(place.data_dir).acquire())
        for each in sorted(real):
            locks.enter_context(DirectoryLock(each.parent, each.name).acquire())
        yield created


class _Staging:
    """The making of all new files of a plan, in the journal."""

    def __init__(self, plan: RepairPlan, journal: Journal) -> None:
        self._plan = plan
        self._place = plan.place
        self._journal = journal
        self._scratch = journal.path / "scratch"
        self._aside = [each.path for each in plan.changes if each.mending is Mending.ASIDE]
        # By file, the offsets of partitions as they are, and the new ones; None removes a line.
        self._known: dict[str, dict[TopicPartition, int]] = {}
        self._offsets: dict[str, dict[TopicPartition, int | None]] = {}

    def stage(self) -> None:
        """Stage all steps."""
        self._scratch.mkdir()
        works: dict[Path, Work] = {}
        for change in self._plan.changes:
            directory = self._place.holding(change.path)
            if directory is not None and change.mending in REBUILDING:
                _add(change, works.setdefault(directory, Work()))
            else:
                self._stage(change)
        for directory, work in works.items():
            self._rebuild(directory, work, self._damage_left(directory))
        for name, offsets in self._offsets.items():
            self._stage_checkpoint(name, offsets)
        shutil.rmtree(self._scratch)

    def _stage(self, change: Change) -> None:
        path, made = change.path, self._scratch / change.path.name
        match change.mending:
            case Mending.ACCEPT_LOSS:
                self._lower(path, max(int(each.found or 0) for each in change.findings))
            case Mending.CHECKPOINT:
                self._correct(path.name, change.findings)
            case Mending.TOPIC_ID:
                assert change.topic_id is not None
                write_partition_metadata(made, change.topic_id)
                self._journal.stage(path, made)
                made.unlink()
            case Mending.CLEAN_MARK:
                write_clean_shutdown(self._scratch)
                self._journal.stage(path, made)
            case Mending.ORPHANS:
                for finding in change.findings:
                    self._journal.stage(Path(finding.path), None)
            case Mending.ASIDE:
                self._journal.stage(path, None)

    def _damage_left(self, directory: Path) -> set[str]:
        """Return the names of the segments of a partition that stay damaged."""
        found = [each.finding for each in self._plan.left if self._place.holding(Path(each.finding.path)) == directory]
        names = {Path(each.path).name for each in found}
        is_damaged = any(mending_of(each) is Mending.DROP for each in found)
        return {name for name in names if segment_base_offset(name) is not None} if is_damaged else set()

    def _rebuild(self, directory: Path, work: Work, damaged: set[str]) -> None:
        """Stage what is rebuilt of a partition; beside `damaged` segments only the files that the findings are about.

        These follow from the sound batches, and the segments stay as they are.
        """
        work.drops |= damaged
        work.left_out |= {path.name for path in self._aside if path.parent == directory}
        start = self._offset(LOG_START_OFFSET_CHECKPOINT, directory)
        corrected = self._offsets.get(LOG_START_OFFSET_CHECKPOINT, {})
        partition = parse_partition_dir(directory.name)
        if partition in corrected:
            start = corrected[partition]
        result = rebuilt(directory, self._scratch / "partition", work, start or 0)
        mended = {finding.path for change in self._plan.changes for finding in change.findings}
        for name, made in result.files.items():
            if damaged and str(directory / name) not in mended:
                continue
            if name in work.cuts and name not in work.drops:
                self._journal.stage_cut(directory / name, work.cuts[name])
            else:
                self._journal.stage(real_path(directory) / name, made)
        shutil.rmtree(self._scratch / "partition")
        if not damaged and (work.cuts or work.drops):
            self._lower(directory, result.log_end_offset)
            if start is not None and not result.first_base_offset < start <= result.log_end_offset:
                self._set(LOG_START_OFFSET_CHECKPOINT, directory, None)

    # --- checkpoints

    def _offset(self, name: str, directory: Path) -> int | None:
        """Return the offset of a partition in a checkpoint of its data directory, if there is one."""
        partition = parse_partition_dir(directory.name)
        return None if partition is None else self._readable(name).get(partition)

    def _readable(self, name: str) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint that can be read. It is read once."""
        if name not in self._known:
            try:
                self._known[name] = read_damaged_offset_checkpoint(self._place.data_dir / name)[0]
            except CorruptCheckpointError:
                self._known[name] = {}
        return self._known[name]

    def _set(self, name: str, directory: Path, offset: int | None) -> None:
        partition = parse_partition_dir(directory.name)
        if partition is not None:
            self._offsets.setdefault(name, {})[partition] = offset

    def _lower(self, directory: Path, end: int) -> None:
        """Lower the offsets of a partition in the checkpoints to the log's end."""
        for name in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT):
            known = self._offset(name, directory)
            if known is not None and known > end:
                self._set(name, directory, end)

    def _correct(self, name: str, findings: Iterable[Finding]) -> None:
        offsets = self._offsets.setdefault(name, {})
        for finding in findings:
            if finding.code == "cleaner-offset-beyond-end":
                self._set(name, self._place.data_dir / str(finding.partition), None)
            elif finding.code not in {"checkpoint-format", "checkpoint-empty"}:
                directory = self._place.data_dir / (finding.partition or Path(finding.path).parent.name)
                self._set(name, directory, _log_start(directory))
            elif name == LOG_START_OFFSET_CHECKPOINT:
                known = self._readable(name)
                for directory in self._place.siblings:
                    partition = parse_partition_dir(directory.name)
                    if partition is not None and partition not in known:
                        offsets.setdefault(partition, _log_start(directory))

    def _stage_checkpoint(self, name: str, changed: Mapping[TopicPartition, int | None]) -> None:
        path, made = self._place.data_dir / name, self._scratch / name
        offsets: dict[TopicPartition, int | None] = {**self._readable(name), **changed}
        write_offset_checkpoint(made, {each: offset for each, offset in offsets.items() if offset is not None})
        if not path.exists() or not cmp(path, made, shallow=False):
            self._journal.stage(path, made)


def _add(change: Change, work: Work) -> None:
    """Add a change to what is rebuilt of a partition."""
    name = change.path.name
    match change.mending:
        case Mending.CUT:
            work.cuts[name] = min(each.position or 0 for each in change.findings)
        case Mending.DROP:
            work.drops.add(name)
        case Mending.INDEXES:
            work.indexed.add(name)
        case Mending.SNAPSHOTS:
            found = {Path(each.path).name for each in change.findings}
            work.files |= {each for each in found if each.endswith(SNAPSHOT_SUFFIX)}
            work.snapshots |= not found <= work.files
        case Mending.EPOCHS:
            work.files.add(name)
        case Mending.SETTLE:
            work.left_over |= {Path(each.path).name for each in change.findings}


def _log_start(directory: Path) -> int | None:
    """Return the log start offset for the checkpoint; None if it is that of the first segment.

    When records are deleted, the leader epochs of those before the log start go too.
    """
    with suppress(CorruptCheckpointError, OSError, IndexError):
        base, path = segment_files(directory)[0]
        _, begin = read_leader_epoch_checkpoint(directory / LEADER_EPOCH_CHECKPOINT)[0]
        with closing(open_source(path)) as source:
            first = header_at(source, 0)[0]
        if begin > base and first["magic"] >= 2 and first["partition_leader_epoch"] >= 0:
            return begin
    return None
