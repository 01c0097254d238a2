"""`partition.metadata`: the topic that a partition directory belongs to.

    version: 0
    topic_id: bUPDMCVQRZiKdmIvGGjhHg      a UUID, base64url without padding; no newline follows

A topic that is deleted and created again has a new id, so a broker recognizes an old directory as stale. KRaft brokers
remove a directory without this file. Source: storage/.../checkpoint/{PartitionMetadataFile,
PartitionMetadataReadBuffer}.java, clients/.../common/Uuid.java.
"""

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog.errors import CorruptCheckpointError, InconsistentTopicIdError
from kafkalog.storage.file_names import PARTITION_METADATA, partition_of_dir
from kafkalog.storage.files.durable import write_atomically
from kafkalog.storage.files.small_file import read_small_text

MAX_BYTES = 1 << 16
_VERSION = 0
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_NUMBER = re.compile(r"\+?[0-9]{1,10}")
_COLON = re.compile(r":\s+")
_NAMES = "version", "topic_id"
_NO_ID = "A" * 22


class PartitionMetadata(NamedTuple):
    """The content of `partition.metadata`. `topic_id`: 22 characters of base64url."""

    version: int
    topic_id: str


def random_topic_id() -> str:
    """Return a new topic id. It never begins with `-`, which command lines would read as an option."""
    while (topic_id := _encoded(uuid4().bytes)).startswith("-"):
        pass
    return topic_id


def topic_id_in(data_dir: Path, topic: str, new: str | None = None) -> str:
    """Return the id in the partitions of a topic below a data directory; without one `new`, or a random one.

    Raises:
        CorruptCheckpointError: A `partition.metadata` does not follow its format.
        OSError: A file or the directory was not read.
    """
    # Not iterdir: a Path for each of thousands of partitions takes long.
    for name in sorted(each for each in os.listdir(data_dir) if each.startswith(topic)):  # noqa: PTH208
        partition = partition_of_dir(name)
        if partition is not None and partition.topic == topic:
            found = read_partition_metadata(data_dir / name / PARTITION_METADATA)
            if found is not None:
                return found.topic_id
    return new or random_topic_id()


def read_partition_metadata(path: Path) -> PartitionMetadata | None:
    """Return the content of the file; None if it is missing.

    Raises:
        CorruptCheckpointError: The file does not follow its format.
        OSError: The file was not read.
    """
    text = read_small_text(path, MAX_BYTES)
    if text is None:
        return None
    version, word = (_value(path, text.splitlines(), number) for number in (0, 1))
    if not _NUMBER.fullmatch(version) or int(version) > INT32_MAX:
        raise CorruptCheckpointError("the version is unknown", str(path), None, "0 or more", version)
    topic_id = _canonical(word)
    if topic_id is None or topic_id == _NO_ID:
        raise CorruptCheckpointError("not a topic id", str(path), None, "22 characters of base64url", repr(word))
    return PartitionMetadata(int(version), topic_id)


def write_partition_metadata(path: Path, topic_id: str, *, sync: bool = True) -> None:
    """Write the topic id of a partition, unless the file has it already.

    Raises:
        InconsistentTopicIdError: The file has another topic id.
        ValueError: `topic_id` is not a topic id.
        CorruptCheckpointError: The existing file does not follow its format.
        OSError: The file was not written.
    """
    if not is_topic_id(topic_id):
        raise ValueError(f"{topic_id!r} is not a topic id: 22 characters of base64url, not all A")
    known = read_partition_metadata(path)
    if known is None:
        write_atomically(path, f"version: {_VERSION}\ntopic_id: {topic_id}".encode(), sync=sync)
    elif known.topic_id != topic_id:
        what = "the partition belongs to a topic with another id"
        raise InconsistentTopicIdError(what, str(path), None, topic_id, known.topic_id)


def is_topic_id(text: str) -> bool:
    """Return whether this is a topic id as Kafka writes it."""
    return len(text) == len(_NO_ID) and _canonical(text) == text and text != _NO_ID


def _value(path: Path, lines: list[str], number: int) -> str:
    """Return the value after the colon. Like Kafka, ignore the name before it and trailing colons without a value."""
    words = _COLON.split(re.sub(r"(:\s+)+$", "", lines[number])) if number < len(lines) else []
    if len(words) != 2:
        found = repr(lines[number][:80]) if number < len(lines) else "the end of the file"
        expected = f"{_NAMES[number]}: value"
        raise CorruptCheckpointError(f"line {number + 1} does not follow the format", str(path), None, expected, found)
    return words[1]


def _canonical(text: str) -> str | None:
    """Return a topic id as Kafka writes it: without padding, and with its 4 unused bits cleared, as Kafka reads it."""
    return _encoded(urlsafe_b64decode(text[:22] + "==")) if _TOPIC_ID.fullmatch(text) else None


def _encoded(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()
