"""Records to bytes: right by default, wrong on request.

Every field of every header can be set, and a CRC is right unless another is asked for: a test says what it breaks and
nothing else.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c

from tests.reference.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    XERIAL_HEADER,
    XERIAL_LENGTH,
    ZSTD,
    with_v0_lz4_checksum,
)
from tests.reference.framing import FRAME, V2_HEADER, V2_HEADER_BYTES

CREATE_TIME, LOG_APPEND_TIME = 0, 1
TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x10, 0x20, 0x40
SNAPPY_BLOCK_BYTES = 32 * 1024

Headers = Sequence[tuple[bytes, bytes | None]]


@dataclass(frozen=True)
class PlainRecord:
    """What a record says, whatever the format."""

    offset: int
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    attributes: int = 0


def records(*values: bytes | None, offset: int = 0, timestamp: int = 1000) -> list[PlainRecord]:
    """One record a value, keyed `k0`, `k1`, …, with offsets and timestamps that count up."""
    return [PlainRecord(offset + place, timestamp + place, b"k%d" % place, value) for place, value in enumerate(values)]


def varint(number: int) -> bytes:
    """Zigzag LEB128 of a 32- or 64-bit number, in the fewest bytes."""
    number = number << 1 ^ number >> 63
    return unsigned_varint(number & (1 << 64) - 1)


def unsigned_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def compressed(data: bytes, codec: int, magic: int = 2) -> bytes:
    """As Kafka's Java client frames each codec; the compressed bytes themselves differ from library to library."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec == SNAPPY:
        return XERIAL_HEADER + b"".join(_xerial_blocks(data))
    if codec == LZ4:
        frame = _lz4_frame(data)
        return with_v0_lz4_checksum(frame) if magic == 0 else frame
    if codec == ZSTD:
        return zstandard.ZstdCompressor(write_content_size=False).compress(data)
    raise ValueError(f"no such codec: {codec}")


def raw_snappy(data: bytes) -> bytes:
    """One block without the xerial framing, as librdkafka and others send it."""
    return bytes(cramjam.snappy.compress_raw(data))


def _xerial_blocks(data: bytes) -> Iterable[bytes]:
    for at in range(0, len(data), SNAPPY_BLOCK_BYTES):
        block = raw_snappy(data[at : at + SNAPPY_BLOCK_BYTES])
        yield XERIAL_LENGTH.pack(len(block)) + block


def _lz4_frame(data: bytes) -> bytes:
    with lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False) as frame:
        return bytes(frame.begin() + frame.compress(data) + frame.flush())


def linked_lz4(data: bytes, magic: int = 2) -> bytes:
    """A frame of blocks that refer to those before, as `lz4.frame.compress` makes it and no Java client reads it."""
    with lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True) as frame:
        made = bytes(frame.begin() + frame.compress(data) + frame.flush())
    return with_v0_lz4_checksum(made) if magic == 0 else made


# --- v2


def _nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def v2_record_body(record: PlainRecord, base_offset: int, base_timestamp: int) -> bytes:
    """A record without the length before it."""
    return b"".join(
        [
            struct.pack(">b", record.attributes),
            varint(_wrapped(record.timestamp - base_timestamp, 64)),
            varint(_wrapped(record.offset - base_offset, 32)),
            _nullable(record.key),
            _nullable(record.value),
            varint(len(record.headers)),
            *(_nullable(key) + _nullable(value) for key, value in record.headers),
        ]
    )


def v2_record(record: PlainRecord, base_offset: int, base_timestamp: int) -> bytes:
    body = v2_record_body(record, base_offset, base_timestamp)
    return varint(len(body)) + body


