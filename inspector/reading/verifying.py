"""The check of a data directory, a partition or a file while the screen goes on: findings and progress as they come.

    verification = Verification(path, deep=True)
    for event in verification:
        ...                             # Progress or kafkalog.fsck.Finding

The check itself runs in a thread of its own, a few findings ahead, and ends when nobody iterates any more.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Full, Queue

from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck import Finding, Options, Summary, verify_path
from kafkalog.scan.progress import Progress
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover

PROGRESS_SECONDS = 0.05
_AHEAD = 256


class _Ended(Exception):
    """Ends a check from within."""


class Verification:
    """One check of a path. deep: every record is decompressed and parsed. summary: what was looked at and found."""

    def __init__(self, path: Path, *, deep: bool = False) -> None:
        self.path = path
        self.deep = deep
        self.summary = Summary()
        self.problem: str | None = None
        self.finished = False
        self._total = size_of(path)
        self._done = 0
        self._ended = threading.Event()
        self._found: Queue[Finding | None] = Queue(_AHEAD)

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(self._total if self.finished else min(self._done, self._total), self._total)

    def __iter__(self) -> Iterator[Progress | Finding]:
        thread = threading.Thread(target=self._run, name="verify", daemon=True)
        thread.start()
        try:
            yield from self._events()
        finally:
            self._ended.set()
            thread.join()

    def _events(self) -> Iterator[Progress | Finding]:
        told = 0.0
        while True:
            try:
                found = self._found.get(timeout=PROGRESS_SECONDS)
            except Empty:
                pass
            else:
                if found is None:
                    break
                yield found
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                yield self.progress
        yield self.progress

    def _run(self) -> None:
        try:
            options = Options(deep=self.deep, progress=self._advance, summary=self.summary)
            for finding in verify_path(self.path, options):
                self._put(finding)
            self.finished = True
        except _Ended:
            return
        except (OSError, KafkaLogError) as error:
            self.problem = str(error)
        try:
            self._put(None)
        except _Ended:
            return

    def _advance(self, count: int) -> None:
        self._done += count
        if self._ended.is_set():
            raise _Ended

    def _put(self, finding: Finding | None) -> None:
        while not self._ended.is_set():
            try:
                self._found.put(finding, timeout=PROGRESS_SECONDS)
            except Full:
                continue
            return
        raise _Ended


def size_of(path: Path) -> int:
    """Bytes of all segments that a check of `path` reads; what cannot be looked at counts as nothing."""
    try:
        place = discover(path)
    except (OSError, NotALogError):
        return 0
    return _size(place)


def _size(place: DataDir | PartitionDir | LogFile) -> int:
    if isinstance(place, DataDir):
        return sum(map(_size, place.partitions))
    try:
        if isinstance(place, LogFile):
            return place.path.stat().st_size
        with os.scandir(place.path) as entries:
            return sum(entry.stat().st_size for entry in entries if entry.name.endswith(".log"))
    except OSError:
        return 0
