"""Checks of files, partitions and data directories: `verify_path`.

    options = Options(deep=True)
    for finding in verify_path("data/orders-0", options):
        print(finding)
    print(options.summary.errors)

Nothing is written, and only some batch ranges are in memory at a time. A broker may be running: a segment that it
deletes during the check is no damage, and an append in progress may look like a torn tail.

With several processes, each writes its findings to a temporary file, from which they are read in the same order as with
one process.
"""

import os
import pickle
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkalog._speedups import decompress
from kafkalog.errors import NotALogError
from kafkalog.fsck.checkpoint_checks import Checkpoints
from kafkalog.fsck.consequences import Consequence, Severity
from kafkalog.fsck.file_check import FileCheck, Scope, Watcher
from kafkalog.fsck.findings import UNREADABLE_CODES, Finding, Summary, unreadable
from kafkalog.fsck.gap_checks import unexplained_gaps
from kafkalog.fsck.gathering import Gathering
from kafkalog.fsck.header_checks import Bounds
from kafkalog.fsck.index_checks import IndexCheck
from kafkalog.fsck.layout_checks import Names, directory_layout, names_in, partition_layout
from kafkalog.fsck.log_history import LogHistory
from kafkalog.fsck.producer_checks import ProducerCheck
from kafkalog.fsck.start_checks import start_findings
from kafkalog.fsck.state_checks import epoch_findings, metadata_findings
from kafkalog.fsck.version_checks import VERSIONS, version_findings
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover, log_bytes
from kafkalog.storage.file_names import (
    LOG_SUFFIX,
    SWAP_SUFFIX,
    segment_base_offset,
    segment_files,
)
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.recovery.swap_files import completed_swaps
from kafkalog.storage.remote_path import to_path

PathLike = str | os.PathLike[str]
Place = DataDir | PartitionDir | LogFile


SUBJECTS = frozenset({"logs", "indexes", "state", "checkpoints", "layout"})
"""logs: batches and records. indexes: offset and time index. state: transaction index, snapshots, leader epochs,
`partition.metadata`. checkpoints: the files of the data directory, and what keeps a broker from starting in the state
files. layout: names, links and modes."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a check.

    Attributes:
        deep: Whether to decompress and parse every record.
        limit: The number of bytes that one batch may decompress to.
        progress: Called with the number of bytes checked since the last call.
        only: What to check: the names in `SUBJECTS`.
        jobs: The number of processes that check the partitions of a data directory. With more than one, a program needs
            the guard `if __name__ == "__main__"`, and findings are kept in the directory for temporary files until all
            partitions before theirs are checked.
        throttle: The number of bytes of logs to read per second, shared by all processes; None: no limit.
        expect_all: Whether also a partition of nothing but segments is to have indexes, snapshots and leader epochs.
            They are no finding otherwise: such a partition is a copy of segments, or a broker makes them anew.
        for_version: The version of Kafka, in `version_checks.VERSIONS`, for which a data directory is checked too.
        summary: The totals, updated during the check.

    Raises:
        ValueError: The version is not known.
    """

    deep: bool = False
    limit: int = decompress.DEFAULT_LIMIT
    progress: Callable[[int], object] | None = None
    only: frozenset[str] = SUBJECTS
    jobs: int = 1
    throttle: float | None = None
    expect_all: bool = False
    for_version: str | None = None
    summary: Summary = field(default_factory=Summary)

    def __post_init__(self) -> None:
        if self.for_version not in {None, *VERSIONS}:
            raise ValueError(f"{self.for_version!r} is none of the versions {', '.join(VERSIONS)}")


def scope_of(path: Path) -> Scope:
    """Return the scope of a log file, derived from its name and from the names of the segments beside it."""
    base = segment_base_offset(path.name)
    following = None if base is None else _next_base_offset(path, base)
    return Scope(str(path), Bounds(base, following), following is not None)


def verify_path(path: PathLike, options: Options | None = None) -> Iterator[Finding]:
    """Check a data directory, a partition or a file.

    A path that is none of these, or a file that cannot be read, is a finding, not an error. The offsets that a file may
    hold are derived from its name and from the names of the segments beside it.

    Returns:
        The findings, computed while they are read.

    Raises:
        ChildProcessError: A worker process was killed (`Options.jobs`).
        OSError: A worker process did not write its findings.
    """
    options = options or Options()
    try:
        place = discover(path)
    except (OSError, NotALogError) as error:
        return _counted(iter([not_readable(to_path(path), error)]), options.summary)
    return verify_place(place, options)


