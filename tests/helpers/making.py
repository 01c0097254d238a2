"""Segments for tests, and batches for them: by default v1 messages of 39 bytes, at ten ms an offset."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

from kafkalog import ByteBufferMessageSet, Record
from kafkalog.record.framing import headers_of
from kafkalog.record.message_set import MessageSet
from kafkalog.storage.fetch_data_info import FetchDataInfo
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.replace_segments import SegmentHome
from tests.helpers.scheduling import ImmediateScheduler

ABORT, COMMIT = 0, 1
SMALL = LogConfig(segment_bytes=1 << 20, index_interval_bytes=10, segment_index_bytes=2000)


class Clock:
    """A clock that a test sets, ms."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def segment(
    directory: Path,
    base: int = 40,
    config: LogConfig = SMALL,
    *,
    clock: Clock | None = None,
    file_already_exists: bool = False,
    suffix: str = "",
) -> LogSegment:
    home = SegmentHome(directory=directory, config=config, scheduler=ImmediateScheduler(), clock=clock or Clock())
    return home.segment(base, file_already_exists=file_already_exists, suffix=suffix)


def batch(
    offset: int, *values: bytes, magic: int = 1, timestamp: int | None = None, **settings: Any
) -> ByteBufferMessageSet:
    at = offset * 10 if timestamp is None else timestamp
    records = [Record(value, timestamp=-1 if magic == 0 else at) for value in values or (b"hello",)]
    return ByteBufferMessageSet.from_records(records, magic=magic, base_offset=offset, **settings)


def marker(
    offset: int,
    kind: int,
    producer_id: int,
    *,
    coordinator_epoch: int = 0,
    timestamp: int | None = None,
    **settings: Any,
) -> ByteBufferMessageSet:
    at = offset * 10 if timestamp is None else timestamp
    record = Record(pack(">hi", 0, coordinator_epoch), pack(">hh", 0, kind), timestamp=at)
    settings = {"producer_epoch": 0, "is_transactional": True, "is_control": True} | settings
    return ByteBufferMessageSet.from_records([record], base_offset=offset, producer_id=producer_id, **settings)


def together(*sets: MessageSet) -> ByteBufferMessageSet:
    data = io.BytesIO()
    for each in sets:
        each.write_to(data)
    return ByteBufferMessageSet(data.getvalue())


def append(to: LogSegment, *sets: ByteBufferMessageSet) -> None:
    for each in sets:
        to.append(each.buffer, headers_of(each.headers()))


def fill(to: LogSegment, offsets: Iterator[int] | range, **options: Any) -> None:
    append(to, *(batch(offset, **options) for offset in offsets))


def offsets(found: FetchDataInfo | None) -> list[int] | None:
    return None if found is None else [record.offset for record in found.message_set]


def producers(directory: Path) -> ProducerStateManager:
    return ProducerStateManager(directory, TopicPartition("t", 0))
