"""Message sets and settings for `LogValidator`: sound, contradictory and damaged ones, drawn with a fixed seed.

A case is a set as a producer might send it, with one thing or several wrong, and a topic that may not want it so.
"""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafkalog.attributes import CompressionType, TimestampType
from kafkalog.record.log_validator import AppendOrigin
from tests.reference.encode import (
    CONTROL,
    CREATE_TIME,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    linked_lz4,
    with_right_checksum,
)

NOW = 1_800_000_000_000
LARGEST = 2**63 - 1
HOUR_MS = 3_600_000
NONE, LZ4, ZSTD = 0, 3, 4


@dataclass(frozen=True)
class Topic:
    """What `validate_messages_and_assign_offsets` takes besides the messages."""

    first_offset: int = 0
    now: int = NOW
    target_compression: CompressionType | None = None
    compression_level: int | None = None
    compacted: bool = False
    magic: int = 2
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_max_ms: int = LARGEST
    after_max_ms: int = HOUR_MS
    partition_leader_epoch: int = 5
    origin: AppendOrigin = AppendOrigin.CLIENT

    def words(self) -> str:
        """The settings as Validate.java reads them."""
        target = -1 if self.target_compression is None else int(self.target_compression)
        level = "-" if self.compression_level is None else self.compression_level
        fields = (self.first_offset, self.now, target, level, str(self.compacted).lower(), self.magic)
        limits = (self.before_max_ms, self.after_max_ms, self.partition_leader_epoch)
        return " ".join(map(str, (*fields, self.timestamp_type.label, *limits, self.origin.name)))


class Case(NamedTuple):
    """Bytes to be validated for a topic; `what` says what is special about them."""

    what: str
    data: bytes
    topic: Topic


def cases(drawn: int = 4000, flipped: int = 2500) -> list[Case]:
    """Return the same cases every time; fewer of them on request."""
    draw = random.Random(4)
    return [*_crossed(), *(_drawn(draw) for _ in range(drawn)), *(_flipped(draw) for _ in range(flipped))]


# --- every format to every format, codec to codec

PLAIN = [
    PlainRecord(0, NOW - 1, b"k0", b"value 0"),
    PlainRecord(1, NOW + 1, b"k1", b""),
    PlainRecord(2, NOW, b"", None),
]


def _crossed() -> Iterator[Case]:
    for magic in (0, 1, 2):
        for codec in range(5 if magic == 2 else 4):
            for topic in _topics():
                yield Case("plain", encoded(PLAIN, magic, codec), topic)
        for topic in _topics():
            yield Case("linked LZ4 blocks", _linked(magic), topic)


def _linked(magic: int) -> bytes:
    if magic == 2:
        batch = V2Batch(PLAIN, LZ4)
        return replace(batch, payload=linked_lz4(batch.plain_region())).encoded()
    wrapper = LegacyWrapper(PLAIN, LZ4, magic)
    return replace(wrapper, value=linked_lz4(wrapper.inner_bytes(), magic)).encoded()


def _topics() -> Iterator[Topic]:
    for magic in (0, 1, 2):
        for timestamp_type in (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME):
            for target in (None, *CompressionType):
                yield Topic(1234567, magic=magic, timestamp_type=timestamp_type, target_compression=target)


def encoded(records: list[PlainRecord], magic: int, codec: int) -> bytes:
    """As a producer sends them: offsets from 0, one batch, one wrapper or a message each."""
    if magic == 2:
        return V2Batch(records, codec).encoded()
    if codec:
        return LegacyWrapper(records, codec, magic).encoded()
    return b"".join(LegacyMessage(record, magic).encoded() for record in records)


# --- drawn

TIMESTAMPS = [
    NOW,
    NOW - 1,
    NOW + 1,
    NOW - 1000,
    NOW - 1001,
    NOW + 1000,
    NOW + 1001,
    NOW + HOUR_MS + 1,
    0,
    -1,
    -1,
    -2,
    -5,
]
FAR_TIMESTAMPS = [LARGEST, -(2**63), NOW - LARGEST, 2**40]
HEADERS = ((b"h", b"1"), (b"h", None))


def _drawn(draw: random.Random) -> Case:
    oddity = draw.choice([*ODDITIES, *["plain"] * 8])
    magic, codec = draw.choice((0, 1, 1, 2, 2, 2)), draw.choice((NONE, NONE, 1, 2, 3, ZSTD))
    if magic < 2 and codec == ZSTD:
        codec = NONE
    records = _records(draw, magic)
    topic = _topic(draw, magic)
    if oddity == "plain":
        return Case(oddity, _with_fields(draw, records, magic, codec), topic)
    return Case(oddity, ODDITIES[oddity](draw, records, magic, codec), topic)


def _records(draw: random.Random, magic: int) -> list[PlainRecord]:
    sound = draw.random() < 0.6
    times = [NOW, NOW - 1, NOW + 1, NOW - 900] if sound else [*TIMESTAMPS, *draw.sample(FAR_TIMESTAMPS, 1)]
    keys = [b"k", b"key"] if sound else [b"k", b"", None]
    headers = HEADERS if magic == 2 and draw.random() < 0.2 else ()
    return [
        PlainRecord(i, draw.choice(times), draw.choice(keys), draw.choice((b"v" * i, None, b"value")), headers)
        for i in range(draw.choice((1, 1, 2, 3, 5, 20)))
    ]


