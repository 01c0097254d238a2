"""The answers that screens draw: frozen values, handed from the worker that reads to the screen that shows.

Offsets are None where they are not known (yet); timestamps are ms since the epoch, None = none; sizes are bytes.
`problem` is text for people: what is wrong, where, what was expected and what was found; None = nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from kafkalog.scan.summary import SegmentSummary

Health: TypeAlias = Literal["unchecked", "ok", "hanging transaction", "damaged", "unreadable"]
Change: TypeAlias = Literal["grown", "rolled", "truncated", "deleted", "gone"]
BatchKind: TypeAlias = Literal["data", "transactional", "control", "aborted", "corrupt"]

CellKind: TypeAlias = Literal["data", "transactional", "control", "aborted", "corrupt", "unread", "empty"]

# Bytes of a key and of a value that a row of a table has.
ROW_BYTES = 16 << 10
# Worst last: of the batches that share a cell of the segment map, the worst gives it its kind.
KINDS: tuple[BatchKind, ...] = ("data", "transactional", "control", "aborted", "corrupt")


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A partition in the list of all.

    name: of its directory, which tells rows apart. filled: False for the first pass, which knows names alone (what is
    not known is None). offsets: log end less log start; records: how many there are, None where only counting would
    tell. rates: offsets a second between the last looks, the newest last. health: what a quick look finds, unless a
    check has been done (see `jobs.checks`); `problem` says why.
    """

    name: str
    path: Path
    topic: str
    partition: int
    mark: str | None = None
    is_internal: bool = False
    filled: bool = False
    segments: int | None = None
    bytes: int | None = None
    records: int | None = None
    offsets: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    last_stable: int | None = None
    log_end: int | None = None
    rates: tuple[float, ...] = ()
    last_timestamp: int | None = None
    health: Health = "unchecked"
    problem: str | None = None

    @property
    def rate(self) -> float | None:
        """Offsets a second since it was last looked at; None if it was not looked at before."""
        return self.rates[-1] if self.rates else None


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A segment of a partition.

    sealed: another follows it. end_offset: after its last batch; None where that is not known so far. summary: None
    until its `SegmentReader` has read it through. index_state: None until it has been looked at. health: what a
    check has found.
    """

    base_offset: int
    path: Path
    bytes: int
    sealed: bool
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    index_state: str | None = None
    problem: str | None = None
    end_offset: int | None = None
    summary: SegmentSummary | None = None
    health: Health = "unchecked"

    @property
    def batches(self) -> int | None:
        """How many batches there are."""
        return None if self.summary is None else self.summary.batches

    @property
    def records(self) -> int | None:
        """How many records there are, control records left out."""
        return None if self.summary is None else self.summary.records


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that no segment holds, between two of them: no damage by itself."""

    first_offset: int
    last_offset: int

    @property
    def note(self) -> str:
        """What there is to say of it."""
        # As short as can be: it is to be read at 80 columns, whatever the offsets are.
        return f"no segment holds {self.first_offset:,}-{self.last_offset:,} (compacted, or one is missing)"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition at one moment. changed: what happened since the state before, in this order: see `Change`.

    gaps: as far as the segments' ends are known.
    """

    name: str
    path: Path
    segments: tuple[SegmentRow, ...] = ()
    log_start: int | None = None
    recovery_point: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    log_end: int | None = None
    epochs: tuple[tuple[int, int], ...] = ()
    changed: frozenset[Change] = frozenset()
    problem: str | None = None
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Offset:
    """A target: the record with this offset, or the first behind it."""

    offset: int


@dataclass(frozen=True, slots=True)
class Time:
    """A target: the first record with this timestamp (ms) or a later one."""

    timestamp: int


@dataclass(frozen=True, slots=True)
class Byte:
    """A target: the batch that a position of a segment is in; base_offset: the segment's, None = the last one."""

    position: int
    base_offset: int | None = None


Target: TypeAlias = Offset | Time | Byte


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target is: its segment, the position of its batch, and its offset (None where no record is there).

    row: of its batch, where that is how it was found; it holds as long as the segment has this `generation`.
    """

    base_offset: int
    position: int
    offset: int | None = None
    row: int | None = field(default=None, compare=False)
    generation: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch, or bytes among which none can be read (kind "corrupt", magic None).

    row: its number in the segment. records: in it; None where only decoding it would tell. gap_before: offsets missing
    between the batch before and this one. control: what a control batch says ("COMMIT", "ABORT", ...).
    timestamps: of its first record (the largest where the header does not tell) and the largest. is_deleted: all of it
    is below the log start offset.
    """

    row: int
    position: int
    size: int
    kind: BatchKind
    base_offset: int | None = None
    last_offset: int | None = None
    records: int | None = None
    codec: str | None = None
    magic: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    leader_epoch: int | None = None
    first_timestamp: int | None = None
    max_timestamp: int | None = None
    timestamp_type: str | None = None
    is_transactional: bool = False
    control: str | None = None
    checksum: int | None = None
    gap_before: int = 0
    problem: str | None = None
    is_deleted: bool = False

    @property
    def end(self) -> int:
        """The position after its last byte."""
        return self.position + self.size


@dataclass(slots=True)
class Cell:
    """A cell of the segment map: the worst kind in it, its bytes, and the batches that begin in it (none: -1, -1).

    "unread": not looked at yet; "empty": bytes reserved for what is to come.
    """

    kind: CellKind
    position: int
    bytes: int
    first_row: int = -1
    last_row: int = -1
    record_bytes: int | None = None
    time: int | None = None

    @property
    def batches(self) -> int:
        """The number of batches that begin in it."""
        return 0 if self.first_row < 0 else self.last_row - self.first_row + 1


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record, or a batch whose records cannot be read (`problem`; offset of the batch).

    row: its number in the segment. key, value: at most the first `ROW_BYTES` bytes of each. size: bytes of key, value
    and headers (None: not known). batch: row of its batch. is_deleted: it is below the log start offset.
    """

    row: int
    offset: int
    batch: int
    kind: BatchKind
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers_count: int = 0
    size: int | None = None
    control: str | None = None
    gap_before: int = 0
    problem: str | None = None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a record's part: from `start`, in the file or, where `compressed`, in the batch's decompressed bytes."""

    start: int
    length: int
    compressed: bool = False


@dataclass(frozen=True, slots=True)
class RecordDetail:
    """A record whole, and the batch it is in. spans: where "record", "key" and "value" lie, what of it is not null."""

    row: int
    offset: int
    batch: BatchRow
    timestamp: int | None = None
    timestamp_type: str | None = None
    sequence: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    spans: dict[str, Span] = field(default_factory=dict)
    control: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the file's bytes. path: what it belongs to, outermost first ("batch 3", "record 0", "header 1")."""

    name: str
    start: int
    length: int
    value: str
    explanation: str
    path: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """The position after its last byte."""
        return self.start + self.length
