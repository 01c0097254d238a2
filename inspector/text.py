r"""Text for the terminal: sizes, counts, times, and untrusted bytes in a safe form.

    1073741824           1.0 GiB
    1700000000000        2023-11-14T22:13:20.000Z | local | 3 min ago | 1700000000000
    b"a\x1b[31m\n"       a\x1b[31m\n

Every text from disk goes through `printable`: it escapes control characters, characters that change the direction of
writing, and bytes that are not UTF-8. All functions return plain text, never markup.
"""

from __future__ import annotations

import base64
import re
import time as clock
from codecs import getincrementaldecoder
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args
from unicodedata import category

import msgspec

View: TypeAlias = Literal["auto", "utf8", "json", "hex", "base64"]
Zone: TypeAlias = Literal["utc", "local", "relative", "epoch"]

VIEWS: Final[tuple[View, ...]] = get_args(View)
# The number of bytes of a value that are shown; the rest is counted.
SHOWN_BYTES: Final = 256 << 10
# The largest value that is tested for JSON, and the largest size of indented JSON; longer JSON is not indented.
JSON_BYTES: Final = 4 << 20
PRETTY_BYTES: Final = 16 << 20
HEX_WIDTH: Final = 16
# The largest number of combining characters on one letter.
MOST_PILED: Final = 8
_PIECE_BYTES: Final = 1 << 20
# The number of characters that decide whether bytes are readable text.
_LOOKED_AT: Final = 4096
# Text may have one unprintable character in so many, and one in any case.
_PRINTABLE_PER_UNPRINTABLE: Final = 8
NULL: Final = "(null)"
EMPTY: Final = "(empty)"
_DECODER: Final = getincrementaldecoder("utf-8")
_BRACKETS: Final = re.compile(rb"[][{}]")
_SHORT_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
# The range of `datetime`, years 1 to 9999, in ms since the epoch.
_DATES: Final = range(-62_135_596_800_000, 253_402_300_800_000)


def size(count: int | None) -> str:
    """Format a number of bytes in the largest unit that fits: `1.5 KiB`; "" if unknown."""
    if count is None:
        return ""
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        # 1023.95 and more would be rounded up to 1024.0 of this unit.
        if abs(value) < 1023.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1024:.1f} PiB"


def number(count: int | None) -> str:
    """Format a count with separators between thousands: `1,234,567`; "" if unknown."""
    return "" if count is None else f"{count:,}"


def rate(per_second: float | None) -> str:
    """Format a rate: `12/s`, `0.3/s`; "" if unknown."""
    if per_second is None:
        return ""
    return f"{per_second:,.0f}/s" if per_second == 0 or abs(per_second) >= 10 else f"{per_second:.1f}/s"


def time(timestamp: int | None, zone: Zone = "utc", now: int | None = None) -> str:
    """Format a time.

    Args:
        timestamp: The time, ms since the epoch; None gives "".
        zone: The zone. A time outside the years 1 to 9999 is given in ms for every zone.
        now: The current time for zone "relative", ms since the epoch; None: ask the clock.
    """
    if timestamp is None:
        return ""
    if zone == "epoch" or timestamp not in _DATES:
        return str(timestamp)
    if zone == "relative":
        return relative(timestamp, now)
    seconds, milliseconds = divmod(timestamp, 1000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=1000 * milliseconds)
    if zone == "local":
        try:
            moment = moment.astimezone()
        except (OverflowError, OSError, ValueError):
            return str(timestamp)
    stamp = moment.isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z") if zone == "utc" else stamp


def relative(timestamp: int, now: int | None = None) -> str:
    """Format how long ago a time was, or how far ahead it is: `3 min ago`, `in 3 min`."""
    delta = (int(clock.time() * 1000) if now is None else now) - timestamp
    length = duration(abs(delta))
    return f"{length} ago" if delta >= 0 else f"in {length}"


def duration(milliseconds: int | None) -> str:
    """Format a duration in its largest unit: `3 min`; "" if unknown."""
    if milliseconds is None:
        return ""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def printable(data: bytes | str | None, limit: int | None = None) -> str:
    """Return bytes or text as one line, with unprintable characters escaped.

    Args:
        data: The bytes, as UTF-8, or the text; None gives `(null)`.
        limit: The largest length of the result, characters; a longer one is cut and ends in `…`.
    """
    if data is None:
        return NULL
    if limit is not None:
        # No character takes more than four bytes.
        data = data[: 4 * (limit + 1)]
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    # A text that reads like null or like no bytes.
    if text in (NULL, EMPTY):
        text = f"\\{text}"
    if not text.isprintable():
        text = "".join(map(_escaped, text))
    if not text.isascii():
        text = _without_piles(text)
    return text if limit is None or len(text) <= limit else text[: max(0, limit - 1)] + "…"


def _escaped(character: str) -> str:
    return character if character.isprintable() else _SHORT_ESCAPES.get(character) or _code(character)


