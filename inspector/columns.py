"""The columns of all tables, for the screens and for `--headless`: partitions, segments, batches, records and others.

A row has a tone, which is a colour, and a symbol, which has the same meaning without colour.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import text
from .model.decoders import Formats, Part
from .model.types import ROW_BYTES, BatchRow, RecordDetail, RecordRow, SegmentRow, TopicRow
from .tables import Mark, Shown

if TYPE_CHECKING:
    from kafkalog.fsck import Finding
    from kafkalog.scan.search import Match
    from kafkalog.scan.transactions import TransactionRow

T = TypeVar("T")
# The largest number of characters of a key or value in a table.
PREVIEW = 400
# Of the newest rate, beside the last ones.
RATE_WIDTH = 9
# The symbols of the segment map, also used for batches and records.
SYMBOLS = {
    "data": "-",
    "transactional": "t",
    "control": "c",
    "aborted": "a",
    "corrupt": "!",
    "unread": ".",
    "empty": "_",
}
TONES = {
    "data": "plain",
    "transactional": "transactional",
    "control": "control",
    "aborted": "aborted",
    "corrupt": "damaged",
}


@dataclass
class Times:
    """The format of times.

    Attributes:
        zone: The zone.
        now: Returns the current time, ms since the epoch.
    """

    zone: text.Zone = "utc"
    now: Callable[[], int] = field(default=lambda: clock.time_ns() // 1_000_000)

    def full(self, timestamp: int | None) -> str:
        """Format a time to the millisecond, with the zone."""
        return text.time(timestamp, self.zone, self.now())

    def short(self, timestamp: int | None) -> str:
        """Format a time to the second, without the zone, which the screen shows elsewhere."""
        return self.full(timestamp)[:19].replace("T", " ")

    def age(self, timestamp: int | None) -> str:
        """Format how long ago a time was; a time in the future is 0 ms ago."""
        return "" if timestamp is None else text.duration(max(0, self.now() - timestamp))


def _number(
    title: str, width: int, value: Callable[[T], Any], form: Callable[[Any], str] = text.number, *, aside: bool = False
) -> Shown[T]:
    """Return a column of numbers, aligned to the right."""
    return Shown(title, width, lambda row: form(value(row)), value, right=True, aside=aside)


def topics(times: Times, bars: str = "") -> list[Shown[TopicRow]]:
    """Return the columns for the partitions. bars: characters of growing height, for the last rates."""
    return [
        Shown(
            "PARTITION", 16, lambda row: text.printable(row.name), lambda row: (row.topic, row.partition, row.name),
            share=1, keeps_end=True,
        ),
        _number("BYTES", 10, lambda row: row.bytes, text.size),
        Shown("RECORDS", 11, _records_of_topic, lambda row: row.offsets, right=True),
        Shown("HEALTH", 10, lambda row: row.health.partition(" ")[0] if row.filled else ""),
        Shown("AGE", 7, lambda row: times.age(row.last_timestamp), lambda row: row.last_timestamp, right=True),
        _number("LOG END", 11, lambda row: row.log_end, aside=True),
        Shown("RATE", RATE_WIDTH + 8, lambda row: _rates(row, bars), lambda row: row.rate, right=True, aside=True),
        _number("SEGS", 5, lambda row: row.segments, aside=True),
        _number("LOG START", 11, lambda row: row.log_start, aside=True),
        _number("STABLE", 11, lambda row: row.last_stable, aside=True),
        _number("HIGH WM", 11, lambda row: row.high_watermark, aside=True),
    ]  # fmt: skip


def segments(times: Times) -> list[Shown[SegmentRow]]:
    """Return the columns for the segments of a partition."""
    return [
        _number("BASE OFFSET", 11, lambda row: row.base_offset),
        _number("BYTES", 10, lambda row: row.bytes, text.size),
        _number("RECORDS", 9, lambda row: row.records),
        Shown("HEALTH", 9, lambda row: row.health if row.problem is None else "damaged"),
        Shown("INDEX", 7, lambda row: row.index_state or ""),
        Shown("FIRST TIME", 19, lambda row: times.short(row.first_timestamp), lambda row: row.first_timestamp),
        Shown("LAST TIME", 19, lambda row: times.short(row.last_timestamp), lambda row: row.last_timestamp),
        Shown("CODECS", 9, _codecs),
        _number("BATCHES", 9, lambda row: row.batches),
        Shown("STATE", 8, lambda row: "sealed" if row.sealed else "active"),
    ]


def batches(times: Times) -> list[Shown[BatchRow]]:
    """Return the columns for the batches of a segment."""
    return [
        _number("BASE OFFSET", 12, lambda row: row.base_offset),
        _number("RECORDS", 7, lambda row: row.records),
        _number("SIZE", 9, lambda row: row.size, text.size),
        Shown("MAX TIME", 19, lambda row: times.short(row.max_timestamp), lambda row: row.max_timestamp),
        Shown("KIND", 7, kind),
        Shown("CODEC", 6, lambda row: row.codec or ""),
        Shown("GAP", 6, gap, lambda row: row.gap_before, right=True),
        _number("POSITION", 13, lambda row: row.position),
        _number("PRODUCER", 10, lambda row: row.producer_id, known),
        _number("SEQUENCE", 10, lambda row: row.base_sequence, known),
        _number("EPOCH", 6, lambda row: row.leader_epoch, known),
        Shown("FMT", 3, lambda row: "" if row.magic is None else f"v{row.magic}"),
    ]


def records(times: Times, formats: Formats) -> list[Shown[RecordRow]]:
    """Return the columns for the records of a segment; keys and values of a known format are decoded."""
    return [
        Shown("OFFSET", 10, lambda row: str(row.offset), lambda row: row.offset, right=True),
        Shown("TIME", 19, lambda row: times.short(row.timestamp), lambda row: row.timestamp),
        Shown("KEY", 10, lambda row: preview(row, formats, "key"), lambda row: _start(row.key), share=1),
        Shown("VALUE", 20, lambda row: preview(row, formats, "value"), lambda row: _start(row.value), share=3),
        _number("SIZE", 9, lambda row: row.size, text.size, aside=True),
        Shown("GAP", 5, gap, lambda row: row.gap_before, right=True, aside=True),
        _number("HDRS", 4, lambda row: row.headers_count, lambda count: str(count or ""), aside=True),
        _number("BATCH", 8, lambda row: row.batch, aside=True),
    ]


def good(_: object, cells: tuple[str, ...]) -> tuple[Mark, ...]:
    """Return the marks of the cells that say that all is well."""
    return tuple(Mark(i, 0, len(cell), "good") for i, cell in enumerate(cells) if cell in {"ok", "committed"})


def look_of_topic(row: TopicRow) -> tuple[str, str]:
    """Return tone and symbol of a partition; x is a directory to be deleted, or not of this cluster."""
    if not row.filled:
        return "muted", " "
    if row.health not in {"ok", "unchecked"}:
        return "damaged", "!"
    return ("plain", " ") if row.mark is None else ("muted", "x")


def look_of_segment(row: SegmentRow) -> tuple[str, str]:
    """Return tone and symbol of a segment; damage has priority over a missing index."""
    if row.problem is not None:
        return "damaged", "!"
    return ("warning", "?") if row.index_state == "missing" else ("plain", " ")


def look(row: BatchRow | RecordRow) -> tuple[str, str]:
    """Return tone and symbol of a batch or a record.

    Damage has priority over the kind. `<` is below the log start offset; plain data with missing offsets before it has
    `~`.
    """
    if row.problem is not None or row.kind == "corrupt":
        return "damaged", "!"
    if row.is_deleted:
        return "muted", "<"
    if row.kind == "data":
        return "plain", "~" if row.gap_before else " "
    return TONES[row.kind], SYMBOLS[row.kind]


def kind(row: BatchRow) -> str:
    """Return the type of a control batch, else the kind of the batch."""
    return row.control or {"transactional": "txn"}.get(row.kind, row.kind)


def gap(row: BatchRow | RecordRow) -> str:
    """Format the number of missing offsets before a row; "" if there are none."""
    return f"+{row.gap_before:,}" if row.gap_before else ""


def known(value: int | None) -> str:
    """Format a producer id, an epoch or a sequence; "" if there is none."""
    return "" if value is None or value < 0 else str(value)


def preview(row: RecordRow | RecordDetail, formats: Formats, part: Part) -> str:
    """Return the key or the value of a record as one line, decoded if its format is known; of a marker its type."""
    if part == "value" and row.control is not None:
        return row.control
    data = row.key if part == "key" else row.value
    if data is None:
        return "" if row.problem is not None else text.NULL
    # A row has no more of what is longer, which may be decoded wrongly.
    is_whole = row.control is None and len(data) < ROW_BYTES
    found = formats.decoded(part, row.key, row.value) if is_whole else None
    return text.printable(data if found is None else found.json, PREVIEW) or text.EMPTY


def _start(data: bytes | None) -> bytes | None:
    """Return what a column is sorted by: not all of it, since it is kept for each row."""
    return data and data[:PREVIEW]


def _codecs(row: SegmentRow) -> str:
    return "" if row.summary is None else " ".join(name for name, _ in row.summary.codecs.most_common())


def _rates(row: TopicRow, bars: str) -> str:
    """Return the last rates as bars, relative to the highest, and the newest; without bars the newest alone."""
    highest = max(row.rates, default=0)
    is_shown = bars and highest > 0
    shown = "".join(bars[round(max(0, rate) / highest * (len(bars) - 1))] for rate in row.rates) if is_shown else ""
    return shown + text.rate(row.rate).rjust(RATE_WIDTH)


def _records_of_topic(row: TopicRow) -> str:
    if row.records is not None:
        return text.number(row.records)
    # There are at most as many records as offsets.
    return "" if row.offsets is None else f"≤{text.number(row.offsets)}"


# Worst first.
SEVERITIES = {"error": ("damaged", "!"), "warning": ("warning", "?"), "info": ("muted", "i")}


def findings(path: Path, *, wide: bool = False) -> list[Shown[Finding]]:
    """Return the columns for the findings of a check.

    Args:
        path: The path that was checked.
        wide: Whether the names of files include a directory.
    """
    severity: Shown[Finding] = Shown("SEVERITY", 8, lambda finding: str(finding.severity), _rank)
    code: Shown[Finding] = Shown("CODE", 16, lambda finding: finding.code)
    file: Shown[Finding] = Shown(
        "FILE", 20 if wide else 24, lambda finding: relative(finding.path, path),
        share=int(wide), aside=not wide, keeps_end=True,
    )  # fmt: skip
    position: Shown[Finding] = _number("POSITION", 13, lambda finding: finding.position, aside=wide)
    offset: Shown[Finding] = _number("OFFSET", 10, lambda finding: finding.first_offset, aside=True)
    told: Shown[Finding] = Shown("TEXT", 24, lambda finding: text.printable(finding.message), share=2)
    # What has no room is in the line below. Of a data directory one asks first which partition it is.
    return [severity, file, code, told, position, offset] if wide else [severity, code, position, told, offset, file]


def _rank(finding: Finding) -> int:
    return list(SEVERITIES).index(finding.severity)


def look_of_finding(finding: Finding) -> tuple[str, str]:
    """Return tone and symbol of a finding, by its severity."""
    return SEVERITIES[finding.severity]


def transactions(times: Times) -> list[Shown[TransactionRow]]:
    """Return the columns for the transactions of a partition."""
    return [
        Shown("STATE", 9, lambda row: row.state),
        Shown("PRODUCER", 9, lambda row: str(row.producer_id), lambda row: row.producer_id, right=True),
        _number("EPOCH", 5, lambda row: row.producer_epoch, known),
        _number("FIRST", 12, lambda row: row.first_offset),
        _number("DURATION", 8, lambda row: duration_of(row, times), text.duration),
        _number("RECORDS", 9, lambda row: row.records),
        _number("BYTES", 9, lambda row: row.size_in_bytes, text.size),
        Shown("BEGAN", 19, lambda row: times.short(row.start_timestamp), lambda row: row.start_timestamp),
        Shown("ENDED", 19, lambda row: times.short(row.end_timestamp), lambda row: row.end_timestamp),
        _number("MARKER", 12, lambda row: row.last_offset),
        _number("BATCHES", 8, lambda row: row.batches),
    ]


def duration_of(row: TransactionRow, times: Times) -> int | None:
    """Return how long a transaction took, or has been open, ms; None if unknown."""
    if row.start_timestamp is None or row.state == "undecided":
        return None
    return max(0, (times.now() if row.end_timestamp is None else row.end_timestamp) - row.start_timestamp)


def look_of_transaction(row: TransactionRow) -> tuple[str, str]:
    """Return tone and symbol of a transaction; a hanging one looks like damage, a committed one is plain."""
    looks = {"hanging": ("damaged", "!"), "aborted": ("aborted", "a"), "committed": ("plain", " ")}
    return looks.get(row.state, ("transactional", "t"))


def matches() -> list[Shown[Match]]:
    """Return the columns for the matches of a search."""
    return [
        Shown("OFFSET", 12, lambda match: str(match.offset), right=True),
        Shown("FIELD", 14, lambda match: text.printable(match.field)),
        Shown("AT", 9, lambda match: text.number(match.span[0]), right=True),
        Shown("MATCH", 30, lambda match: "".join(excerpt(match)), share=1),
    ]


def excerpt(match: Match) -> tuple[str, str, str]:
    """Return the excerpt as printable text: before the match, the match, and after it."""
    start, end = match.excerpt_span
    data = match.excerpt
    return text.printable(data[:start]), text.printable(data[start:end]), text.printable(data[end:])


def relative(path: str, home: Path) -> str:
    """Return a path relative to `home`, or else the name of the file; safe for a terminal."""
    place = Path(path)
    if place == home or home not in place.parents:
        return text.printable(place.name)
    return text.printable(str(place.relative_to(home)))
