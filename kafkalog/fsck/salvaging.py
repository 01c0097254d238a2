"""Salvage of a damaged partition: `salvage`.

    source       batch | damaged | batch | lost bytes | batch          never written to
    destination  batch | empty   | batch | empty      | batch          offsets, leader epochs and topic id as before

The good batches are copied byte for byte to segments of the same base offsets. An empty batch takes the place of the
offsets in between, as Kafka's cleaner leaves one: so no offset is missing. The copy is then recovered as after an
unclean stop, which builds its indexes, leader epochs and producer state. It is made in a directory whose name tells a
broker to delete it, and gets its own name once it is complete: an interrupted salvage leaves no partition.
"""

import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from errno import EEXIST
from io import FileIO
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import numpy as np

from kafkalog.errors import (
    CorruptCheckpointError,
    InconsistentTopicIdError,
    KafkaLogError,
    NotALogError,
)
from kafkalog.fsck.checkpoint_checks import Checkpoints
from kafkalog.fsck.cluster_metadata import read_cluster_metadata
from kafkalog.fsck.file_check import FileCheck, Scope, Watcher
from kafkalog.fsck.findings import Finding, Summary
from kafkalog.fsck.gap_checks import unexplained_gaps
from kafkalog.fsck.gathering import Batches, Gathering
from kafkalog.fsck.header_checks import Bounds, Flags, first_offsets, is_wrapper
from kafkalog.fsck.layout_checks import dangling_findings, names_in
from kafkalog.fsck.log_history import LogHistory
from kafkalog.fsck.recovering import collected_messages
from kafkalog.fsck.state_checks import epoch_findings
from kafkalog.fsck.walk import Run, Source, header_at, walk
from kafkalog.record.records_builder import empty_batch
from kafkalog.storage.checkpoint.checkpoint_file import (
    EpochEntry,
    read_leader_epoch_checkpoint,
    read_offset_checkpoint,
    write_leader_epoch_checkpoint,
)
from kafkalog.storage.checkpoint.partition_metadata_file import (
    read_partition_metadata,
    topic_id_in,
    write_partition_metadata,
)
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.data_dir.session import Session
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    partition_of_dir,
    segment_files,
)
from kafkalog.storage.files.durable import make_directory, naming, sync_directory
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.recovery.log_loader import Opening
from kafkalog.storage.remote_path import local_path, to_path
from kafkalog.storage.unified_log import WritableLog

_log = logging.getLogger(__name__)
# The codes of findings about batches that a broker's followers and consumers do not accept where they are.
WRONG_OFFSETS = {
    "last-offset-delta",
    "offset-order",
    "offset-overlap",
    "offset-below-segment",
    "offset-beyond-segment",
    "segment-overlap",
}
# The codes of findings about batches that a broker serves, and consumers cannot read.
_UNREAD = {"unknown-codec", "records-count", "invalid-records", "inner-crc", "inner-offsets"}
# The subset of `_UNREAD` that hides the first offset of a wrapper.
_UNREADABLE = {"unknown-codec", "invalid-records"}
_OF_A_SESSION = {LOCK_FILE, CLEAN_SHUTDOWN_FILE}


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvagedPartition:
    """The result of `salvage`.

    Attributes:
        directory: The new partition directory.
        topic_partition: The partition.
        topic_id: Its topic id.
        log_start_offset: Its log start offset.
        log_end_offset: The offset of its next record.
        batches: The number of batches copied.
        size_in_bytes: Their size.
        batches_left_out: The number of readable batches that were not copied.
        bytes_left_out: The bytes that were not copied: of those, and of lost bytes and tails.
    """

    directory: Path
    topic_partition: TopicPartition
    topic_id: str
    log_start_offset: int
    log_end_offset: int
    batches: int
    size_in_bytes: int
    batches_left_out: int
    bytes_left_out: int


