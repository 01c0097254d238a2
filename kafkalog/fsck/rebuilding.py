"""A partition's files as recovery makes them from its segments: `rebuilt`.

    orders-0             the partition, only read
    scratch/orders-0     *.log: links to its segments; a segment that is cut or rewritten: a copy
                         sound snapshots and leader epochs: copies
                         indexes: none
       -> recovery of the whole log, as after an unclean stop ->    all indexes, snapshots, leader epochs

So there is one way to make an index, a snapshot or leader epochs, and nothing of what is damaged is trusted.
Recovery would cut a segment at the first damage, also one behind a link: it may not, and damage that is not left out
before is an error.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from filecmp import cmp
from pathlib import Path

from kafkalog.fsck.salvaging import Copy, leader_epochs, recovered_copy
from kafkalog.fsck.verifying import scope_of
from kafkalog.storage.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_names,
    parse_partition_dir,
    real_path,
    segment_base_offset,
)
from kafkalog.storage.log_config import LogConfig

# Kafka's broker drops old producers itself when it loads a snapshot.
_CONFIG = LogConfig(producer_id_expiration_ms=2**31 - 1)
_PIECE = 1 << 20
_INDEXES = INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
_OF_A_SEGMENT = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.swap|\.cleaned|\.deleted)?")


@dataclass(slots=True)
class Work:
    """The files to rebuild in one partition.

    Attributes:
        cuts: The size that a segment is cut to, by its name.
        drops: The segments whose damaged batches are dropped.
        indexed: The segments whose indexes are rebuilt.
        files: Other files that are rebuilt: snapshots, leader epochs.
        snapshots: Whether all snapshots are.
        left_over: The left-over files. With one, interrupted replacements of segments are completed or reverted.
        left_out: The files that are not looked at.
    """

    cuts: dict[str, int] = field(default_factory=dict)
    drops: set[str] = field(default_factory=set)
    indexed: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    snapshots: bool = False
    left_over: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A rebuilt partition.

    Attributes:
        files: By name, the new content of each file that changes; None if it is removed. A link is to a file of the
            partition that only gets another name.
        first_base_offset: The base offset of its first segment.
        log_end_offset: The offset of its next record.
    """

    files: Mapping[str, Path | None]
    first_base_offset: int
    log_end_offset: int


def rebuilt(directory: Path, scratch: Path, work: Work, log_start_offset: int) -> Rebuilt:
    """Rebuild a partition in a directory beside it.

    Args:
        directory: The partition.
        scratch: A directory to create.
        work: What to rebuild.
        log_start_offset: Its log start offset.

    Raises:
        KafkaLogError: Recovery refuses the log.
        OSError: A file cannot be read or written.
    """
    name = real_path(directory).name
    made = scratch / (name if parse_partition_dir(name) is not None else "partition-0")
    made.mkdir(parents=True)
    _fill(directory, made, work)
    with recovered_copy(made, directory, _CONFIG, log_start_offset) as log:
        first, end = log.first_base_offset, log.log_end_offset
    old, new = set(file_names(directory)) - work.left_out, set(file_names(made))
    return Rebuilt(dict(_changes(directory, made, sorted(_wanted(old, new, made, work)))), first, end)


def _fill(directory: Path, made: Path, work: Work) -> None:
    epochs = leader_epochs(directory) if work.drops else []
    for name in sorted(set(file_names(directory)) - work.left_out):
        path, base = directory / name, segment_base_offset(name)
        if name in work.drops and base is not None:
            Copy(made, epochs).add(path, scope_of(path))
        elif name in work.cuts:
            _copy_first(path, made / name, work.cuts[name])
        elif base is not None or (work.left_over and _is_replacement(name)):
            (made / name).symlink_to(path.absolute())
        elif name not in work.files and (name == LEADER_EPOCH_CHECKPOINT or name.endswith(SNAPSHOT_SUFFIX)):
            shutil.copy2(path, made)
    for name in file_names(made):
        if name.endswith(LOG_SUFFIX):
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
                (made / name).with_suffix(suffix).touch()


def _is_replacement(name: str) -> bool:
    """Return whether this is a segment that was to be put in place, or to be deleted. Its indexes are made anew."""
    match = _OF_A_SEGMENT.fullmatch(name)
    return match is not None and match[2] == LOG_SUFFIX and match[3] is not None


def _copy_first(source: Path, target: Path, size: int) -> None:
    """Copy the first `size` bytes of a file."""
    with source.open("rb") as file, target.open("wb") as out:
        while size and (data := file.read(min(size, _PIECE))):
            size -= out.write(data)


def _wanted(old: Collection[str], new: Collection[str], made: Path, work: Work) -> Iterator[str]:
    """Yield the names of the files that may change."""
    logs = {name for name in (*old, *new) if segment_base_offset(name) is not None}
    changed = {name for name in logs if name not in new or not _is_as_before(made / name)}
    stems = {Path(name).stem for name in changed | work.indexed}
    # The state of producers and leader epochs follows from the log up to an offset.
    from_stem = min((Path(name).stem for name in changed), default="~")
    for name in {*old, *new}:
        match = _OF_A_SEGMENT.fullmatch(name)
        if match is None:
            if name in work.left_over or name in work.files or (name == LEADER_EPOCH_CHECKPOINT and changed):
                yield name
        elif match[3] is not None:
            if work.left_over:
                yield name
        elif match[2] == SNAPSHOT_SUFFIX:
            if name in work.files or work.snapshots or match[1] > from_stem or (changed and name not in new):
                yield name
        elif (match[2] in _INDEXES and match[1] in stems) or name in changed:
            yield name


def _is_as_before(path: Path) -> bool:
    """Return whether a segment in the scratch directory is the one of the same name in the partition."""
    return path.is_symlink() and path.readlink().name == path.name


def _changes(directory: Path, made: Path, names: Collection[str]) -> Iterator[tuple[str, Path | None]]:
    for name in names:
        before, after = directory / name, made / name
        if not after.exists():
            yield name, None
        elif not before.is_file() or not cmp(before, after, shallow=False):
            yield name, after
