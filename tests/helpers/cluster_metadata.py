"""Logs of a cluster's metadata with records that a test chooses, as Kafka encodes them."""

from __future__ import annotations

import shutil
import struct
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from pathlib import Path

from kafkalog import Record
from kafkalog.record.message_set import ByteBufferMessageSet
from kafkalog.storage.segment.file_message_set import FileMessageSet

BEGIN, END, ABORT = (bytes([1, key, 0, 0]) for key in (23, 24, 25))
LEVEL_OF_3_9 = 21


def topic(name: str, topic_id: str) -> bytes:
    return b"\1\2\0" + _string(name) + _uuid(topic_id) + b"\0"


def removed(topic_id: str) -> bytes:
    return b"\1\x09\0" + _uuid(topic_id) + b"\0"


def partition(topic_id: str, number: int, nodes: Sequence[int] = (1,), directories: Sequence[str] = ()) -> bytes:
    """Return a PartitionRecord of version 1."""
    replicas = bytes([len(nodes) + 1]) + struct.pack(f">{len(nodes)}i", *nodes)
    rest = b"\1\1\1" + struct.pack(">3i", 1, 0, 0)
    of_directories = bytes([len(directories) + 1]) + b"".join(map(_uuid, directories))
    return b"\1\3\1" + struct.pack(">i", number) + _uuid(topic_id) + replicas + rest + of_directories + b"\0"


def moved(topic_id: str, number: int, node: int) -> bytes:
    """Return a PartitionChangeRecord of version 1: one replica, on this node, and no leader."""
    nodes, nobody = b"\2" + struct.pack(">i", node), struct.pack(">i", -1)
    tagged = [(0, nodes), (1, nobody), (2, nodes), (8, b"\2" + bytes(16))]
    fields = b"".join(bytes([tag, len(content)]) + content for tag, content in tagged)
    return b"\1\5\1" + struct.pack(">i", number) + _uuid(topic_id) + bytes([len(tagged)]) + fields


def setting(kind: int, owner: str, name: str, value: str | None) -> bytes:
    """Return a ConfigRecord; kind 2 is a topic, 4 a broker."""
    return (
        b"\1\4\0"
        + bytes([kind])
        + _string(owner)
        + _string(name)
        + (b"\0" if value is None else _string(value))
        + b"\0"
    )


def feature(name: str, level: int) -> bytes:
    return b"\1\x0c\0" + _string(name) + struct.pack(">h", level) + b"\0"


def write_metadata(data: Path, *batches: Sequence[bytes], offset: int = 0, name: str = "") -> Path:
    """Write the batches of records to a segment, or to the file of this name; return its path."""
    directory = data / "__cluster_metadata-0"
    directory.mkdir(exist_ok=True)
    path = directory / (name or f"{offset:020}.log")
    with path.open("wb") as file:
        for values in batches:
            records = [Record(value) for value in values]
            file.write(bytes(ByteBufferMessageSet.from_records(records, base_offset=offset, partition_leader_epoch=1)))
            offset += len(values)
    return path


def write_snapshot(data: Path, values: Sequence[bytes], offset: int, epoch: int = 1) -> Path:
    """Write a snapshot of all records before an offset, as Kafka does; return its path."""
    path = data / "__cluster_metadata-0" / f"{offset:020}-{epoch:010}.checkpoint"
    path.parent.mkdir(exist_ok=True)
    batches = [
        ([Record(b"\0\0" + bytes(9), b"\0\0\0\3")], True),
        ([Record(value) for value in values], False),
        ([Record(b"\0\0\0", b"\0\0\0\4")], True),
    ]
    with path.open("wb") as file:
        at = 0
        for records, is_control in batches:
            file.write(bytes(ByteBufferMessageSet.from_records(records, base_offset=at, is_control=is_control)))
            at += len(records)
    path.chmod(0o444)
    return path


def append_metadata(data: Path, value: bytes) -> None:
    """Append a batch with this record to the log."""
    path = max((data / "__cluster_metadata-0").glob("*.log"))
    with FileMessageSet(path) as log:
        *_, last = log.batches()
    batch = ByteBufferMessageSet.from_records(
        [Record(value)], base_offset=last.last_offset + 1, partition_leader_epoch=last.partition_leader_epoch
    )
    with path.open("ab") as file:
        file.write(bytes(batch))


def cluster(data: Path, *values: bytes, level: int = LEVEL_OF_3_9) -> Path:
    """Write a log with these records after the level of the metadata, in place of what is there; return its path."""
    shutil.rmtree(data / "__cluster_metadata-0", ignore_errors=True)
    return write_metadata(data, [feature("metadata.version", level)], *([value] for value in values))


def _string(text: str) -> bytes:
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data) + 1]) + data


def _uuid(text: str) -> bytes:
    return urlsafe_b64decode(text + "==")
