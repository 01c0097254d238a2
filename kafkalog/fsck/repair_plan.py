"""The plan of a repair, as data: `RepairPlan`, its changes, and the kinds of changes by the codes of findings.

Each finding of `verify_path` is mended by at most one kind of change, by its code (`MENDINGS`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from kafkalog.fsck.findings import Finding
from kafkalog.fsck.repair_journal import State

Offsets = tuple[int | None, int | None]


class Mending(StrEnum):
    """A kind of change."""

    CUT = "cut-tail"
    DROP = "drop-damaged"
    ACCEPT_LOSS = "accept-loss"
    INDEXES = "rebuild-indexes"
    SNAPSHOTS = "rebuild-snapshots"
    EPOCHS = "rebuild-leader-epochs"
    SETTLE = "settle-left-over"
    CHECKPOINT = "correct-checkpoint"
    TOPIC_ID = "write-topic-id"
    CLEAN_MARK = "write-clean-mark"
    ORPHANS = "remove-orphans"
    ASIDE = "move-aside"


_CODES: dict[Mending, str] = {
    Mending.CUT: "torn-tail; preallocated-tail, stopped",
    Mending.DROP: "lost-bytes; wrong-size; zeroed-tail; torn-tail, sealed; torn-tail, synced; crc-mismatch;"
    " unknown-magic; batch-too-short; last-offset-delta; offset-order; offset-overlap; offset-below-segment;"
    " offset-beyond-segment; segment-overlap",
    Mending.ACCEPT_LOSS: "log-too-short",
    Mending.INDEXES: "index-missing; time-index-missing; index-size; index-zeros; index-entries; time-index-entries;"
    " time-index-short; txn-index-version; txn-index-format; txn-index-missing; txn-index-entries",
    Mending.SNAPSHOTS: "snapshot-format; snapshot-differs; snapshot-missing",
    Mending.EPOCHS: "leader-epoch-format; leader-epoch-order; leader-epoch-beyond-end; leader-epoch-missing;"
    " leader-epoch-differs",
    Mending.SETTLE: "left-over",
    Mending.CHECKPOINT: "checkpoint-format; checkpoint-empty, log-start; log-start-unlike-epochs;"
    " log-start-before-log; log-start-beyond-end; cleaner-offset-beyond-end",
    Mending.TOPIC_ID: "partition-metadata-format; partition-metadata-missing; topic-id-differs;"
    " topic-name-differs, known",
    Mending.CLEAN_MARK: "clean-shutdown-format",
    Mending.ORPHANS: "orphaned-index",
    Mending.ASIDE: "foreign-directory; partition-twice; foreign-log-name; swap-damaged",
}
MENDINGS: dict[str, Mending] = {code: mending for mending, codes in _CODES.items() for code in codes.split("; ")}
"""The change that mends findings of a code; as in `RULES`, with a situation where that matters."""


def mending_of(finding: Finding) -> Mending | None:
    """Return the kind of change that mends a finding; None if there is none."""
    return MENDINGS.get(f"{finding.code}, {finding.situation}") or MENDINGS.get(finding.code)


REBUILDING = {Mending.CUT, Mending.DROP, Mending.INDEXES, Mending.SNAPSHOTS, Mending.EPOCHS, Mending.SETTLE}
"""The changes that follow from a recovery of the partition's whole log."""
OF_SOUND_BATCHES = {Mending.INDEXES, Mending.EPOCHS}
"""Those of them that mend what keeps a broker from starting also beside a damaged log, from its sound batches."""
_FROM_LINES, _FROM_EPOCHS = "write it anew from the lines that can be read", "write it anew from the leader epochs"
# A text names at most so many files or dropped lines, and shows at most so many characters of a line.
_MOST_NAMED, _MOST_SHOWN = 10, 120
_TEXTS = {
    Mending.CUT: "cut off the last {size} bytes, no whole batch",
    Mending.DROP: "drop what is damaged",
    Mending.ACCEPT_LOSS: "lower its offsets in the checkpoints to the log's end",
    Mending.INDEXES: "rebuild its indexes",
    Mending.SNAPSHOTS: "rebuild its producer snapshots from the log",
    Mending.EPOCHS: "rebuild it from the batches of the log",
    Mending.SETTLE: "{settled}",
    Mending.CHECKPOINT: "{correction}",
    Mending.TOPIC_ID: "write the topic id {topic_id}",
    Mending.CLEAN_MARK: "write it anew, without a broker's epoch",
    Mending.ORPHANS: "remove index files without a segment ({count})",
    Mending.ASIDE: "move it aside, into the journal",
}


