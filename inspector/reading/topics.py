"""The partitions of a data directory: their names at once, then a row each, then what takes longer.

names      orders-0 | orders-1 | ...             a listing of the directory
rows       segments, bytes, offsets, times       sizes, checkpoints, the end of the active segment
later      last stable offsets                   where the log behind the newest snapshot has to be read
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import kafkalog
from inspector.reading.answers import Mark, TopicRow
from inspector.reading.ends import Checkpoints, Marks, log_end_of
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from kafkalog import Log, LogConfig, TopicPartition

_FAILURES = (OSError, KafkaLogError, ValueError)
# Logs whose active segment is no longer than this have their last stable offset worked out with the rest.
SHORT_BYTES = 1 << 20


@cache
def _config() -> LogConfig:
    """One for all: who only reads needs none, and a thousand of them take time to make."""
    return kafkalog.LogConfig()


@dataclass(frozen=True)
class Source:
    """A partition directory, or a segment file by itself; file_base: its base offset, 0 where its name tells none."""

    name: str
    path: Path
    topic_partition: TopicPartition | None
    checkpoints: Checkpoints
    mark: Mark | None = None
    is_file: bool = False
    file_base: int = 0
    has_base: bool = True

    def segment_path(self, base_offset: int) -> Path:
        """Where the segment of that base offset is."""
        return self.path if self.is_file else self.path / f"{base_offset:020d}.log"

    def marks(self) -> Marks:
        """What the checkpoints say of it: of the partition's own directory, not of one that goes or comes."""
        marks, _ = self.checkpoints.of(self.topic_partition if self.mark is None else None)
        return marks

    def base_of(self, base_offset: int) -> int | None:
        """The base offset that the segment's name tells."""
        return base_offset if self.has_base else None


class Topics:
    """The rows of all partitions; remembers the ends, which tell the rate of growth."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[float, int]] = {}
        # What hung when the last stable offset was last worked out.
        self._hanging: dict[str, str] = {}

    def rows(self, sources: list[Source]) -> Iterator[TopicRow]:
        """Each partition's name, then each with what is in it, then some again with their last stable offset."""
        names = self.named(sources)
        yield from names
        later: list[tuple[TopicRow, Source]] = []
        for row, source in zip(names, sources, strict=True):
            filled = self._filled(row, source)
            if filled.last_stable is None and filled.health != "unreadable" and not source.is_file:
                later.append((filled, source))
                hanging = self._hanging.get(row.name)
                filled = filled if hanging is None else _with_hanging(filled, hanging)
            yield filled
        for row, source in later:
            yield self._with_last_stable(row, source)

    def named(self, sources: list[Source]) -> list[TopicRow]:
        """The rows as their directories' names alone tell."""
        return [_named(source) for source in sources]

    def _filled(self, row: TopicRow, source: Source) -> TopicRow:
        try:
            if source.is_file:
                return replace(row, filled=True, segments=1, bytes=source.path.stat().st_size)
            with kafkalog.open(source.path, config=_config()) as log:
                return self._told(row, source, log)
        except _FAILURES as error:
            return replace(row, filled=True, health="unreadable", problem=str(error))

    def _told(self, row: TopicRow, source: Source, log: Log) -> TopicRow:
        segments, size = log.segments, log.size_in_bytes
        marks = source.marks()
        start = max(segments[0].base_offset if segments else 0, marks.log_start or 0)
        last_timestamp = None
        try:
            end = log_end_of(log)
            damage = marks.damage_of(log, end)
            last_timestamp = _last_timestamp(log)
        except KafkaLogError as error:
            return replace(row, filled=True, segments=len(segments), bytes=size, log_start=start, health="damaged",
                           problem=str(error))  # fmt: skip
        row = replace(
            row,
            filled=True,
            segments=len(segments),
            bytes=size,
            log_start=start,
            last_timestamp=last_timestamp,
            health="ok" if damage is None else "damaged",
            problem=damage,
        )
        return row if end is None else self._with_end(row, marks, end if segments else start)

    def _with_end(self, row: TopicRow, marks: Marks, end: int) -> TopicRow:
        start = row.log_start or 0
        known = end if marks.high_watermark is None else marks.high_watermark
        watermark = None if marks.missing else min(end, max(start, known))
        return replace(
            row,
            # A log start beyond the end hides all records.
            records=0 if end <= start else None,
            offsets=max(0, end - start),
            high_watermark=watermark,
            last_stable=watermark if end <= start else None,
            log_end=end,
            rate=self._rate(row.name, end),
        )

    def _with_last_stable(self, row: TopicRow, source: Source) -> TopicRow:
        try:
            with kafkalog.open(source.path, config=_config()) as log:
                marks = source.marks()
                if row.log_end is None:
                    end = log.log_end_offset
                    row = self._with_end(row, marks, end)
                    damage = marks.damage_of(log, end)
                    row = row if damage is None else replace(row, health="damaged", problem=damage)
                if marks.missing:
                    return row
                row = replace(row, last_stable=log.last_stable_offset)
                return self._with_hanging(row, log)
        except _FAILURES as error:
            return replace(row, health="damaged", problem=str(error))

    def _with_hanging(self, row: TopicRow, log: Log) -> TopicRow:
        """Where consumers of committed records are held back, whether they are for ever."""
        behind = row.last_stable is not None and row.last_stable < (row.high_watermark or 0)
        hanging = None
        if behind:
            # It takes longer to import than partitions take to list.
            from kafkalog.scan.transactions import hanging_in

            hanging = hanging_in(log)
        if hanging is None:
            self._hanging.pop(row.name, None)
            return row
        self._hanging[row.name] = hanging
        return _with_hanging(row, hanging)

    def _rate(self, name: str, end: int) -> float | None:
        now = time.monotonic()
        before = self._ends.get(name)
        self._ends[name] = now, end
        if before is None or now <= before[0]:
            return None
        return (end - before[1]) / (now - before[0])


def _with_hanging(row: TopicRow, hanging: str) -> TopicRow:
    """Damage comes first."""
    return row if row.problem is not None else replace(row, health="hanging transaction", problem=hanging)


def _named(source: Source) -> TopicRow:
    partition = source.topic_partition
    topic, number = (partition.topic, partition.partition) if partition is not None else (source.name, -1)
    return TopicRow(source.name, source.path, topic, number, source.mark, topic.startswith("__"))


def _last_timestamp(log: Log) -> int | None:
    """The largest timestamp of the newest segment that has batches, where the time index leads near it."""
    for segment in reversed(log.segments[-2:]):
        if segment.size_in_bytes and (segment.time_index.entries or segment.size_in_bytes < SHORT_BYTES):
            return segment.largest_record_timestamp
    return None
