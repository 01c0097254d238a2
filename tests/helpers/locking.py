"""Locks on data directories and partitions, taken here or by another process, which releases it when its input ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafkalog.storage.data_dir.directory_lock import DirectoryLock

SECONDS = 60

TAKE = """
import sys
from pathlib import Path
from kafkalog.errors import LogLockedError
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
try:
    lock = {"data_dir": DirectoryLock, "partition": DirectoryLock.of_partition}[sys.argv[1]](Path(sys.argv[2]))
    lock.acquire()
    print("locked", flush=True)
except LogLockedError as error:
    print("refused", error, flush=True)
sys.stdin.readline()
"""


def lock_data_dir(directory: Path) -> DirectoryLock:
    return DirectoryLock(directory).acquire()


def lock_partition(directory: Path) -> DirectoryLock:
    return DirectoryLock.of_partition(directory).acquire()


class Other:
    """Another process; `answer` is its first line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        assert process.stdout
        self.answer = process.stdout.readline().strip()

    @property
    def has_it(self) -> bool:
        return self.answer == "locked"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)


def python(code: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, arguments)]


@contextmanager
def started(command: Sequence[str]) -> Iterator[Other]:
    """Start a process that prints a line, waits for the end of its input, and ends."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Other(process)
        finally:
            process.communicate(timeout=SECONDS)


@contextmanager
def other(what: str, directory: Path) -> Iterator[Other]:
    """Start a process that tries to lock a "data_dir" or a "partition" and keeps the lock meanwhile."""
    with started(python(TAKE, what, directory)) as process:
        yield process


def can_be_locked(what: str, directory: Path) -> bool:
    """Tell whether another process gets the lock."""
    with other(what, directory) as process:
        return process.has_it
