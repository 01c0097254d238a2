"""Where a dump begins and ends: `--from` and `--to`.

    1234                      an offset
    earliest, earliest+100    from the first offset on
    end, end-500              back from the end
    @2026-01-31T10:00Z        the first record at that time or later; UTC where no zone is given
    @1769853600000            the same in ms since the epoch
    -1h, -30s, -2d            the same, so long ago (s, m, h, d, w)

A time stands for an offset, as it does for a consumer: records after it may be older.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from kafkalog.cli.sources import Source

EXAMPLES = "1234, earliest, end-500, @2026-01-31T10:00Z, @1769853600000, -1h"
_ANCHOR = re.compile(r"(earliest|end)([+-]\d+)?", re.ASCII)
_AGO = re.compile(r"-(\d+)([smhdw])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True, slots=True)
class Position:
    """An offset (from "offset" 0, the log's "earliest", its "end"), or the first record at a "time" (ms) or later."""

    origin: Literal["offset", "earliest", "end", "time"]
    value: int

    def resolve(self, source: Source) -> int:
        """The offset in a log; its end where no record is as late. KafkaLogError, OSError: it cannot be searched."""
        match self.origin:
            case "offset":
                return self.value
            case "earliest":
                return source.start_offset + self.value
            case "end":
                return source.end_offset + self.value
            case _:
                found = source.offset_at(self.value)
                return source.end_offset if found is None else found


def parse_position(text: str) -> Position | None:
    """None: it is no position."""
    if text.isdecimal() and text.isascii():
        return Position("offset", int(text))
    if match := _ANCHOR.fullmatch(text):
        return Position("earliest" if match[1] == "earliest" else "end", int(match[2] or 0))
    if match := _AGO.fullmatch(text):
        return Position("time", int((time.time() - int(match[1]) * _SECONDS[match[2]]) * 1000))
    moment = _moment(text[1:]) if text.startswith("@") else None
    return None if moment is None else Position("time", moment)


def _moment(text: str) -> int | None:
    if text.isdecimal() and text.isascii():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


# Generic in new versions of click only.
if TYPE_CHECKING:
    _Type = click.ParamType[Position]
else:
    _Type = click.ParamType


class PositionType(_Type):
    """The type of `--from` and `--to`."""

    name = "position"

    def convert(self, value: str | Position, param: click.Parameter | None, ctx: click.Context | None) -> Position:
        position = value if isinstance(value, Position) else parse_position(value)
        if position is None:
            self.fail(f"{value!r} is none of {EXAMPLES}", param, ctx)
        return position
