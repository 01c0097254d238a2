"""The partitions of a data directory: their names at once, then a row each, then what takes longer.

names      orders-0 | orders-1 | ...             a listing of the directory
rows       segments, bytes, offsets, times       sizes, checkpoints, the end of the active segment
later      last stable offsets                   where the log behind the newest snapshot has to be read
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.errors import KafkaLogError
from kafkalog.storage.data_dir.discover import LogFile, PartitionDir

from .types import TopicRow

if TYPE_CHECKING:
    from kafkalog import Log
    from kafkalog.scan.status import DirectoryStatus, PartitionStatus

# Segments that are no longer than this are read for their last time where the time index has no entry.
SHORT_BYTES = 1 << 20
# A row is read again after so long, also if its files have not changed: transactions begin to hang by the clock.
TRUSTED_SECONDS = 60
RATES_KEPT = 8


@dataclass(frozen=True)
class Source:
    """A partition directory, or a segment file by itself.

    Attributes:
        name: The name of its row.
        place: What it is.
        directory: Returns the state of the data directory that it is in.
    """

    name: str
    place: PartitionDir | LogFile
    directory: Callable[[], DirectoryStatus]

    @property
    def path(self) -> Path:
        """The path of the directory or the file."""
        return self.place.path


class _State(NamedTuple):
    """What of a partition's files tells that they have changed. active: the path of its active segment."""

    directory: int
    active: Path | None
    size: int
    changed: int
    checkpoints: object


class _Look(NamedTuple):
    """A row, when it was read, and the state of the files before."""

    row: TopicRow
    at: float
    state: _State


class Topics:
    """The rows of all partitions; remembers the ends, which tell the rate of growth."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}
        self._ends: dict[str, tuple[float, int]] = {}
        self._rates: dict[str, tuple[float, ...]] = {}
        # The problem of partitions where a transaction hung when it was last looked for.
        self._hanging: dict[str, str] = {}

    def rows(self, sources: list[Source], wanted: Sequence[str] = ()) -> Iterator[TopicRow]:
        """Yield each partition's name, then its quick status, then for some the last stable offset too.

        Args:
            sources: The partitions.
            wanted: The names of partitions that are read first; it may be changed between two rows.
        """
        names = [named(source) for source in sources]
        yield from names
        later: list[tuple[TopicRow, Source, _State | None]] = []
        waiting = {row.name: (row, source) for row, source in zip(names, sources, strict=True)}
        while waiting:
            row, source = waiting.pop(next((name for name in wanted if name in waiting), next(iter(waiting))))
            state = self._state(source)
            look = self._looks.get(row.name)
            if look is not None and look.state == state and time.monotonic() - look.at < TRUSTED_SECONDS:
                end = look.row.log_end
                yield look.row if end is None else replace(look.row, rates=self._rates_at(row.name, end))
                continue
            filled = self._looked_at(row, source, quick=True)
            if filled.last_stable is None and filled.health != "unreadable" and isinstance(source.place, PartitionDir):
                later.append((filled, source, state))
                hanging = self._hanging.get(row.name)
                if hanging is not None and filled.problem is None:
                    filled = replace(filled, health="hanging transaction", problem=hanging)
            else:
                self._remember(filled, state)
            yield filled
        for row, source, state in later:
            filled = self._looked_at(row, source, quick=False)
            self._remember(filled, state)
            yield filled

    def _state(self, source: Source) -> _State | None:
        """Return the state of a partition's files; None if it is not known."""
        place = source.place
        if isinstance(place, LogFile):
            return None
        look = self._looks.get(source.name)
        try:
            directory = place.path.stat().st_ctime_ns
            if look is not None and look.state.directory == directory:
                active = look.state.active
            else:
                active = max(place.path.glob("*.log"), default=None)
            status = None if active is None else active.stat()
        except OSError:
            return None
        known = source.directory()
        checkpoints = (*known.checkpointed(place), bool(known.problems))
        size, changed = (0, 0) if status is None else (status.st_size, status.st_ctime_ns)
        return _State(directory, active, size, changed, checkpoints)

    def _remember(self, row: TopicRow, state: _State | None) -> None:
        """Remember a row until the files change."""
        self._looks.pop(row.name, None)
        if state is not None and row.health != "unreadable":
            self._looks[row.name] = _Look(row, time.monotonic(), state)

    def _looked_at(self, row: TopicRow, source: Source, *, quick: bool) -> TopicRow:
        # It takes longer to import than partitions take to list.
        from kafkalog.scan.status import CONFIG, Health
        from kafkalog.storage.read_only_log import ReadOnlyLog

        place = source.place
        try:
            if isinstance(place, LogFile):
                return replace(row, filled=True, segments=1, bytes=place.path.stat().st_size)
            with ReadOnlyLog(place.path, config=CONFIG) as log:
                status = source.directory().status_of_log(place, log, quick=quick)
                last = _last_timestamp(log) if quick else row.last_timestamp
        except (OSError, KafkaLogError, ValueError) as error:
            return replace(row, filled=True, health="unreadable", problem=str(error))
        if not quick and status.health is Health.HANGING:
            self._hanging[row.name] = status.problem or ""
        elif not quick:
            self._hanging.pop(row.name, None)
        return self._filled(replace(row, last_timestamp=last), source, status)

    def _filled(self, row: TopicRow, source: Source, status: PartitionStatus) -> TopicRow:
        start, end = status.log_start_offset or 0, status.log_end_offset
        row = replace(
            row, filled=True, segments=status.segments, bytes=status.size_in_bytes, log_start=start,
            health="unchecked" if status.problem is None else status.health.value, problem=status.problem,
        )  # fmt: skip
        if end is None:
            return row
        end = max(start, end)
        watermark = end if status.high_watermark is None else status.high_watermark
        is_known = not source.directory().problems
        return replace(
            row,
            records=0 if end == start else None,
            offsets=end - start,
            high_watermark=watermark if is_known else None,
            last_stable=status.last_stable_offset if is_known else None,
            log_end=end,
            rates=self._rates_at(row.name, end) if row.log_end is None else row.rates,
        )

    def _rates_at(self, name: str, end: int) -> tuple[float, ...]:
        """Return the rates of a partition, the newest last, after it was found to end at an offset."""
        now, rates = time.monotonic(), self._rates.get(name, ())
        before = self._ends.get(name)
        self._ends[name] = now, end
        if before is not None and now > before[0]:
            rates = self._rates[name] = (*rates, (end - before[1]) / (now - before[0]))[-RATES_KEPT:]
        return rates


def named(source: Source) -> TopicRow:
    """Return the row that the name of the directory tells."""
    place = source.place
    partition = place.topic_partition
    topic, number = (partition.topic, partition.partition) if partition is not None else (source.name, -1)
    mark = place.mark if isinstance(place, PartitionDir) else None
    return TopicRow(source.name, source.path, topic, number, mark, topic.startswith("__"))


def _last_timestamp(log: Log) -> int | None:
    """Return the largest timestamp of the newest segment that has batches, if the time index leads near it."""
    for segment in reversed(log.segments[-2:]):
        if segment.size_in_bytes and (segment.time_index.entries or segment.size_in_bytes < SHORT_BYTES):
            with suppress(KafkaLogError):
                return segment.largest_record_timestamp
    return None
