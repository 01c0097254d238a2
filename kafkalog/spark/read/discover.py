"""The partitions under the paths of a read.

    /backup/orders-0    a partition                     /backup, s3://backup    a directory of partitions
    /backup/*/orders-*  the logs that a glob matches    file:///backup, or a list of any of these

One replica of each partition is read: the one with the highest leader epoch, then the longest.
"""

import glob
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from kafkalog.errors import NotALogError
from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.partition import Partition, Wanted
from kafkalog.storage.data_dir import discover as data_dir
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.remote_path import RemotePath, is_remote, to_path

_log = logging.getLogger(__name__)
# The number of topics that a message names.
_NAMED = 10


def discover(options: ReadOptions) -> list[Partition]:
    """Find the partitions that the options select, one replica of each, by topic and number.

    Directories of other partitions are not opened.

    Raises:
        FileNotFoundError: A path does not exist, or a glob matches nothing.
        NotALogError: A path holds no log.
        ValueError: A selected topic or partition was not found, or the scheme of a path is unknown.
        OSError: The directory of a selected partition was not listed.
        ImportError: A package that the store needs is missing.
    """
    found: dict[TopicPartition, Partition] = {}
    seen: set[str] = set()
    there: set[TopicPartition] = set()

    def wanted(partition: TopicPartition) -> bool:
        there.add(partition)
        return options.topics.wanted(partition)

    for source in _sources(options, wanted):
        # A directory named twice, or by a symbolic link, is not a replica of itself.
        itself = source.path if is_remote(source.path) else os.path.realpath(source.path)
        if itself in seen:
            continue
        seen.add(itself)
        rival = found.get(source.topic_partition)
        found[source.topic_partition] = source if rival is None else _better(rival, source)
    missing = options.topics.missing(found)
    if missing and not options.streaming:
        what = f"option {options.topics.option}: not found: {', '.join(missing)}"
        raise ValueError(f"{what}; in {', '.join(options.paths)} there {_topics(there)}")
    return [found[partition] for partition in sorted(found)]


def _topics(partitions: Iterable[TopicPartition]) -> str:
    """List the topics found, as the end of a sentence."""
    names = sorted({each.topic for each in partitions})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"are the topics {', '.join(names[:_NAMED])}{more}" if names else "are no topics"


def _better(one: Partition, other: Partition) -> Partition:
    """Return the replica to read."""

    def rank(each: Partition) -> tuple[int, int, int]:
        return each.leader_epoch, each.log_end.offset, -each.log_start_offset

    chosen = other if rank(other) > rank(one) else one
    _log.info("%s: of %s and %s the replica in %s is read", one.topic_partition, one.path, other.path, chosen.path)
    return chosen


def _sources(options: ReadOptions, wanted: Wanted) -> Iterator[Partition]:
    for path in options.paths:
        try:
            place = to_path(path)
        except ValueError as error:
            raise ValueError(f"option path: {error}") from None
        pattern = glob.has_magic(str(place))
        if pattern and (isinstance(place, RemotePath) or not os.path.lexists(place)):
            yield from _matching(path, place, wanted)
        else:
            yield from _partitions(_discovered(place), place, wanted)


def _discovered(path: Path) -> DataDir | PartitionDir | LogFile:
    try:
        return data_dir.discover(path)
    except NotALogError as error:
        below = None if isinstance(path, RemotePath) else data_dir.log_below(path)
        if below is None:
            raise
        raise NotALogError(f"{error.message}; {below} has some", str(path)) from None


def _matching(option: str, pattern: Path, wanted: Wanted) -> Iterator[Partition]:
    """Yield the partitions among the matches of a glob, without those that are being deleted or moved here.

    Raises:
        FileNotFoundError: Nothing matches.
        NotALogError: No match is a log.
        OSError: A match that may hold selected partitions was not listed.
    """
    if isinstance(pattern, RemotePath):
        matches: list[Path] = [*pattern.matches()]
    else:
        matches = [Path(each) for each in sorted(glob.glob(str(pattern), recursive=True))]  # noqa: PTH207 - absolute
    if not matches:
        raise FileNotFoundError(f"option path: nothing matches {option!r}")
    found: dict[Path, DataDir | PartitionDir | LogFile] = {}
    refused: dict[Path, OSError] = {}
    for each in matches:
        try:
            if isinstance(each, RemotePath) or each.is_dir():
                found[each] = data_dir.discover(each)
        except NotALogError:
            continue
        except OSError as error:
            refused[each] = error
    found = {each: there for each, there in found.items() if not isinstance(there, LogFile)}
    above = {each.parent for each, there in found.items() if isinstance(there, PartitionDir)}
    _ensure_not_wanted(refused, above, wanted)
    if not found:
        what = "a partition directory, <topic>-<number>, or one that holds some is needed; none of what matches is one"
        raise NotALogError(what, option)
    for each, there in found.items():
        if not (isinstance(there, PartitionDir) and there.mark is not None):
            yield from _partitions(there, each, wanted)


def _partitions(found: DataDir | PartitionDir | LogFile, path: Path, wanted: Wanted) -> Iterator[Partition]:
    if isinstance(found, DataDir):
        for each in found.partitions:
            # A directory that is being deleted or moved here is not part of the log.
            if each.mark is None and each.topic_partition is not None and wanted(each.topic_partition):
                yield Partition(each.path.absolute(), each.topic_partition)
    elif isinstance(found, PartitionDir) and found.topic_partition is not None:
        if wanted(found.topic_partition):
            yield Partition(found.path.absolute(), found.topic_partition)
    else:
        raise NotALogError("a partition directory, <topic>-<number>, or one that holds some is needed", str(path))


def _ensure_not_wanted(refused: Mapping[Path, OSError], above: set[Path], wanted: Wanted) -> None:
    """Raise the error of a directory that was not listed and may hold selected partitions.

    A data directory may have the name of a partition (kafka-1), so only a directory in one of `above`, which hold other
    partitions, counts as one.
    """
    for path, error in refused.items():
        partition = data_dir.partition_dir(path).topic_partition
        if partition is None or wanted(partition) or path.parent not in above:
            raise error
