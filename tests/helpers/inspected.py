"""Segments to look into, and a reader that has read them through."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.model import BatchRow, RecordRow, SegmentReader
from tests.helpers.golden import Partition, Segment, checked_partitions

DEADLINE_SECONDS = 300


def with_every_segment(test: Callable[[Segment], None]) -> Callable[[Partition], None]:
    """The test done with each segment that brokers wrote; a case a partition."""

    @pytest.mark.parametrize("partition", checked_partitions(), ids=lambda partition: partition.id)
    def with_all(partition: Partition) -> None:
        for segment in partition.segments:
            test(segment)

    with_all.__name__ = test.__name__
    return with_all


def golden_segment(name: str) -> Segment:
    return next(each for partition in checked_partitions() for each in partition.segments if each.id == name)


def segment_file(directory: Path, data: bytes, base_offset: int = 0) -> Path:
    path = directory / f"{base_offset:020d}.log"
    directory.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def read_through(reader: SegmentReader, **step: int) -> SegmentReader:
    until = time.monotonic() + DEADLINE_SECONDS
    while not reader.index_more(**step).is_done:
        assert time.monotonic() < until
    return reader


def reader_of(path: Path, base_offset: int | None = None, **step: int) -> SegmentReader:
    base = int(path.stem) if base_offset is None and path.stem.isdecimal() else base_offset
    return read_through(SegmentReader(path, base), **step)


def all_batches(reader: SegmentReader) -> list[BatchRow]:
    return reader.batch_rows(0, reader.batches)


def all_records(reader: SegmentReader) -> list[RecordRow]:
    return reader.record_rows(0, reader.records)
