"""Hypothesis strategies: records, entries of every format, logs that mix them, and damaged logs.

Damage is applied to valid bytes: bytes that are wrong everywhere are refused at the first one and show little.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.reference.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from tests.reference.encode import (
    CONTROL,
    DELETE_HORIZON,
    FORMATS,
    TRANSACTIONAL,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    varint,
)
from tests.reference.framing import scan_headers

INT32_EDGES = [-(2**31), -1, 0, 1, 13, 14, 49, 2**31 - 1]
INT64_EDGES = [-(2**63), -(2**31) - 1, -1, 0, 1, 2**31, 2**63 - 1]
TELLING_BYTES = [0x00, 0x01, 0x02, 0x7F, 0x80, 0xFE, 0xFF]
SECTOR_BYTES = 16
"""Disks lose whole sectors; these logs are small, so their sectors are too."""

numbers_64 = st.sampled_from(INT64_EDGES) | st.integers(-(2**63), 2**63 - 1)
timestamps = st.sampled_from([-1, 0, 1_700_000_000_000, *INT64_EDGES]) | st.integers(0, 2**41)
payloads = st.none() | st.binary(max_size=80)
# All that UTF-8 encodes. The default alphabet of `text` asks the codec for a million characters, which takes seconds.
CHARACTERS = st.characters(exclude_categories=["Cs"])
header_lists = st.lists(st.tuples(st.text(CHARACTERS, max_size=4).map(str.encode), payloads), max_size=3)


@st.composite
def records(draw: DrawFn, max_size: int = 4) -> list[PlainRecord]:
    """Draw records with rising offsets, with gaps as after compaction."""
    offset = draw(st.sampled_from([0, 57, 2**31, 2**62]))
    drawn = []
    for _ in range(draw(st.integers(1, max_size))):
        drawn.append(PlainRecord(offset, draw(timestamps), draw(payloads), draw(payloads), draw(header_lists)))
        offset += draw(st.sampled_from([1, 1, 1, 7, 2**20]))
    return drawn


codecs = st.sampled_from([NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD])
legacy_codecs = st.sampled_from([GZIP, SNAPPY, LZ4])
flags = st.sets(st.sampled_from([TRANSACTIONAL, CONTROL, DELETE_HORIZON])).map(sum)


@st.composite
def v2_batches(draw: DrawFn) -> V2Batch:
    return V2Batch(
        draw(records()),
        codec=draw(codecs),
        timestamp_type=draw(st.integers(0, 1)),
        flags=draw(flags),
        last_offset_delta=draw(st.none() | st.integers(0, 2**31 - 1)),
        base_timestamp=draw(st.none() | timestamps),
        max_timestamp=draw(st.none() | timestamps),
        partition_leader_epoch=draw(st.integers(-1, 9)),
        producer_id=draw(numbers_64),
        producer_epoch=draw(st.integers(-1, 9)),
        base_sequence=draw(st.sampled_from([-1, 0, 2**31 - 2])),
    )


@st.composite
def legacy_messages(draw: DrawFn) -> LegacyMessage:
    return LegacyMessage(
        draw(records(max_size=1))[0], magic=draw(st.integers(0, 1)), timestamp_type=draw(st.integers(0, 1))
    )


@st.composite
def legacy_wrappers(draw: DrawFn) -> LegacyWrapper:
    return LegacyWrapper(
        draw(records()),
        codec=draw(legacy_codecs),
        magic=draw(st.integers(0, 1)),
        timestamp_type=draw(st.integers(0, 1)),
        offset=draw(st.none() | st.sampled_from([0, 1, 2**40])),
        timestamp=draw(st.none() | timestamps),
        relative=draw(st.none() | st.booleans()),
    )


def entries() -> SearchStrategy[bytes]:
    """Return a strategy for one valid entry of any format."""
    encodable: SearchStrategy[V2Batch | LegacyMessage | LegacyWrapper] = st.one_of(
        v2_batches(), legacy_messages(), legacy_wrappers()
    )
    return encodable.map(lambda entry: entry.encoded())


def message_sets() -> SearchStrategy[bytes]:
    """Return a strategy for valid logs of mixed formats, as after upgrades of a broker."""
    return st.lists(entries(), max_size=4).map(b"".join)


# --- damage


@st.composite
def truncated(draw: DrawFn, data: bytes) -> bytes:
    return data[: draw(st.integers(0, len(data)))]


@st.composite
def with_flipped_bits(draw: DrawFn, data: bytes) -> bytes:
    out = bytearray(data)
    for bit in draw(st.lists(st.integers(0, 8 * len(data) - 1), min_size=1, max_size=3)):
        out[bit // 8] ^= 1 << bit % 8
    return bytes(out)


@st.composite
def with_zeroed_sector(draw: DrawFn, data: bytes) -> bytes:
    start = draw(st.integers(0, len(data) // SECTOR_BYTES)) * SECTOR_BYTES
    end = min(len(data), start + draw(st.integers(1, 8)) * SECTOR_BYTES)
    return data[:start] + bytes(end - start) + data[end:]


@st.composite
def with_zeroed_tail(draw: DrawFn, data: bytes) -> bytes:
    """Draw zeros behind the data, as in a file that was extended before it was written."""
    return data + bytes(draw(st.integers(1, 80)))


@st.composite
def with_garbage(draw: DrawFn, data: bytes) -> bytes:
    """Draw random bytes, inserted or written over others."""
    at = draw(st.integers(0, len(data)))
    garbage = draw(st.binary(min_size=1, max_size=40))
    return data[:at] + garbage + data[at + draw(st.sampled_from([0, len(garbage)])) :]


@st.composite
def with_telling_byte(draw: DrawFn, data: bytes) -> bytes:
    """Draw a byte that changes much where a varint or a length is read."""
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + bytes([draw(st.sampled_from(TELLING_BYTES))]) + data[at + 1 :]


@st.composite
def with_endless_varint(draw: DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    endless = b"\xff" * draw(st.integers(4, 11)) + draw(st.sampled_from([b"", b"\x00", b"\x7f"]))
    return data[:at] + endless + data[at + draw(st.sampled_from([0, 1, len(endless)])) :]


@st.composite
def with_other_varint(draw: DrawFn, data: bytes) -> bytes:
    """Draw another length or count: too large, too small or negative."""
    at = draw(st.integers(0, len(data) - 1))
    number = draw(st.sampled_from([*INT32_EDGES, -2, 2, 63, 64]))
    return data[:at] + varint(number) + data[at + 1 :]


HEADER_FIELDS = {
    "size": (8, ">i", st.sampled_from(INT32_EDGES) | st.integers(0, 200)),
    "magic": (16, ">b", st.integers(-2, 4)),
    "legacy attributes": (17, ">B", st.integers(0, 255)),
    "v2 attributes": (21, ">h", st.integers(0, 255)),
    "last offset delta": (23, ">i", st.sampled_from(INT32_EDGES)),
    "base timestamp": (27, ">q", st.sampled_from(INT64_EDGES)),
    "records count": (57, ">i", st.sampled_from(INT32_EDGES) | st.integers(0, 6)),
    "offset": (0, ">q", st.sampled_from(INT64_EDGES)),
    "v0 key length": (18, ">i", st.sampled_from(INT32_EDGES) | st.integers(-3, 90)),
    "v1 key length": (26, ">i", st.sampled_from(INT32_EDGES) | st.integers(-3, 90)),
}


@st.composite
def with_other_header_field(draw: DrawFn, data: bytes) -> bytes:
    """Draw another value for one header field of one entry."""
    rows, *_ = scan_headers(data)
    start = int(draw(st.sampled_from(rows["position"].tolist()))) if len(rows) else 0
    place, form, values = HEADER_FIELDS[draw(st.sampled_from(sorted(HEADER_FIELDS)))]
    field = struct.pack(form, draw(values))
    at = start + place
    return (data[:at] + field + data[at + len(field) :])[: len(data)]


DAMAGES: list[Callable[[bytes], SearchStrategy[bytes]]] = [
    truncated,
    with_flipped_bits,
    with_zeroed_sector,
    with_zeroed_tail,
    with_garbage,
    with_telling_byte,
    with_endless_varint,
    with_other_varint,
    with_other_header_field,
]


@st.composite
def damaged(draw: DrawFn, whole: SearchStrategy[bytes]) -> bytes:
    """Draw bytes of `whole` with one or two kinds of damage."""
    data = draw(whole)
    for _ in range(draw(st.integers(1, 2))):
        if data:
            data = draw(draw(st.sampled_from(DAMAGES))(data))
    return data


@st.composite
def v2_with_damaged_records(draw: DrawFn) -> bytes:
    """Draw a batch damaged before compression: valid framing, perhaps a valid CRC, and invalid records."""
    batch = draw(v2_batches())
    count = draw(st.sampled_from([None, None, None, 0, len(batch.records) + 1, len(batch.records) - 1, -1, 2**31 - 1]))
    region = draw(damaged(st.just(batch.plain_region())))
    return V2Batch(
        batch.records,
        codec=batch.codec,
        timestamp_type=batch.timestamp_type,
        base_timestamp=batch.base_timestamp,
        records_count=count,
        region=region,
    ).encoded()


@st.composite
def wrappers_with_damaged_messages(draw: DrawFn) -> bytes:
    """Draw a wrapper whose messages were damaged before compression."""
    wrapper = draw(legacy_wrappers())
    inner = draw(damaged(st.just(wrapper.inner_bytes())))
    return LegacyWrapper(
        wrapper.records,
        codec=wrapper.codec,
        magic=wrapper.magic,
        timestamp_type=wrapper.timestamp_type,
        offset=wrapper.offset,
        inner=inner,
    ).encoded()


def formats() -> SearchStrategy[tuple[int, int]]:
    """Return a strategy for a magic and a codec that exists in it."""
    return st.sampled_from(FORMATS)
