"""A part of a record written to a file of its own: never over another, never into a log."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_SEGMENT = re.compile(r"\d{20}\.log")
# What only a broker's data directory has.
_OF_A_DATA_DIR = ("meta.properties", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def write_new(typed: str, data: bytes, looked_at: Path) -> Path:
    """The file. OSError: it is there already, would lie in a log, or cannot be written whole."""
    try:
        path = Path(typed).expanduser()
    except RuntimeError as error:
        raise OSError(f"{typed}: {error}") from None
    real = path.resolve()
    if real.is_relative_to(looked_at.resolve()) or _is_in_a_log(real):
        raise OSError(f"{path}: nothing is written to what is looked at, nor to another log")
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            # What is cut short would stand in the way of the next attempt.
            with suppress(OSError):
                path.unlink()
            raise
    return path


def _is_in_a_log(path: Path) -> bool:
    """Whether it is below a data directory, or beside segments."""
    if any((above / name).exists() for above in path.parents for name in _OF_A_DATA_DIR):
        return True
    try:
        return any(_SEGMENT.fullmatch(each.name) for each in path.parent.iterdir())
    except OSError:
        # Whoever writes to it says what is wrong.
        return False
