"""Which partitions of a data directory a command is to look at: `--topic`."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kafkalog.storage.data_dir import DataDir, LogFile, PartitionDir

topic_option = click.option(
    "-t", "--topic", "topics", metavar="GLOB", multiple=True,
    help="Of a data directory, only the partitions whose topic, or topic-partition, matches. Repeatable.",
)  # fmt: skip


def select(place: DataDir | PartitionDir | LogFile, topics: tuple[str, ...]) -> DataDir | PartitionDir | LogFile:
    """`place` with only the partitions that match. UsageError: none does."""
    from kafkalog.storage.data_dir import DataDir

    if not topics or not isinstance(place, DataDir):
        return place
    wanted = tuple(each for each in place.partitions if _matches(each, topics))
    if not wanted:
        raise click.UsageError(f"no partition in {place.path} matches --topic {' '.join(topics)}")
    return replace(place, partitions=wanted)


def _matches(partition: PartitionDir, topics: tuple[str, ...]) -> bool:
    topic = partition.topic_partition.topic if partition.topic_partition else partition.name
    return any(fnmatchcase(topic, glob) or fnmatchcase(partition.name, glob) for glob in topics)
