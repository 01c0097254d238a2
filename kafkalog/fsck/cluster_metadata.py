"""The cluster's metadata, as `__cluster_metadata-0` of a data directory has them: `read_cluster_metadata`.

    00000000000000000419-0000000007.checkpoint     a snapshot: batches of records with all that holds at offset 419
    00000000000000000000.log ...                   the log: the same records, in order, each a change

    01 | 02 | 00 | 08 76 32 2d 6e 6f 6e 65 | 6e 03 ... 16 bytes | 00       the value of a record:
    frame, key, version (varints) | message: name "v2-none" (its length + 1 before it), topic id | no tagged fields

Records between a BeginTransactionRecord and its EndTransactionRecord count once that is there, or never, if an
AbortTransactionRecord is there instead. Records about other things are skipped. Memory grows with the number of
partitions in the cluster, and with one transaction.

Source: metadata/src/main/resources/common/metadata/*.json, raft/.../MetadataRecordSerde, image/*Delta.java.
"""

import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafkalog.errors import KafkaLogError
from kafkalog.record.message_fields import MessageFields, present
from kafkalog.storage.file_names import CLUSTER_METADATA_TOPIC
from kafkalog.storage.segment.file_message_set import FileMessageSet

METADATA_VERSION = "metadata.version"
_DIRECTORY = f"{CLUSTER_METADATA_TOPIC}-0"
SNAPSHOT = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint")
"""The name of a snapshot: the offset after its last record, and the leader epoch of that."""
_FRAME_VERSION = 1
_BEGIN, _END, _ABORT = 23, 24, 25
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
# The tags of a PartitionChangeRecord that are needed.
_REPLICAS_TAG, _DIRECTORIES_TAG = 2, 8


class Replicas(NamedTuple):
    """The replicas of a partition: the ids of their nodes, and of the data directory of each, if that is known."""

    nodes: tuple[int, ...]
    directories: tuple[str, ...] = ()

    def directory_of(self, node: int) -> str | None:
        """Return the id of the data directory that a node has the partition in; None if it is not known."""
        return dict(zip(self.nodes, self.directories, strict=False)).get(node)


@dataclass(slots=True)
class ClusterMetadata:
    """The topics, settings and features in the cluster's metadata.

    Attributes:
        topic_ids: The id of each topic, by its name.
        names: The name of each topic, by its id.
        partitions: The replicas by number of partition, by topic id.
        features: The level of each feature that has one; that of `metadata.version` is always there.
        settings: The settings of each resource, by its type (2: topic, 4: broker) and its name, empty for all brokers.
    """

    topic_ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, dict[int, Replicas]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    settings: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings."""
        return self.settings.get((_TOPIC_RESOURCE, topic), {})

    def broker_settings(self, node: int | None) -> Mapping[str, str]:
        """Return the settings of a broker in the metadata, with those of all brokers; None: only those of all."""
        own = {} if node is None else self.settings.get((_BROKER_RESOURCE, str(node)), {})
        return ChainMap(own, self.settings.get((_BROKER_RESOURCE, ""), {}))

    def cleanup_policy(self, topic: str, node: int | None) -> str | None:
        """Return how the topic is cleaned up on a broker; None if that broker's `server.properties` decide."""
        if topic not in self.topic_ids:
            return None
        own = self.topic_settings(topic).get("cleanup.policy")
        return self.broker_settings(node).get("log.cleanup.policy") if own is None else own

    def resources(self) -> Iterator[tuple[str, str, Mapping[str, str]]]:
        """Yield "topic" or "broker", the name (empty: of all brokers) and the settings of each that has some."""
        kinds = {_TOPIC_RESOURCE: "topic", _BROKER_RESOURCE: "broker"}
        for (kind, name), settings in sorted(self.settings.items()):
            if kind in kinds:
                yield kinds[kind], name, settings

    def apply(self, value: bytes) -> None:
        """Apply the value of a record that is part of no transaction.

        Raises:
            InvalidRecordError: The value ends too early.
            ValueError: The version of the record is not known.
        """
        key, fields = _opened(value)
        if key in _RECORDS:
            latest, change = _RECORDS[key]
            version = fields.varint()
            if version > latest:
                raise ValueError(f"version {version} of record {key} is not known")
            change(self, fields, version)


def read_cluster_metadata(data_dir: Path) -> ClusterMetadata | None:
    """Return the metadata in a data directory; None if there are none, or if not all of them can be read."""
    with suppress(KafkaLogError, OSError, ValueError):
        return load_cluster_metadata(data_dir)
    return None


def load_cluster_metadata(data_dir: Path) -> ClusterMetadata | None:
    """Return the metadata in a data directory, up to the last whole batch; None if it has none.

    Raises:
        KafkaLogError: The newest snapshot or the log is damaged.
        OSError: A file cannot be read.
        ValueError: A record is not understood, or the metadata have no beginning.
    """
    directory = data_dir / _DIRECTORY
    if not directory.is_dir():
        return None
    metadata = ClusterMetadata()
    pending: list[bytes] | None = None
    for value in _values(data_dir):
        key, _ = _opened(value)
        if key == _BEGIN:
            pending = []
        elif key in {_END, _ABORT}:
            for each in pending or () if key == _END else ():
                metadata.apply(each)
            pending = None
        elif pending is not None:
            pending.append(value)
        else:
            metadata.apply(value)
    # Each snapshot and each log begins with the level.
    if METADATA_VERSION not in metadata.features:
        raise ValueError(f"no record has the level of {METADATA_VERSION}")
    return metadata


