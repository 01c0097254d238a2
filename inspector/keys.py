"""Every key of the inspector: bindings, footer, help and the names in the config file's keymap come from this table.

An action is a method `action_<name>` of the widget, screen or application whose scope it has. Where one key has two
actions, that of the innermost scope is taken: table, then view, then partition, then screen, then everywhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .view_table import TOPICS_KEY, VIEWS

if TYPE_CHECKING:
    from textual.binding import Binding, BindingType

SCOPES = {
    "table": "In tables",
    "map": "In the segment map",
    "hex": "In the bytes",
    "topics": "In the list of partitions",
    "records": "In batches and records",
    "record": "In a record",
    "work": "In transactions, verify, search and statistics",
    "verify": "In verify",
    "statistics": "In statistics",
    "search_prompt": "While typing what to search for",
    "partition": "In a partition",
    "screen": "On every screen",
    "app": "Everywhere",
}


@dataclass(frozen=True, slots=True)
class Action:
    """What a key does. name: in the keymap. keys: commas between. label: in the footer; "" = not there.

    call: what is done, where it is not called as it is named.
    """

    name: str
    scope: str
    keys: str
    label: str
    help: str
    call: str = ""


ACTIONS = (
    Action("view_topics", "partition", TOPICS_KEY, "", "Topics: all partitions of the data directory", "topics"),
    *(
        Action(f"view_{view.name}", "partition", view.key, "", f"{view.title}: {view.help}", f"view('{view.name}')")
        for view in VIEWS
        if view.key
    ),
    Action("choose", "table", "enter", "Open", "open what is under the cursor"),
    Action("cursor_up", "table", "up,k", "", "one row up", "move_lines(-1)"),
    Action("cursor_down", "table", "down,j", "", "one row down", "move_lines(1)"),
    Action("page_up", "table", "pageup,b", "", "one page up", "move_pages(-1)"),
    Action("page_down", "table", "pagedown,space", "", "one page down", "move_pages(1)"),
    Action("half_page_up", "table", "ctrl+u", "", "half a page up", "move_pages(-0.5)"),
    Action("half_page_down", "table", "ctrl+d", "", "half a page down", "move_pages(0.5)"),
    Action("first_row", "table", "home,g", "", "the first row", "move_to_start"),
    Action("last_row", "table", "end,G", "", "the last row; goes on following", "move_to_end"),
    Action("column_left", "table", "left,h", "", "the column to the left", "move_column(-1)"),
    Action("column_right", "table", "right,l", "", "the column to the right", "move_column(1)"),
    Action("narrower", "table", "less_than_sign", "", "make the column narrower", "widen(-2)"),
    Action("wider", "table", "greater_than_sign", "", "make the column wider", "widen(2)"),
    Action("sort", "table", "s", "Sort", "sort by the column: up, down, not at all"),
    Action("mark", "table", "m", "", "mark the row, or take its mark away"),
    Action("map_left", "map", "left,h", "", "one cell to the left", "move(-1)"),
    Action("map_right", "map", "right,l", "", "one cell to the right", "move(1)"),
    Action("map_up", "map", "up,k", "", "one line up", "move_lines(-1)"),
    Action("map_down", "map", "down,j", "", "one line down", "move_lines(1)"),
    Action("map_start", "map", "home,g", "", "the start of the segment", "move_to_start"),
    Action("map_end", "map", "end,G", "", "the end of the segment", "move_to_end"),
    Action("map_open", "map", "enter", "Open", "the batches of the cell under the cursor", "choose"),
    Action("map_shade", "map", "v", "See", "the next thing to see: batches, bytes a record, time", "shade"),
    Action("hex_left", "hex", "left,h", "", "one byte to the left", "move(-1)"),
    Action("hex_right", "hex", "right,l", "", "one byte to the right", "move(1)"),
    Action("hex_up", "hex", "up,k", "", "one line up", "move_lines(-1)"),
    Action("hex_down", "hex", "down,j", "", "one line down", "move_lines(1)"),
    Action("hex_page_up", "hex", "pageup,b", "", "one page up", "move_pages(-1)"),
    Action("hex_page_down", "hex", "pagedown,space", "", "one page down", "move_pages(1)"),
    Action("hex_half_page_up", "hex", "ctrl+u", "", "half a page up", "move_pages(-0.5)"),
    Action("hex_half_page_down", "hex", "ctrl+d", "", "half a page down", "move_pages(0.5)"),
    Action("hex_start", "hex", "home,g", "", "the first byte of the segment", "move_to_start"),
    Action("hex_end", "hex", "end,G", "", "the last byte; goes on following", "move_to_end"),
    Action("next_field", "hex", "tab,w", "Field", "the next field", "step('field', True)"),
    Action(
        "previous_field",
        "hex",
        "shift+tab,W",
        "",
        "the field's first byte, then the field before",
        "step('field', False)",
    ),
    Action("next_batch", "hex", "J,ctrl+down", "", "the next batch", "step('batch', True)"),
    Action(
        "previous_batch",
        "hex",
        "K,ctrl+up",
        "",
        "the batch's first byte, then the batch before",
        "step('batch', False)",
    ),
    Action("hex_open", "hex", "enter", "Open", "the record that the byte is of, or its batch", "choose"),
    Action("filter_topics", "topics", "f,slash", "Filter", "show only names that have the text in them"),
    Action("verify_all", "topics", "8", "Verify", "check all partitions of the data directory"),
    Action("fold_internal", "topics", "i", "Internal", "show or hide internal topics"),
    Action("filter_rows", "records", "f", "Filter", "show only rows that have the text in them; empty: all"),
    Action("next_view", "record", "v", "View", "the next way to see it: auto, UTF-8, JSON, hex, base64"),
    Action("next_part", "record", "tab", "Key/value", "value, key, headers", "turn(1)"),
    Action("previous_part", "record", "shift+tab", "", "headers, key, value", "turn(-1)"),
    Action("next_record", "record", "J,ctrl+down", "Next", "the next record", "step(1)"),
    Action("previous_record", "record", "K,ctrl+up", "", "the record before", "step(-1)"),
    Action("export", "record", "x", "Export", "write its bytes to a file"),
    Action("run", "work", "r", "Run", "begin, or begin again; escape ends it"),
    Action("deep", "verify", "d", "Deep", "with every record decompressed and parsed, or without"),
    Action("whole", "statistics", "w", "Whole", "of the whole partition, or of the segment"),
    Action("search_regex", "search_prompt", "ctrl+r", "Regex", "a text, or a regular expression", "change('regex')"),
    Action("search_case", "search_prompt", "ctrl+t", "Case", "whether upper and lower case differ", "change('case')"),
    Action("search_fields", "search_prompt", "ctrl+o", "Fields", "in keys, values, headers", "change('fields')"),
    Action(
        "search_start",
        "search_prompt",
        "ctrl+g",
        "From",
        "from the start of the log, from here on, from here back",
        "change('start')",
    ),
    Action("follow", "partition", "F", "Follow", "follow the end of the log; scrolling up pauses"),
    Action("go_to", "partition", "colon", "Go", "go to an offset, start, end-10, @time, @-1h or +byte"),
    Action("jump_back", "partition", "ctrl+o", "", "go back to where the last jump came from"),
    Action("search", "partition", "slash", "Find", "search keys, values and headers"),
    Action("next_match", "partition", "n", "Match", "the next match", "match(True)"),
    Action("previous_match", "partition", "N", "", "the match before", "match(False)"),
    Action("next_damage", "partition", "e", "Damage", "the next damage", "batch('damage', True)"),
    Action("previous_damage", "partition", "E", "", "the damage before", "batch('damage', False)"),
    Action("next_transaction", "partition", "t", "Txn", "the next transaction", "batch('transaction', True)"),
    Action("previous_transaction", "partition", "T", "", "the transaction before", "batch('transaction', False)"),
    Action("copy", "partition", "c,y", "Copy", "copy what is under the cursor, or the marked rows"),
    Action("previous_segment", "partition", "left_square_bracket", "", "the segment before", "segment(False)"),
    Action("next_segment", "partition", "right_square_bracket", "", "the next segment", "segment(True)"),
    Action("back", "screen", "escape", "Back", "one level back; never quits"),
    Action("reload", "screen", "r", "", "read again"),
    Action("time_zone", "app", "z", "", "times in UTC, in local time, as ago, as ms since the epoch"),
    Action("help", "app", "question_mark,f1", "Help", "all keys"),
    Action("palette", "app", "ctrl+p", "", "commands by name", "command_palette"),
    Action("suspend", "app", "ctrl+z", "", "suspend the program; the shell's fg continues it", "suspend_process"),
    Action("leave", "app", "q", "", "one level back; at the top level quit, if pressed twice"),
    Action("quit", "app", "ctrl+q", "Quit", "quit"),
)
NAMES = frozenset(action.name for action in ACTIONS)
_SCOPE_OF = {action.name: action.scope for action in ACTIONS}
# The scopes that are one place: of two actions with one key, neither is the inner one.
_TOGETHER = ({"work", "verify"}, {"work", "statistics"}, {"screen", "topics"}, {"screen", "partition"})
# The scopes that are possible in several views; in the help those of one view come before them.
_GENERAL = ("table", "partition", "screen", "app")
HELP = {action.name: action.help for action in ACTIONS}
# The actions that only move a cursor: a held key is handled at once as often as it was repeated.
MOVES = frozenset(name for name in NAMES if name.startswith(("cursor_", "page_", "half_page_", "map_", "hex_"))) - {
    "map_open", "hex_open",
}  # fmt: skip

_SHORT = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def shown(key: str) -> str:
    """Return a key as help and footer write it: ? for question_mark, ^q for ctrl+q."""
    return _SHORT.get(key, key).replace("ctrl+", "^")


def bindings(*scopes: str) -> list[BindingType]:
    """Return the bindings of these scopes, for a class of Textual's."""
    return [_binding(action) for action in ACTIONS if action.scope in scopes]


