"""Which partitions the paths of a read lead to.

    /backup/orders-0    a partition          /backup, s3://backup    one that holds some
    /backup/*/orders-*  what a glob matches, of which the logs       file:///backup, or a list of any of these

Replicas of a partition are read once: the one with the highest leader epoch, then the longest.
"""

import glob
import logging
import os
import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafkalog.errors import NotALogError
from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.partition import Partition, Wanted
from kafkalog.storage.data_dir import discover as data_dir
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.remote_path import RemotePath, is_remote, to_path

_log = logging.getLogger(__name__)
# How many topics a message names.
_NAMED = 10


def discover(options: ReadOptions) -> list[Partition]:
    """The partitions that the paths lead to and the options ask for, replicas once, by topic and number.

    No other partition's directory is opened, whatever is wrong with it. FileNotFoundError: a path, or what a glob
    should match, is not there. NotALogError: it holds no log. ValueError: a topic or partition that is asked for is not
    there, or there is no such kind of store. OSError: one that is asked for cannot be listed. ImportError: what a store
    needs is missing.
    """
    found: dict[TopicPartition, Partition] = {}
    seen: set[str] = set()
    there: set[TopicPartition] = set()

    def wanted(partition: TopicPartition) -> bool:
        there.add(partition)
        return options.topics.wanted(partition)

    for source in _sources(options, wanted):
        # A directory may be named twice, or by a link: it is no replica of itself.
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
    """What topics there are, as the end of a sentence."""
    names = sorted({each.topic for each in partitions})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"are the topics {', '.join(names[:_NAMED])}{more}" if names else "are no topics"


def _better(one: Partition, other: Partition) -> Partition:
    """The replica to read."""

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
    """Of what a glob matches, the logs: the rest was not meant, nor what is being deleted or moved here."""
    if isinstance(pattern, RemotePath):
        matches: list[Path] = [*pattern.matches()]
    else:
        matches = [Path(each) for each in sorted(glob.glob(str(pattern), recursive=True))]  # noqa: PTH207 - absolute
    if not matches:
        raise FileNotFoundError(f"option path: nothing matches {option!r}")
    found: dict[Path, DataDir | PartitionDir | LogFile] = {}
    refused: list[_Refused] = []
    for each in matches:
        try:
            if isinstance(each, RemotePath) or each.is_dir():
                found[each] = data_dir.discover(each)
        except NotALogError:
            continue
        except OSError as error:
            refused.append(_Refused(str(each), data_dir.partition_dir(each).topic_partition, error))
    found = {each: there for each, there in found.items() if not isinstance(there, LogFile)}
    _ensure_not_wanted(refused, [str(each) for each, there in found.items() if isinstance(there, PartitionDir)], wanted)
    if not found:
        what = "a partition directory, <topic>-<number>, or one that holds some is needed; none of what matches is one"
        raise NotALogError(what, option)
    for each, there in found.items():
        if not (isinstance(there, PartitionDir) and there.mark is not None):
            yield from _partitions(there, each, wanted)


def _partitions(found: DataDir | PartitionDir | LogFile, path: Path, wanted: Wanted) -> Iterator[Partition]:
    if isinstance(found, DataDir):
        for each in found.partitions:
            # What is being deleted or moved here is none of the log.
            if each.mark is None and each.topic_partition is not None and wanted(each.topic_partition):
                yield Partition(each.path.absolute(), each.topic_partition)
    elif isinstance(found, PartitionDir) and found.topic_partition is not None:
        if wanted(found.topic_partition):
            yield Partition(found.path.absolute(), found.topic_partition)
    else:
        raise NotALogError("a partition directory, <topic>-<number>, or one that holds some is needed", str(path))


class _Refused(NamedTuple):
    """A directory that a glob matches and that cannot be listed, the partition that its name tells, and why."""

    path: str
    topic_partition: TopicPartition | None
    error: OSError


def _ensure_not_wanted(refused: Iterable[_Refused], partitions: Iterable[str], wanted: Wanted) -> None:
    """Raise the error of a directory that may hold what is asked for. partitions: the directories that could be listed.

    A data directory may be named kafka-1, as a partition would be: one that cannot be listed is taken for a partition
    only beside others.
    """
    above = {posixpath.dirname(each) for each in partitions}
    for path, partition, error in refused:
        if partition is None or wanted(partition) or posixpath.dirname(path) not in above:
            raise error
