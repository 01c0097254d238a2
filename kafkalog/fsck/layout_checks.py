"""Checks of names, links and modes in a data directory and in its partitions."""

import errno
import os
import stat
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kafkalog.errors import KafkaLogError
from kafkalog.fsck.cluster_metadata import SNAPSHOT
from kafkalog.fsck.findings import Finding, unreadable
from kafkalog.storage.checkpoint.checkpoint_file import fits_checkpoint
from kafkalog.storage.file_names import (
    CLEANED_SUFFIX,
    CLUSTER_METADATA_TOPIC,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
    offset_of_broker,
    parse_partition_dir,
    segment_base_offset,
)
from kafkalog.storage.recovery.swap_files import completed_swaps
from kafkalog.storage.remote_path import RemotePath
from kafkalog.storage.segment.file_message_set import FileMessageSet

_INDEXES = INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
_WITH_20_DIGITS = LOG_SUFFIX, *_INDEXES
_OTHERS_OF_AN_OFFSET = SNAPSHOT_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX
_LEFT_OVER = {
    DELETED_SUFFIX: "a file to be deleted, which a broker had no time for",
    CLEANED_SUFFIX: "the draft of a compacted segment, which a broker deletes",
    SWAP_SUFFIX: "a segment of a replacement that was interrupted early, which a broker deletes",
    TEMPORARY_SUFFIX: "the draft of a file that was to be replaced",
}
LEFT_OVER = (*_LEFT_OVER,)
"""The suffixes of left-over files."""
# The time in which a broker renames or creates all files of a segment.
_PATIENCE_SECONDS = 0.05
TIERED_STORAGE_CACHE = "remote-log-index-cache"
_MARKS = {
    "delete": ("directory-delete", "a partition that is being deleted"),
    "future": ("directory-future", "a partition that is being moved here"),
    "stray": ("directory-stray", "a partition that the cluster does not know, or has under another topic id"),
}


class Names(NamedTuple):
    """The entries of a directory. files: those that are regular files, or links to some. dangling: links to nothing."""

    files: frozenset[str]
    directories: frozenset[str]
    dangling: frozenset[str]

    @property
    def by_broker(self) -> bool:
        """Whether a broker has worked in this partition: there are more files than segments."""
        return any(not name.endswith(LOG_SUFFIX) for name in self.files)


def names_in(directory: Path) -> Names:
    """Return the entries of a directory.

    Raises:
        OSError: It is not readable.
    """
    files: set[str] = set()
    directories: set[str] = set()
    dangling: set[str] = set()
    if isinstance(directory, RemotePath):
        for path in directory.iterdir():
            (files if path.is_file() else directories).add(path.name)
    else:
        with os.scandir(directory) as entries:
            for each in entries:
                if each.is_symlink() and not Path(each.path).exists():
                    dangling.add(each.name)
                else:
                    (directories if each.is_dir() else files).add(each.name)
    return Names(frozenset(files), frozenset(directories), frozenset(dangling))


def partition_layout(directory: Path, names: Names) -> Iterator[Finding]:
    """Yield the findings about the names of the files of a partition."""
    yield from dangling_findings(directory, names)
    yield from modes(directory, names)
    yield from _in_place_of_files(directory, names)
    swaps = completed_swaps(names.files)
    left_over: dict[str, list[str]] = {}
    completed, orphans = list[str](), list[tuple[Path, Path]]()
    for name in sorted(names.files):
        path = directory / name
        if (foreign := _foreign_name(path)) is not None:
            yield foreign
        elif name in swaps:
            completed.append(str(path))
        elif path.suffix in {SWAP_SUFFIX, CLEANED_SUFFIX} and _is_only_copy(path, names):
            message = f"{_LEFT_OVER[path.suffix]}, though no segment has its records"
            yield Finding("left-over", str(path), message, situation="needed")
        elif path.suffix in _LEFT_OVER:
            left_over.setdefault(path.suffix, []).append(str(path))
        elif path.suffix in _INDEXES:
            segment = name.removesuffix(path.suffix) + LOG_SUFFIX
            if segment not in names.files | names.dangling:
                orphans.append((path, directory / segment))
    for suffix, paths in left_over.items():
        yield _of_several("left-over", paths, _LEFT_OVER[suffix])
    if completed:
        message = "a compacted segment that was being put in place, which a broker completes"
        yield replace(_of_several("left-over", completed, message), situation="completed")
    yield from _orphaned(orphans)


def _of_several(code: str, paths: list[str], message: str) -> Finding:
    """Return the finding about the first of several files."""
    return Finding(code, paths[0], message + (f", the first of {len(paths)}" if len(paths) > 1 else ""))


def _is_only_copy(path: Path, names: Names) -> bool:
    """Return whether a left-over file is a segment whose records no segment has, by its base offset."""
    base = segment_base_offset(path.name.removesuffix(path.suffix))
    if base is None or not path.stat().st_size:
        return False
    bases = {other: name for name in names.files if (other := segment_base_offset(name)) is not None and other <= base}
    if not bases:
        return True
    try:
        with FileMessageSet(path.with_name(bases[max(bases)]), mapped=False) as log:
            last = log.last_offset()
    except (KafkaLogError, OSError):
        # It is a finding itself.
        return max(bases) < base
    return last is None or last < base


