"""Checks of files, partitions and data directories: `verify_file`, `verify_partition`, `verify_data_dir`.

    options = Options(deep=True)
    for finding in verify_partition("data/orders-0", options):
        print(finding)
    print(options.summary.errors)

Nothing is written, and only some batch ranges are in memory at a time. A broker may be running: a segment that it
deletes during the check is no damage, and an append in progress may look like a torn tail.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kafkalog.errors import NotALogError
from kafkalog.fsck.file_check import FileCheck, Scope
from kafkalog.fsck.findings import Finding, Severity, Summary
from kafkalog.fsck.header_checks import Bounds
from kafkalog.record import decompress
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover
from kafkalog.storage.file_names import segment_base_offset, segment_files
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.remote_path import to_path

PathLike = str | os.PathLike[str]
Place = DataDir | PartitionDir | LogFile


@dataclass(frozen=True, slots=True)
class Options:
    """How to check.

    Attributes:
        deep: Whether to decompress and parse every record.
        limit: The number of bytes that one batch may decompress to.
        progress: Called with the number of bytes checked since the last call.
        summary: The totals, updated during the check.
    """

    deep: bool = False
    limit: int = decompress.DEFAULT_LIMIT
    progress: Callable[[int], object] | None = None
    summary: Summary = field(default_factory=Summary)


def verify_file(path: PathLike, options: Options | None = None, *, sealed: bool | None = None) -> Iterator[Finding]:
    """Check one log file.

    The offsets that it may hold are derived from its name and from the names of the segments beside it. A file that
    cannot be read is a finding (`unreadable`), not an error.

    Args:
        path: The file.
        options: How to check.
        sealed: Whether the segment has a successor; None looks for one in the directory.

    Returns:
        The findings, computed while they are read.
    """
    path, options = to_path(path), options or Options()
    scope = scope_of(path)
    is_sealed = scope.sealed if sealed is None else sealed
    return _timed(_file(path, scope.bounds, is_sealed, options), options.summary)


def scope_of(path: Path) -> Scope:
    """Return the scope of a log file, derived from its name and from the names of the segments beside it."""
    base = segment_base_offset(path.name)
    following = None if base is None else _next_base_offset(path, base)
    return Scope(str(path), Bounds(base, following), following is not None)


def verify_partition(directory: PathLike, options: Options | None = None) -> Iterator[Finding]:
    """Check the segments of a partition directory; a segment that cannot be read is a finding, not an error."""
    options = options or Options()
    return _timed(_partition(to_path(directory), options), options.summary)


def verify_path(path: PathLike, options: Options | None = None) -> Iterator[Finding]:
    """Check a data directory, a partition or a file.

    A path that is none of these, or cannot be read, is a finding, not an error.
    """
    options = options or Options()
    try:
        place = discover(path)
    except (OSError, NotALogError) as error:
        return _timed(iter([not_readable(to_path(path), error)]), options.summary)
    return verify_place(place, options)


def verify_place(place: Place, options: Options) -> Iterator[Finding]:
    """Check a place that `discover` returned."""
    if isinstance(place, DataDir):
        return verify_data_dir(place, options)
    return verify_file(place.path, options) if isinstance(place, LogFile) else verify_partition(place.path, options)


def verify_data_dir(directory: PathLike | DataDir, options: Options | None = None) -> Iterator[Finding]:
    """Check all partitions of a data directory; one that cannot be read is a finding and does not end the check.

    Raises:
        OSError: The directory cannot be listed.
        NotALogError: It is not a data directory.
    """
    place = directory if isinstance(directory, DataDir) else discover(directory)
    if not isinstance(place, DataDir):
        raise NotALogError("not a data directory", str(place.path))
    options = options or Options()
    return _timed(_partitions(place, options), options.summary)


def _timed(findings: Iterator[Finding], summary: Summary) -> Iterator[Finding]:
    """Yield the findings, counting them and the time it takes to find them."""
    start = time.monotonic()
    for finding in findings:
        summary.seconds += time.monotonic() - start
        yield summary.count(finding)
        start = time.monotonic()
    summary.seconds += time.monotonic() - start


def _partitions(place: DataDir, options: Options) -> Iterator[Finding]:
    for partition in place.partitions:
        yield from _partition(partition.path, options)


def _partition(directory: Path, options: Options) -> Iterator[Finding]:
    try:
        files = segment_files(directory)
    except OSError as error:
        yield not_readable(directory, error)
        return
    bases: list[int | None] = [base for base, _ in files]
    for (base, path), following in zip(files, [*bases[1:], None], strict=False):
        yield from _file(path, Bounds(base, following), following is not None, options, listed=True)


def _file(path: Path, bounds: Bounds, sealed: bool, options: Options, *, listed: bool = False) -> Iterator[Finding]:
    try:
        file = open_source(path)
    except (OSError, NotALogError) as error:
        if listed and isinstance(error, FileNotFoundError):
            yield Finding(
                Severity.INFO, "segment-gone", str(path), "the segment was deleted after its directory was listed"
            )
        else:
            yield not_readable(path, error)
        return
    scope = Scope(str(path), bounds, sealed, options.deep, options.limit, options.progress)
    options.summary.files += 1
    try:
        yield from FileCheck(file, scope, options.summary).findings()
    except OSError as error:
        yield not_readable(path, error)
    finally:
        file.close()


def not_readable(path: Path, error: OSError | NotALogError) -> Finding:
    """Return the finding that a path cannot be read, or is not a log."""
    if isinstance(error, NotALogError):
        expected, found = (value if isinstance(value, (int, str)) else None for value in (error.expected, error.found))
        return Finding(
            Severity.ERROR, "not-a-log", str(path), error.message, error.position, expected=expected, found=found
        )
    return Finding(Severity.ERROR, "unreadable", str(path), error.strerror or str(error))


def _next_base_offset(path: Path, base: int) -> int | None:
    """Return the base offset of the next segment beside `path`; None if there is none, or if it is unknown."""
    try:
        return min((other for other, _ in segment_files(path.parent) if other > base), default=None)
    except OSError:
        return None
