"""The start and the end of a dump: `--from` and `--to`.

    1234                      an offset
    earliest, earliest+100    relative to the first offset
    end, end-500              relative to the end, the offset after the last one; "latest" is a synonym
    @2026-01-31T10:00Z        a time; UTC if no zone is given
    @1769853600000            a time in ms since the epoch
    -1h, -30s, -2d            a time before now (s, m, h, d, w)

Offsets limit offsets and times limit timestamps: records may be out of the order of their timestamps.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.cli.output import rfc3339
from kafkalog.record.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from kafkalog import RecordBatch, RecordColumns
    from kafkalog.cli.log_source import Source

EXAMPLES = "1234, earliest, end-500, @2026-01-31T10:00Z, @1769853600000, -1h"
# In ms this is March 1973, in seconds the year 5138: a smaller number is probably in seconds.
LEAST_MS = 10**11
# Timestamps are Java longs.
LEAST_LONG = -(2**63)
_ANCHOR = re.compile(r"(earliest|end|latest)([+-]\d+)?", re.ASCII)
_AGO = re.compile(r"-(\d+)([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True)
class Position:
    """An offset, absolute or relative to the start or the end of the log, or a time (ms)."""

    origin: Literal["offset", "earliest", "end", "time"]
    value: int

    def offset_in(self, source: Source) -> int | None:
        """Return the offset in a log; None for a time.

        Raises:
            KafkaLogError: The log is damaged.
            OSError: The log was not read.
        """
        match self.origin:
            case "offset":
                return self.value
            case "time":
                return None
            case "earliest":
                return max(0, source.start_offset + self.value)
            case _:
                return max(source.start_offset, source.end_offset + self.value)

    @property
    def time(self) -> int | None:
        """The time, ms; None for an offset."""
        return self.value if self.origin == "time" else None


@dataclass(frozen=True, slots=True)
class Range:
    """The records with first <= offset < stop and since <= timestamp < until (ms); None: no limit.

    A record without a timestamp is not in any range of times.
    """

    first: int | None = None
    stop: int | None = None
    since: int | None = None
    until: int | None = None

    @property
    def is_timed(self) -> bool:
        """Whether timestamps are limited."""
        return self.since is not None or self.until is not None

    @property
    def has_offsets(self) -> bool:
        """Whether offsets are limited."""
        return self.first is not None or self.stop is not None

    def of(self, part: RecordColumns) -> RecordColumns:
        """Return the records of `part` in the range."""
        part = part.between(self.first or 0, INT64_MAX if self.stop is None else self.stop)
        if not self.is_timed:
            return part
        wanted = part.timestamp != NO_TIMESTAMP
        if self.since is not None:
            wanted &= part.timestamp >= self.since
        if self.until is not None:
            wanted &= part.timestamp < self.until
        return part.where(wanted)

    def touches_times_of(self, batch: RecordBatch) -> bool:
        """Return whether the timestamps of a batch, from its first to its largest, overlap the range."""
        largest = batch.max_timestamp
        if batch.timestamp_type == 1 or (batch.magic < 2 and not batch.is_compressed):
            return self._holds_times(largest, largest)
        # If the header does not have the first timestamp, that may be any time.
        is_known = batch.magic >= 2 and batch.delete_horizon_ms is None
        return self._holds_times(min(batch.base_timestamp, largest) if is_known else LEAST_LONG, largest)

    def _holds_times(self, least: int, largest: int) -> bool:
        if not self.is_timed:
            return True
        if largest == NO_TIMESTAMP:
            return False
        return (self.since is None or largest >= self.since) and (self.until is None or least < self.until)

    def __str__(self) -> str:
        """Return the range in words, as in "no record ..."."""
        words = []
        if self.first is not None:
            words.append(f"from offset {self.first} on")
        if self.stop is not None:
            words.append(f"before offset {self.stop}")
        if self.since is not None:
            words.append(f"from {time_text(self.since)} on")
        if self.until is not None:
            words.append(f"before {time_text(self.until)}")
        return " and ".join(words)


def time_text(ms: int) -> str:
    """Format a time (ms) for messages, without milliseconds if they are 0."""
    return rfc3339(ms, "milliseconds" if ms % 1000 else "seconds") or f"{ms} ms"


def range_in(source: Source, start: Position | None, end: Position | None) -> Range:
    """Return the range that `--from` and `--to` give in a log.

    Raises:
        KafkaLogError: The log is damaged.
        OSError: The log was not read.
    """
    return Range(
        None if start is None else start.offset_in(source),
        None if end is None else end.offset_in(source),
        None if start is None else start.time,
        None if end is None else end.time,
    )


def check_order(start: Position | None, end: Position | None) -> None:
    """Check that `--from` is not after `--to`, if both have the same origin.

    Raises:
        UsageError: `--from` is after `--to`.
    """
    if start is None or end is None or start.origin != end.origin or start.value <= end.value:
        return
    if start.origin == "time":
        raise click.UsageError(f"--from ({time_text(start.value)}) is later than --to ({time_text(end.value)})")
    name = "" if start.origin == "offset" else start.origin
    first, last = (f"{name}{each.value:{'+' if name else ''}}" for each in (start, end))
    raise click.UsageError(f"--from {first} comes after --to {last}")


def parse_position(text: str) -> Position | None:
    """Return the position in a text; None if it is not one.

    Raises:
        ValueError: A time seems to be in seconds.
    """
    if text.isdecimal() and text.isascii():
        return Position("offset", int(text))
    if match := _ANCHOR.fullmatch(text):
        return Position("earliest" if match[1] == "earliest" else "end", int(match[2] or 0))
    if match := _AGO.fullmatch(text):
        return Position("time", int((time.time() - int(match[1]) * _SECONDS[match[2]]) * 1000))
    moment = _moment(text[1:]) if text.startswith("@") else None
    return None if moment is None else Position("time", moment)


def _moment(text: str) -> int | None:
    """Return a time in ms; None if the text is not a time.

    Raises:
        ValueError: The time seems to be in seconds.
    """
    if text.isdecimal() and text.isascii():
        if int(text) < LEAST_MS:
            raise ValueError(
                f"'@{text}' looks like seconds: give ms since the epoch (@{text}000), or a date like @2026-01-31"
            )
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


# `ParamType` is generic only in new versions of click.
if TYPE_CHECKING:
    _Type = click.ParamType[Position]
else:
    _Type = click.ParamType


class PositionType(_Type):
    """The type of `--from` and `--to`."""

    name = "position"

    def convert(self, value: str | Position, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        try:
            position = value if isinstance(value, Position) else parse_position(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if position is None:
            self.fail(f"{value!r} is not a position such as {EXAMPLES}", param, ctx)
        return position
