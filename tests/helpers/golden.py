"""The logs that real brokers wrote, unpacked once, and what Kafka itself reads in them.

    NAME/data/TOPIC-0/SEGMENT.log               the broker's files
    NAME/expected/TOPIC-0/SEGMENT.log.jsonl     a line a batch, as Kafka's own classes give it

Test workers share one unpacked copy: whoever is first unpacks beside it and renames, which is atomic, and the others
find it there. Tests read it and nothing else; one that must write takes a copy.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ARCHIVES = Path(__file__).parents[1] / "data"
WITHOUT_EXPECTATIONS = "__cluster_metadata-0"


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
        """Kafka's batches, their records' keys, values and headers as bytes."""
        return [_with_bytes(json.loads(line)) for line in self.expected.read_text(encoding="utf-8").splitlines()]


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
    """The directory that holds every archive unpacked."""
    home = Path(tempfile.gettempdir()) / f"kafkalog-golden-{os.getuid()}-{digest()}"
    if not home.is_dir():
        _unpack_beside(home)
    return home


def digest() -> str:
    """Names the copy by what is in it: a changed archive is never mistaken for the one unpacked before."""
    digest = hashlib.sha256()
    for archive in _archives():
        digest.update(archive.read_bytes())
    return digest.hexdigest()[:16]


def _archives() -> list[Path]:
    return sorted(ARCHIVES.glob("*.tar.xz"))


def _unpack_beside(home: Path) -> None:
    draft = Path(tempfile.mkdtemp(prefix=home.name, dir=home.parent))
    for archive in _archives():
        with tarfile.open(archive) as tar:
            tar.extractall(draft, filter="data")
    try:
        draft.rename(home)
    except OSError:
        # Another worker was faster; its copy is as good.
        shutil.rmtree(draft)


@cache
def partitions() -> tuple[Partition, ...]:
    """Every partition directory of every archive."""
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
    """Those that Kafka's reading is known of."""
    return [partition for partition in partitions() if partition.directory.name != WITHOUT_EXPECTATIONS]


def checked_topics(archive: str) -> str:
    """Their topics, with commas between."""
    found = {each.directory.name.rpartition("-")[0] for each in checked_partitions() if each.archive == archive}
    return ",".join(sorted(found))


def checked_segments() -> list[Segment]:
    return [segment for partition in checked_partitions() for segment in partition.segments]


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