def verify_place(place: Place, options: Options) -> Iterator[Finding]:
    """Check a place that `discover` returned."""
    if isinstance(place, DataDir):
        return _data_dir(place, options)
    options = _throttled(options)
    if isinstance(place, LogFile):
        findings = _file(place.path, scope_of(place.path), options)
    else:
        findings = PartitionCheck(place, Checkpoints(place.path.parent), options).findings()
    if options.for_version is not None:
        findings = chain(version_findings(place.path, None, None, options.for_version), findings)
    return _counted(findings, options.summary, str(place.path))


def _data_dir(place: DataDir, options: Options) -> Iterator[Finding]:
    checkpoints = Checkpoints(place.path)
    findings = _directory_findings(place, checkpoints, options)
    yield from _counted(findings, options.summary, str(place.path), directories_too=True)
    own = {each.path: each.topic_partition for each in place.partitions if each.mark is None}
    metadata = {}
    if "state" in options.only:
        metadata = metadata_findings(own, checkpoints.cluster, checkpoints.node[0], kraft=checkpoints.is_of_kraft)
    with _partition_findings(place, checkpoints, options) as findings_of:
        for each in place.partitions:
            findings = chain([metadata[each.path]] if each.path in metadata else [], findings_of(each))
            yield from _counted(findings, options.summary, str(each.path), str(place.path))
    options.summary.conclude(str(place.path))


@contextmanager
def _partition_findings(
    place: DataDir, checkpoints: Checkpoints, options: Options
) -> Iterator[Callable[[PartitionDir], Iterator[Finding]]]:
    """Give a function that yields the findings of a partition, computed by this process or by `options.jobs` others."""
    if min(options.jobs, len(place.partitions)) < 2:
        options = _throttled(options)
        yield lambda each: PartitionCheck(each, checkpoints, options).findings()
        return
    with TemporaryDirectory(prefix="kafkalog-verify-") as directory:
        workers = _Workers(place, checkpoints, options, Path(directory))
        with closing(workers.results):
            yield workers.findings
        if workers.error is not None:
            raise workers.error


@dataclass(frozen=True, slots=True)
class _Task:
    """A partition to check, its checkpoints, how to check it, the file for its findings, and when all checks began."""

    place: PartitionDir
    checkpoints: Checkpoints
    options: Options
    file: Path
    began: float


class _Workers:
    """The checks of all partitions of a data directory in several processes, the largest partitions first.

    Attributes:
        results: The partitions whose check has ended, and what was counted, as they end.
        error: What ended the checks early, even an interrupt. Findings of partitions that were checked are still given.
    """

    def __init__(self, place: DataDir, checkpoints: Checkpoints, options: Options, directory: Path) -> None:
        from kafkalog.fsck.processes import each_result

        jobs = min(options.jobs, len(place.partitions))
        own = replace(options, progress=None, jobs=1, summary=Summary())
        tasks = [
            _Task(each, checkpoints.only(each.topic_partition), own, directory / str(number), time.monotonic())
            for number, each in enumerate(place.partitions)
        ]
        tasks.sort(key=lambda task: -log_bytes(task.place))
        self.results = each_result(_check_partition, tasks, jobs, options.progress or (lambda _: None))
        self.error: BaseException | None = None
        self._summary = options.summary
        self._files = {task.place: task.file for task in tasks}
        self._checked: set[PartitionDir] = set()

    def findings(self, place: PartitionDir) -> Iterator[Finding]:
        """Yield the findings of a partition as soon as it is checked."""
        while place not in self._checked and self.error is None:
            self._wait()
        if place in self._checked:
            with self._files[place].open("rb") as file:
                while file.peek(1):
                    yield pickle.load(file)  # noqa: S301 - written by a worker
            self._files[place].unlink()

    def _wait(self) -> None:
        try:
            checked, counts = next(self.results)
        except BaseException as error:  # noqa: BLE001 - raised when the findings have been given
            self.error = error
        else:
            self._checked.add(checked)
            self._summary.add_counts(counts)