def salvage(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    config: LogConfig | None = None,
    topic_id: str | None = None,
    deep: bool = False,
    report: Callable[[Finding], object] | None = None,
    progress: Callable[[int], object] | None = None,
) -> SalvagedPartition:
    """Copy every good batch of a partition to a new partition directory that a broker accepts.

    A batch is good if its checksum is valid, and if its offsets follow those of the batches before it and belong to its
    segment. A compressed message of format 0 or 1 must be readable, too: its first offset is only inside, and Kafka 4.2
    does not start without it. Empty batches of format 2 take the place of the others, with their offsets, except at the
    end of the log.

    Args:
        source: The damaged partition directory. It is only read.
        destination: The directory to create, `<topic>-<number>`. Its parent is a broker's data directory, whose lock is
            held meanwhile.
        config: The settings of the topic: how densely the indexes are filled.
        topic_id: The topic id; None: that in `partition.metadata` of the source or, without one, that in the cluster's
            metadata in the source's data directory, that of the topic's other partitions beside the destination, or a
            new one. A broker sets a partition with another topic id than
            its cluster's aside.
        deep: Whether to decompress and parse all records, and leave out the batches that consumers cannot read. They
            are copied otherwise, as a broker serves them.
        report: Called with each finding about the source's `.log` files.
        progress: Called with the number of bytes read since the last call.

    Raises:
        NotALogError: The source has no segments, or the destination is not named like a partition.
        FileExistsError: The destination is a link, or exists and is not empty.
        InconsistentTopicIdError: Other partitions of the topic beside the destination have another topic id.
        CorruptRecordError: A control batch with a sound checksum cannot be read: recovery cuts the log there.
        LogLockedError: A broker or another writer has locked the data directory of the destination.
        OSError: A file cannot be read or written. There is no destination then.
    """
    source, destination = to_path(source), local_path(destination).absolute()
    partition = partition_of_dir(destination.name)
    if partition is None:
        raise NotALogError("a partition's directory is named <topic>-<number>", str(destination))
    if not (files := segment_files(source)):
        raise NotALogError("no segments (<20 digits>.log) to salvage", str(source))
    if destination.is_symlink():
        raise FileExistsError(EEXIST, "the destination is a link", str(destination))
    with _data_dir(destination.parent):
        # The new partition, once it is there: until then nothing has changed in the data directory.
        session, created = Session(DirectoryLock.of_partition(destination)), list[str]()
        try:
            _remove_interrupted(destination)
            if destination.exists() and any(destination.iterdir()):
                raise FileExistsError(EEXIST, "the destination is not empty", str(destination))
            topic_id = _topic_id(source, destination, partition.topic, topic_id)
            with _temporary(destination) as temporary:
                made = temporary / destination.name
                made.mkdir()
                report = report or (lambda _: None)
                copy = Copy(made, leader_epochs(source), report)
                for finding in dangling_findings(source, names_in(source)):
                    report(finding)
                for (base_offset, path), following in zip(files, [*(base for base, _ in files[1:]), None], strict=True):
                    bounds = Bounds(base_offset, following)
                    copy.add(path, Scope(str(path), bounds, following is not None, deep=deep, progress=progress))
                for finding in unexplained_gaps(copy.source, Checkpoints(source.parent), partition_of_dir(source.name)):
                    report(finding)
                start = _log_start_offset(source)
                copy.write_epochs(start)
                write_partition_metadata(made / PARTITION_METADATA, topic_id)
                with recovered_copy(made, source, config) as log:
                    log.update_high_watermark(log.log_end_offset)
                    if start <= log.log_end_offset:
                        log.maybe_increment_log_start_offset(start)
                session.update_checkpoints([log])
                made.rename(destination)
                sync_directory(destination.parent)
            created.append(destination.name)
        finally:
            session.end(*created, in_order=True)
    return SalvagedPartition(
        directory=destination,
        topic_partition=partition,
        topic_id=topic_id,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        batches=copy.batches,
        size_in_bytes=copy.size,
        batches_left_out=copy.left_out,
        bytes_left_out=copy.read - copy.size,
    )


def _topic_id(source: Path, destination: Path, topic: str, wanted: str | None) -> str:
    """Return the topic id of the destination."""
    if wanted is None:
        try:
            found = read_partition_metadata(source / PARTITION_METADATA)
        except CorruptCheckpointError as error:
            _log.warning("%s; the topic id is the cluster's, that of the other partitions, or a new one", error)
            found = None
        if found is not None:
            wanted = found.topic_id
        elif (cluster := read_cluster_metadata(source.parent)) is not None:
            wanted = cluster.topic_ids.get(topic)
    present = topic_id_in(destination.parent, topic, new=wanted)
    if wanted is not None and present != wanted:
        what = "other partitions of the topic beside it have another topic id"
        raise InconsistentTopicIdError(what, str(destination), None, present, wanted)
    return present