def newest_snapshot(data_dir: Path) -> Path | None:
    """Return the newest snapshot of the metadata in a data directory; None if there is none.

    Raises:
        OSError: The directory of the metadata cannot be listed.
    """
    directory = data_dir / _DIRECTORY
    names = (path.name for path in directory.iterdir()) if directory.is_dir() else ()
    newest = max(filter(SNAPSHOT.fullmatch, names), default=None)
    return None if newest is None else directory / newest


def _values(data_dir: Path) -> Iterator[bytes]:
    """Yield the values of the newest snapshot, and those of the log after it."""
    from kafkalog.storage.read_only_log import ReadOnlyLog

    newest, start = newest_snapshot(data_dir), 0
    if newest is not None:
        start = int(newest.name.partition("-")[0])
        with FileMessageSet(newest, sealed=True) as snapshot:
            yield from (record.value or b"" for record in snapshot)
    with ReadOnlyLog(data_dir / _DIRECTORY, from_first_segment=True) as log:
        # A broker lets the log begin anew if it ends before the snapshot.
        if log.log_end_offset > start:
            yield from (record.value or b"" for record in log.records(start))


def _opened(value: bytes) -> tuple[int, MessageFields]:
    """Return the key of a record and what follows it: its version and its message."""
    fields = MessageFields(value)
    if (frame := fields.varint()) != _FRAME_VERSION:
        raise ValueError(f"frame version {frame} is not known")
    return fields.varint(), fields


def _int32s(fields: MessageFields) -> tuple[int, ...] | None:
    """Return an array of numbers; None if it is null."""
    count = fields.count()
    return None if count is None else tuple(fields.integer(4) for _ in range(count))


def _uuids(fields: MessageFields) -> tuple[str, ...] | None:
    """Return an array of UUIDs; None if it is null."""
    count = fields.count()
    return None if count is None else tuple(fields.uuid() for _ in range(count))


def _topic(metadata: ClusterMetadata, fields: MessageFields, version: int) -> None:
    del version
    name, topic_id = present(fields.string()), fields.uuid()
    metadata.topic_ids[name], metadata.names[topic_id] = topic_id, name
    metadata.partitions[topic_id] = {}


def _remove_topic(metadata: ClusterMetadata, fields: MessageFields, version: int) -> None:
    del version
    topic_id = fields.uuid()
    name = metadata.names.pop(topic_id, "")
    metadata.partitions.pop(topic_id, None)
    if metadata.topic_ids.get(name) == topic_id:
        del metadata.topic_ids[name]
        metadata.settings.pop((_TOPIC_RESOURCE, name), None)


def _partition(metadata: ClusterMetadata, fields: MessageFields, version: int) -> None:
    number, topic_id, nodes = fields.integer(4), fields.uuid(), _int32s(fields)
    # In-sync replicas, those being removed and added; the leader, its epoch, the partition's epoch.
    for _ in range(3):
        _int32s(fields)
    fields.take(12)
    directories = _uuids(fields) if version else ()
    metadata.partitions.setdefault(topic_id, {})[number] = Replicas(nodes or (), directories or ())


def _partition_change(metadata: ClusterMetadata, fields: MessageFields, version: int) -> None:
    del version
    number, topic_id = fields.integer(4), fields.uuid()
    known = metadata.partitions.get(topic_id, {}).get(number)
    if known is None:
        return
    nodes = directories = None
    for tag, content in fields.tagged():
        if tag == _REPLICAS_TAG:
            nodes = _int32s(content)
        elif tag == _DIRECTORIES_TAG:
            directories = _uuids(content)
    if nodes is not None or directories is not None:
        kept = known.directories if nodes is None else ()
        changed = Replicas(known.nodes if nodes is None else nodes, kept if directories is None else directories)
        metadata.partitions[topic_id][number] = changed


def _config(metadata: ClusterMetadata, fields: MessageFields, version: int) -> None:
    del version
    (kind,) = fields.take(1)
    resource, name, value = present(fields.string()), present(fields.string()), fields.string()
    settings = metadata.settings.setdefault((kind, resource), {})
    if value is None:
        settings.pop(name, None)
    else:
        settings[name] = value


def _feature_level(metadata: ClusterMetadata, fields: MessageFields, version: int) -> None:
    del version
    name, level = present(fields.string()), fields.integer(2)
    if level:
        metadata.features[name] = level
    else:
        metadata.features.pop(name, None)


# By the key of a record, the newest version that is known, and what it changes.
_RECORDS: dict[int, tuple[int, Callable[[ClusterMetadata, MessageFields, int], None]]] = {
    2: (0, _topic),
    3: (2, _partition),
    4: (0, _config),
    5: (2, _partition_change),
    9: (0, _remove_topic),
    12: (0, _feature_level),
}
