"""Batches and markers of producers, and a log that appends them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from kafkalog import AppendOrigin, ByteBufferMessageSet
from kafkalog.record.record_batch import RecordBatch
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_entry import CompletedTxn, ProducerStateEntry
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager
from tests.reference.encode import CONTROL, TRANSACTIONAL, PlainRecord, V2Batch, records

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
CLIENT, COORDINATOR, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR, AppendOrigin.REPLICATION
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def the_batch(encodable: V2Batch) -> RecordBatch:
    return next(ByteBufferMessageSet(encodable.encoded()).batches())


def data_batch(
    producer_id: int,
    epoch: int,
    sequence: int,
    offset: int,
    *,
    count: int = 1,
    transactional: bool = False,
    **more: Any,
) -> RecordBatch:
    fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, "max_timestamp": NOW}
    values = records(*[b"value"] * count, offset=offset, timestamp=NOW)
    return the_batch(V2Batch(values, flags=TRANSACTIONAL if transactional else 0, **(fields | more)))


def marker_batch(
    producer_id: int,
    epoch: int,
    offset: int,
    *,
    kind: bytes = COMMIT,
    coordinator_epoch: int = 0,
    timestamp: int = NOW,
    **more: Any,
) -> RecordBatch:
    record = PlainRecord(offset, timestamp, kind, struct.pack(">hi", 0, coordinator_epoch))
    flags = TRANSACTIONAL | CONTROL
    return the_batch(V2Batch([record], flags=flags, producer_id=producer_id, producer_epoch=epoch, **more))


class Producers:
    """A producer state manager and a log that appends to it, by default at its end."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.directory = directory
        self.manager = ProducerStateManager(directory, "topic-0", **settings)

    def append(
        self, batch: RecordBatch, origin: AppendOrigin = CLIENT, version: int = 0, position: int = -1
    ) -> CompletedTxn | None:
        """Check and apply one batch and complete its transaction, as a log does at each append."""
        base = -1 if position < 0 else 0
        place = LogOffsetMetadata(batch.base_offset, base, position) if batch.is_transactional else None
        info = self.manager.prepare_update(batch.producer_id, origin)
        completed = info.append(batch, place, version)
        self.manager.update(info)
        if completed is not None:
            self.manager.complete_txn(completed)
        self.manager.update_map_end_offset(batch.next_offset)
        return completed

    def data(self, producer_id: int, epoch: int, sequence: int, offset: int | None = None, **more: Any) -> None:
        origin = more.pop("origin", CLIENT)
        at = self.manager.map_end_offset if offset is None else offset
        self.append(data_batch(producer_id, epoch, sequence, at, **more), origin)

    def marker(self, producer_id: int, epoch: int, offset: int | None = None, **more: Any) -> CompletedTxn | None:
        origin, version = more.pop("origin", COORDINATOR), more.pop("version", 0)
        at = self.manager.map_end_offset if offset is None else offset
        return self.append(marker_batch(producer_id, epoch, at, **more), origin, version)

    def entry(self, producer_id: int) -> ProducerStateEntry:
        entry = self.manager.last_entry(producer_id)
        assert entry is not None
        return entry

    def reopened(self, log_start_offset: int, log_end_offset: int, *, now: int = NOW, **settings: Any) -> Producers:
        """Return another that has loaded this one's directory."""
        other = Producers(self.directory, **settings)
        other.manager.truncate_and_reload(log_start_offset, log_end_offset, now)
        return other

    @property
    def unstable(self) -> int | None:
        first = self.manager.first_unstable_offset
        return first and first.message_offset

    @property
    def snapshots(self) -> list[int]:
        return sorted(int(path.name.split(".")[0]) for path in self.directory.glob("*.snapshot"))
