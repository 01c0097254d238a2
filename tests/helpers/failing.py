"""Disks that fail and clocks that do not wait: what a test puts in the place of the system's own calls."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest


def refuse_fsync(monkeypatch: pytest.MonkeyPatch, directory: Path, pattern: str = "*") -> None:
    """Have `os.fsync` fail as on a full disk, for the files of a directory whose names match."""
    if sys.platform == "darwin":
        pytest.skip("macOS syncs by another call")
    fsync = os.fsync

    def refusing(fd: int) -> None:
        status = os.fstat(fd)
        if any(each.stat().st_ino == status.st_ino for each in directory.glob(pattern)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", refusing)


def refuse_open(monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Have `os.open` fail for paths with that ending, as where too many files are open."""
    opened = os.open

    def refusing(path: str | os.PathLike[str], flags: int, *mode: int) -> int:
        if os.fspath(path).endswith(ending):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), os.fspath(path))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refusing)


def out_of_space(*_: object, **__: object) -> None:
    """Stand in for a call that finds the disk full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
