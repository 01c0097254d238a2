"""What the tests of the indexes share: Kafka's dump of the golden ones, and a disk that is full."""

from __future__ import annotations

import errno
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from tests.helpers import golden

Rows = list[tuple[int, ...]]


@cache
def dumped(suffix: str) -> dict[Path, Rows]:
    """Each golden index file of that kind, with the numbers of each line of Kafka's dump of it."""
    found: dict[Path, Rows] = {}
    for dump in sorted(golden.unpacked().glob("*/expected/index-dump.txt")):
        current: Rows = []
        for line in dump.read_text(encoding="utf-8").splitlines():
            if line.startswith("Dumping "):
                path = dump.parents[1] / "data" / line.removeprefix("Dumping ")
                current = found.setdefault(path, []) if path.suffix == suffix else []
            elif not line.endswith(" is empty."):
                current.append(tuple(map(int, re.findall(r": (-?\d+)", line))))
    return found


def offset_slots(*entries: tuple[int, int]) -> bytes:
    """The bytes of an offset index: relative offsets and positions."""
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def base_offset(path: Path) -> int:
    return int(path.stem)


@contextmanager
def small_disk(directory: Path, size: int = 128 << 10) -> Iterator[Path]:
    """A file system of so many bytes, where the process may mount one."""
    directory.mkdir()
    if sys.platform != "linux" or not shutil.which("mount"):
        pytest.skip("mounting file systems is for Linux")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this process may not mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Leave no byte of the disk; returns the file that has them."""
    other = directory / "other"
    with other.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return other


def no_space(*_: object) -> NoReturn:
    """Stands in the place of a system call on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
