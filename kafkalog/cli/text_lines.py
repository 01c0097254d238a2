"""Records and batches as text. Control characters in payloads are escaped, so they do not control the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING

from kafkalog.cli.chunks import chunks
from kafkalog.cli.output import PIECE_BYTES, is_text, printable, rfc3339, short_time, styled, texts
from kafkalog.errors import KafkaLogError
from kafkalog.record.control import (
    ControlRecordType,
    KRaftVersion,
    KRaftVoters,
    LeaderChange,
    SnapshotHeader,
    control_type,
    decode_control,
)
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.record.record_columns import RECORDS_AT_A_TIME
from kafkalog.scan.transaction_states import COMMITTED, STATES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkalog import Record, RecordBatch, RecordColumns
    from kafkalog.cli.log_source import BatchFacts, Located
    from kafkalog.record.control import KRaftVoter, Voter

BATCH_TITLES = ("OFFSETS", "RECORDS", "POSITION", "BYTES", "FMT", "CODEC", "MAX TIME", "NOTES")
BATCH_LINE = "{:<15} {:>7} {:>9} {:>8} {:<3} {:<6} {:<20} {}"
# Without the format, with times to the minute, and cut at the end, a line fits into 80 columns.
NARROW_BATCH_LINE = "{:<13} {:>7} {:>9} {:>7} {:.0}{:<6} {:<16} {}"
NARROW = 110
# Indexed by transaction state.
_NOTES = [f"  {state} transaction" if i > COMMITTED else "" for i, state in enumerate(STATES)]
HIDDEN_HINT = "(hidden: FMT, the ends of long lines; --wide shows them)\n"


class TextLines:
    """Text for the records and batches of one log.

    Args:
        place: The prefix of every record; may be empty.
        max_width: The most characters of a key, value or header; 0: no limit.
        colour: Whether to use colours.
        width: The columns of the terminal; None: no limit.
    """

    def __init__(self, place: str, *, max_width: int = 0, colour: bool = False, width: int | None = None) -> None:
        self._place = f"{printable(place)} " if place else ""
        self._max_width = max_width
        self._colour = colour
        self._width = width or 0
        self.is_narrow = width is not None and width < NARROW
        self._file = ""

    def records(self, part: RecordColumns, states: NDArray[np.uint8] | None = None) -> Iterator[bytes]:
        """Yield the records as text, several lines each, with a note if their transaction is not committed.

        Args:
            part: The records.
            states: The index in STATES of each record; None: not known.
        """
        notes = repeat("") if states is None else iter([_NOTES[state] for state in states.tolist()])
        for chosen, is_large in chunks(part, RECORDS_AT_A_TIME):
            pieces = chain.from_iterable(map(self._record, part[chosen], notes))
            yield from (piece.encode() for piece in pieces) if is_large else ("".join(pieces).encode(),)

    def _record(self, record: Record, note: str = "") -> Iterator[str]:
        """Yield the pieces of a record's text."""
        title = styled(f"{self._place}offset {record.offset}", self._colour, bold=True)
        yield f"{title}  {_time(record)}{note}\n  {self._label('key')}    "
        yield from self._payload(record.key)
        yield f"\n  {self._label('value')}  "
        yield from self._payload(record.value)
        for key, value in record.headers:
            yield f"\n  {self._label('header')} {''.join(self._cut((printable(key),)))}: "
            yield from self._payload(value)
        yield "\n"

    def _label(self, text: str) -> str:
        return styled(text, self._colour, dim=True)

    def _payload(self, data: bytes | None) -> Iterator[str]:
        """Yield a payload as text. Null, empty and binary payloads have a mark in angle brackets."""
        if not data:
            yield self._label("<null>" if data is None else "<empty>")
        elif is_text(data):
            yield from self._cut(map(printable, texts(data)))
        else:
            yield self._label("<hex>") + " "
            yield from self._cut(data[i : i + PIECE_BYTES].hex() for i in range(0, len(data), PIECE_BYTES))

    def _cut(self, pieces: Iterable[str]) -> Iterator[str]:
        left, more = self._max_width or sys.maxsize, 0
        for text in pieces:
            yield text[:left]
            more += max(0, len(text) - left)
            left = max(0, left - len(text))
        if more:
            yield f"… (+{more})"

    def record_list(self, part: RecordColumns, states: NDArray[np.uint8], *, control: bool = False) -> Iterator[bytes]:
        """Yield the records as `records`; if `control`, all of them are control records."""
        if not control:
            yield from self.records(part, states)
            return
        notes = (f"  control {control_text(record)}" for record in part)
        yield "".join(chain.from_iterable(map(self._record, part, notes))).encode()

    def batch(self, located: Located, facts: BatchFacts) -> bytes:
        """Return a line for a batch, after the file's name and the titles if it is the first of a file."""
        batch = located.batch
        base = "?" if facts.base_offset is None else facts.base_offset
        time = batch.max_timestamp
        line = self._fitted(
            f"{base}..{batch.last_offset}",
            "?" if batch.records_count is None and batch.is_compressed else batch.records_count or int(batch.magic < 2),
            batch.position,
            batch.size_in_bytes,
            f"v{batch.magic}",
            facts.codec or "?",
            short_time(time) if self.is_narrow else rfc3339(time, "seconds") or "",
            " ".join(_notes(batch, facts)),
        )
        line = styled(line, self._colour and facts.error is not None, fg="red")
        return f"{self._heading(located)}{line}\n".encode()

    def _fitted(self, *cells: object) -> str:
        line = (NARROW_BATCH_LINE if self.is_narrow else BATCH_LINE).format(*cells).rstrip()
        return f"{line[: self._width - 1]}…" if self.is_narrow and len(line) > self._width else line

    def _heading(self, located: Located) -> str:
        if self._file == located.path.name:
            return ""
        self._file = located.path.name
        name = printable(self._file) if self._file not in self._place else ""
        return styled(f"{self._place}{name}\n{self._fitted(*BATCH_TITLES)}", self._colour, bold=True) + "\n"


