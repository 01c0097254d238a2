"""Checks of the files that hold the state of a partition: leader epochs and `partition.metadata`."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, KafkaLogError
from kafkalog.fsck.cluster_metadata import ClusterMetadata
from kafkalog.fsck.findings import Finding, unreadable
from kafkalog.fsck.layout_checks import Names
from kafkalog.fsck.log_history import LogHistory
from kafkalog.storage.checkpoint.checkpoint_file import EpochEntry, read_leader_epoch_checkpoint
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata
from kafkalog.storage.file_names import (
    CLUSTER_METADATA_TOPIC,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
    segment_base_offset,
)

# A finding names at most so many leader epochs.
_MOST_NAMED = 10


def of_error(code: str, path: Path, error: KafkaLogError) -> Finding:
    """Return the finding about a file that a reader of the library refuses."""
    expected, found = (
        value if value is None or isinstance(value, (int, str)) else str(value)
        for value in (error.expected, error.found)
    )
    return Finding(code, str(path), error.message, error.position, expected=expected, found=found)


def epoch_findings(
    directory: Path, history: LogHistory, names: Names, *, expected: bool, log_start: int | None
) -> Iterator[Finding]:
    """Yield the findings about the leader epochs of a partition, after its segments were walked.

    Args:
        directory: The partition.
        history: Its segments.
        names: The content of the directory.
        expected: Whether missing epochs are a finding.
        log_start: The log start offset, before which epochs are forgotten; None if it may be any.
    """
    yield from _falling(history)
    path = directory / LEADER_EPOCH_CHECKPOINT
    try:
        entries = read_leader_epoch_checkpoint(path)
        cache = LeaderEpochCache(path, writable=False)
    except CorruptCheckpointError as error:
        yield of_error("leader-epoch-format", path, error)
        return
    except OSError as error:
        yield unreadable(path, error)
        return
    known = cache.entries
    if entries != list(known) and entries == read_leader_epoch_checkpoint(path):
        message = "epochs or their start offsets do not rise: a broker drops entries"
        yield Finding("leader-epoch-order", str(path), message, expected=_text(known), found=_text(entries))
    end = history.log_end
    if end is not None and known and known[-1].start_offset > end:
        # A broker may have appended after the walk, and deleted what was walked.
        end = _end_now(directory, end)
    if end is not None and known and known[-1].start_offset > end:
        last = known[-1]
        yield Finding("leader-epoch-beyond-end", str(path), f"epoch {last.epoch} begins beyond the log's end",
                      expected=f"at most {end}", found=last.start_offset)  # fmt: skip
    # A log start beyond the end is another finding.
    if known and log_start is not None and (end is None or log_start <= end):
        yield from _before_log_start(path, known[0].start_offset, history.first_base, names, log_start)
    if not known:
        if history.epochs and expected:
            yield Finding("leader-epoch-missing", str(path), "no epochs, though batches have some")
        return
    yield from _differing(path, known, history, log_start)


def _falling(history: LogHistory) -> Iterator[Finding]:
    """Yield the findings about segments that begin with a lower leader epoch than the segment before ends with."""
    for before, batches in pairwise(history.epochs):
        if batches.path != before.path and batches.epoch < before.epoch:
            message = "the leader epoch is lower than that of the segment before"
            yield Finding("leader-epoch", str(batches.path), message, batches.position, first_offset=batches.first,
                          expected=f"at least {before.epoch}", found=batches.epoch)  # fmt: skip


def _before_log_start(path: Path, begin: int, first_base: int, names: Names, log_start: int) -> Iterator[Finding]:
    """Yield the finding about leader epochs that begin before the log start: they are forgotten when it moves."""
    # Retention renames segments before it forgets their epochs.
    code, start = "first-segment-missing", min([first_base, *(each for each in _deleted_bases(names) if each <= begin)])
    if log_start > first_base:
        code, start = "log-start-unlike-epochs", log_start
    if begin < start:
        message = "the leader epochs begin before the log start"
        message += ": retention has not deleted these records, or was interrupted"
        yield Finding(code, str(path), message, None, None, begin, start - 1, start, begin)


def _deleted_bases(names: Names) -> Iterator[int]:
    """Yield the base offsets of segments that were renamed to be deleted."""
    for name in names.files:
        if (
            name.endswith(DELETED_SUFFIX)
            and (base := segment_base_offset(name.removesuffix(DELETED_SUFFIX))) is not None
        ):
            yield base


def _end_now(directory: Path, walked: int) -> int:
    """Return the present log end, if it is after the end that a walk has found."""
    from kafkalog.storage.read_only_log import ReadOnlyLog

    with suppress(KafkaLogError, OSError), ReadOnlyLog(directory, from_first_segment=True) as log:
        return max(walked, log.log_end_offset)
    return walked


def _text(entries: Sequence[EpochEntry]) -> str:
    named = ", ".join(f"{epoch} from {start_offset}" for epoch, start_offset in entries[:_MOST_NAMED])
    return named + (", ..." if len(entries) > _MOST_NAMED else "")


def _differing(
    path: Path, known: tuple[EpochEntry, ...], history: LogHistory, log_start: int | None
) -> Iterator[Finding]:
    """Yield a finding about the first batch whose epoch is not the one of the checkpoint.

    An epoch lower than one before it is another finding: recovery keeps the higher one for its offsets.
    """
    starts = [entry.start_offset for entry in known]
    highest = accumulate((batches.epoch for batches in history.epochs), max)
    for batches in (each for each, most in zip(history.epochs, highest, strict=True) if each.epoch == most):
        for offset in (batches.first, batches.last):
            at = bisect_right(starts, offset)
            epoch = known[at - 1].epoch if at else None
            forgotten = epoch is None and (log_start is None or offset < log_start)
            if epoch != batches.epoch and not forgotten:
                what = "no epoch begins at or before" if epoch is None else "another epoch has"
                place = f"{batches.path.name}, position {batches.position}"
                message = f"{what} offset {offset}, whose batches have epoch {batches.epoch} from {place} on"
                yield Finding("leader-epoch-differs", str(path), message, first_offset=offset,
                              expected=batches.epoch, found="none" if epoch is None else epoch)  # fmt: skip
                return


def metadata_findings(
    partitions: Mapping[Path, TopicPartition | None],
    cluster: ClusterMetadata | None = None,
    node: int | None = None,
    *,
    kraft: bool = False,
    written: Mapping[Path, str] | None = None,
) -> dict[Path, Finding]:
    """Return for each directory of a data directory the finding about its `partition.metadata`, if there is one.

    Args:
        partitions: The directories of partitions that a broker serves.
        cluster: What the cluster's metadata say; without them, the partitions are compared with each other.
        node: The broker; None if it is unknown.
        kraft: Whether it is known that a broker of KRaft serves them, which needs the file.
        written: The topic ids that are taken instead of the file's, by directory.
    """
    found: dict[Path, Finding] = {}
    ids = dict(written or {})
    for directory in (each for each in partitions if each not in (written or {})):
        path = directory / PARTITION_METADATA
        try:
            metadata = read_partition_metadata(path)
        except CorruptCheckpointError as error:
            found[directory] = of_error("partition-metadata-format", path, error)
        except OSError as error:
            found[directory] = unreadable(path, error)
        else:
            if metadata is not None:
                ids[directory] = metadata.topic_id
    for directory in partitions.keys() - ids.keys() - found.keys() if ids or kraft else ():
        if holds_metadata(partitions[directory]):
            # A broker writes it anew.
            continue
        reason = "a broker of KRaft needs it" if kraft else "other partitions have one"
        path, message = directory / PARTITION_METADATA, f"the file with the topic id is missing: {reason}"
        found[directory] = Finding("partition-metadata-missing", str(path), message)
    others = _other_ids(partitions, ids) if cluster is None else _unlike_cluster(partitions, ids, cluster, node)
    return {**found, **others}


def holds_metadata(partition: TopicPartition | None) -> bool:
    """Return whether a partition is that of the cluster's metadata."""
    return partition is not None and partition.topic == CLUSTER_METADATA_TOPIC


