"""What a broker would do when it starts on a data directory, in its order, without doing it: `explain`.

    meta.properties, quorum-state, .lock, the clean-shutdown marker, checkpoints      `Explanation.steps`
    each partition: leftovers, segments, recovery, state                              `PartitionStart.steps`
    high watermarks, topic ids, the cleaner

What it does about damage is that of the findings' rules (`consequences`): after a clean stop it trusts all segments,
after an unclean one it recovers those from the recovery point on.

Source: `KafkaRaftServer`, `SharedServer`, `LogManager.loadLogs`, `LogLoader.load`, `ReplicaManager`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, KafkaLogError, NotALogError
from kafkalog.fsck.checkpoint_checks import Checkpoints
from kafkalog.fsck.consequences import RULES, Consequence, Severity
from kafkalog.fsck.findings import UNREADABLE_CODES, Finding
from kafkalog.fsck.health import is_hidden_by_index
from kafkalog.fsck.recovering import unflushed
from kafkalog.fsck.state_checks import holds_metadata
from kafkalog.fsck.verifying import Options, verify_place
from kafkalog.storage.checkpoint.meta_properties_file import read_meta_properties
from kafkalog.storage.data_dir.directory_lock import holder_of
from kafkalog.storage.data_dir.discover import META_PROPERTIES, DataDir, PartitionDir, discover
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    segment_files,
)
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import local_path


class Stage(StrEnum):
    """A stage of a broker's start. They are in the order in which a broker goes through them."""

    IDENTITY = "identity"
    METADATA = "metadata"
    LOCK = "lock"
    CLEAN_MARK = "clean-mark"
    CHECKPOINTS = "checkpoints"
    LEFTOVERS = "leftovers"
    SEGMENTS = "segments"
    RECOVERY = "recovery"
    STATE = "state"
    SERVING = "serving"


_ORDER = {stage: place for place, stage in enumerate(Stage)}
# The stages of findings, by the beginning of their codes. What is not here is about the bytes of segments.
_STAGES = {
    Stage.IDENTITY: ("meta-properties",),
    Stage.METADATA: ("quorum-state", "metadata-"),
    Stage.CLEAN_MARK: ("clean-shutdown",),
    Stage.CHECKPOINTS: ("checkpoint-",),
    Stage.LEFTOVERS: ("left-over", "swap-damaged", "directory-delete"),
    Stage.SEGMENTS: (
        *("foreign-", "partition-twice", "partition-name", "directory-", "dangling-link", "mode", "orphaned-index"),
        *("index-missing", "time-index-missing", "txn-index-version", "txn-index-format"),
    ),
    Stage.STATE: ("leader-epoch-", "log-start-", "snapshot-", "partition-metadata-"),
    Stage.SERVING: ("log-too-short", "partition-gone", "cleaner-offset", "topic-", "replica-not-assigned"),
}


