"""Export of a part of a record to a new file: never over an existing file, never into a log."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_SEGMENT = re.compile(r"\d{20}\.log")
# Files that only a data directory of a broker has.
_OF_A_DATA_DIR = ("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def write_new(typed: str, data: bytes, looked_at: Path) -> Path:
    """Write data to a new file.

    Args:
        typed: The path as the user typed it; `~` is expanded.
        data: The content.
        looked_at: The path that the inspector shows, below which nothing is written.

    Returns:
        The path of the file.

    Raises:
        OSError: The file exists, would be in a log, or was not written completely. The reason comes before the path,
            which may be longer than the screen.
    """
    try:
        path = Path(typed).expanduser()
        _write(path, data, looked_at)
    except RuntimeError as error:
        raise OSError(f"{error}: {typed}") from None
    except OSError as error:
        raise OSError(f"{error.strerror or error}: {path}") from error
    return path


def _write(path: Path, data: bytes, looked_at: Path) -> None:
    real = path.resolve()
    if real.is_relative_to(looked_at.resolve()) or _is_in_a_log(real):
        raise OSError("nothing is written into a log")
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            # An incomplete file would make the next attempt fail.
            with suppress(OSError):
                path.unlink()
            raise


def _is_in_a_log(path: Path) -> bool:
    """Return whether a path is below a data directory, or beside segments."""
    if any((above / name).exists() for above in path.parents for name in _OF_A_DATA_DIR):
        return True
    try:
        return any(_SEGMENT.fullmatch(each.name) for each in path.parent.iterdir())
    except OSError:
        # Opening the file raises the error.
        return False