class LogContent(NamedTuple):
    """The number of log files in a directory that is moved aside, and what is in them.

    Attributes:
        files: Their number.
        size_in_bytes: Their size.
        records: The number of records, by the headers before any damage.
        is_exact: Whether there are no more records.
        partition: The partition that the name of the directory begins with; None if it is not known, or the whole name.
    """

    files: int
    size_in_bytes: int
    records: int
    is_exact: bool
    partition: str | None = None

    def __str__(self) -> str:
        """Return what there is, for people."""
        least = "" if self.is_exact else "at least "
        return (
            f"{self.files} log file{'s' * (self.files != 1)} of {self.size_in_bytes} bytes with {least}"
            f"{self.records} record{'s' * (self.records != 1)}"
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a plan.

    Attributes:
        mending: Its kind.
        path: The file, or the directory.
        findings: What it mends.
        topic_id: The topic id that is written; None for other kinds.
        lost: The ranges of offsets, first and last, that are gone then; None where that is not known.
        holds: The logs in what is moved aside; None: there are none, or nothing is moved.
        dropped_lines: The lines of a checkpoint that cannot be read, and go.
        cluster_topic_id: The topic id that the cluster's metadata have, if another one is given and written.
    """

    mending: Mending
    path: Path
    findings: tuple[Finding, ...]
    topic_id: str | None = None
    lost: tuple[Offsets, ...] = ()
    holds: LogContent | None = None
    dropped_lines: tuple[str, ...] = ()
    cluster_topic_id: str | None = None

    def __str__(self) -> str:
        """Return one line for people."""
        wrong = {_wrong_offset(each) for each in self.findings if not is_of_form(each)}
        anew = _FROM_EPOCHS if any(each.code == "checkpoint-empty" for each in self.findings) else _FROM_LINES
        what = _TEXTS[self.mending].format(
            size=sum(each.length or 0 for each in self.findings),
            count=len(self.findings),
            settled=_settled(self.findings),
            topic_id=self.topic_id,
            correction=f"correct the offsets of {', '.join(sorted(wrong))}" if wrong else anew,
        )
        lost = ", ".join("..".join("?" if each is None else str(each) for each in offsets) for offsets in self.lost)
        lines = _some([repr(line[:_MOST_SHOWN]) for line in self.dropped_lines])
        other = self.cluster_topic_id
        return (
            f"{self.path}: {what}{f'; the cluster has {other}, and a broker sets the partition aside' if other else ''}"
            f"{f'; offsets {lost} are lost' if lost else ''}"
            f"{f'; it holds {self.holds}' if self.holds else ''}{f'; without the lines {lines}' if lines else ''}"
        )


def _settled(findings: Sequence[Finding]) -> str:
    """Return what is done about left-over files."""
    completed = sorted(Path(each.path).name for each in findings if each.situation == "completed")
    removed = sorted({Path(each.path).name for each in findings} - {*completed})
    texts = [f"remove what is left over ({_some(removed)})"] if removed else []
    return " and ".join([*texts, *([f"complete the replacement with {_some(completed)}"] if completed else [])])


def _some(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = len(names) - _MOST_NAMED
    return ", ".join([*names[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])


def is_of_form(finding: Finding) -> bool:
    """Return whether a finding is about the format of a checkpoint, not about an offset in it."""
    return finding.code in {"checkpoint-format", "checkpoint-empty"}


def _wrong_offset(finding: Finding) -> str:
    """Return the partition of a wrong line in a checkpoint, with the offset, if the finding tells that."""
    name = Path(finding.path).parent.name
    if finding.code == "log-start-unlike-epochs":
        return f"{name} (the log start {finding.expected} becomes {finding.found}: what is before it is served again)"
    if finding.partition is None:
        return name
    return f"{finding.partition} (found {finding.found})"


@dataclass(frozen=True, slots=True)
class Left:
    """A finding that a plan does not mend, and why."""

    finding: Finding
    why: str


@dataclass(frozen=True)
class Place:
    """The directories of a repair.

    Attributes:
        data_dir: The data directory.
        partitions: The partitions to repair in it.
        siblings: All partitions in it that a broker serves.
    """

    data_dir: Path
    partitions: tuple[Path, ...]
    siblings: tuple[Path, ...]

    @cached_property
    def _own(self) -> frozenset[Path]:
        return frozenset(self.partitions)

    def is_in_place_of_file(self, path: Path) -> bool:
        """Return whether a path is a directory, and no partition."""
        return path.is_dir() and path not in {self.data_dir, *self.partitions, *self.siblings}

    def holding(self, path: Path) -> Path | None:
        """Return the partition that a path is, or is in."""
        return next((each for each in (path, path.parent) if each in self._own), None)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The changes that a repair will make; see `plan_repair`.

    Attributes:
        path: The data directory or partition.
        changes: The changes.
        left: The findings that remain.
        unfinished: The journal of an interrupted repair or undo, which is to be finished first; the plan has nothing
            else then.
        stray_journals: What is named like a journal of the directory and cannot be read, with what to do about it.
        place: What belongs to the path.
        journal_stem: The path of the journal, without the time.
        states: The state of each file in the directories concerned, as it was before the check.
    """

    path: Path
    changes: tuple[Change, ...]
    left: tuple[Left, ...]
    unfinished: Path | None
    stray_journals: Mapping[Path, str]
    place: Place = field(repr=False)
    journal_stem: Path = field(repr=False)
    states: Mapping[Path, State] = field(repr=False)
