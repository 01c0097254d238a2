"""Golden index files with Kafka's dump of them, and full disks, for the tests of the indexes."""

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
    """Return each golden index file of that kind with the numbers of each line of Kafka's dump of it."""
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


def dumped_by_partition(suffix: str) -> dict[str, dict[Path, Rows]]:
    """Return the same by archive and partition, where there is an entry at all."""
    found: dict[str, dict[Path, Rows]] = {}
    for path, rows in dumped(suffix).items():
        found.setdefault(f"{path.parents[2].name}/{path.parent.name}", {})[path] = rows
    return {name: files for name, files in found.items() if any(files.values())}


def offset_slots(*entries: tuple[int, int]) -> bytes:
    """Return the bytes of an offset index with these relative offsets and positions."""
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def base_offset(path: Path) -> int:
    return int(path.stem)


@contextmanager
def small_disk(directory: Path, size: int = 128 << 10) -> Iterator[Path]:
    """Mount a file system of `size` bytes; skip the test where the process may not."""
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
    """Fill the disk; return the file that takes up the space."""
    other = directory / "other"
    with other.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return other


def no_space(*_: object) -> NoReturn:
    """Stand in for a system call on a full disk."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
