"""Segments to look into, and a reader that has read them through."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kafkalog.inspector.model.segment import SegmentReader
from kafkalog.inspector.model.types import BatchRow, RecordRow
from kafkalog.scan.progress import Progress
from tests.helpers.golden import Partition, Segment, checked_partitions
from tests.helpers.partitions import sampled_partition

DEADLINE_SECONDS = 300


def with_every_segment(test: Callable[[Segment], None]) -> Callable[[Partition], None]:
    """Run the test with each segment that brokers wrote; one case for each partition, most of them slow."""

    @sampled_partition
    def with_all(partition: Partition) -> None:
        for segment in partition.segments:
            test(segment)

    with_all.__name__ = test.__name__
    return with_all


def spread(count: int, most: int = 50) -> list[int]:
    """At most `most` of the numbers below `count`, evenly spaced, the first and the last among them."""
    return sorted({i * (count - 1) // max(1, min(count, most) - 1) for i in range(min(count, most))})


def golden_segment(name: str) -> Segment:
    return next(each for partition in checked_partitions() for each in partition.segments if each.id == name)


def segment_file(directory: Path, data: bytes, base_offset: int = 0) -> Path:
    path = directory / f"{base_offset:020d}.log"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def all_steps(step: Callable[[], Progress]) -> list[Progress]:
    """Call `step` until it is done; return the progress that each call reported."""
    until, progress = time.monotonic() + DEADLINE_SECONDS, [step()]
    while not progress[-1].is_done:
        assert time.monotonic() < until, f"not done after {DEADLINE_SECONDS} s: {progress[-1]}"
        progress.append(step())
    return progress


def read_through(reader: SegmentReader, **step: int) -> SegmentReader:
    all_steps(lambda: reader.index_more(**step))
    return reader


def reader_of(path: Path, base_offset: int | None = None, **step: int) -> SegmentReader:
    base = int(path.stem) if base_offset is None and path.stem.isdecimal() else base_offset
    return read_through(SegmentReader(path, base), **step)


def all_batches(reader: SegmentReader) -> list[BatchRow]:
    return reader.batch_rows(0, reader.batches)


def all_records(reader: SegmentReader) -> list[RecordRow]:
    return reader.record_rows(0, reader.records)
