"""Kafka's text checkpoints.

    0                               version
    2                               number of lines
    <topic> <partition> <offset>    one line an entry

Source: server-common/.../CheckpointFile.java, storage/.../checkpoint/OffsetCheckpointFile.java.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.paths import TopicPartition

Entry = TypeVar("Entry")


def read_offset_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Partition -> offset; empty where the file is missing or empty.

    CorruptCheckpointError: the file does not follow the format.
    """
    return dict(_read_entries(path, _offset_entry))


def _read_entries(path: Path, parse: Callable[[list[str]], Entry]) -> list[Entry]:
    if path.exists() and not path.is_file():
        raise CorruptCheckpointError("not a regular file", str(path))
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError("not a text file", str(path), error.start) from None
    if not lines:
        return []
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [parse(line.split()) for line in lines[2:] if line.strip()]
    except (ValueError, IndexError) as error:
        raise CorruptCheckpointError(f"a line does not follow the format: {error}", str(path)) from None
    if version != 0:
        raise CorruptCheckpointError("the version is unknown", str(path), None, 0, version)
    if len(entries) != count:
        raise CorruptCheckpointError(
            "the number of lines is not the one declared", str(path), None, count, len(entries)
        )
    return entries


def _offset_entry(words: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = words
    return TopicPartition(topic, int(partition)), int(offset)
