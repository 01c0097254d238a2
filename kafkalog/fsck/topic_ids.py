"""`TopicIds`: the known topic ids of a data directory, and which one to write where it is missing or wrong."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError
from kafkalog.fsck.findings import Finding
from kafkalog.storage.checkpoint.partition_metadata_file import is_topic_id, read_partition_metadata
from kafkalog.storage.file_names import PARTITION_METADATA, parse_partition_dir
from kafkalog.storage.files.small_file import read_small_text

_TOPIC_ID_FIELD = re.compile(r"topic_id:\s+([A-Za-z0-9_-]{22})(?![A-Za-z0-9_-])")


class TopicIds:
    """The topic ids that are known, by topic: given by the user, in the cluster's metadata, and in the partitions."""

    def __init__(self, given: Mapping[str, str], of_cluster: Mapping[str, str], partitions: Iterable[Path]) -> None:
        """Take the ids that are known.

        Args:
            given: The ids that the user gives, by topic. They win.
            of_cluster: The ids in the cluster's metadata, by topic.
            partitions: The partition directories in the data directory.
        """
        self._given = given
        self._of_cluster = of_cluster
        self._partitions = partitions

    def differing(self, directory: Path) -> str | None:
        """Return the id that the user gives for a partition which has another one; None if there is no such id."""
        given = self._given.get(_topic_of(directory))
        return None if given is None or given == _id_in(directory / PARTITION_METADATA) else given

    def of_cluster(self, directory: Path) -> str | None:
        """Return the id of a partition's topic in the cluster's metadata; None if it has none."""
        return self._of_cluster.get(_topic_of(directory))

    def for_finding(self, directory: Path, finding: Finding) -> str | None:
        """Return the id to write for a finding: as given, or as the cluster has it, or as most partitions have it.

        Returns:
            None if it is not known; also if the partition may belong to a deleted topic of this name.
        """
        topic = _topic_of(directory)
        ids = self._in_partitions[topic]
        if topic in self._given:
            return self._given[topic]
        if topic in self._of_cluster:
            of_cluster = self._of_cluster[topic]
            return None if finding.code == "topic-id-differs" and of_cluster not in ids else of_cluster
        if not ids:
            return _id_in_text(Path(finding.path))
        commonest, count = ids.most_common(1)[0]
        return commonest if 2 * count > ids.total() else None

    @cached_property
    def _in_partitions(self) -> Mapping[str, Counter[str]]:
        """The number of partitions with each id, by topic."""
        counted = defaultdict[str, Counter[str]](Counter)
        for each in self._partitions:
            if (found := _id_in(each / PARTITION_METADATA)) is not None:
                counted[_topic_of(each)][found] += 1
        return counted


def _topic_of(directory: Path) -> str:
    """Return the topic of a partition directory; empty if its name is not that of a partition."""
    partition = parse_partition_dir(directory.name)
    return "" if partition is None else partition.topic


def _id_in(path: Path) -> str | None:
    """Return the topic id in a `partition.metadata`; None if it has none that can be read."""
    with suppress(CorruptCheckpointError, OSError):
        found = read_partition_metadata(path)
        return None if found is None else found.topic_id
    return None


def _id_in_text(path: Path) -> str | None:
    """Return the topic id in a damaged `partition.metadata`; None if there is none."""
    with suppress(CorruptCheckpointError, OSError):
        match = _TOPIC_ID_FIELD.search(read_small_text(path, 1 << 16) or "")
        return match[1] if match and is_topic_id(match[1]) else None
    return None