@contextmanager
def recovered_copy(
    made: Path, original: Path, config: LogConfig | None, log_start_offset: int = 0
) -> Iterator[WritableLog]:
    """Open a copy of a partition, or links to its segments, as after an unclean stop, and close it at the end.

    Raises:
        CorruptRecordError, InvalidRecordError: Recovery would cut a segment. Nothing was cut.
        KafkaLogError: Recovery refuses the log. The error names the file of the original.
    """
    opening = Opening(log_start_offset=log_start_offset, may_cut=False)
    # Its messages are about files of the copy.
    with collected_messages():
        try:
            with WritableLog.load(made, config, opening) as log:
                yield log
        except KafkaLogError as error:
            if error.path is not None:
                error.path = str(original / Path(error.path).name)
            raise error.at(None) from None


def leader_epochs(source: Path) -> list[EpochEntry]:
    """Return the leader epochs of a partition, as its checkpoint has them; none if it is damaged."""
    path, why = source / LEADER_EPOCH_CHECKPOINT, None
    try:
        found = read_leader_epoch_checkpoint(path)
    except (CorruptCheckpointError, OSError) as error:
        why = str(error)
    else:
        if any(min(each) < 0 for each in found):
            why = f"{path}: a leader epoch or its start offset is negative"
    if why is not None:
        _log.warning("%s; the leader epochs are those of the batches", why)
        return []
    return found


def _log_start_offset(source: Path) -> int:
    """Return the log start offset in the checkpoint of the source's data directory; 0 if there is none."""
    try:
        starts = read_offset_checkpoint(source.parent / LOG_START_OFFSET_CHECKPOINT)
    except (CorruptCheckpointError, OSError) as error:
        _log.warning("%s; the log starts with its first batch", error)
        return 0
    partition = partition_of_dir(source.name)
    return 0 if partition is None else starts.get(partition, 0)


