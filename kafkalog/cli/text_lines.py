"""Records and batches as text for people: whatever a payload holds, a terminal shows it and does not obey it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog.cli.output import NO_TIMESTAMP, printable, rfc3339, styled
from kafkalog.errors import KafkaLogError
from kafkalog.record.control import ControlRecordType, EndTransactionMarker, control_type, decode_control

if TYPE_CHECKING:
    from kafkalog import Record, RecordBatch, RecordColumns
    from kafkalog.cli.batch_facts import BatchFacts
    from kafkalog.cli.sources import Located

BATCH_TITLES = ("OFFSETS", "RECORDS", "POSITION", "BYTES", "FMT", "CODEC", "MAX TIME", "NOTES")
BATCH_LINE = "{:<15} {:>7} {:>9} {:>8} {:<3} {:<6} {:<20} {}"
# Without the time, a line mostly fits into 80 columns.
NARROW_BATCH_LINE = "{:<15} {:>7} {:>9} {:>8} {:<3} {:<6} {:.0}{}"
NARROW = 110


class TextLines:
    """Text for the records and batches of one log.

    place: stands before every record, "" = nothing does. max_width: a longer key, value or header is cut, 0 = none is.
    width: columns of the terminal, None = it is none.
    """

    def __init__(self, place: str, *, max_width: int = 0, colour: bool = False, width: int | None = None) -> None:
        self._place = f"{printable(place)} " if place else ""
        self._max_width = max_width
        self._colour = colour
        self._batch_line = BATCH_LINE if width is None or width >= NARROW else NARROW_BATCH_LINE
        self._file = ""

    def records(self, part: RecordColumns) -> Iterator[bytes]:
        """A block of lines a record."""
        for records in part.record_lists():
            yield "".join(map(self._record, records)).encode("utf-8")

    def _record(self, record: Record, note: str = "") -> str:
        time = _time(record)
        title = styled(f"{self._place}offset {record.offset}", self._colour, bold=True)
        lines = [f"{title}  {time}{note}"]
        lines += [f"  {self._label('key')}    {self._payload(record.key)}"]
        lines += [f"  {self._label('value')}  {self._payload(record.value)}"]
        for key, value in record.headers:
            lines.append(f"  {self._label('header')} {self._cut(printable(key))}: {self._payload(value)}")
        return "\n".join(lines) + "\n"

    def _label(self, text: str) -> str:
        return styled(text, self._colour, dim=True)

    def _payload(self, data: bytes | None) -> str:
        """Null, nothing and bytes that are no text are marked in angle brackets."""
        if not data:
            return self._label("<null>" if data is None else "<empty>")
        try:
            return self._cut(printable(data.decode()))
        except UnicodeDecodeError:
            return self._label("<hex>") + " " + self._cut(data.hex())

    def _cut(self, text: str) -> str:
        if not self._max_width or len(text) <= self._max_width:
            return text
        return f"{text[: self._max_width]}… (+{len(text) - self._max_width})"

    def control_record(self, record: Record) -> bytes:
        """A control record among the others."""
        return self._record(record, f"  control {control_text(record)}").encode("utf-8")

    def batch(self, located: Located, facts: BatchFacts) -> bytes:
        """A line for a batch; the titles, and the file's name, before the first of a file."""
        batch = located.batch
        base = "?" if facts.base_offset is None else facts.base_offset
        line = self._batch_line.format(
            f"{base}..{batch.last_offset}",
            "?" if batch.records_count is None and batch.is_compressed else batch.records_count or int(batch.magic < 2),
            batch.position,
            batch.size_in_bytes,
            f"v{batch.magic}",
            facts.codec,
            rfc3339(batch.max_timestamp, "seconds") or "",
            " ".join(_notes(batch, facts)),
        ).rstrip()
        line = styled(line, self._colour and facts.error is not None, fg="red")
        return f"{self._heading(located)}{line}\n".encode()

    def _heading(self, located: Located) -> str:
        if self._file == located.path.name:
            return ""
        self._file = located.path.name
        titles = self._batch_line.format(*BATCH_TITLES)
        return styled(f"{self._place}{printable(self._file)}\n{titles}", self._colour, bold=True) + "\n"


def _time(record: Record) -> str:
    if record.timestamp == NO_TIMESTAMP:
        return "no timestamp"
    return f"{rfc3339(record.timestamp) or f'{record.timestamp} ms'} {record.timestamp_type.label}"


def _notes(batch: RecordBatch, facts: BatchFacts) -> Iterator[str]:
    if facts.error is not None:
        yield "DAMAGED"
    if batch.partition_leader_epoch >= 0:
        yield f"epoch {batch.partition_leader_epoch}"
    if batch.producer_id >= 0:
        yield f"pid {batch.producer_id}/{batch.producer_epoch}"
    if batch.base_sequence >= 0:
        yield f"seq {batch.base_sequence}"
    if batch.delete_horizon_ms is not None:
        yield f"horizon {rfc3339(batch.delete_horizon_ms, 'seconds') or batch.delete_horizon_ms}"
    if batch.is_transactional and not batch.is_control:
        yield "txn"
    yield from map(control_text, facts.control)


def control_text(record: Record) -> str:
    """What a control record says, in a few words."""
    try:
        kind, type_id = control_type(record.key)
        said = decode_control(record)
    except KafkaLogError as error:
        return f"<{printable(error.message)}>"
    if kind is ControlRecordType.UNKNOWN:
        return f"control type {type_id}"
    return kind.name if isinstance(said, EndTransactionMarker) else printable(repr(said))
