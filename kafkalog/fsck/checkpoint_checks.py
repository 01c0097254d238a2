"""Checks of the files of a data directory: its checkpoints, the clean shutdown file, `meta.properties`, `quorum-state`.

recovery-point-offset-checkpoint, replication-offset-checkpoint     offsets that the log once had
log-start-offset-checkpoint, cleaner-offset-checkpoint              offsets that the log must have
"""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

from kafkalog.errors import CorruptCheckpointError, KafkaLogError
from kafkalog.fsck.cluster_metadata import ClusterMetadata, load_cluster_metadata
from kafkalog.fsck.findings import Finding, unreadable
from kafkalog.fsck.layout_checks import TIERED_STORAGE_CACHE, Names
from kafkalog.fsck.log_history import LogHistory
from kafkalog.fsck.metadata_checks import snapshot_findings
from kafkalog.fsck.state_checks import holds_metadata, of_error
from kafkalog.storage.checkpoint.checkpoint_file import A_NUMBER, read_damaged_offset_checkpoint, read_offset_checkpoint
from kafkalog.storage.checkpoint.clean_shutdown_file import read_broker_epoch, was_clean_shutdown
from kafkalog.storage.checkpoint.meta_properties_file import read_meta_properties
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata
from kafkalog.storage.checkpoint.quorum_state_file import QUORUM_STATE, read_quorum_state
from kafkalog.storage.data_dir.discover import META_PROPERTIES
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    CLUSTER_METADATA_TOPIC,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
    parse_partition_dir,
)

_ONCE_REACHED = {HIGH_WATERMARK_CHECKPOINT: "high watermark", RECOVERY_POINT_CHECKPOINT: "recovery point"}
OFFSET_CHECKPOINTS = *_ONCE_REACHED, LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT


def _short(name: str) -> str:
    """Return the name of an offset checkpoint as the situation of a finding."""
    return name.removesuffix("-offset-checkpoint")


def _is_renamed(name: str) -> bool:
    return name.endswith(("-delete", "-stray"))