def _check_partition(task: _Task, advance: Callable[[int], object]) -> tuple[PartitionDir, Summary]:
    """Write the findings of a partition to the file of the task; return what was counted."""
    from kafkalog.fsck.processes import done_by_all

    options = _throttled(replace(task.options, progress=advance, summary=Summary()), task.began, done_by_all)
    findings = PartitionCheck(task.place, task.checkpoints, options).findings()
    try:
        with task.file.open("wb") as file:
            for finding in findings:
                pickle.dump(finding, file, pickle.HIGHEST_PROTOCOL)
    except OSError as error:
        message = f"no temporary file for findings can be written here (TMPDIR names another place): {error.strerror}"
        raise OSError(error.errno, message, str(task.file.parent)) from None
    return task.place, options.summary


def _throttled(options: Options, began: float | None = None, total: Callable[[], int] | None = None) -> Options:
    """Return options whose `progress` sleeps if more than `throttle` bytes a second have been read.

    Args:
        options: How to check.
        began: When the bytes of `total` began to be read, as `time.monotonic` has it; None: now.
        total: Returns the bytes that all processes have read; None: those of this process count.
    """
    rate, progress, start, own = options.throttle, options.progress, began or time.monotonic(), 0
    if rate is None:
        return options

    def advance(size: int) -> None:
        nonlocal own, start
        if progress is not None:
            progress(size)
        own += size
        ahead = start + (own if total is None else total()) / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        else:
            # Throughput that a slow disk has not used is not made up for.
            start -= ahead

    return replace(options, progress=advance)


def _directory_findings(place: DataDir, checkpoints: Checkpoints, options: Options) -> Iterator[Finding]:
    try:
        names = names_in(place.path)
    except OSError as error:
        yield not_readable(place.path, error)
        return
    if "checkpoints" in options.only:
        yield from checkpoints.file_findings()
        yield from checkpoints.gone(names)
    if "state" in options.only:
        yield from checkpoints.not_compared()
    if "layout" in options.only:
        yield from directory_layout(place.path, names, checkpoints.needed(names))
    if options.for_version is not None:
        yield from version_findings(place.path, checkpoints.cluster, checkpoints.node[0], options.for_version)


def _counted(
    findings: Iterator[Finding], summary: Summary, *places: str, directories_too: bool = False
) -> Iterator[Finding]:
    """Yield the findings, counting them, also for the verdicts on `places`, and the time it takes to find them.

    With `directories_too`, a directory that a finding is about gets a verdict of its own, if it needs attention.

    Each file that cannot be read is reported once, by the first check that reads it.
    """
    start, unread = time.monotonic(), set[str]()
    for finding in findings:
        if finding.path in unread:
            continue
        if finding.code == "unreadable":
            unread.add(finding.path)
        summary.seconds += time.monotonic() - start
        own = directories_too and finding.severity is not Severity.INFO and Path(finding.path).is_dir()
        yield summary.count(finding, *dict.fromkeys([finding.path, *places] if own else places))
        start = time.monotonic()
    summary.seconds += time.monotonic() - start


