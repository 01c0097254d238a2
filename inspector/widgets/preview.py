"""The key, the headers and the value of a record, as much of them as there is room for.

key 7 B  order-17
headers 1  trace: abc17
value 155 B  {"order": 17, "customer": "c8", "items": [{"sku": "A-582", "qty": 0}, {"sku":
"A-261", "qty": 1}], "total": 77.37}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from ..highlighting import json_marks, wrapped
from ..tables import MARKS


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a record: its label, and its lines, which are safe to show."""

    label: str
    lines: Sequence[str]
    is_json: bool = False


class Preview(Widget):
    """The parts of a record, one below the other; what has no room is left out, and the last line says so."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"preview--label", *(f"preview--{mark}" for mark in MARKS)}

    parts: reactive[Sequence[Part]] = reactive(())

    def render(self) -> Text:
        """Return as many lines as there is room for."""
        shown: list[Text] = []
        for line in self._lines():
            if len(shown) == self.size.height:
                shown[-1] = Text("… enter opens the record", self.get_component_rich_style("preview--label"))
                break
            shown.append(line)
        return Text("\n", no_wrap=True, overflow="crop").join(shown)

    def _lines(self) -> Iterator[Text]:
        # More than has room, so that long lines cost no more than is seen of them.
        most = self.size.width * (self.size.height + 1)
        for part in self.parts:
            label = Text(f"{part.label}  ", self.get_component_rich_style("preview--label"))
            if len(part.lines) > 1:
                yield label
            for line in (each[:most] for each in part.lines):
                text = Text(line)
                for mark in json_marks(line) if part.is_json else ():
                    text.stylize(self.get_component_rich_style(f"preview--{mark.kind}"), mark.start, mark.end)
                whole = text if len(part.lines) > 1 else Text.assemble(label, text)
                yield from whole.divide([end for _, end in wrapped(whole.plain, max(2, self.size.width))])[:-1]
