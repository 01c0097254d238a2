"""Micro-batches over live directories, with rolls, retention, truncation, and partitions created and deleted meanwhile.

    {"orders": {"0": 23, "1": 0}, "payments": {"0": 7}}         the next offset of each partition, in sorted order
    {..., "/first": {"orders": {"0": 0, "1": 0}}}               the end of the first micro-batch, with its start

Spark stores offsets as JSON and compares them as text. It does not store the start of the first micro-batch: repeated
after a crash, that batch would begin at the "latest" offset of that time and skip the records before it. Therefore its
end offset contains its start, as "/first", which is no valid name of a topic.

A new partition is read from its start. The query fails if retention or truncation deletes offsets before they were
read, or if a partition is deleted; failOnDataLoss=false skips them with a warning.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from kafkalog.scan.records import LeftOut
from kafkalog.spark.read.corrupt_report import log_left_out, read_reports
from kafkalog.spark.read.offset_ranges import earliest_offsets, latest_offsets, report_loss, starting_offsets
from kafkalog.spark.read.options import ReadOptions
from kafkalog.spark.read.partition import Partition
from kafkalog.spark.read.planner import plan_splits, with_partitions
from kafkalog.spark.read.split import AnySplit
from kafkalog.spark.read.split_reader import read_split
from kafkalog.spark.schema import Column
from kafkalog.storage.file_names import TopicPartition

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # Spark 4.0 and 4.1 have no read limits.
    ReadAllAvailable = ReadMaxRows = None  # type: ignore[misc,assignment]

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stand-in for the class of Spark 4.2 and later."""


if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
_FIRST = "/first"
# The most characters of invalid offsets that an error shows.
_SHOWN = 1000

