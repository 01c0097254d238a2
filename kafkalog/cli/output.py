"""What reaches the user: stdout for data, stderr for everything else; sizes, times, tables, text that is safe to show.

Payloads and names come from files that anybody may have written: nothing of them may steer a terminal.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from shutil import get_terminal_size
from typing import IO, Any, BinaryIO, NamedTuple, TextIO

import click

NO_TIMESTAMP = -1
MUST_STAY = 9
SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def is_terminal(stream: IO[Any]) -> bool:
    """Whether somebody is looking."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def colour_wanted(stream: IO[Any] | None = None) -> bool:
    """Whether to colour what goes to `stream` (None: stdout): on a terminal, unless NO_COLOR or TERM=dumb say no."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(sys.stdout if stream is None else stream) or os.environ.get("CLICOLOR_FORCE", "0") != "0"


def styled(text: str, colour: bool, **style: Any) -> str:
    """`text` in click's style, where colour is wanted."""
    return click.style(text, **style) if colour else text


def stdout_bytes() -> BinaryIO:
    """Stdout for bytes; what was written to it as text comes first."""
    sys.stdout.flush()
    return sys.stdout.buffer


def flush_stdout() -> None:
    """OSError: what was written does not get out."""
    sys.stdout.flush()


def write_text(text: str) -> None:
    """To stdout, in UTF-8 whatever the locale: the text has been made safe, and is cut for no reader."""
    stdout_bytes().write(text.encode("utf-8", "backslashreplace"))


def complain(problem: object) -> None:
    """One line on stderr, after what is on stdout so far."""
    # Whoever writes to stdout meets the same error again and says so; this line is the more important one.
    with suppress(OSError):
        flush_stdout()
    text = _os_error(problem) if isinstance(problem, OSError) else str(problem)
    # Where stderr takes nothing, the exit code still tells.
    try:
        sys.stderr.write(f"kafkalog: {printable(text)}\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def abandon(stream: TextIO) -> None:
    """The rest of what a stream has goes nowhere; the interpreter would try again as it ends, and exit with 120."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


def printable(text: str) -> str:
    r"""`text` with all that is not for printing (control, bidirectional, unassigned) escaped: \n, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def path_text(path: str | os.PathLike[str]) -> str:
    r"""A path as JSON can hold it: bytes of it that are no UTF-8 as \xff."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def human_size(size: int) -> str:
    """Bytes to three digits or so: 512 B, 1.5 KiB, 361 MiB."""
    if size < 1024:
        return f"{size} B"
    power = 1
    while size >= 999.5 * 1024**power and power < len(SIZE_UNITS):
        power += 1
    value = size / 1024**power
    return f"{value:.{1 if value < 9.95 else 0}f} {SIZE_UNITS[power - 1]}"


def short_size(size: int) -> str:
    """The same in less room: 512, 1.5K, 361M."""
    return human_size(size).replace("iB", "").replace(" B", "").replace(" ", "")


def short_time(timestamp: int) -> str:
    """The time of so many ms since the epoch, UTC, to the minute: 2026-01-31 10:00; "" where there is none."""
    return (rfc3339(timestamp, "minutes") or "")[:16].replace("T", " ")


def rfc3339(timestamp: int, timespec: str = "milliseconds") -> str | None:
    """The time of so many ms since the epoch, UTC; None where there is no timestamp, or no calendar reaches it."""
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
    """A column of a table. keep: where the terminal is too narrow, those with less find room after the others."""

    title: str
    right: bool = False
    keep: int = MUST_STAY


class Table(NamedTuple):
    """The lines of a table, the titles first, and the titles of the columns that found no room."""

    lines: list[str]
    hidden: list[str]


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None = None) -> Table:
    """An aligned table, at most `width` wide if columns that may go allow it."""
    cells = [[column.title for column in columns], *map(list, rows)]
    widths = [max(map(len, each)) for each in zip(*cells, strict=True)]
    # A column in which nothing stands says nothing.
    told = [i for i in range(len(columns)) if len(cells) == 1 or any(row[i] for row in cells[1:])]
    shown = told if width is None else _fitting(columns, widths, told, width)
    lines = ["  ".join(_aligned(row[i], widths[i], columns[i].right) for i in shown).rstrip() for row in cells]
    return Table(lines, [columns[i].title for i in told if i not in shown])


def _fitting(columns: Sequence[Column], widths: Sequence[int], told: Sequence[int], width: int) -> list[int]:
    """The columns that find room: those that must stay, and of the others those first that matter most."""
    shown = {i for i in told if columns[i].keep >= MUST_STAY}
    for i in sorted(told, key=lambda i: -columns[i].keep):
        if sum(widths[j] + 2 for j in shown | {i}) - 2 <= width:
            shown.add(i)
    return sorted(shown)


def _aligned(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def table_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    return get_terminal_size().columns if is_terminal(sys.stdout) else None