@contextmanager
def _data_dir(path: Path) -> Iterator[None]:
    """Create a data directory if there is none. After an error remove what was created, if nothing else is in it."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    make_directory(path)
    try:
        yield
    except BaseException:
        if missing and {each.name for each in path.iterdir()} <= _OF_A_SESSION:
            for name in _OF_A_SESSION:
                (path / name).unlink(missing_ok=True)
            for each in missing:
                each.rmdir()
        raise


@contextmanager
def _temporary(destination: Path) -> Iterator[Path]:
    """Create a directory beside the destination that a broker deletes, and delete it at the end."""
    path = destination.parent / f"{destination.name}.{uuid4().hex}-delete"
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _remove_interrupted(destination: Path) -> None:
    """Delete the directories of `_temporary` that killed processes have left. Those of a broker contain files."""
    for path in destination.parent.glob(f"{destination.name}.*-delete"):
        if {each.name for each in path.iterdir()} <= {destination.name}:
            shutil.rmtree(path)


@dataclass(frozen=True, slots=True)
class Kept:
    """The good batches [start, stop) of a batch range."""

    run: Run
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Dropped:
    """A range between good batches, which is dropped.

    Attributes:
        batches: The number of readable batches.
        damaged: Whether bytes between them, or any of them, are damaged.
        first: The first offset that damage may hide; None: unknown.
        last: The last one; None: unknown.
        sound: The first and last offsets of the batches that are sound, but wrong where they are.
    """

    batches: int
    damaged: bool
    first: int | None
    last: int | None
    sound: Sequence[tuple[int, int]] = ()

    @property
    def has_offsets(self) -> bool:
        """Whether damage may hide any offset."""
        return self.damaged and (self.first is None or self.last is None or self.first <= self.last)


def kept_and_dropped(
    source: Source, scope: Scope, report: Callable[[Finding], object], watchers: Sequence[Watcher] = ()
) -> Iterator[Kept | Dropped]:
    """Yield the good batches of a segment, sound ones at offsets that the segment may hold, and what is between them.

    With `scope.deep`, batches that consumers cannot read are no good ones.

    Reports all findings first, since the batches after a damaged offset tell which one it is.
    """
    wrong, unreadable = set[int | None](), set[int | None]()
    for finding in FileCheck(source, replace(scope, wrappers=True), Summary(), watchers).findings():
        if finding.code in WRONG_OFFSETS or (scope.deep and finding.code in _UNREAD):
            wrong.add(finding.position)
        elif finding.code in _UNREADABLE:
            unreadable.add(finding.position)
        report(finding)
    end, batches, damaged, sound = scope.bounds.base, 0, False, list[tuple[int, int]]()
    for item in walk(source, scope.bounds):
        if not isinstance(item, Run):
            damaged = True
            continue
        good = _good(item, scope.bounds, -1 if end is None else end - 1, wrong, unreadable)
        at, first, last = 0, first_offsets(item.rows), item.rows["last_offset"]
        wrong_here = (item.valid & ~good).tolist()
        for start, stop in [*_ranges(good), (len(good), len(good))]:
            batches += start - at
            damaged |= not item.valid[at:start].all()
            sound += ((int(first[i]), int(last[i])) for i in range(at, start) if wrong_here[i])
            if start == stop:
                break
            if damaged or batches:
                yield Dropped(batches, damaged, end, int(first[start]) - 1, sound)
            yield Kept(item, start, stop)
            end, batches, damaged, sound, at = int(last[stop - 1]) + 1, 0, False, [], stop
    if damaged or batches:
        last_offset = None if scope.bounds.following is None else scope.bounds.following - 1
        yield Dropped(batches, damaged, end, last_offset, sound)


def _good(
    run: Run, bounds: Bounds, last: int, wrong: Collection[int | None], unreadable: Collection[int | None]
) -> Flags:
    """Return which batches are sound and have offsets of the segment after `last`, and after those of the good ones."""
    rows, good = run.rows, run.valid & bounds.inside(run.rows)
    first, wrapper = first_offsets(rows), is_wrapper(rows)
    for i in np.flatnonzero(good).tolist():
        position = int(rows["position"][i])
        good[i] = first[i] > last and position not in wrong and not (wrapper[i] and position in unreadable)
        last = int(rows["last_offset"][i]) if good[i] else last
    return good


class Copy:
    """The copy of the good batches of all segments.

    Attributes:
        batches: The number of batches copied.
        size: Their size, bytes.
        left_out: The number of batches left out.
        read: The number of bytes read.
        source: What is in the segments that were read.
    """

    def __init__(
        self, directory: Path, epochs: Sequence[EpochEntry], report: Callable[[Finding], object] = lambda _: None
    ) -> None:
        self.batches = self.size = self.left_out = self.read = 0
        self._directory = directory
        self._epochs = epochs
        self._report = report
        self._history = LogHistory()
        self.source = LogHistory()

    def add(self, path: Path, scope: Scope) -> None:
        """Copy a segment. One that would be empty is created only if it is the last, whose name is the log end.

        Its indexes are empty: recovery fills them.
        """
        target = self._directory / path.name
        base = scope.bounds.base or 0
        self._history.begin(target, base)
        self.source.begin(path, base)
        gathering = Gathering(base, self.source)
        with closing(open_source(path)) as source, target.open("wb", buffering=0) as out:
            before, dropped = None, None
            for part in kept_and_dropped(source, scope, self._report, [gathering]):
                if isinstance(part, Dropped):
                    dropped = part
                    self.left_out += part.batches
                    continue
                if dropped is not None:
                    _write(out, self._in_place_of(dropped, scope.bounds, before, part.run.rows[part.start]))
                    dropped = None
                self._copy(part, source, out)
                before = part.run.rows[part.stop - 1]
            if dropped is not None:
                _write(out, self._in_place_of(dropped, scope.bounds, before, _first_of_next(path, scope.bounds)))
            gathering.flush()
            self.read += source.size
            is_empty = not out.tell()
        if is_empty and scope.sealed:
            target.unlink()
        else:
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                target.with_suffix(suffix).touch()

    def _copy(self, kept: Kept, source: Source, out: FileIO) -> None:
        """Copy good batches."""
        entries = kept.run.entries(source)
        first, last = entries.rows[kept.start], entries.rows[kept.stop - 1]
        start, stop = int(first["position"]), int(last["position"]) + int(last["size_in_bytes"])
        _write(out, entries.view[start - entries.position : stop - entries.position])
        self.size += stop - start
        self.batches += kept.stop - kept.start
        self._history.see(Batches.of([entries.rows[kept.start : kept.stop]], None))

    def write_epochs(self, log_start: int) -> None:
        """Write the leader epochs, of which some may have no batch, unless the batches refute them.

        Recovery takes those of the batches then. If these fall, one of them may be wrong: they refute nothing.
        """
        if not self._epochs:
            return
        path, names = self._directory / LEADER_EPOCH_CHECKPOINT, names_in(self._directory)
        write_leader_epoch_checkpoint(path, self._epochs)
        findings = epoch_findings(self._directory, self._history, names, expected=False, log_start=log_start)
        in_order = all(before.epoch < after.epoch for before, after in pairwise(self._history.epochs))
        if in_order and any(each.code == "leader-epoch-differs" for each in findings):
            _log.warning("%s has other leader epochs than the batches: those of the batches are taken", path.name)
            path.unlink()

    def _in_place_of(self, dropped: Dropped, bounds: Bounds, before: np.void | None, after: np.void | None) -> bytes:
        """Return empty batches for the offsets of what is dropped, one for each leader epoch.

        Nothing is known of the producers, and no timestamp. The leader epochs are those of the checkpoint, as far as
        the batches beside allow them: a broker refuses a batch without one.

        Args:
            dropped: What is dropped.
            bounds: The offsets of the segment.
            before: The good batch before it in the segment; None without one.
            after: The batch after it, perhaps in the next segment; None without one.

        Returns:
            No bytes if the offsets are not known, or the format there is older.
        """
        first, last, limit = dropped.first, dropped.last, bounds.last()
        nearest = after if after is not None else before
        is_older = not self._epochs if nearest is None else nearest["magic"] < 2
        if first is None or last is None or first > last or is_older or (limit is not None and last > limit):
            return b""
        least, most = (-1 if each is None else int(each["partition_leader_epoch"]) for each in (before, after))
        starts = [first, *(start for _, start in self._epochs if first < start <= last)]
        found = list[tuple[int, int]]()
        for start in starts:
            epoch = max(least, max((epoch for epoch, begin in self._epochs if begin <= start), default=most))
            epoch = epoch if after is None else min(epoch, most)
            if not found or found[-1][1] != epoch:
                found.append((start, epoch))
        ends = [*(start - 1 for start, _ in found[1:]), last]
        return b"".join(empty_batch(start, end, epoch) for (start, epoch), end in zip(found, ends, strict=True))


def _first_of_next(path: Path, bounds: Bounds) -> np.void | None:
    """Return the row of the first batch of the next segment; None if it cannot be one."""
    if bounds.following is None:
        return None
    with suppress(KafkaLogError, OSError):
        with closing(open_source(path.with_name(f"{bounds.following:020}.log"))) as source:
            rows = header_at(source, 0)
        if len(rows) and Bounds(bounds.following).inside(rows)[0] and 0 <= rows["magic"][0] <= 2:
            first: np.void = rows[0]
            return first
    return None


def _write(out: FileIO, data: bytes | memoryview) -> None:
    """Write all of the data. Until the disk is full, one write is enough."""
    view = memoryview(data)
    with naming(Path(out.name)):
        while view:
            view = view[out.write(view) :]


def lost_offsets(path: Path, bounds: Bounds) -> list[tuple[int | None, int | None]]:
    """Return the ranges of offsets of a segment that are in no good batch, as far as damage may hide them.

    These are the offsets between good batches, and those of sound batches that are wrong where they are. None: unknown.
    """
    scope = Scope(str(path), bounds, bounds.following is not None)
    lost, sound, kept = list[tuple[int | None, int | None]](), list[tuple[int, int]](), [np.empty((2, 0), np.int64)]
    with closing(open_source(path)) as source:
        for part in kept_and_dropped(source, scope, lambda _: None):
            if isinstance(part, Kept):
                rows = part.run.rows[part.start : part.stop]
                kept.append(np.stack([first_offsets(rows), rows["last_offset"]]))
            else:
                lost += [(part.first, part.last)] if part.has_offsets else []
                sound += part.sound
    first, last = np.concatenate(kept, axis=1)
    for offsets in sound:
        # The same offsets may be in a good batch.
        before = np.searchsorted(first, offsets[0], "right") - 1
        if before < 0 or last[before] < offsets[0]:
            lost.append(offsets)
    return lost


def _ranges(flags: Flags) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each range of true flags."""
    edges = np.flatnonzero(np.diff(flags.astype(np.int8), prepend=0, append=0))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