def _topic(draw: random.Random, magic: int) -> Topic:
    target = draw.choice((None, None, None, *CompressionType))
    levels = {CompressionType.GZIP: (1, 9), CompressionType.LZ4: (1, 17), CompressionType.ZSTD: (1, 10)}
    level = draw.choice((None, *levels.get(target, ()))) if target else None
    bound = draw.choice((LARGEST, HOUR_MS, 1000, 0))
    return Topic(
        first_offset=draw.choice((0, 1, 7, 1234567, 2**40)),
        target_compression=target,
        compression_level=level,
        compacted=draw.random() < 0.3,
        magic=draw.choice((magic, magic, magic, 0, 1, 2)),
        timestamp_type=draw.choice((TimestampType.CREATE_TIME,) * 3 + (TimestampType.LOG_APPEND_TIME,)),
        before_max_ms=bound,
        after_max_ms=draw.choice((bound, HOUR_MS)),
        partition_leader_epoch=draw.choice((-1, 0, 5)),
        origin=draw.choice((AppendOrigin.CLIENT,) * 4 + tuple(AppendOrigin)),
    )


def _with_fields(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    timestamp_type = draw.choice((CREATE_TIME,) * 5 + (LOG_APPEND_TIME,))
    if magic == 2:
        return replace(V2Batch(records, codec, timestamp_type), **draw.choice(PRODUCERS)).encoded()
    if codec:
        return LegacyWrapper(records, codec, magic, timestamp_type if magic else CREATE_TIME).encoded()
    return b"".join(LegacyMessage(each, magic, 0, timestamp_type if magic else 0).encoded() for each in records)


PRODUCERS: list[dict[str, Any]] = [
    {},
    {},
    {"producer_id": 4000, "producer_epoch": 3, "base_sequence": 17},
    {"producer_id": 4000, "producer_epoch": 3, "base_sequence": 2**31 - 2, "flags": TRANSACTIONAL},
]
CONTRADICTIONS: list[dict[str, Any]] = [
    {"flags": TRANSACTIONAL},
    {"flags": CONTROL},
    {"flags": CONTROL | TRANSACTIONAL, "producer_id": 4000, "producer_epoch": 3},
    {"flags": DELETE_HORIZON},
    {"flags": 0x7F80},
    {"flags": 0x80, "timestamp_type": LOG_APPEND_TIME},
    {"producer_id": 4000, "producer_epoch": 3, "base_sequence": -1},
    {"producer_id": 4000, "producer_epoch": 3, "base_sequence": -2},
    {"producer_id": 4000, "producer_epoch": -1, "base_sequence": 5},
    {"producer_id": -7, "producer_epoch": 3, "base_sequence": 5},
    {"producer_id": -7, "producer_epoch": 3, "base_sequence": -5},
    {"producer_epoch": 3, "base_sequence": 5},
    {"max_timestamp": 5},
    {"max_timestamp": -1, "timestamp_type": LOG_APPEND_TIME},
    {"max_timestamp": NOW + HOUR_MS * 2, "timestamp_type": LOG_APPEND_TIME},
    {"base_timestamp": 2**63 - 1},
    {"base_offset": 10},
    {"base_offset": -3},
    {"base_offset": 2**63 - 1, "last_offset_delta": 1},
    {"base_offset": -(2**63), "last_offset_delta": 0},
    {"partition_leader_epoch": 77},
    {"magic": 3},
    {"size": 13},
    {"size": 48},
    {"size": 2**31 - 1},
    {"checksum": 1},
]


def _contradictory(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    return replace(V2Batch(records, codec), **draw.choice(CONTRADICTIONS)).encoded()


def _wrong_count(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    count = len(records)
    delta = draw.choice((0, count, count - 1, count + 1, 15, -1, -3))
    return V2Batch(
        records, codec, last_offset_delta=delta, records_count=draw.choice((count, count, count + 1, count - 1, 0, -1))
    ).encoded()


def _no_records(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    return V2Batch([], draw.choice((NONE, codec)), last_offset_delta=draw.choice((-1, 0, 3))).encoded()


def _spread_offsets(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    spread = [replace(each, offset=each.offset * 2 + draw.choice((0, 5))) for each in records]
    if magic == 2:
        return V2Batch(spread, codec, base_offset=draw.choice((0, None))).encoded()
    return encoded(spread, magic, codec)


def _several(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    other = draw.choice((magic, magic, 0, 1, 2))
    second = encoded(_records(draw, other), other, draw.choice((NONE, codec if codec != ZSTD else NONE)))
    return encoded(records, magic, codec) + second


def _wrapper(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    """A wrapper with something in it that is not as it should be."""
    magic, codec = magic % 2, codec % 4 or 1
    plain = LegacyWrapper(records, codec, magic)
    inner = plain.inner_bytes()
    other = b"".join(LegacyMessage(each, draw.choice((magic, 1 - magic)), 0).encoded() for each in records)
    first = LegacyMessage(records[0], magic)
    made = [
        replace(plain, offset=0),
        replace(plain, offset=draw.choice((1, 2, 1000))),
        replace(plain, relative=False, records=[replace(each, offset=each.offset + 7) for each in records]),
        replace(plain, inner=other),
        replace(plain, offset=2**63 - 1),
        replace(plain, inner=inner + _message_at(-(2**63), magic)),
        replace(plain, inner=inner + _message_at(2**63 - 1, magic), offset=draw.choice((0, -1, 2**63 - 1))),
        replace(plain, inner=replace(first, checksum=1).encoded() + inner),
        replace(plain, inner=inner + replace(first, checksum=1).encoded()),
        replace(plain, inner=inner + replace(first, codec=1).encoded()),
        replace(plain, inner=replace(first, codec=6).encoded() + inner),
        replace(plain, inner=inner + replace(first, size=13).encoded()),
        replace(plain, inner=inner[:-5]),
        replace(plain, inner=inner + bytes(draw.choice((11, 12, 16, 17, 40)))),
        replace(plain, inner=inner[:11]),
        replace(plain, inner=b""),
        replace(plain, inner=plain.encoded()),
        replace(plain, inner=V2Batch(records).encoded()),
        replace(plain, has_value=False),
        replace(plain, value=b"no stream"),
        replace(plain, codec=ZSTD),
        replace(plain, timestamp=5),
        replace(plain, timestamp_type=LOG_APPEND_TIME, timestamp=draw.choice((NOW, 5, NOW + 2 * HOUR_MS))),
        replace(plain, checksum=1),
    ]
    return draw.choice(made).encoded()


def _message_at(offset: int, magic: int) -> bytes:
    return LegacyMessage(PlainRecord(offset, NOW, b"k", b"v"), magic).encoded()


def _tail(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    data = encoded(records, magic, codec)
    tails = [bytes(5), bytes(11), bytes(12), bytes(17), bytes(100), b"\xff" * 11, b"\xa5" * 16, b"\xa5" * 30, data[:-3]]
    return data + draw.choice([*tails, data[:16], data[:12]])


def _nothing(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    return encoded(records, magic, codec)[: draw.choice((0, 3, 11, 12, 16, 17, 20))]


def _unknown_codec(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    codec = draw.choice((5, 6, 7))
    if magic == 2:
        return V2Batch(records, flags=codec).encoded()
    return encoded(records[:1], magic, NONE) + LegacyMessage(records[0], magic, codec).encoded()


def _short_message(draw: random.Random, records: list[PlainRecord], magic: int, codec: int) -> bytes:
    """A v1 message that ends before its key's length, or in it; alone, behind another, or in a wrapper."""
    cut = draw.choice((26, 27, 29, 30, 33))
    whole = LegacyMessage(replace(records[0], key=None, value=None), 1).encoded()
    short = with_right_checksum(whole[:8] + struct.pack(">i", cut - 12) + whole[12:cut])
    if codec in (1, 2, 3):
        return LegacyWrapper(records, codec, 1, inner=short).encoded()
    return encoded(records, 1, NONE) * draw.randrange(2) + short


Oddity = Callable[[random.Random, list[PlainRecord], int, int], bytes]
ODDITIES: dict[str, Oddity] = {
    "contradictory header": _contradictory,
    "count and offsets": _wrong_count,
    "no records": _no_records,
    "offsets with gaps": _spread_offsets,
    "several entries": _several,
    "odd wrapper": _wrapper,
    "something behind": _tail,
    "next to nothing": _nothing,
    "codec that does not exist": _unknown_codec,
    "short message": _short_message,
}


def _flipped(draw: random.Random) -> Case:
    """A set with one bit turned over, anywhere but in compressed bytes, of which libraries think differently."""
    magic, codec = draw.choice((0, 1, 2, 2)), draw.choice((NONE, NONE, 1))
    records = _records(draw, magic)
    header = {0: 26, 1: 34, 2: 61}[magic]
    region = _flip(draw, V2Batch(records).plain_region()) if magic == 2 else None
    if codec and draw.random() < 0.5:
        data = (
            V2Batch(records, codec, region=region).encoded() if magic == 2 else _flipped_wrapper(draw, records, magic)
        )
        return Case("bit inside what is compressed", data, _topic(draw, magic))
    data = encoded(records, magic, codec)
    return Case("bit", _flip(draw, data, header if codec else len(data)), _topic(draw, magic))


def _flipped_wrapper(draw: random.Random, records: list[PlainRecord], magic: int) -> bytes:
    inner = _flip(draw, LegacyWrapper(records, 1, magic).inner_bytes())
    return LegacyWrapper(records, 1, magic, inner=inner).encoded()


def _flip(draw: random.Random, data: bytes, length: int | None = None) -> bytes:
    bit = draw.randrange((len(data) if length is None else length) * 8)
    broken = bytearray(data)
    broken[bit // 8] ^= 0x80 >> bit % 8
    return bytes(broken)