def _binding(action: Action) -> Binding:
    from textual.binding import Binding

    display = shown(action.keys.split(",")[0])
    label = action.label or action.help
    return Binding(
        action.keys, action.call or action.name, label, show=bool(action.label), key_display=display, id=action.name
    )


def given_to_others(name: str, keymap: dict[str, str]) -> dict[str, str]:
    """Return the keys that a keymap gives to other actions in the same place, and the names of these."""
    scope = _SCOPE_OF[name]
    return {
        key: other
        for other, keys in keymap.items()
        if other != name and (_SCOPE_OF[other] == scope or {_SCOPE_OF[other], scope} in _TOGETHER)
        for key in keys.split(",")
    }


def help_lines(keymap: dict[str, str], here: Collection[str] = ()) -> list[tuple[str, str, str]]:
    """Return (title of a scope or "", keys, what they do) for each line of the help.

    Args:
        keymap: The keys of the config file.
        here: The names of the actions that are possible now; their scopes come first.
    """
    possible = {action.scope for action in ACTIONS if action.name in here}
    lines = []
    for scope in sorted(SCOPES, key=lambda scope: (scope not in possible, scope in _GENERAL)):
        lines.append((SCOPES[scope], "", ""))
        for action in ACTIONS:
            if action.scope == scope:
                others = given_to_others(action.name, keymap)
                keys = [key for key in keymap.get(action.name, action.keys).split(",") if key not in others]
                lines.append(("", " ".join(map(shown, keys)), action.help))
    return lines