def _unlike_cluster(
    partitions: Mapping[Path, TopicPartition | None], ids: dict[Path, str], cluster: ClusterMetadata, node: int | None
) -> dict[Path, Finding]:
    """Return the findings about partitions that the cluster does not have, or not on this broker."""
    found = {}
    for directory, topic_id in ids.items():
        partition = partitions[directory]
        if partition is not None and not holds_metadata(partition):
            finding = _of_cluster(directory, partition, topic_id, cluster, node)
            if finding is not None:
                found[directory] = finding
    return found


def _of_cluster(
    directory: Path, partition: TopicPartition, topic_id: str, cluster: ClusterMetadata, node: int | None
) -> Finding | None:
    """Return the finding about one partition. As a broker does, look for its topic by the topic id."""
    path, topic = str(directory / PARTITION_METADATA), partition.topic
    replicas = cluster.partitions.get(topic_id, {}).get(partition.partition)
    if topic_id not in cluster.names:
        if topic not in cluster.topic_ids:
            return Finding("topic-gone", path, f"the cluster has no topic {topic}", found=topic_id)
        message = "the topic id is not the one that the cluster has for the topic: it was deleted and created again, "
        return Finding("topic-id-differs", path, f"{message}or the file is wrong",
                       expected=cluster.topic_ids[topic], found=topic_id)  # fmt: skip
    own, differs = cluster.topic_ids.get(topic), None
    if own != topic_id:
        message = f"the topic id is that of another topic, {cluster.names[topic_id]}"
        differs = Finding("topic-name-differs", path, message, expected=own, found=topic_id,
                          situation="" if own is None else "known")  # fmt: skip
        if own is not None:
            return differs
    if replicas is None:
        message = f"the topic of this id has no partition {partition.partition}"
        return Finding("replica-not-assigned", path, message, found=topic_id)
    if node is not None and node not in replicas.nodes:
        nodes = ", ".join(map(str, replicas.nodes))
        return Finding("replica-not-assigned", path, "the partition has no replica on this broker", None, None,
                       expected=f"replicas on {nodes}", found=node)  # fmt: skip
    return differs


def _other_ids(partitions: Mapping[Path, TopicPartition | None], ids: dict[Path, str]) -> dict[Path, Finding]:
    """Return the findings about partitions whose topic id is not the one that most partitions of their topic have."""
    by_topic: dict[str, Counter[str]] = {}
    topics = {directory: partition.topic for directory in ids if (partition := partitions[directory]) is not None}
    for directory, topic in topics.items():
        by_topic.setdefault(topic, Counter())[ids[directory]] += 1
    found = {}
    for directory, topic in topics.items():
        usual, _ = by_topic[topic].most_common(1)[0]
        if ids[directory] != usual:
            path, message = directory / PARTITION_METADATA, "the topic id is not that of the topic's other partitions"
            found[directory] = Finding("topic-id-differs", str(path), message, expected=usual, found=ids[directory])
    return found
