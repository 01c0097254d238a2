"""What scripts append: batches of every format, codec and producer, right, repeated, contradictory or damaged."""

import random
import struct
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.reference.encode import CONTROL, TRANSACTIONAL, LegacyMessage, LegacyWrapper, PlainRecord, V2Batch

LARGEST_SEQUENCE = 2**31 - 1
NONE, ZSTD = 0, 4
ABORT, COMMIT = 0, 1
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@dataclass(frozen=True)
class Producer:
    """A producer as the log knows it; -1: not at all."""

    id: int
    epoch: int = -1
    last_sequence: int = -1
    coordinator_epoch: int = -1
    in_transaction: bool = False

    @property
    def next_sequence(self) -> int:
        return 0 if self.last_sequence in (-1, LARGEST_SEQUENCE) else self.last_sequence + 1


def base64_of(data: bytes) -> str:
    return b64encode(data).decode()


class Batches:
    """Draws batches; `now` (ms) is the time they are made at."""

    def __init__(self, draw: random.Random, now: int) -> None:
        self.draw = draw
        self.now = now

    def records(self, base: int = 0, count: int | None = None) -> list[PlainRecord]:
        """Records with offsets from `base` on, timed about now."""
        count = count or self.draw.choice((1, 1, 1, 2, 3, 5, 10))
        times = [self.timestamp() for _ in range(count)]
        return [PlainRecord(base + i, time, self._key(), self._value()) for i, time in enumerate(times)]

    def timestamp(self) -> int:
        """Now, more or less; at times none, or far off."""
        chance = self.draw.random()
        if chance < 0.9:
            return self.now + self.draw.randrange(-500, 500)
        return self.draw.choice((-1, self.now - 2 * DAY_MS, self.now - 2 * HOUR_MS, self.now + HOUR_MS // 2, self.now))

    def _key(self) -> bytes | None:
        return self.draw.choice((b"key", b"k%d" % self.draw.randrange(5), None)) if self.draw.random() < 0.3 else b"k"

    def _value(self) -> bytes | None:
        return self.draw.choice((b"v", b"value " * self.draw.randrange(15), None, b""))

    def codec(self, magic: int = 2) -> int:
        return self.draw.choice((NONE, NONE, NONE, 1, 2, 3, ZSTD) if magic == 2 else (NONE, NONE, 1, 2, 3))

    # --- as a client sends them

    def plain(self) -> bytes:
        return V2Batch(self.records(), self.codec()).encoded()

    def older_format(self) -> bytes:
        """Messages that a leader makes a batch of: in one codec only, what it would compress differs by library."""
        magic = self.draw.choice((0, 1, 1))
        return b"".join(LegacyMessage(each, magic).encoded() for each in self.records())

    def of(self, producer: Producer, sequence: int, *, transactional: bool = False, epoch: int | None = None) -> bytes:
        """A batch of a producer, with that sequence."""
        return V2Batch(
            self.records(),
            self.codec(),
            flags=TRANSACTIONAL if transactional else 0,
            producer_id=producer.id,
            producer_epoch=producer.epoch if epoch is None else epoch,
            base_sequence=sequence,
        ).encoded()

    def marker(self, producer: Producer, kind: int, *, epoch: int, coordinator_epoch: int, base: int = 0) -> bytes:
        """The end of a transaction, as its coordinator has it written."""
        key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, coordinator_epoch)
        return V2Batch(
            [PlainRecord(base, self.now, key, value)],
            flags=TRANSACTIONAL | CONTROL,
            producer_id=producer.id,
            producer_epoch=epoch,
        ).encoded()

    def odd(self, segment_bytes: int) -> bytes:
        """What no client should send."""
        plain = V2Batch(self.records())
        data = plain.encoded()
        key = struct.pack(">hh", 0, COMMIT)
        almost_a_segment = b"v" * max(0, segment_bytes - 70 - self.draw.randrange(3))
        made = [
            replace(plain, checksum=1).encoded(),
            replace(plain, base_offset=3, last_offset_delta=len(plain.records) - 1).encoded(),
            replace(plain, records_count=7).encoded(),
            replace(plain, max_timestamp=5).encoded(),
            replace(plain, timestamp_type=1).encoded(),
            replace(plain, magic=3).encoded(),
            replace(plain, size=5).encoded(),
            replace(plain, flags=CONTROL, records=[PlainRecord(0, self.now, key, b"\0\0\0\0\0\0")]).encoded(),
            replace(plain, producer_id=9, producer_epoch=0).encoded(),
            replace(plain, producer_id=9, base_sequence=0).encoded(),
            V2Batch([PlainRecord(0, self.now + 2 * HOUR_MS, b"k", b"future")]).encoded(),
            V2Batch([PlainRecord(0, self.now, b"k", b"v" * segment_bytes)]).encoded(),
            V2Batch([PlainRecord(0, self.now, b"k", almost_a_segment)]).encoded(),
            V2Batch([], base_offset=0, last_offset_delta=0).encoded(),
            data + V2Batch(self.records()).encoded(),
            data + data[: self.draw.randrange(len(data))],
            data + bytes(self.draw.choice((5, 17, 40))),
            data[: self.draw.randrange(len(data))],
            b"",
        ]
        return self.draw.choice(made)

    # --- as a follower gets them

    def fetched(self, base: int, epochs: Sequence[int], producers: Sequence[Producer]) -> bytes:
        """A batch for each epoch, one behind the other, at times with a gap between them."""
        data = b""
        for epoch in epochs:
            one, last = self._fetched(base, epoch, producers)
            data += one
            base = last + 1 + (self.draw.randrange(1, 5) if self.draw.random() < 0.15 else 0)
        return data

    def far_away(self, base: int, epoch: int) -> bytes:
        """A batch further from its segment's base than an index can say, and another behind it.

        The first has a timestamp: without one, the age of the segment that is split off would count from real time.
        """
        first = V2Batch([PlainRecord(base, self.now, b"k", b"far")], self.codec(), partition_leader_epoch=epoch)
        return first.encoded() + self.fetched(base + 1, [epoch], ())

    def _fetched(self, base: int, epoch: int, producers: Sequence[Producer]) -> tuple[bytes, int]:
        chance = self.draw.random()
        if chance < 0.1:
            return self._fetched_older_format(base)
        if chance < 0.2 and producers:
            return self._fetched_marker(base, epoch, self.draw.choice(producers)), base
        records = self.records(base)
        if chance < 0.3 and len(records) > 2:
            records = records[:1] + records[2:]  # as compaction leaves them
        batch = V2Batch(records, self.codec(), partition_leader_epoch=epoch)
        if chance > 0.6 and producers:
            batch = self._of_a_producer(batch, self.draw.choice(producers))
        return batch.encoded(), records[-1].offset

    def _fetched_marker(self, base: int, epoch: int, producer: Producer) -> bytes:
        kind, coordinator_epoch = self.draw.choice((ABORT, COMMIT)), max(0, producer.coordinator_epoch)
        data = self.marker(producer, kind, epoch=max(0, producer.epoch), coordinator_epoch=coordinator_epoch, base=base)
        return data[:12] + struct.pack(">i", epoch) + data[16:]

    def _of_a_producer(self, batch: V2Batch, producer: Producer) -> V2Batch:
        transactional = producer.in_transaction or self.draw.random() < 0.5
        return replace(
            batch,
            flags=TRANSACTIONAL if transactional else 0,
            producer_id=producer.id,
            producer_epoch=max(0, producer.epoch + self.draw.choice((0, 0, 0, 0, 1, -1))),
            base_sequence=self.draw.choice((producer.next_sequence, producer.next_sequence, 0, 77)),
        )

    def _fetched_older_format(self, base: int) -> tuple[bytes, int]:
        magic = self.draw.choice((0, 1, 1))
        records, codec = self.records(base), self.codec(magic)
        if codec:
            return LegacyWrapper(records, codec, magic).encoded(), records[-1].offset
        return b"".join(LegacyMessage(each, magic).encoded() for each in records), records[-1].offset