def _wrapped(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


@dataclass(frozen=True)
class V2Batch:
    """A v2 batch. `None` means: what the records say, or what makes the batch right."""

    records: Sequence[PlainRecord] = ()
    codec: int = NONE
    timestamp_type: int = CREATE_TIME
    flags: int = 0
    base_offset: int | None = None
    last_offset_delta: int | None = None
    base_timestamp: int | None = None
    max_timestamp: int | None = None
    partition_leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    magic: int = 2
    records_count: int | None = None
    size: int | None = None
    checksum: int | None = None
    region: bytes | None = None
    """The records encoded, before compression, where they are not to come from `records`."""
    payload: bytes | None = None
    """What stands behind the header, whatever the codec."""

    @property
    def first_offset(self) -> int:
        return self.base_offset if self.base_offset is not None else self.records[0].offset if self.records else 0

    @property
    def first_timestamp(self) -> int:
        if self.base_timestamp is not None:
            return self.base_timestamp
        return self.records[0].timestamp if self.records else -1

    @property
    def latest_timestamp(self) -> int:
        if self.max_timestamp is not None:
            return self.max_timestamp
        return max((record.timestamp for record in self.records), default=-1)

    def plain_region(self) -> bytes:
        if self.region is not None:
            return self.region
        return b"".join(v2_record(record, self.first_offset, self.first_timestamp) for record in self.records)

    def encoded(self) -> bytes:
        payload = self.payload if self.payload is not None else compressed(self.plain_region(), self.codec)
        tail = self._checked_header() + payload
        checksum = crc32c(tail) if self.checksum is None else self.checksum
        size = V2_HEADER_BYTES - FRAME.size + len(payload) if self.size is None else self.size
        head = struct.pack(">qiibI", self.first_offset, size, self.partition_leader_epoch, self.magic, checksum)
        return head + tail

    def _checked_header(self) -> bytes:
        """Byte 21 to 61: the part of the header that the CRC covers."""
        delta = self.records[-1].offset - self.first_offset if self.records else 0
        return struct.pack(
            ">hiqqqhii",
            self.codec | self.timestamp_type << 3 | self.flags,
            delta if self.last_offset_delta is None else self.last_offset_delta,
            self.first_timestamp,
            self.latest_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            len(self.records) if self.records_count is None else self.records_count,
        )


assert V2_HEADER.size == V2_HEADER_BYTES


def with_right_v2_checksum(entry: bytes) -> bytes:
    """`entry` with the CRC that its bytes call for: damage that only a decoder can find."""
    return entry[:17] + struct.pack(">I", crc32c(entry[21:])) + entry[21:]


# --- v0 and v1


@dataclass(frozen=True)
class LegacyMessage:
    """One v0 or v1 entry, framing included. `None` means: what makes it right."""

    record: PlainRecord
    magic: int = 1
    codec: int = NONE
    timestamp_type: int = CREATE_TIME
    size: int | None = None
    checksum: int | None = None

    def encoded(self) -> bytes:
        body = self._checked_body()
        checksum = zlib.crc32(body) if self.checksum is None else self.checksum
        size = 4 + len(body) if self.size is None else self.size
        return FRAME.pack(self.record.offset, size) + struct.pack(">I", checksum) + body

    def _checked_body(self) -> bytes:
        attributes = self.codec | self.timestamp_type << 3 | self.record.attributes
        head = struct.pack(">bB", self.magic, attributes)
        if self.magic == 1:
            head += struct.pack(">q", self.record.timestamp)
        return head + _legacy_nullable(self.record.key) + _legacy_nullable(self.record.value)


def _legacy_nullable(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


@dataclass(frozen=True)
class LegacyWrapper:
    """A compressed run of messages in one entry. `None` means: what the records say, or what makes it right."""

    records: Sequence[PlainRecord]
    codec: int = GZIP
    magic: int = 1
    timestamp_type: int = CREATE_TIME
    offset: int | None = None
    timestamp: int | None = None
    relative: bool | None = None
    """Inner offsets numbered from the first message; v1 does, v0 does not."""
    inner: bytes | None = None
    """The run, before compression, where it is not to come from `records`."""
    value: bytes | None = None
    """The wrapper's value, whatever the codec."""
    has_value: bool = True
    checksum: int | None = None
    size: int | None = None

    def inner_bytes(self) -> bytes:
        if self.inner is not None:
            return self.inner
        relative = self.magic == 1 if self.relative is None else self.relative
        base = self.records[0].offset if relative and self.records else 0
        return b"".join(
            LegacyMessage(replace(record, offset=record.offset - base), self.magic).encoded() for record in self.records
        )

    def encoded(self) -> bytes:
        value = compressed(self.inner_bytes(), self.codec, self.magic) if self.value is None else self.value
        last = self.records[-1].offset if self.records else 0
        latest = max((record.timestamp for record in self.records), default=-1)
        record = PlainRecord(
            offset=last if self.offset is None else self.offset,
            timestamp=latest if self.timestamp is None else self.timestamp,
            value=value if self.has_value else None,
        )
        return LegacyMessage(
            record, self.magic, self.codec, self.timestamp_type, size=self.size, checksum=self.checksum
        ).encoded()


def with_right_legacy_checksum(entry: bytes) -> bytes:
    return entry[:12] + struct.pack(">I", zlib.crc32(entry[16:])) + entry[16:]


def with_right_checksum(entry: bytes) -> bytes:
    """`entry`, one and whole, with the CRC that its bytes call for in the format that its magic names."""
    return with_right_v2_checksum(entry) if entry[16] >= 2 else with_right_legacy_checksum(entry)


def entries(batch_records: Sequence[PlainRecord], magic: int, codec: int = NONE) -> bytes:
    """`batch_records` as a producer would send them in this format: one v2 batch, one wrapper, or a message each."""
    if magic == 2:
        return V2Batch(batch_records, codec).encoded()
    if codec:
        return LegacyWrapper(batch_records, codec, magic).encoded()
    return b"".join(LegacyMessage(record, magic).encoded() for record in batch_records)


FORMATS = [
    (magic, codec) for magic in (0, 1, 2) for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD) if magic == 2 or codec != ZSTD
]
"""Every format with every codec it knows."""