class PartitionCheck:
    """The check of one partition: its segments, and then what belongs to them."""

    def __init__(self, place: PartitionDir, checkpoints: Checkpoints, options: Options) -> None:
        self._place = place
        self._directory = place.path
        self._checkpoints = checkpoints
        self._options = options
        # The checkpoints are not about a partition that is being deleted or moved.
        self._partition = None if place.mark else place.topic_partition
        self._history = LogHistory()

    def findings(self) -> Iterator[Finding]:
        """Yield all findings."""
        try:
            names = names_in(self._directory)
            files = segment_files(self._directory)
            producers = ProducerCheck(self._directory)
        except OSError as error:
            yield not_readable(self._directory, error)
            return
        only = self._options.only
        if "layout" in only:
            yield from partition_layout(self._directory, names)
        if not only - {"layout"}:
            return
        self._history.first_base = files[0][0] if files else 0
        if only <= {"layout", "checkpoints"}:
            # Only the log's end is wanted.
            files = files[-1:]
        bases: list[int | None] = [base for base, _ in files]
        for (base, path), following in zip(files, [*bases[1:], None], strict=False):
            yield from self._segment(path, Bounds(base, following), names, producers)
        if "logs" in only:
            swaps = yield from self._swaps(names)
            yield from unexplained_gaps(self._history, self._checkpoints, self._partition, swaps)
        yield from self._state_findings(names, producers)
        if "checkpoints" in only:
            yield from self._checkpoints.partition_findings(self._partition, self._history, self._directory)

    def _segment(self, path: Path, bounds: Bounds, names: Names, producers: ProducerCheck) -> Iterator[Finding]:
        base, sealed, only = bounds.base or 0, bounds.following is not None, self._options.only
        synced = bounds.following is not None and bounds.following <= self._checkpoints.recovery_point(self._partition)
        scope = Scope(str(path), bounds, sealed, self._checkpoints.trusts_log(self._partition), synced)
        indexes = None
        if "indexes" in only:
            indexes = IndexCheck(path, base, scope)
        gathering = Gathering(base, self._history, *([indexes] if indexes is not None else []))
        watchers: list[Watcher] = [gathering, *([producers] if "state" in only else [])]
        self._history.begin(path, base)
        whole = True
        for finding in _file(path, scope, self._options, watchers, listed=True):
            broken_off = finding.code in {*UNREADABLE_CODES, "segment-gone", "file-changed"}
            if broken_off:
                gathering.flush()
                self._history.lose()
                producers.lose()
                whole = False
            stops = "checkpoints" in only and finding.consequence is Consequence.NO_START
            if "logs" in only or broken_off or stops:
                yield finding
        gathering.flush()
        if indexes is not None and whole:
            yield from indexes.findings(missing=names.by_broker or self._options.expect_all)
        if "state" in only:
            end = self._history.extents[-1].end if bounds.following is None else bounds.following
            yield from producers.end_segment(path, base, end)

    def _swaps(self, names: Names) -> Generator[Finding, None, list[int]]:
        """Check the segments that a broker will put in place; return their base offsets."""
        bases = []
        for name in sorted(each for each in completed_swaps(names.files) if each.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
            base = segment_base_offset(name.removesuffix(SWAP_SUFFIX))
            if base is not None:
                bases.append(base)
                path = self._directory / name
                scope = Scope(str(path), Bounds(base), sealed=True)
                for finding in _file(path, scope, replace(self._options, summary=Summary())):
                    if finding.severity is Severity.ERROR:
                        yield Finding("swap-damaged", str(path), finding.message, finding.position, finding.length,
                                      finding.first_offset, finding.last_offset)  # fmt: skip
                        break
        return bases

    def _state_findings(self, names: Names, producers: ProducerCheck) -> Iterator[Finding]:
        if "state" not in self._options.only:
            if "checkpoints" in self._options.only:
                yield from start_findings(self._place, names)
            return
        yield from producers.finish()
        rolled = len(self._history.extents) > 1 or self._checkpoints.was_clean
        expected = names.by_broker or self._options.expect_all
        if producers.has_producers and not producers.has_snapshots and rolled and expected:
            yield Finding("snapshot-missing", str(self._directory), "no snapshot of the producers that the log has")
        yield from epoch_findings(
            self._directory,
            self._history,
            names,
            expected=expected,
            log_start=self._checkpoints.log_start(self._partition),
        )


def _file(
    path: Path, scope: Scope, options: Options, watchers: Sequence[Watcher] = (), *, listed: bool = False
) -> Iterator[Finding]:
    try:
        file = open_source(path)
    except (OSError, NotALogError) as error:
        if listed and isinstance(error, FileNotFoundError):
            message = "the segment was deleted after its directory was listed"
            yield Finding("segment-gone", scope.path, message)
        else:
            yield not_readable(path, error)
        return
    options.summary.files += 1
    scope = replace(scope, deep=options.deep, limit=options.limit, progress=options.progress)
    with closing(file):
        try:
            yield from FileCheck(file, scope, options.summary, watchers).findings()
        except OSError as error:
            yield not_readable(path, error)


def not_readable(path: Path, error: OSError | NotALogError) -> Finding:
    """Return the finding that a path cannot be read, or is not a log."""
    if isinstance(error, NotALogError):
        expected, found = (value if isinstance(value, (int, str)) else None for value in (error.expected, error.found))
        return Finding("not-a-log", str(path), error.message, error.position, expected=expected, found=found)
    return unreadable(path, error)


def _next_base_offset(path: Path, base: int) -> int | None:
    """Return the base offset of the next segment beside `path`; None if there is none, or if it is unknown."""
    try:
        return min((other for other, _ in segment_files(path.parent) if other > base), default=None)
    except OSError:
        return None
