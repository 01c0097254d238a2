"""The single lines around a view: what is looked at, the views there are, what is wrong, the keys that work here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input, Static

from ..keys import shown
from ..text import printable


class TopLine(Widget):
    """kafkalog read-only | path | what of it ........ zone, follow. Where it is narrow, the beginning gives way."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"top-line--name"}

    # The path, what of it, and what stands at the right; all safe to show.
    shown: reactive[tuple[str, str, str]] = reactive(("", "", ""))

    def render(self) -> Text:
        """Return the line."""
        name = " kafkalog read-only "
        path, what, right = self.shown
        room = self.size.width - cell_len(name) - cell_len(right) - 4
        what = f" | {what}" if what else ""
        text = Text(no_wrap=True, overflow="crop")
        text.append(name, self.get_component_rich_style("top-line--name"))
        text.append(" " + set_cell_size(end_of(path + what, max(1, room)), max(0, room)) + "  ")
        text.append(right + " ")
        return text


def end_of(text: str, width: int) -> str:
    """Return the end of a text, which says more than its beginning."""
    while cell_len(text) > width:
        text = "…" + text[2:]
    return text


class TabLine(Widget):
    """1 Topics  [2 Segments]  3 Map ...: (key, title, short title, action, whether it is the one)."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab-line--current"}

    tabs: reactive[Sequence[tuple[str, str, str, str, bool]]] = reactive(())

    def render(self) -> Text:
        """Return the tabs, in short where there is no room, but for the one that is shown."""
        full = self._text(short=False)
        return full if full.cell_len <= self.size.width else self._text(short=True)

    def _text(self, *, short: bool) -> Text:
        text = Text(no_wrap=True, overflow="crop")
        for key, title, short_title, action, current in self.tabs:
            style = self.get_component_rich_style("tab-line--current") if current else Style()
            label = f"{key} {short_title if short and not current else title}"
            shown = f"[{label}]" if current else f" {label}" if short else f" {label} "
            text.append(shown, style + Style(meta={"@click": action}))
        return text


class ProblemLine(Static):
    """! 00000000000000000000.log: position 4096: expected a checksum of 0x1234 ...: what is wrong; None: no line."""

    problem: reactive[str | None] = reactive(None)

    def watch_problem(self, problem: str | None) -> None:
        """Show a problem as it is, control characters escaped; no markup."""
        self.display = problem is not None
        self.update(Text(f"! {printable(problem)}" if problem else "", no_wrap=False))


# The keys that are always shown, last.
ALWAYS_SHOWN = ("back", "quit", "help")
# Keys that are guessed: named only where others leave room.
LAST_NAMED = ("map_open",)


class KeysLine(Widget):
    """The keys that work here, as many as have room; the way back, out and to the help always."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys-line--key"}

    def __init__(self, is_hinted: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_hinted = is_hinted

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def render(self) -> Text:
        """Return them one after another, innermost first, each action once."""
        text = Text(no_wrap=True, overflow="crop")
        hints = self._hints()
        last = sorted((hint for hint in hints if hint[2] in ALWAYS_SHOWN), key=lambda hint: ALWAYS_SHOWN.index(hint[2]))
        # The blank after the last key may be cut off.
        room = self.size.width + 1 - sum(len(key) + len(label) + 3 for key, label, _ in last)
        others = sorted((hint for hint in hints if hint not in last), key=lambda hint: hint[2] in LAST_NAMED)
        for key, label, action in others:
            if text.cell_len + len(key) + len(label) + 3 > room:
                break
            self._append(text, key, label, action)
        for hint in last:
            self._append(text, *hint)
        return text

    def _append(self, text: Text, key: str, label: str, action: str) -> None:
        click = Style(meta={"@click": f"app.press('{action}')"})
        text.append(f" {key}", self.get_component_rich_style("keys-line--key") + click)
        text.append(f" {label} ", click)

    def _hints(self) -> list[tuple[str, str, str]]:
        """Return (key as shown, label, id) of each action that has a label."""
        found: dict[str, tuple[str, str, str]] = {}
        typing = isinstance(self.screen.focused, Input)
        for active in self.screen.active_bindings.values():
            binding = active.binding
            key = shown(binding.key) if typing else self.app.get_key_display(binding)
            # What would be a letter of the text is no key while somebody types.
            if typing and len(key) == 1:
                continue
            if not binding.show or not active.enabled or binding.id is None or binding.id in found:
                continue
            if self._is_hinted(binding.id):
                found[binding.id] = (key, binding.description, binding.id)
        return list(found.values())