def _time(record: Record) -> str:
    if record.timestamp == NO_TIMESTAMP:
        return "no timestamp"
    return f"{rfc3339(record.timestamp) or f'{record.timestamp} ms'} {record.timestamp_type.label}"


def _notes(batch: RecordBatch, facts: BatchFacts) -> Iterator[str]:
    """Yield notes about a batch, the most important first: the end of the line may be cut."""
    if facts.error is not None:
        yield "DAMAGED"
    yield from map(control_text, facts.control)
    if batch.is_transactional and not batch.is_control:
        yield "txn"
    if batch.producer_id >= 0:
        yield f"pid {batch.producer_id}/{batch.producer_epoch}"
    if batch.base_sequence >= 0:
        yield f"seq {batch.base_sequence}"
    if batch.partition_leader_epoch >= 0:
        yield f"epoch {batch.partition_leader_epoch}"
    if batch.delete_horizon_ms is not None:
        yield f"horizon {rfc3339(batch.delete_horizon_ms, 'seconds') or batch.delete_horizon_ms}"


def control_text(record: Record) -> str:
    """Return the content of a control record in a few words."""
    try:
        kind, type_id = control_type(record.key)
        said = decode_control(record)
    except KafkaLogError as error:
        return f"<{printable(error.message)}>"
    if kind is ControlRecordType.UNKNOWN:
        return f"control type {type_id}"
    return " ".join([kind.name, *_details(said)])


def _details(said: object) -> Iterator[str]:
    match said:
        case LeaderChange(leader, voters):
            yield f"leader {leader} of {_numbers(voters)}"
        case KRaftVersion(version):
            yield str(version)
        case KRaftVoters(voters):
            yield _numbers(voters)
        case SnapshotHeader(timestamp):
            yield rfc3339(timestamp, "seconds") or f"{timestamp} ms"


def _numbers(voters: Iterable[Voter | KRaftVoter]) -> str:
    return ",".join(str(voter.voter_id) for voter in voters)
