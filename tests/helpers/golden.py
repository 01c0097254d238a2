"""The golden logs: logs that real brokers wrote, unpacked once, and what Kafka itself reads in them.

    NAME/data/TOPIC-0/SEGMENT.log               the broker's files
    NAME/expected/TOPIC-0/SEGMENT.log.jsonl     a line a batch, as Kafka's own classes give it

All test processes share one unpacked copy in the temporary folder. Each process compares the copy's files with the list
that was written when it was unpacked, and unpacks anew if one is missing, was added, or has another size or time:
programs that clean temporary folders delete single files. Tests only read it; a test that writes takes its own copy.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kafkalog.cli.demo import unpack as unpack_archive

ARCHIVES = Path(__file__).parents[1] / "data"
WITHOUT_EXPECTATIONS = "__cluster_metadata-0"
LIST_OF_FILES = "files.json"


@dataclass(frozen=True)
class Segment:
    """One `.log` file of a broker and what Kafka reads in it."""

    archive: str
    topic: str
    log: Path
    expected: Path

    @property
    def id(self) -> str:
        return f"{self.archive}/{self.topic}/{self.log.stem.lstrip('0') or '0'}"

    def batches(self) -> list[dict[str, Any]]:
        """Return Kafka's batches, each a dict of the caller's own; keys, values and headers are bytes."""
        return [dict(batch) for batch in _batches(self.expected)]


@dataclass(frozen=True)
class Partition:
    """One partition directory of a broker."""

    archive: str
    directory: Path
    segments: tuple[Segment, ...]

    @property
    def id(self) -> str:
        return f"{self.archive}/{self.directory.name}"

    def batches(self) -> list[dict[str, Any]]:
        return [batch for segment in self.segments for batch in segment.batches()]


@cache
def unpacked() -> Path:
    """Return the directory that holds every archive unpacked."""
    home = Path(tempfile.gettempdir()) / f"kafkalog-tests-{os.getuid()}-{digest()}"
    unpack(_archives(), home)
    return home


def digest() -> str:
    """Return a digest of the archives: a changed archive is never mistaken for the one unpacked before."""
    digest = hashlib.sha256()
    for archive in _archives():
        digest.update(archive.read_bytes())
    return digest.hexdigest()[:16]


def _archives() -> list[Path]:
    return sorted(ARCHIVES.glob("*.tar.xz"))


def unpack(archives: Sequence[Path], home: Path) -> None:
    """Unpack the archives into `home`, unless their files are there already, whole."""
    with _locked(home.with_name(f"{home.name}.lock")):
        if is_complete(home):
            return
        draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-", dir=home.parent))
        try:
            for archive in archives:
                unpack_archive(archive, draft)
            (draft / LIST_OF_FILES).write_text(json.dumps(_files_of(draft)))
            shutil.rmtree(home, ignore_errors=True)
            draft.rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def is_complete(home: Path) -> bool:
    """Tell whether `home` has the files that were unpacked there, each of the same size and time, and no others."""
    try:
        expected = json.loads((home / LIST_OF_FILES).read_text())
    except (OSError, ValueError):
        return False
    return bool(expected == _files_of(home))


def _files_of(home: Path) -> dict[str, list[int]]:
    """Return size and modification time of every file by its path below `home`."""
    stats = {str(path.relative_to(home)): path.stat() for path in home.rglob("*") if path.is_file()}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items() if name != LIST_OF_FILES}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process unpacks."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def partitions() -> tuple[Partition, ...]:
    """Return every partition directory of every archive."""
    return tuple(
        Partition(archive.parent.name, directory, tuple(_segments(archive.parent, directory)))
        for archive in sorted(unpacked().glob("*/data"))
        for directory in sorted(archive.iterdir())
        if directory.is_dir()
    )


def _segments(archive: Path, directory: Path) -> list[Segment]:
    return [
        Segment(archive.name, directory.name, log, archive / "expected" / directory.name / f"{log.name}.jsonl")
        for log in sorted(directory.glob("*.log"))
    ]


def checked_partitions() -> list[Partition]:
    """Return the partitions for which there is a record of what Kafka reads in them."""
    return [partition for partition in partitions() if partition.directory.name != WITHOUT_EXPECTATIONS]


def checked_topics(archive: str) -> str:
    """Return the topics of these partitions in one archive, separated by commas."""
    found = {each.directory.name.rpartition("-")[0] for each in checked_partitions() if each.archive == archive}
    return ",".join(sorted(found))


def checked_segments() -> list[Segment]:
    return [segment for partition in checked_partitions() for segment in partition.segments]


@cache
def _batches(expected: Path) -> tuple[dict[str, Any], ...]:
    return tuple(_with_bytes(json.loads(line)) for line in expected.read_text(encoding="utf-8").splitlines())


def _with_bytes(batch: dict[str, Any]) -> dict[str, Any]:
    batch["records"] = [
        (offset, timestamp, sequence, _bytes(key), _bytes(value), tuple((_name(h), _bytes(v)) for h, v in headers))
        for offset, timestamp, sequence, key, value, headers in batch["records"]
    ]
    return batch


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _name(text: str) -> str:
    return base64.b64decode(text).decode()