def _in_place_of_files(directory: Path, names: Names) -> Iterator[Finding]:
    """Yield the findings about directories with the name of a file that a broker opens, besides its state files.

    It passes over one that is named like a segment, unless there is no other: then it creates the first segment.
    """
    has_segments = any(name.endswith(LOG_SUFFIX) for name in names.files)
    opened = _INDEXES + (SNAPSHOT_SUFFIX,) + (() if has_segments else (LOG_SUFFIX,))
    for name in sorted(names.directories):
        if name.endswith(opened) and offset_of_broker(name) is not None:
            path = directory / name
            yield unreadable(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)))


def _foreign_name(path: Path) -> Finding | None:
    """Return the finding about a file whose name does not begin with its offset as a broker writes it."""
    name = path.name
    suffix = next((each for each in (*_WITH_20_DIGITS, *_OTHERS_OF_AN_OFFSET) if name.endswith(each)), None)
    if suffix is None:
        return None
    offset = offset_of_broker(name)
    if offset is None:
        message = "the name does not begin with an offset: a broker does not start with it"
        return Finding("foreign-log-name", str(path), message)
    meant = offset_file(path.parent, offset, suffix).name
    if suffix in _WITH_20_DIGITS and (offset < 0 or name != meant):
        message = "the name is not an offset of 20 digits: a broker takes it for the file that has such a name"
        return Finding("foreign-log-name", str(path), message, expected=meant, found=name, situation="digits")
    return None


def _orphaned(orphans: list[tuple[Path, Path]]) -> Iterator[Finding]:
    """Yield the findings about indexes whose segment is not there, given the paths of both."""
    if orphans:
        # A broker may be deleting or creating the segment.
        time.sleep(_PATIENCE_SECONDS)
    for path, segment in orphans:
        if path.exists() and not segment.exists():
            yield Finding("orphaned-index", str(path), "an index without a segment, which a broker deletes")


def dangling_findings(directory: Path, names: Names) -> Iterator[Finding]:
    """Yield the findings about links to nothing."""
    for name in sorted(names.dangling):
        path = directory / name
        yield Finding("dangling-link", str(path), "a link to nothing, which a broker passes over", found=_target(path))


def _target(path: Path) -> str:
    try:
        return os.fsdecode(os.readlink(path))  # noqa: PTH115 # a link to nothing, as it was written
    except OSError:
        return "?"


def modes(directory: Path, names: Names) -> Iterator[Finding]:
    """Yield the findings about files that their owner may not change, in a directory that he may change.

    And about those that the present user may not read: no other check may open them.

    A directory that nobody may change is a copy to read from.
    """
    if isinstance(directory, RemotePath):
        return
    try:
        own = directory.stat()
        # Kafka makes them read-only.
        snapshots = {name for name in names.files if SNAPSHOT.fullmatch(name)}
        for name in sorted((names.files | names.directories) - snapshots):
            # A data directory has hundreds of thousands of files: no Path for each.
            path = f"{directory}/{name}"
            try:
                status = os.stat(path)  # noqa: PTH116
            except FileNotFoundError:
                continue
            wanted = stat.S_IRUSR | stat.S_IWUSR | (stat.S_IXUSR if name in names.directories else 0)
            if own.st_mode & stat.S_IWUSR and status.st_mode & wanted != wanted:
                message = "the owner may not read and write it"
                yield Finding("mode", path, message, found=stat.filemode(status.st_mode))
            elif status.st_uid != own.st_uid and own.st_uid and not status.st_mode & stat.S_IWOTH:
                message = "it belongs to another user than its directory"
                yield Finding("mode", path, message, expected=own.st_uid, found=status.st_uid, situation="owner")
            elif name in names.files and not os.access(path, os.R_OK) and Path(path).exists():
                # A file that was deleted after its stat may not be read either.
                yield unreadable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES), path))
    except OSError as error:
        yield unreadable(directory, error)


def directory_layout(directory: Path, names: Names, needed: Collection[str] = ()) -> Iterator[Finding]:
    """Yield the findings about the names in a data directory.

    Args:
        directory: The data directory.
        names: Its content.
        needed: The names of directories that have the only copy of a partition.
    """
    yield from dangling_findings(directory, names)
    yield from modes(directory, names)
    # The partitions that have a directory: of several, the one with the usual name, or else the first.
    seen = {partition for name in names.directories if str(partition := parse_partition_dir(name)) == name}
    for name in sorted(names.directories - {TIERED_STORAGE_CACHE}):
        path = directory / name
        partition = parse_partition_dir(name)
        if partition is None:
            yield Finding("foreign-directory", str(path), "no name of a partition: a broker does not start with it")
        elif name != name.encode(errors="replace").decode():
            message = "the name is not UTF-8: a broker passes over it"
            yield Finding("foreign-directory", str(path), message, situation="not-utf-8")
        elif not fits_checkpoint(partition):
            message = "the topic's name has a space: no line of a checkpoint can have it"
            yield Finding("foreign-directory", str(path), message, situation="space")
        elif (mark := name.rpartition("-")[2]) in _MARKS:
            code, message = _MARKS[mark]
            if mark == "future" and str(partition) in names.directories:
                code, message = "partition-twice", "it is beside the partition that it is to replace"
            if name in needed:
                message += "; but the cluster has the partition here"
            yield Finding(code, str(path), message, situation="needed" if name in needed else "")
        elif str(partition) != name and partition.topic != CLUSTER_METADATA_TOPIC:
            code, message = "partition-name", "a partition under another name than brokers give it"
            if partition in seen:
                code, message = "partition-twice", "a partition that has another directory, too"
            seen.add(partition)
            yield Finding(code, str(path), message, expected=str(partition))
