"""Output for the user: stdout for data, stderr for everything else; sizes, times, tables and safe text.

Payloads and names come from untrusted files: no byte of them may control a terminal.
"""

import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from shutil import get_terminal_size
from typing import IO, Any, BinaryIO, NamedTuple, TextIO

import click

from kafkalog.errors import os_error_text
from kafkalog.record.layout import NO_TIMESTAMP

MUST_STAY = 9
# The text of a larger record is written in pieces, since it may take many times the memory of the bytes.
LARGE_BYTES = 1 << 20
# Three bytes are four characters of base64.
PIECE_BYTES = 3 << 16
SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def is_terminal(stream: IO[Any]) -> bool:
    """Return whether a stream is a terminal; False for a closed stream."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def colour_wanted() -> bool:
    """Return whether to colour stdout: on a terminal or with CLICOLOR_FORCE, but not with NO_COLOR or TERM=dumb."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(sys.stdout) or os.environ.get("CLICOLOR_FORCE", "0") != "0"


def styled(text: str, colour: bool, **style: Any) -> str:
    """Return `text` with click's style if colour is wanted, else unchanged."""
    return click.style(text, **style) if colour else text


def stdout_bytes() -> BinaryIO:
    """Return stdout for bytes, after flushing the text written to it.

    Raises:
        OSError: The text was not written.
    """
    sys.stdout.flush()
    return sys.stdout.buffer


def flush_stdout() -> None:
    """Flush the text of stdout.

    Raises:
        OSError: The text was not written.
    """
    sys.stdout.flush()


def write_text(text: str) -> None:
    """Write text to stdout, in UTF-8 for any locale. The text must be safe for a terminal.

    Raises:
        OSError: The text was not written.
    """
    stdout_bytes().write(text.encode("utf-8", "backslashreplace"))


def complain(problem: object) -> None:
    """Write one line to stderr, after flushing stdout."""
    # The next write to stdout raises the same error; the line on stderr is more important.
    with suppress(OSError):
        flush_stdout()
    text = os_error_text(problem) if isinstance(problem, OSError) else str(problem)
    # If stderr fails too, the exit code still reports the problem.
    try:
        sys.stderr.write(f"kafkalog: {printable(text)}\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """Discard the rest of a stream. Else the interpreter would flush it at exit, fail again, and exit with 120."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def printable(text: str) -> str:
    r"""Escape the characters that are not printable (control, bidirectional, unassigned): \n, \x1b, \u202e.

    Bytes in names of files that are not UTF-8 become \xff, as in `path_text`.
    """
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


@lru_cache(1 << 12)
def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return path_text(char)
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def texts(data: bytes) -> Iterator[str]:
    """Decode UTF-8 a piece at a time.

    Raises:
        UnicodeDecodeError: The data is not UTF-8.
    """
    decoder, view = getincrementaldecoder("utf-8")(), memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield decoder.decode(view[start : start + PIECE_BYTES], start + PIECE_BYTES >= len(data))


def is_text(data: bytes) -> bool:
    """Return whether the data is UTF-8."""
    try:
        return all(True for _ in texts(data))
    except UnicodeDecodeError:
        return False


def path_text(path: str | os.PathLike[str]) -> str:
    r"""Return a path as text for JSON, in any locale, with bytes that are not UTF-8 as \xff."""
    return os.fspath(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def counted(number: int, thing: str, plural: str = "s") -> str:
    """Return a number of things in words: 1 batch, 2 batches."""
    return f"{number} {thing}{'' if number == 1 else plural}"


def human_size(size: int) -> str:
    """Format a number of bytes with about three digits: 512 B, 1.5 KiB, 361 MiB."""
    if size < 1024:
        return f"{size} B"
    power = 1
    while size >= 999.5 * 1024**power and power < len(SIZE_UNITS):
        power += 1
    value = size / 1024**power
    return f"{value:.{1 if value < 9.95 else 0}f} {SIZE_UNITS[power - 1]}"


def short_size(size: int) -> str:
    """Format a number of bytes in short: 512, 1.5K, 361M."""
    return human_size(size).replace("iB", "").replace(" B", "").replace(" ", "")


def short_time(timestamp: int) -> str:
    """Format a time (ms since the epoch) to the minute, in UTC: 2026-01-31 10:00; "" if there is none."""
    return (rfc3339(timestamp, "minutes") or "")[:16].replace("T", " ")


def rfc3339(timestamp: int, timespec: str = "milliseconds") -> str | None:
    """Format a time (ms since the epoch) by RFC 3339, in UTC.

    Args:
        timestamp: The time, ms.
        timespec: The precision, as for `datetime.isoformat`.

    Returns:
        The text; None if there is no timestamp, or if it is outside the range of `datetime`.
    """
    if timestamp == NO_TIMESTAMP:
        return None
    seconds, ms = divmod(timestamp, 1000)
    try:
        time = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None, microsecond=ms * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    return time.isoformat(timespec=timespec) + "Z"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: The title.
        right: Whether to align it to the right.
        keep: The priority on a narrow terminal: columns with less are hidden first.
    """

    title: str
    right: bool = False
    keep: int = MUST_STAY


class Table(NamedTuple):
    """The lines of a table, the titles first, and the titles of the hidden columns."""

    lines: list[str]
    hidden: list[str]


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None = None) -> Table:
    """Return an aligned table, without its empty columns.

    Args:
        columns: The columns.
        rows: The cells of each row.
        width: The largest width wanted, characters; None: no limit. Columns that must stay may exceed it.
    """
    cells = [[column.title for column in columns], *map(list, rows)]
    widths = [max(map(len, each)) for each in zip(*cells, strict=True)]
    # A column without content is left out.
    filled = [i for i in range(len(columns)) if len(cells) == 1 or any(row[i] for row in cells[1:])]
    shown = filled if width is None else _fitting(columns, widths, filled, width)
    lines = ["  ".join(_aligned(row[i], widths[i], columns[i].right) for i in shown).rstrip() for row in cells]
    return Table(lines, [columns[i].title for i in filled if i not in shown])


def hint_of(hidden: Iterable[str]) -> str:
    """Return the hint that columns are hidden."""
    return f"(hidden: {', '.join(hidden)}; --wide shows all)"


def _fitting(columns: Sequence[Column], widths: Sequence[int], filled: Sequence[int], width: int) -> list[int]:
    """Return the columns that fit: those that must stay, then others by falling priority."""
    shown = {i for i in filled if columns[i].keep >= MUST_STAY}
    for i in sorted(filled, key=lambda i: -columns[i].keep):
        if sum(widths[j] + 2 for j in shown | {i}) - 2 <= width:
            shown.add(i)
    return sorted(shown)


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def table_width() -> int | None:
    """Return the width of the terminal in characters; None if stdout is not a terminal."""
    return get_terminal_size().columns if is_terminal(sys.stdout) else None