class Checkpoints:
    """The checkpoints of a data directory, as they were before its partitions were read.

    Attributes:
        offsets: By file name, the offset of each partition; of a damaged file, those that can be read.
        was_clean: Whether the last writer stopped cleanly.
        faults: The findings about files that cannot be read.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.offsets: dict[str, dict[TopicPartition, int]] = {}
        self.faults: list[Finding] = []
        self.was_clean = was_clean_shutdown(directory)
        for name in OFFSET_CHECKPOINTS:
            path = directory / name
            try:
                self.offsets[name] = read_offset_checkpoint(path)
            except CorruptCheckpointError as error:
                situation = _short(name) if error.expected == A_NUMBER else ""
                self.faults.append(replace(of_error("checkpoint-format", path, error), situation=situation))
                with suppress(CorruptCheckpointError, OSError):
                    self.offsets[name] = read_damaged_offset_checkpoint(path)[0]
            except OSError as error:
                self.faults.append(unreadable(path, error))

    def only(self, partition: TopicPartition | None) -> Self:
        """Return what the checks of one partition need."""
        part = copy(self)
        part.faults = []
        # It may be large, and only the check of a partition with a gap reads it again.
        part.__dict__.pop("_loaded", None)
        part.offsets = {
            name: {each: offset for each, offset in offsets.items() if each == partition}
            for name, offsets in self.offsets.items()
        }
        return part

    def offset(self, name: str, partition: TopicPartition | None) -> int | None:
        """Return the offset of a partition in a checkpoint; None if there is none."""
        return None if partition is None else self.offsets.get(name, {}).get(partition)

    def trusts_log(self, partition: TopicPartition | None) -> bool:
        """Return whether a broker reads no segment of a partition when it starts; it always recovers its metadata."""
        return self.was_clean and not holds_metadata(partition)

    def recovery_point(self, partition: TopicPartition | None) -> int:
        """Return the offset before which a broker trusts all segments; 0 if it recovers all after an unclean stop."""
        return 0 if holds_metadata(partition) else self.offset(RECOVERY_POINT_CHECKPOINT, partition) or 0

    @property
    def cluster(self) -> ClusterMetadata | None:
        """The cluster's metadata, if they are in the directory and can be read."""
        return self._loaded[0]

    @cached_property
    def _loaded(self) -> tuple[ClusterMetadata | None, Exception | None]:
        """The cluster's metadata, and why they are not read."""
        try:
            return load_cluster_metadata(self.directory), None
        except (KafkaLogError, OSError, ValueError) as error:
            return None, error

    def not_compared(self) -> Iterator[Finding]:
        """Yield the finding that partitions are not compared with the cluster's metadata, which are there."""
        _, error = self._loaded
        if error is not None:
            directory = self.directory / f"{CLUSTER_METADATA_TOPIC}-0"
            # A log has an absolute path.
            path = error.path if isinstance(error, KafkaLogError) else None
            message = f"partitions are not compared with the cluster's metadata, which are not read: {error}"
            yield Finding("metadata-not-compared", str(directory / Path(path).name if path else directory), message)

    @property
    def node(self) -> tuple[int | None, str | None]:
        """The ids of the broker and of its directory in `meta.properties`; None for what is not there."""
        node = self._meta_properties.get("node.id") or self._meta_properties.get("broker.id")
        return None if node is None else int(node), self._meta_properties.get("directory.id")

    @property
    def is_of_kraft(self) -> bool:
        """Whether the directory was formatted for a broker of KRaft."""
        return self._meta_properties.get("version") == "1"

    @cached_property
    def _meta_properties(self) -> dict[str, str]:
        try:
            return read_meta_properties(self.directory / META_PROPERTIES) or {}
        except (CorruptCheckpointError, OSError):
            return {}

    def is_compacted(self, partition: TopicPartition | None) -> bool | None:
        """Return whether the topic's `cleanup.policy` has compaction; None if it is not known."""
        policy = None
        if partition is not None and self.cluster is not None:
            policy = self.cluster.cleanup_policy(partition.topic, self.node[0])
        return None if policy is None else "compact" in map(str.strip, policy.split(","))

    def know_compaction(self, partition: TopicPartition | None) -> bool:
        """Return whether it is known how far a partition is compacted: by the topic's `cleanup.policy`, or by files.

        A partition that was copied to another directory may have been compacted before; so may the replica of a
        compacted topic, by its leader, before the cleaner of this broker comes to it. All brokers have the cleaner's
        checkpoint.
        """
        is_compacted = self.is_compacted(partition)
        if is_compacted is False:
            return True
        if is_compacted and self.cleaned(partition) is None:
            return False
        known = (self.directory / CLEANER_OFFSET_CHECKPOINT).exists()
        return known and self.offset(RECOVERY_POINT_CHECKPOINT, partition) is not None

    def needed(self, names: Names) -> set[str]:
        """Return the names of directories of no served partition that have the only copy of one which is served here.

        A directory that is being deleted has another topic id, or its partition is elsewhere by now.
        """
        found = set()
        for name in names.directories if self.cluster is not None else ():
            partition = parse_partition_dir(name)
            if _is_renamed(name) and partition is not None and str(partition) not in names.directories:
                with suppress(CorruptCheckpointError, OSError):
                    own = read_partition_metadata(self.directory / name / PARTITION_METADATA)
                    if own is not None and self._is_here(partition, own.topic_id):
                        found.add(name)
        return found

    def _is_here(self, partition: TopicPartition, topic_id: str) -> bool:
        """Return whether the cluster has a replica of the partition in this directory."""
        node, directory_id = self.node
        if self.cluster is None or node is None or directory_id is None:
            return False
        replicas = self.cluster.partitions.get(topic_id, {}).get(partition.partition)
        return replicas is not None and replicas.directory_of(node) == directory_id

    def cleaned(self, partition: TopicPartition | None) -> int | None:
        """Return the offset up to which a partition is compacted by now; None if it is not."""
        try:
            offsets = read_offset_checkpoint(self.directory / CLEANER_OFFSET_CHECKPOINT)
        except (CorruptCheckpointError, OSError):
            return None
        return None if partition is None else offsets.get(partition)

    def log_start(self, partition: TopicPartition | None) -> int | None:
        """Return the log start offset; 0 if it is that of the first segment, None if the checkpoint may be old.

        It is unknown also of tiered storage, whose logs begin before their first segment.
        """
        if not self.was_clean or (self.directory / TIERED_STORAGE_CACHE).exists():
            return None
        return self.offset(LOG_START_OFFSET_CHECKPOINT, partition) or 0

    def partition_findings(
        self, partition: TopicPartition | None, history: LogHistory, directory: Path
    ) -> Iterator[Finding]:
        """Yield the findings about the offsets of one partition, after its segments were walked."""
        start = self.offset(LOG_START_OFFSET_CHECKPOINT, partition)
        # Without segments, a broker creates one at the log start.
        end = history.log_end if history.extents else start or 0
        if end is None:
            # The damage that hides the end is a finding itself.
            return
        path, size = (history.extents[-1].path, history.extents[-1].size) if history.extents else (directory, 0)
        if start is not None and start > end:
            yield Finding("log-start-beyond-end", self._path(LOG_START_OFFSET_CHECKPOINT),
                          f"the log start of {partition} is beyond the log's end", expected=f"at most {end}",
                          found=start, partition=str(partition))  # fmt: skip
            return
        first = history.first_base
        if start is not None and 0 <= start < first and self.was_clean:
            yield Finding("log-start-before-log", self._path(LOG_START_OFFSET_CHECKPOINT),
                          f"{partition} begins at its first segment, and would not be listed",
                          expected=f"more than {first}", found=start,
                          partition=str(partition))  # fmt: skip
        for name, what in _ONCE_REACHED.items():
            reached = self.offset(name, partition)
            if reached is not None and reached > end:
                message = f"the log ends before its {what}, which is {reached} in {name}"
                yield Finding("log-too-short", str(path), message, size, 0, end, reached - 1,
                              f"at least {reached}", end, "" if history.extents else "empty")  # fmt: skip
                break
        cleaned = self.offset(CLEANER_OFFSET_CHECKPOINT, partition)
        if cleaned is not None and cleaned > end:
            yield Finding("cleaner-offset-beyond-end", self._path(CLEANER_OFFSET_CHECKPOINT),
                          f"{partition} is compacted up to an offset beyond its end", expected=f"at most {end}",
                          found=cleaned, partition=str(partition))  # fmt: skip

    def _path(self, name: str) -> str:
        return str(self.directory / name)

    def gone(self, names: Names) -> Iterator[Finding]:
        """Yield the findings about partitions that a checkpoint lists, but that have no directory.

        A topic that the cluster does not have any more was deleted.
        """
        directories = names.directories | names.dangling
        reported: set[TopicPartition] = set()
        for name in _ONCE_REACHED:
            # A broker that renames a partition to delete it writes the recovery points at once, the others later.
            renamed_too = name != RECOVERY_POINT_CHECKPOINT
            there = {
                parse_partition_dir(each) for each in directories if renamed_too or not _is_renamed(each)
            } | reported
            for partition, offset in self.offsets.get(name, {}).items():
                # A partition without records is no loss.
                is_deleted = self.cluster is not None and partition.topic not in self.cluster.topic_ids
                if offset > 0 and partition not in there and not is_deleted:
                    reported.add(partition)
                    yield Finding("partition-gone", self._path(name), f"{partition} has no directory", None, None, 0,
                                  offset - 1, partition=str(partition),
                                  arguments=shlex.quote(str(partition)))  # fmt: skip

    def _emptied(self) -> Iterator[Finding]:
        """Yield the findings about checkpoints without a byte.

        A new broker creates them so; when it stops, it writes those that it has offsets for.
        """
        has_records = any(offset > 0 for offset in self.offsets.get(RECOVERY_POINT_CHECKPOINT, {}).values())
        for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT):
            path = self.directory / name
            written = self.was_clean and (has_records or name != HIGH_WATERMARK_CHECKPOINT)
            if written and path.is_file() and not path.stat().st_size:
                yield Finding("checkpoint-empty", str(path), "it has no bytes, though the last writer stopped cleanly",
                              situation=_short(name))  # fmt: skip

    def file_findings(self) -> Iterator[Finding]:
        """Yield the findings about the format of the files of the directory."""
        yield from self.faults
        yield from self._emptied()
        mark = self.directory / CLEAN_SHUTDOWN_FILE
        # Older brokers leave the file empty.
        if self.was_clean and mark.stat().st_size and read_broker_epoch(self.directory) is None:
            yield Finding("clean-shutdown-format", str(mark), "it has no epoch of a broker")
        yield from snapshot_findings(self.directory)
        # Brokers without KRaft write it anew.
        if (self.directory / f"{CLUSTER_METADATA_TOPIC}-0").is_dir() and not (
            self.directory / META_PROPERTIES
        ).exists():
            message = "the ids of the cluster and of the broker are missing"
            yield Finding("meta-properties-missing", str(self.directory / META_PROPERTIES), message)
        for path, code in (
            (self.directory / META_PROPERTIES, "meta-properties-format"),
            (self.directory / f"{CLUSTER_METADATA_TOPIC}-0" / QUORUM_STATE, "quorum-state-format"),
        ):
            try:
                (read_meta_properties if path.name == META_PROPERTIES else read_quorum_state)(path)
            except CorruptCheckpointError as error:
                yield of_error(code, path, error)
            except OSError as error:
                yield unreadable(path, error)
