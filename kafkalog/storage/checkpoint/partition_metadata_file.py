"""`partition.metadata`: which topic a partition's directory belongs to.

    version: 0
    topic_id: bUPDMCVQRZiKdmIvGGjhHg      a UUID, base64url without padding; no newline behind it

A topic that is deleted and made again has another id, so a broker that finds the old directory knows that it is stale.
KRaft brokers remove a directory without this file. Source: storage/.../checkpoint/{PartitionMetadataFile,
PartitionMetadataReadBuffer}.java, clients/.../common/Uuid.java.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from kafkalog._speedups.arguments import INT32_MAX
from kafkalog.errors import CorruptCheckpointError, InconsistentTopicIdError
from kafkalog.storage.checkpoint.checkpoint_file import check_regular
from kafkalog.storage.file_names import PARTITION_METADATA, partition_of_dir
from kafkalog.storage.files.durable import write_atomically

_VERSION = 0
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_NUMBER = re.compile(r"\+?[0-9]{1,10}")
_COLON = re.compile(r":\s+")
_NAMES = "version", "topic_id"
_NO_ID = "A" * 22


class PartitionMetadata(NamedTuple):
    """What `partition.metadata` says. `topic_id`: 22 characters of base64url."""

    version: int
    topic_id: str


def random_topic_id() -> str:
    """A new topic id. It never begins with `-`, which a command line would take for an option."""
    while (topic_id := _encoded(uuid4().bytes)).startswith("-"):
        pass
    return topic_id


def topic_id_in(data_dir: Path, topic: str) -> str:
    """The id that a topic's partitions below a data directory have, or a new one. CorruptCheckpointError, OSError."""
    for directory in sorted(data_dir.iterdir()):
        partition = partition_of_dir(directory.name)
        if partition is not None and partition.topic == topic:
            found = read_partition_metadata(directory / PARTITION_METADATA)
            if found is not None:
                return found.topic_id
    return random_topic_id()


def read_partition_metadata(path: Path) -> PartitionMetadata | None:
    """What the file says; None where it is missing.

    CorruptCheckpointError: it does not follow its format. OSError: it cannot be read.
    """
    check_regular(path)
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError("not a text file", str(path), error.start) from None
    version, topic_id = (_value(path, lines, number) for number in (0, 1))
    if not _NUMBER.fullmatch(version) or int(version) > INT32_MAX:
        raise CorruptCheckpointError("the version is unknown", str(path), None, "0 or more", version)
    return PartitionMetadata(int(version), _read_topic_id(path, topic_id))


def write_partition_metadata(path: Path, topic_id: str, *, sync: bool = True) -> None:
    """Say which topic the partition belongs to; nothing is written if the file says so already.

    InconsistentTopicIdError: it says otherwise. ValueError: no topic id. CorruptCheckpointError: the file that is there
    does not follow its format. OSError: it was not written.
    """
    if not is_topic_id(topic_id):
        raise ValueError(f"{topic_id!r} is no topic id: 22 characters of base64url that are not all A")
    known = read_partition_metadata(path)
    if known is None:
        write_atomically(path, f"version: {_VERSION}\ntopic_id: {topic_id}".encode(), sync=sync)
    elif known.topic_id != topic_id:
        what = "the partition belongs to a topic of another id"
        raise InconsistentTopicIdError(what, str(path), None, topic_id, known.topic_id)


def is_topic_id(text: str) -> bool:
    """Whether this is a topic's id as Kafka writes it."""
    return len(text) == len(_NO_ID) and _canonical(text) == text and text != _NO_ID


def _value(path: Path, lines: list[str], number: int) -> str:
    """What stands behind the colon. Kafka looks neither at what stands before it, nor at colons with nothing behind."""
    words = _COLON.split(re.sub(r"(:\s+)+$", "", lines[number])) if number < len(lines) else []
    if len(words) != 2:
        found = repr(lines[number][:80]) if number < len(lines) else "the end of the file"
        expected = f"{_NAMES[number]}: value"
        raise CorruptCheckpointError(f"line {number + 1} does not follow the format", str(path), None, expected, found)
    return words[1]


def _read_topic_id(path: Path, text: str) -> str:
    topic_id = _canonical(text)
    if topic_id is None or topic_id == _NO_ID:
        raise CorruptCheckpointError("no topic id", str(path), None, "22 characters of base64url", repr(text))
    return topic_id


def _canonical(text: str) -> str | None:
    """As Kafka writes it, without the padding and the four bits too many that it reads over."""
    return _encoded(urlsafe_b64decode(text[:22] + "==")) if _TOPIC_ID.fullmatch(text) else None


def _encoded(uuid: bytes) -> str:
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()