def _code(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _without_piles(text: str) -> str:
    """Escape zero-width characters after the first few in a row.

    A cell of a terminal can show no more, and the time to cut a line of them grows as the square of its length.
    """
    pile = 0
    parts: list[str] = []
    for character in text:
        pile = pile + 1 if _takes_no_room(character) else 0
        parts.append(character if pile <= MOST_PILED else _code(character))
    return "".join(parts)


def _takes_no_room(character: str) -> bool:
    """Return whether a character has no width: combining marks, and Korean letters drawn into the one before."""
    return not character.isascii() and (
        category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7ff"
    )


# --- the views of a key, a value or a header


def resolved(data: bytes | None, view: View) -> View:
    """Return the view that "auto" means for these bytes: JSON for an object or a list, UTF-8 for text, else hex."""
    if view != "auto" or data is None:
        return view
    if _as_json(data) is not None:
        return "json"
    return "utf8" if _is_text(data) else "hex"


def label(data: bytes | None, view: View) -> str:
    """Return the title of a view: its format, and how it differs from the bytes."""
    if data is None:
        return "null"
    shown_as = resolved(data, view)
    if shown_as == "json":
        return "JSON, pretty; raw: v" if _as_json(data) is not None else _why_not_json(data)
    if shown_as == "utf8":
        return _of_text(data)
    return shown_as


def _of_text(data: bytes) -> str:
    if not _is_utf8(data):
        return "not UTF-8: invalid bytes are escaped"
    look = data[:SHOWN_BYTES].decode("utf-8", "ignore").replace("\n", "")
    return "UTF-8" if look.isprintable() else "UTF-8, control characters are escaped"


def shown(data: bytes | None, view: View = "auto", limit: int = SHOWN_BYTES) -> list[str]:
    """Return the lines of a view.

    JSON is broken into lines and indented, and not changed otherwise: numbers, strings and repeated names stay as they
    are.

    Args:
        data: The bytes; None gives `(null)`, no bytes give `(empty)`.
        view: The view.
        limit: The largest number of bytes shown; a last line counts the others.
    """
    if not data:
        return [NULL if data is None else EMPTY]
    shown_as = resolved(data, view)
    pretty = _as_json(data) if shown_as == "json" else None
    if pretty is not None:
        return _cut(pretty, limit)
    if shown_as in ("utf8", "json"):
        return _cut(data, limit)
    # A screen breaks base64 where its width ends.
    lines = hex_lines(data[:limit]) if shown_as == "hex" else [base64.b64encode(data[:limit]).decode("ascii")]
    return [*lines, *_rest(len(data) - limit)]


def _cut(data: bytes, limit: int) -> list[str]:
    """Return the lines of a text, in printable form."""
    text = data[:limit].decode("utf-8", "backslashreplace")
    return [*map(printable, text.split("\n")), *_rest(len(data) - limit)]


def _rest(count: int) -> list[str]:
    return [f"… {number(count)} bytes more are not shown"] if count > 0 else []


def hex_lines(data: bytes, start: int = 0) -> list[str]:
    """Return a hex dump. Each line has a position, sixteen bytes, and the same as ASCII.

    Args:
        data: The bytes.
        start: The position of the first one.
    """
    return [
        f"{start + at:08x}  {piece.hex(' '):{3 * HEX_WIDTH - 1}}  {ascii_text(piece)}"
        for at in range(0, len(data), HEX_WIDTH)
        for piece in (data[at : at + HEX_WIDTH],)
    ]


def ascii_text(data: bytes) -> str:
    """Return each byte as its ASCII character, or as a dot."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def _is_text(data: bytes) -> bool:
    """Return whether the bytes are UTF-8 without NUL and begin with characters of which few are unprintable."""
    # No character takes more than four bytes.
    look = data[: 4 * _LOOKED_AT].decode("utf-8", "ignore")[:_LOOKED_AT]
    unprintable = sum(not character.isprintable() and character not in "\n\r\t" for character in look)
    if "\0" in look or unprintable > max(len(look) // _PRINTABLE_PER_UNPRINTABLE, len(look) > 3):
        return False
    return _is_utf8(data)


def _is_utf8(data: bytes) -> bool:
    # In chunks, so that other threads can run in between.
    decoder = _DECODER()
    try:
        for at in range(0, len(data), _PIECE_BYTES):
            decoder.decode(data[at : at + _PIECE_BYTES], at + _PIECE_BYTES >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def _as_json(data: bytes) -> bytes | None:
    """Return indented JSON; None if the bytes are not an object or a list, are too long, or would become too long."""
    if len(data) > JSON_BYTES or not _begins_as_json(data):
        return None
    return _indented(data)


def _begins_as_json(data: bytes) -> bool:
    return len(data) >= 2 and data.lstrip()[:1] in (b"{", b"[")


def _why_not_json(data: bytes) -> str:
    if len(data) > JSON_BYTES and _begins_as_json(data):
        return f"longer than {size(JSON_BYTES)}, not looked at as JSON; as text"
    return "not JSON; as text"


@lru_cache(maxsize=1)
def _indented(data: bytes) -> bytes | None:
    """Return indented JSON; None if it is not valid or would become too long."""
    try:
        data.decode("utf-8")
        return msgspec.json.format(data, indent=2) if _widened(data) <= PRETTY_BYTES else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _widened(data: bytes) -> int:
    """Return an upper bound for the size of JSON after indenting: two spaces per level of the deepest in each line."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(data):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    lines = data.count(b",") + 2 * data.count(b"[") + 2 * data.count(b"{")
    return len(data) + 2 * deepest * lines
