"""Which partitions the paths of a read lead to.

    /backup/orders-0    a partition          /backup, s3://backup    one that holds some
    /backup/*/orders-*  what a glob matches, of which the logs       file:///backup, or a list of any of these

Replicas of a partition are read once: the one with the highest leader epoch, then the longest.
"""

import glob
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kafkalog.errors import NotALogError
from kafkalog.spark.read.local import LocalPartition
from kafkalog.spark.read.options import ReadOptions, path_of_file_url
from kafkalog.spark.read.partition_source import PartitionSource, Refused, Wanted, ensure_not_wanted
from kafkalog.storage.data_dir import discover as data_dir
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir
from kafkalog.storage.file_names import TopicPartition

_log = logging.getLogger(__name__)
# How many topics a message names.
_NAMED = 10


def discover(options: ReadOptions) -> list[PartitionSource]:
    """The partitions that the paths lead to and the options ask for, replicas once, by topic and number.

    No other partition's directory is opened, whatever is wrong with it. FileNotFoundError: a path, or what a glob
    should match, is not there. NotALogError: it holds no log. ValueError: a topic or partition that is asked for is not
    there. OSError: one that is asked for cannot be listed.
    """
    found: dict[TopicPartition, PartitionSource] = {}
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


def _better(one: PartitionSource, other: PartitionSource) -> PartitionSource:
    """The replica to read."""

    def rank(each: PartitionSource) -> tuple[int, int, int]:
        return each.leader_epoch, each.log_end.offset, -each.log_start_offset

    chosen = other if rank(other) > rank(one) else one
    _log.info("%s: of %s and %s the replica in %s is read", one.topic_partition, one.path, other.path, chosen.path)
    return chosen


def _sources(options: ReadOptions, wanted: Wanted) -> Iterator[PartitionSource]:
    for path in options.paths:
        if is_remote(path):
            from kafkalog.spark.read.remote import remote_partitions

            yield from remote_partitions(path, wanted)
            continue
        plain = local_path(path)
        if os.path.lexists(plain) or not glob.has_magic(plain):
            yield from _local_partitions(_discovered(plain), plain, wanted)
        else:
            yield from _matching(path, plain, wanted)


def _discovered(path: str) -> DataDir | PartitionDir | LogFile:
    try:
        return data_dir.discover(path)
    except NotALogError as error:
        below = data_dir.log_below(path)
        if below is None:
            raise
        raise NotALogError(f"{error.message}; {below} has some", path) from None


def is_remote(path: str) -> bool:
    """Whether a path is a URL that leads elsewhere than to this machine's files."""
    return "://" in path and not path.lower().startswith("file:")


def local_path(path: str) -> str:
    """A path, or the path that a file: URL stands for."""
    return path_of_file_url(path) if path.lower().startswith("file:/") else path


def _matching(option: str, pattern: str, wanted: Wanted) -> Iterator[LocalPartition]:
    """Of what a glob matches, the logs: the rest was not meant, nor what is being deleted or moved here."""
    matches = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - an absolute pattern
    if not matches:
        raise FileNotFoundError(f"option path: nothing matches {option!r}")
    found: dict[str, DataDir | PartitionDir | LogFile] = {}
    refused: list[Refused] = []
    for each in filter(os.path.isdir, matches):
        try:
            found[each] = data_dir.discover(each)
        except NotALogError:
            continue
        except OSError as error:
            refused.append(Refused(each, data_dir.partition_dir(Path(each)).topic_partition, error))
    ensure_not_wanted(refused, [each for each, there in found.items() if isinstance(there, PartitionDir)], wanted)
    if not found:
        what = "a partition directory, <topic>-<number>, or one that holds some is needed; none of what matches is one"
        raise NotALogError(what, option)
    for each, there in found.items():
        if not (isinstance(there, PartitionDir) and there.mark is not None):
            yield from _local_partitions(there, each, wanted)


def _local_partitions(found: DataDir | PartitionDir | LogFile, path: str, wanted: Wanted) -> Iterator[LocalPartition]:
    if isinstance(found, DataDir):
        for each in found.partitions:
            # What is being deleted or moved here is none of the log.
            if each.mark is None and each.topic_partition is not None and wanted(each.topic_partition):
                yield LocalPartition(each.path.absolute(), each.topic_partition)
    elif isinstance(found, PartitionDir) and found.topic_partition is not None:
        if wanted(found.topic_partition):
            yield LocalPartition(found.path.absolute(), found.topic_partition)
    else:
        raise NotALogError("a partition directory, <topic>-<number>, or one that holds some is needed", path)
