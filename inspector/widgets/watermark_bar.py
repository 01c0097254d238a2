"""The offsets of a partition on one bar, from the log's start to its end.

    S 0 log start   R 812 recovery point   L 990 last stable   H 1,000 high watermark   E 1,042 log end
    S============================================R===========================L-H..E

Up to the last stable offset the bar is double, up to the high watermark simple, behind it dotted: nobody has read that.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget


class Watermarks(NamedTuple):
    """Offsets; None: not known."""

    log_start: int | None = None
    recovery_point: int | None = None
    last_stable: int | None = None
    high_watermark: int | None = None
    log_end: int | None = None


NAMES = (
    ("S", "log start", "start"),
    ("R", "recovery point", "recovery"),
    ("L", "last stable", "stable"),
    ("H", "high watermark", "high"),
    ("E", "log end", "end"),
)


def bar(marks: Watermarks, width: int) -> str:
    """Return the bar alone; what is beyond one of its ends stands at that end."""
    start, end = marks.log_start, marks.log_end
    if start is None or end is None or width < 1:
        return ""
    span = max(1, end - start)
    cells = [None if each is None else max(0, min(width - 1, (each - start) * (width - 1) // span)) for each in marks]
    stable = cells[2]
    high = cells[3] if cells[3] is not None else cells[4]
    line = ["=" if i <= (stable or 0) else "-" if i <= (high or 0) else "." for i in range(width)]
    # The later is drawn over the earlier, the log's start over none.
    for (letter, _, _), cell in zip(NAMES, cells, strict=True):
        if cell is not None:
            line[cell] = letter
    line[0] = "S" if marks.log_end != marks.log_start else "E"
    return "".join(line)


def legend(marks: Watermarks, width: int) -> str:
    """Return what the letters stand for, in as many words as there is room."""
    numbers = ["?" if each is None else f"{each:,}" for each in marks]
    for names in ([name for _, name, _ in NAMES], [short for _, _, short in NAMES], [""] * len(NAMES)):
        parts = [
            " ".join(filter(None, (letter, number, name)))
            for (letter, _, _), number, name in zip(NAMES, numbers, names, strict=True)
        ]
        if len("   ".join(parts)) <= width:
            return "   ".join(parts)
    return " ".join(parts)


class WatermarkBar(Widget):
    """Shows `marks`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"watermark-bar--letter", "watermark-bar--bar"}

    marks: reactive[Watermarks] = reactive(Watermarks())

    def render(self) -> Text:
        """Return the two lines."""
        width = self.size.width
        text = Text(no_wrap=True, overflow="crop")
        text.append(legend(self.marks, width))
        text.append("\n")
        letters = self.get_component_rich_style("watermark-bar--letter")
        plain = self.get_component_rich_style("watermark-bar--bar")
        for symbol in bar(self.marks, width):
            text.append(symbol, letters if symbol.isalpha() else plain)
        return text