Offsets: TypeAlias = dict[TopicPartition, int]
Json: TypeAlias = dict[str, Any]
Result = TypeVar("Result")


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads micro-batches. Runs in one Python process of the driver; executors call `read` on a copy."""

    def __init__(self, options: ReadOptions, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._columns = columns
        self._initial: Json | None = None
        self._latest: Json | None = None
        self._target: Offsets | None = None
        self._counted: set[str] = set()
        if options.max_offsets_per_trigger is not None and ReadMaxRows is None:
            _log.warning("maxOffsetsPerTrigger has no effect before Spark 4.2")

    # --- offsets

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the first offset of each partition for a new query: what startingOffsets means at this moment.

        Raises:
            ValueError, OSError, KafkaLogError: As `discover` and `starting_offsets`.
        """
        self._initial = _to_json(with_partitions(self._options, partial(starting_offsets, self._options)))
        return self._initial

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name
        """Return the most offsets of a micro-batch."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Json | None = None, limit: Any = None) -> Json:  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch. Spark 4.0 and 4.1 pass neither argument.

        Raises:
            OffsetOutOfRangeError: Unread offsets are lost, and failOnDataLoss is true.
        """

        def latest(sources: list[Partition]) -> Json:
            ends = latest_offsets(self._options, sources) if self._target is None else self._target
            return self._same_or(_to_json(ends)) if start is None else self._after(start, ends, limit, sources)

        self._log_left_out()
        self._latest = with_partitions(self._options, latest)
        return self._latest

    def _log_left_out(self) -> None:
        """Log what the tasks of the previous micro-batch left out. Spark may not call `commit` after the last one."""
        directory = self._options.corrupt_report
        if directory is not None and (left_out := read_reports(directory, self._counted)) != LeftOut():
            log_left_out(str(directory), left_out)

    def _same_or(self, latest: Json) -> Json:
        """Return the previous JSON if its offsets are the same: Spark takes another text for new data."""
        for known in (self._latest, self._initial):
            if known is not None and _from_json(known) == _from_json(latest):
                return known
        return latest

    def _after(self, start: Json, ends: Offsets, limit: Any, sources: list[Partition]) -> Json:
        """Return the end of a micro-batch that begins at `start`, within `limit`."""
        begin = _from_json(start)
        ends = self._not_before(begin, ends, sources)
        if limit is not None and ReadMaxRows is not None and isinstance(limit, ReadMaxRows):
            ends = limited({**earliest_offsets(sources), **begin}, ends, limit.max_rows)
        if ends == begin:
            return start
        return {**_to_json(ends), _FIRST: start} if start == self._initial else _to_json(ends)

    def _not_before(self, begin: Offsets, ends: Offsets, sources: list[Partition]) -> Offsets:
        """Return the ends, each at least the offset read so far unless the log was truncated below it."""
        logs = {each.topic_partition: each for each in sources}
        found = dict(ends)
        for partition, offset in begin.items():
            source = logs.get(partition)
            if source is None:
                self._report_deleted(partition, offset)
                found[partition] = offset
            elif source.log_end.offset < offset:
                what = f"{partition}: offsets {source.log_end.offset}..{offset - 1} are truncated"
                report_loss(what, source, self._options)
                found[partition] = source.log_end.offset
            else:
                found[partition] = max(offset, ends.get(partition, offset))
        return found

    def _report_deleted(self, partition: TopicPartition, offset: int) -> None:
        report_loss(f"{partition} was deleted; it had been read up to offset {offset}", None, self._options)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Set the current log ends as the end of this run of the query."""
        self._target = with_partitions(self._options, partial(latest_offsets, self._options))

    def reportLatestOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Return the current log ends, for the progress of the query."""
        return _to_json(with_partitions(self._options, partial(latest_offsets, self._options)))

    # --- reading

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Plan the tasks of a micro-batch.

        Raises:
            OffsetOutOfRangeError: As `latestOffset`, for offsets lost since.
        """
        if start == end:
            return []
        splits = with_partitions(self._options, partial(self._splits, start, end))
        return [InputPartition(split) for split in splits]

    def _splits(self, start: Json, end: Json, sources: list[Partition]) -> list[AnySplit]:
        """Plan the splits of a micro-batch, whose start may be stored in its end."""
        stop = _from_json(end)
        begin = _from_json(end.get(_FIRST, start))
        for partition in sorted(begin.keys() - stop.keys()):
            self._report_deleted(partition, begin[partition])
        starts = {**earliest_offsets(sources), **begin}
        ranges = {partition: (starts.get(partition, 0), offset) for partition, offset in stop.items()}
        return plan_splits(self._options, ranges, sources)

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        """Yield the rows of one task. Raise errors as `read_split`."""
        return read_split(getattr(partition, "value", None), self._columns, self._options)


class RefusedStreamReader(DataSourceStreamReader):
    """Raises an error from every method. If `streamReader` raised it, Spark would replace it by another error."""

    def __init__(self, error: ValueError) -> None:
        self._error = error

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def latestOffset(self) -> Json:  # type: ignore[override, unused-ignore]  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:  # noqa: ARG002 - unused by intent
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition | None) -> "Iterator[pa.RecordBatch]":  # noqa: ARG002 - unused by intent
        """Raise the error."""
        raise self._error


def limited(begin: Offsets, ends: Offsets, most: int) -> Offsets:
    """Return ends that limit a micro-batch to `most` offsets, shared among partitions in proportion to their size.

    Args:
        begin: The first offset of each partition.
        ends: The offset after the last of each partition, without a limit.
        most: The most offsets of all partitions together.
    """
    sizes = {partition: max(0, end - begin.get(partition, 0)) for partition, end in ends.items()}
    total = sum(sizes.values())
    if total <= most:
        return ends
    found: Offsets = {}
    done = given = 0
    # Shares are differences of rounded running sums, so that together they are exactly `most`.
    for partition, end in sorted(ends.items()):
        done += sizes[partition]
        share = most * done // total - given
        given += share
        found[partition] = begin.get(partition, 0) + share if sizes[partition] else end
    return found


def _to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """Return the offsets as JSON for Spark, sorted by partition."""
    found: Json = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found


def _from_json(offsets: object) -> Offsets:
    """Return the offsets in a checkpoint's JSON.

    Raises:
        ValueError: They are invalid, for example because the checkpoint was edited.
    """
    found: Offsets = {}
    for topic, numbers in _object(offsets, offsets).items():
        if topic == _FIRST:
            continue
        for number, offset in _object(numbers, offsets).items():
            if not number.isdecimal() or number != str(int(number)) or type(offset) is not int or offset < 0:
                raise _no_offsets(offsets)
            found[TopicPartition(topic, int(number))] = offset
    return found


def _object(found: object, offsets: object) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise _no_offsets(offsets)
    return found


def _no_offsets(offsets: object) -> ValueError:
    what = 'invalid offsets in the checkpoint, expected such as {"orders": {"0": 23}}'
    return ValueError(f"{what}: {json.dumps(offsets)[:_SHOWN]}")
