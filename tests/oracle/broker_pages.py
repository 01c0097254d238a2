"""What was written to partitions, by whomever, and so what a consumer must find; and kafkalog's own look at a log."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from kafkalog import (
    AppendOrigin,
    ByteBufferMessageSet,
    CompressionType,
    IsolationLevel,
    Log,
    LogAppendInfo,
    Record,
    WritableLog,
)
from tests.oracle.broker import Seen, View

ABORT, COMMIT = 0, 1
SMALLEST_TIME = 0


class Fate(Enum):
    """What becomes of records."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDED = "undecided"


class Ledger:
    """The records of every partition, with their offsets and fates. Markers leave gaps."""

    def __init__(self) -> None:
        self._records: dict[str, list[tuple[Seen, Fate]]] = {}

    def note(self, name: str, offsets: Iterable[int], records: Iterable[Seen], fate: Fate = Fate.COMMITTED) -> None:
        kept = self._records.setdefault(name, [])
        kept.extend((record._replace(offset=offset), fate) for offset, record in zip(offsets, records, strict=True))

    def decide(self, name: str, fate: Fate) -> None:
        """The transactions that were open have ended."""
        self._records[name] = [(seen, fate if was is Fate.UNDECIDED else was) for seen, was in self._records[name]]

    def cut(self, name: str, end: int) -> None:
        """The records from `end` on have been truncated."""
        self._records[name] = [each for each in self._records[name] if each[0].offset < end]

    def forget(self, name: str, start: int) -> None:
        """The records before `start` have been deleted."""
        self._records[name] = [each for each in self._records[name] if each[0].offset >= start]

    def uncommitted(self, name: str) -> list[Seen]:
        """The records for a consumer of all."""
        return [seen for seen, _ in self._records.get(name, [])]

    def committed(self, name: str) -> list[Seen]:
        """The records for a consumer of committed ones: to the first that is undecided, without those aborted."""
        found = []
        for seen, fate in self._records.get(name, []):
            if fate is Fate.UNDECIDED:
                break
            if fate is Fate.COMMITTED:
                found.append(seen)
        return found

    def times(self, name: str) -> list[int]:
        """Times to ask for: before, at, between and after those of records."""
        own = sorted({seen.timestamp for seen in self.uncommitted(name)})
        some = own[:: max(1, len(own) // 6)] + own[-1:]
        return sorted({SMALLEST_TIME, *(time + near for time in some for near in (-1, 0, 1))})


@dataclass
class Producer:
    """An idempotent producer at work."""

    id: int
    epoch: int = 0
    next_sequence: int = 0


class Author:
    """Writes to a log and takes it down."""

    def __init__(self, log: WritableLog, ledger: Ledger) -> None:
        self._log = log
        self._ledger = ledger
        self._name = log.directory.name

    def append(self, records: Sequence[Seen], codec: CompressionType = CompressionType.NONE) -> None:
        """As a program that embeds the log."""
        info = self._log.append(map(written, records), compression_type=codec)
        self._ledger.note(self._name, _offsets(info), records)

    def send(
        self,
        producer: Producer,
        records: Sequence[Seen],
        codec: CompressionType = CompressionType.NONE,
        fate: Fate | None = None,
    ) -> ByteBufferMessageSet:
        """As a leader that is sent a batch; with a fate, in a transaction. Returns the batch, to send it again."""
        batch = ByteBufferMessageSet.from_records(
            map(written, records),
            compression_type=codec,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=producer.next_sequence,
            is_transactional=fate is not None,
        )
        producer.next_sequence += len(records)
        self._ledger.note(self._name, _offsets(self.send_again(batch)), records, fate or Fate.COMMITTED)
        return batch

    def send_again(self, batch: ByteBufferMessageSet) -> LogAppendInfo:
        return self._as_leader(batch, AppendOrigin.CLIENT)

    def end(self, producer: Producer, marker: int, timestamp: int, *, version: int = 1) -> None:
        """As a leader that is sent a marker by a coordinator; version 2 gives the producer a new epoch."""
        if version == 2:
            producer.epoch, producer.next_sequence = producer.epoch + 1, 0
        record = Record(struct.pack(">hi", 0, 0), struct.pack(">hh", 0, marker), timestamp=timestamp)
        batch = ByteBufferMessageSet.from_records(
            [record],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            is_transactional=True,
            is_control=True,
        )
        self._as_leader(batch, AppendOrigin.COORDINATOR, version)

    def _as_leader(self, batch: ByteBufferMessageSet, origin: AppendOrigin, version: int = -1) -> LogAppendInfo:
        epoch = self._log.leader_epochs.latest_epoch or 0
        info = self._log.append_as_leader(batch, epoch, origin, transaction_version=version)
        self._log.update_high_watermark(self._log.log_end_offset)
        return info


def written(seen: Seen) -> Record:
    return Record(seen.value, seen.key, seen.headers, seen.timestamp)


def _offsets(info: LogAppendInfo) -> range:
    return range(info.first_offset, info.last_offset + 1)


def seen(records: Iterable[Record]) -> list[Seen]:
    return [Seen(each.offset, each.timestamp, each.key, each.value, each.headers) for each in records]


def view(log: Log, times: Iterable[int]) -> View:
    """What kafkalog says where a broker is asked by its clients."""
    found = {time: log.offset_for_timestamp(time) for time in times}
    latest = log.offset_for_timestamp(-3)
    return View(
        low=log.log_start_offset,
        stable=log.last_stable_offset,
        end=log.high_watermark,
        uncommitted=seen(log.records(isolation=IsolationLevel.HIGH_WATERMARK)),
        committed=seen(log.records(isolation=IsolationLevel.TXN_COMMITTED)),
        times={time: each and (each.offset, each.timestamp) for time, each in found.items()},
        latest=(-1, -1) if latest is None else (latest.offset, latest.timestamp),
        producers={
            (
                each.producer_id,
                each.producer_epoch,
                each.last_seq,
                each.last_timestamp,
                each.coordinator_epoch,
                -1 if each.current_txn_first_offset is None else each.current_txn_first_offset,
            )
            for each in log.producer_state.active_producers.values()
        },
    )
