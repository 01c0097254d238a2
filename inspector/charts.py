"""Charts out of plain characters, for the screen of statistics and for `--headless`. No Textual here.

TIME  2,400 records; a column is 16 min; the highest 96
  96 |     #                    or, where the terminal is known to have them, with blocks: ▁▂▃▄▅▆▇█
     |    ##.   .##
   0 |.#####..######
      14:00    ..    18:00
SIZES of values
    8..15 B |##########              1,200  50.0%
"""

from __future__ import annotations

import os
import sys
from itertools import zip_longest
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width

from . import text
from .columns import Times

if TYPE_CHECKING:
    from kafkalog.scan.statistics import Totals

# What terminals have that know no more than ASCII.
PLAIN_TERMINALS = ("vt100", "vt102", "vt220", "dumb", "linux")
BLOCKS = " ▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = " ..:::###"
HEIGHT = 5
WIDE = 110
KEYS_SHOWN = 20
_LABEL = 16


def has_blocks() -> bool:
    """Return whether the terminal is known to draw block characters."""
    encoding = (getattr(sys.__stdout__, "encoding", None) or "ascii").lower().replace("-", "")
    return os.environ.get("TERM", "") not in PLAIN_TERMINALS and encoding == "utf8"


def report(state: Totals, times: Times, width: int, *, blocks: bool = False) -> list[str]:
    """Return all statistics as lines, side by side where there is room."""
    half = width if width < WIDE else (width - 2) // 2
    left = [*_over_time(state, times, half, blocks), "", *_sizes(state, half, blocks)]
    right = [*_codecs(state), "", *_nulls(state), "", *_keys(state, half, blocks)]
    if width < WIDE:
        return [*left, "", *right]
    return [f"{fitted(one, half)}  {another}".rstrip() for one, another in zip_longest(left, right, fillvalue="")]


def _over_time(state: Totals, times: Times, width: int, blocks: bool) -> list[str]:
    counts = [count for _, count in state.times]
    if not counts:
        return ["TIME  no record has a time"]
    room = max(8, width - _LABEL)
    together = -(-len(counts) // room)
    columns = [sum(counts[i : i + together]) for i in range(0, len(counts), together)]
    highest = max(columns)
    length = text.duration(state.bucket_ms * together)
    lines = [f"TIME  {text.number(sum(counts))} records; a column is {length}; the highest {text.number(highest)}"]
    for row in range(HEIGHT - 1, -1, -1):
        label = text.number(highest) if row == HEIGHT - 1 else "0" if row == 0 else ""
        lines.append(f"{label:>{_LABEL - 4}} |{''.join(_piece(count, highest, row, blocks) for count in columns)}")
    first, last = times.short(state.times[0][0]), times.short(state.times[-1][0] + state.bucket_ms - 1)
    lines.append(f"{'':{_LABEL - 3}} {first} .. {last}"[:width])
    return lines


def fitted(line: str, width: int) -> str:
    """Return a line in exactly so many cells of the terminal; … where something was cut off."""
    used = 0
    for i, character in enumerate(line):
        cells = 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        if used + cells > width - 1 and (i + 1 < len(line) or used + cells > width):
            return line[:i] + "…" + " " * (width - used - 1)
        used += cells
    return line + " " * (width - used)


def _piece(count: int, highest: int, row: int, blocks: bool) -> str:
    """Return the part of a column that is in a row; whatever is not nothing is seen."""
    eighths = max(1, round(count * HEIGHT * 8 / highest)) if count else 0
    return (BLOCKS if blocks else PLAIN_BLOCKS)[max(0, min(8, eighths - row * 8))]


def bar(share: float, width: int, *, blocks: bool = False) -> str:
    """Return a bar over a share of the width; whatever is not nothing is seen."""
    length = max(1, round(share * width)) if share > 0 else 0
    return (("█" if blocks else "#") * min(width, length)).ljust(width)


def _sizes(state: Totals, width: int, blocks: bool) -> list[str]:
    if not state.sizes:
        return ["SIZES  no values"]
    total = sum(count for _, count in state.sizes)
    mean = state.value_bytes // total
    lines = [f"SIZES of values  mean {text.size(mean)}, largest {text.size(state.largest_value)}"]
    found = dict(state.sizes)
    size, last = state.sizes[0][0], state.sizes[-1][0]
    most = max(found.values())
    while size <= last:
        count = found.get(size, 0)
        label = f"{size} B" if size < 2 else f"{_short(size)}..{_short(2 * size - 1)} B"
        lines.append(f"{label:>{_LABEL - 4}} |{_counted(count, total, most, width, blocks)}")
        size = 2 * size or 1
    return lines


def _short(size: int) -> str:
    """Format a power of two, or one less: 4Ki, 4095."""
    for unit in ("", "Ki", "Mi", "Gi"):
        if size < 1024 or size % 1024:
            return (
                f"{size}{unit}"
                if size < 10_000
                else f"{-(-size // 1024)}Ki"
                if size < 1 << 20
                else f"{-(-size >> 20)}Mi"
            )
        size //= 1024
    return f"{size}Ti"


def _counted(count: int, total: int, most: int, width: int, blocks: bool) -> str:
    room = max(4, width - _LABEL - 24)
    return f"{bar(count / most, room, blocks=blocks)} {text.number(count):>13} {100 * count / total:5.1f}%"


def _codecs(state: Totals) -> list[str]:
    lines = [f"CODECS  {'BATCHES':>9} {'STORED':>10} {'PLAIN':>10}  RATIO"]
    for use in state.codecs:
        ratio = "" if use.ratio is None else f"{use.ratio:.2f}"
        row = f"{text.number(use.batches):>9} {text.size(use.stored):>10} {text.size(use.plain):>10}"
        lines.append(f"{use.name:<7} {row}  {ratio:>5}")
    return lines


def _nulls(state: Totals) -> list[str]:
    keys, values = _share(state.null_keys, state.records), _share(state.null_values, state.records)
    sizes = [text.size(each) for each in (state.key_bytes, state.value_bytes, state.header_bytes)]
    counts = [
        f"RECORDS  {state.records:,}, of these {state.aborted_records:,} aborted",
        f"APART  {state.control_records:,} control, {state.deleted_records:,} below the log start",
    ]
    return [*counts, f"NULL  keys {keys}, values {values}", "BYTES  keys {}, values {}, headers {}".format(*sizes)]


def _share(count: int, total: int) -> str:
    return f"{text.number(count)} ({100 * count / total:.1f}%)" if total else text.number(count)


def _keys(state: Totals, width: int, blocks: bool) -> list[str]:
    shown = state.top_keys[:KEYS_SHOWN]
    if not shown:
        return ["KEYS  none that comes often"] if state.records else ["KEYS"]
    most = shown[0][1]
    note = f"; each may have up to {text.number(state.key_error)} more" if state.key_error else ""
    lines = [f"KEYS that come most often{note}"]
    for key, count in shown:
        label = fitted(text.printable(key, 40) or "(empty)", _LABEL + 4)
        lines.append(f"{label} |{_counted(count, state.records, most, width - 8, blocks)}")
    return lines