_READ_LAST = HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that a broker does.

    Attributes:
        stage: When.
        path: The file or directory.
        does: What it does, a sentence without "it".
        consequence: What follows, after the stop that is assumed.
        finding: The reason, if something is wrong; None if a broker does so at every start.
        cuts: Whether it cuts the log there.
        first_offset: The first offset that goes; None if none does, or if it is unknown.
        last_offset: The last one, inclusive.
    """

    stage: Stage
    path: str
    does: str
    consequence: Consequence = Consequence.HARMLESS
    finding: Finding | None = None
    cuts: bool = False
    first_offset: int | None = None
    last_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStart:
    """The steps of a broker with one partition.

    Attributes:
        partition: The partition.
        steps: The steps, in order.
        segments: The number of its segments.
        recovered_segments: The number of those that are read.
        bytes_to_recover: The size of those.
        log_start_offset: The log start offset then; this and the following are None if unknown.
        log_end_offset: The offset of its next record then.
        high_watermark: Its high watermark then; None also if the checkpoint has none.
    """

    partition: PartitionDir
    steps: tuple[Step, ...]
    segments: int
    recovered_segments: int
    bytes_to_recover: int
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The steps of a broker that starts on a data directory.

    Attributes:
        path: The data directory.
        was_clean: Whether the last writer stopped cleanly.
        clean: Whether a clean stop is assumed.
        formatted: Whether there is a `meta.properties`, without which no broker with KRaft starts.
        steps: The steps that are not about one partition, in order.
        partitions: The partitions.
    """

    path: Path
    was_clean: bool
    clean: bool
    formatted: bool
    steps: tuple[Step, ...]
    partitions: tuple[PartitionStart, ...]

    @property
    def directory_steps(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """The steps that are not about one partition, before those of the partitions and after them."""
        before = sum(_ORDER[each.stage] <= _ORDER[Stage.CHECKPOINTS] for each in self.steps)
        return self.steps[:before], self.steps[before:]

    @property
    def all_steps(self) -> Iterator[Step]:
        """All steps, in order."""
        before, after = self.directory_steps
        return chain(before, *(each.steps for each in self.partitions), after)

    @property
    def obstacles(self) -> list[Step]:
        """The steps at which the broker stops."""
        return [each for each in self.all_steps if each.consequence is Consequence.NO_START]

    @property
    def starts(self) -> bool:
        """Whether the broker starts."""
        return not self.obstacles

    @property
    def bytes_to_recover(self) -> int:
        """The bytes that are read in a recovery, those of the cluster's metadata left out."""
        return sum(
            each.bytes_to_recover for each in self.partitions if not holds_metadata(each.partition.topic_partition)
        )

    @property
    def severities(self) -> set[Severity]:
        """The severities of what follows."""
        return {each.consequence.severity for each in self.all_steps}

    @property
    def is_readable(self) -> bool:
        """Whether every file could be read to its end."""
        return not any(each.finding and each.finding.code in UNREADABLE_CODES for each in self.all_steps)


def explain(
    data_dir: str | os.PathLike[str],
    *,
    clean: bool | None = None,
    jobs: int = 1,
    progress: Callable[[int], object] | None = None,
) -> Explanation:
    """Tell what a broker would do if it started on a data directory. All segments are read; nothing is changed.

    Args:
        data_dir: The data directory.
        clean: Whether to assume that the last writer stopped cleanly; None: as the directory says.
        jobs: The number of processes, as for `Options`.
        progress: Called with the number of bytes read since the last call.

    Raises:
        NotALogError: The path is not a data directory.
        ChildProcessError: A worker process was killed.
        OSError: The directory cannot be read.
    """
    place = discover(local_path(data_dir))
    if not isinstance(place, DataDir):
        raise NotALogError("not a data directory, on which a broker starts: give the one that it is in", str(data_dir))
    checkpoints = Checkpoints(place.path)
    assumed = checkpoints.was_clean if clean is None else clean
    own, of_partitions = list[Finding](), dict[Path, list[Finding]]()
    owners = {str(each.path): each for each in place.partitions}
    served = {str(each.topic_partition): each for each in place.partitions if each.mark is None}
    for finding in verify_place(place, Options(progress=progress, jobs=jobs)):
        directory, _, _ = finding.path.rpartition("/")
        owner = served.get(finding.partition or "") or owners.get(finding.path) or owners.get(directory)
        (own if owner is None else of_partitions.setdefault(owner.path, [])).append(finding)
    # The cluster's metadata is loaded first.
    partitions = sorted(place.partitions, key=lambda each: not holds_metadata(each.topic_partition))
    starts = tuple(
        _Start(each, checkpoints, clean=assumed).described(of_partitions.get(each.path, [])) for each in partitions
    )
    steps = [*_routine(checkpoints, clean=assumed), *(_step(each, recovered=not assumed) for each in own)]
    steps.sort(key=lambda step: _ORDER[step.stage])
    return Explanation(
        path=place.path,
        was_clean=checkpoints.was_clean,
        clean=assumed,
        formatted=(place.path / META_PROPERTIES).exists(),
        steps=tuple(steps),
        partitions=starts,
    )


def _routine(checkpoints: Checkpoints, *, clean: bool) -> Iterator[Step]:
    """Yield what a broker does in every data directory."""
    directory = checkpoints.directory
    meta = directory / META_PROPERTIES
    with suppress(CorruptCheckpointError, OSError):
        found = read_meta_properties(meta)
        if found is None:
            text = "is not there: kafka-storage.sh format has to write it before the first start"
        else:
            node = found.get("node.id") or found.get("broker.id") or "none"
            text = f"reads that the directory belongs to node {node} of cluster {found.get('cluster.id', 'unknown')}"
        yield Step(stage=Stage.IDENTITY, path=str(meta), does=text)
    holder, lock = holder_of(directory), str(directory / LOCK_FILE)
    if holder is None:
        yield Step(stage=Stage.LOCK, path=lock, does="locks the directory")
    else:
        text = f"does not start while process {holder} has it locked"
        yield Step(stage=Stage.LOCK, path=lock, does=text, consequence=Consequence.NO_START)
    text = "finds it, deletes it, and trusts all segments" if clean else "does not find it: recovers all partitions"
    if clean is not checkpoints.was_clean:
        text += " (as assumed; it is not there)" if clean else " (as assumed; it is there)"
    yield Step(stage=Stage.CLEAN_MARK, path=str(directory / CLEAN_SHUTDOWN_FILE), does=text)
    for name, what, stage in (
        (RECOVERY_POINT_CHECKPOINT, "recovery points", Stage.CHECKPOINTS),
        (LOG_START_OFFSET_CHECKPOINT, "log starts", Stage.CHECKPOINTS),
        (HIGH_WATERMARK_CHECKPOINT, "high watermarks", Stage.SERVING),
    ):
        if name in checkpoints.offsets:
            text = f"reads the {what} of {_counted(len(checkpoints.offsets[name]), 'partition')}"
            yield Step(stage=stage, path=str(directory / name), does=text)


def _stage_of(finding: Finding) -> Stage:
    if finding.code in {"checkpoint-format", "checkpoint-empty"} and finding.path.endswith(_READ_LAST):
        return Stage.SERVING
    return next((stage for stage, codes in _STAGES.items() if finding.code.startswith(codes)), Stage.RECOVERY)


def _step(finding: Finding, *, recovered: bool) -> Step:
    return Step(
        stage=_stage_of(finding),
        path=finding.path,
        does=finding.rule.does(recovered=recovered),
        consequence=finding.rule.follows(recovered=recovered),
        finding=finding,
        cuts=finding.rule.cuts(recovered=recovered),
    )


def _number(path: str) -> int | None:
    """Return the offset in the name of a segment, an index or a snapshot; None for other names."""
    name = path.rpartition("/")[2].partition(".")[0]
    return int(name) if len(name) == 20 and name.isdecimal() else None


class _Start:
    """The start of one partition: which segments are recovered, and where the log ends then."""

    def __init__(self, partition: PartitionDir, checkpoints: Checkpoints, *, clean: bool) -> None:
        self._partition = partition
        self._checkpoints = checkpoints
        self._clean = clean and not holds_metadata(partition.topic_partition)
        self._point = checkpoints.recovery_point(partition.topic_partition)
        self._files: list[tuple[int, Path]] = []
        self._recovered: list[tuple[int, Path]] = []
        # An unreadable file is a finding.
        with suppress(OSError):
            self._files = segment_files(partition.path)
            if not self._clean and partition.mark != "delete":
                self._recovered = unflushed(partition.path, self._point)

    def _offset(self, name: str) -> int | None:
        return self._checkpoints.offset(name, self._partition.topic_partition)

    def described(self, findings: list[Finding]) -> PartitionStart:
        """Return what a broker does, with the findings about the partition."""
        steps = [_step(self._as_assumed(each), recovered=self._recovers(each.path)) for each in findings]
        start = max(self._offset(LOG_START_OFFSET_CHECKPOINT) or 0, self._files[0][0] if self._files else 0)
        end = self._end(start)
        segments = len(self._files)
        cut = next((each for each in steps if each.cuts), None)
        if cut is not None and cut.finding is not None:
            steps = [each for each in steps if each is cut or not _goes_with(each, cut)]
            new_end = self._end_at(cut.finding)
            if new_end is not None and end is not None and new_end < end:
                steps[steps.index(cut)] = replace(cut, first_offset=new_end, last_offset=end - 1)
            end = new_end
            self._files = [each for each in self._files if each[0] <= (_number(cut.path) or 0)]
        begins_anew = end is not None and end < start
        if begins_anew and not any(each.finding and each.finding.code == "log-start-beyond-end" for each in steps):
            text = f"deletes all segments, as the log ends before its start, and begins anew at {start}"
            steps.append(Step(stage=Stage.STATE, path=str(self._partition.path), does=text))
        end = None if end is None else max(start, end)
        if any(each.code == "directory-delete" and each.situation for each in findings):
            # A new partition takes its place.
            start = end = 0
        mark = self._offset(HIGH_WATERMARK_CHECKPOINT)
        high_watermark = None if mark is None or end is None else min(end, max(start, mark))
        steps += self._routine(start, end, high_watermark, segments, begins_anew=begins_anew)
        size = 0
        with suppress(OSError):
            size = sum(path.stat().st_size for _, path in self._recovered)
        return PartitionStart(
            partition=self._partition,
            steps=tuple(sorted(steps, key=lambda step: _ORDER[step.stage])),
            segments=segments,
            recovered_segments=len(self._recovered),
            bytes_to_recover=size,
            log_start_offset=start,
            log_end_offset=end,
            high_watermark=high_watermark,
        )

    def _as_assumed(self, finding: Finding) -> Finding:
        """Return the finding as it is after a clean stop, if that is assumed."""
        stopped = self._clean and not finding.situation and f"{finding.code}, stopped" in RULES
        return replace(finding, situation="stopped") if stopped else finding

    def _recovers(self, path: str) -> bool:
        """Return whether a file is recovered: a segment after the recovery point, or what is rebuilt with it."""
        number = _number(path)
        return bool(self._recovered) and (number is None or number >= self._recovered[0][0])

    def _end(self, start: int) -> int | None:
        """Return the log's end before anything is cut; None if it is unknown."""
        try:
            with ReadOnlyLog(self._partition.path) as log:
                if not log.segments:
                    return start
                active = log.segments[-1]
                hidden = not self._recovered and is_hidden_by_index(active)
                return active.base_offset if hidden else active.read_next_offset()
        except (KafkaLogError, OSError):
            return None

    def _end_at(self, cut: Finding) -> int | None:
        """Return the log's end after a cut; None if it is unknown."""
        if cut.first_offset is not None:
            return cut.first_offset
        try:
            if cut.end != Path(cut.path).stat().st_size:
                return None
            # Only a tail is cut off.
            with ReadOnlyLog(self._partition.path) as log:
                return next(each.read_next_offset() for each in log.segments if each.base_offset == _number(cut.path))
        except (KafkaLogError, OSError):
            return None

    def _routine(
        self, start: int, end: int | None, high_watermark: int | None, count: int, *, begins_anew: bool
    ) -> Iterator[Step]:
        """Yield what a broker does with every partition of `count` segments."""
        path, mark = str(self._partition.path), self._partition.mark
        if mark == "delete":
            return
        yield Step(stage=Stage.SEGMENTS, path=path, does=f"opens {_counted(count, 'segment')}")
        if self._recovered:
            text = f"recovers {len(self._recovered)} of them, from recovery point {self._point} on"
            yield Step(stage=Stage.RECOVERY, path=path, does=text)
        if mark == "stray" or holds_metadata(self._partition.topic_partition):
            return
        # Segments that recovery leaves.
        before = sum(following <= start for following, _ in self._files[1:])
        if before and not begins_anew:
            text = f"deletes {_counted(before, 'segment')} before the log start {start}"
            yield Step(stage=Stage.SERVING, path=path, does=text)
        known, text = (
            self._offset(HIGH_WATERMARK_CHECKPOINT),
            f"begins at offset {start} and ends at {_or_unknown(end)}",
        )
        if high_watermark is not None and known is not None:
            text += f", with high watermark {high_watermark}" + (
                f" instead of {known}" if known > high_watermark else ""
            )
        yield Step(stage=Stage.SERVING, path=path, does=text)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" + "s" * (number != 1)


def _or_unknown(offset: int | None) -> str:
    return "an unknown offset" if offset is None else f"{offset}"


def _goes_with(step: Step, cut: Step) -> bool:
    """Return whether what a step is about goes with a cut: bytes behind it."""
    if step.stage is not Stage.RECOVERY or not step.path.endswith(LOG_SUFFIX):
        return False
    return _place(step) >= _place(cut)


def _place(step: Step) -> tuple[int, int]:
    return _number(step.path) or 0, (step.finding and step.finding.position) or 0
