"""The logs that Kafka and kafkalog are to read alike: sound ones of every shape, and damaged ones.

`sound()` crosses format, codec, timestamp type, headers, nulls and producer data. `damaged()` takes one small entry
of each format and codec, with a sound one behind it, and breaks it: every bit in turn, every length of truncation;
each once as it is, so that the CRC tells, and once with the CRC set right again, so that only the structure can tell.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from tests.reference.encode import (
    CONTROL,
    CREATE_TIME,
    DELETE_HORIZON,
    FORMATS,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    LegacyMessage,
    LegacyWrapper,
    PlainRecord,
    V2Batch,
    compressed,
    entries,
    raw_snappy,
    records,
    with_right_checksum,
)
from tests.reference.lz4_frames import damaged_frames, sound_frames


class Entry(Protocol):
    """A batch, message or wrapper."""

    def encoded(self) -> bytes: ...


NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")


class Log(NamedTuple):
    """Bytes with a name that says what is in them."""

    name: str
    data: bytes


PLAIN = [
    PlainRecord(10, 1000, b"key", b"value"),
    PlainRecord(11, 1001, None, b"no key"),
    PlainRecord(12, 999, b"no value", None),
    PlainRecord(13, 1003, b"", b""),
    PlainRecord(14, 1000, None, None),
    PlainRecord(15, 1002, b"\xff\x00", bytes(range(256)) * 3),
]
HEADERS = ((b"a", b"1"), (b"a", None), (b"", b""), ("ключ".encode(), b"\xff"))
WITH_HEADERS = [replace(record, headers=HEADERS[: place + 1]) for place, record in enumerate(PLAIN)]
COMPACTED = [replace(PLAIN[0], offset=10), replace(PLAIN[1], offset=1000), replace(PLAIN[2], offset=70_000)]
LARGE = [PlainRecord(10 + i, 1000 + i, b"k%d" % i, b"%d" % (i * i) * (1 + i % 50)) for i in range(2000)]
FAR = [
    PlainRecord(2**40, 0, b"a", b"b"),
    PlainRecord(2**40 + 1, 2**62, b"c", b"d"),
    PlainRecord(2**40 + 2, -1, b"", b""),
]


def sound() -> list[Log]:
    """Logs that are whole and right."""
    return [*_v2_logs(), *_legacy_logs(), *_mixed_logs()]


def _v2_logs() -> Iterator[Log]:
    contents = {"plain": PLAIN, "headers": WITH_HEADERS, "compacted": COMPACTED, "large": LARGE, "far": FAR}
    contents["attributes"] = [replace(record, attributes=-128) for record in PLAIN]
    contents["empty"] = []
    for codec in range(5):
        for timestamp_type in (CREATE_TIME, LOG_APPEND_TIME):
            for name, content in contents.items():
                batch = V2Batch(content, codec, timestamp_type)
                yield Log(f"v2-{CODEC_NAMES[codec]}-{timestamp_type}-{name}", batch.encoded())
    for name, batch in _v2_fields().items():
        yield Log(f"v2-{name}", batch.encoded())


def _v2_fields() -> dict[str, V2Batch]:
    """A batch for each use of the header's fields."""
    marker = [PlainRecord(20, 5000, b"\0\0\0\1", b"\0\0\0\0\0\7")]
    produced: dict[str, Any] = {"producer_id": 4000, "producer_epoch": 3, "base_sequence": 17}
    plain = V2Batch(PLAIN)
    return {
        "idempotent": replace(plain, **produced),
        "transactional": replace(plain, flags=TRANSACTIONAL, **produced),
        "sequence wraps": replace(plain, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3),
        "commit marker": V2Batch(marker, flags=TRANSACTIONAL | CONTROL, producer_id=4000, producer_epoch=3),
        "control without transaction": V2Batch(marker, flags=CONTROL),
        "delete horizon": replace(plain, flags=DELETE_HORIZON, base_timestamp=123_456_789),
        "leader epoch": replace(plain, partition_leader_epoch=42),
        "unused attributes": replace(plain, flags=0x7F80),
        "count is 0, records follow": replace(plain, records_count=0),
        "offsets go on after the last": replace(plain, last_offset_delta=99),
        "empty, with offsets": V2Batch([], base_offset=500, last_offset_delta=9, max_timestamp=77, **produced),
        "timestamps wrap": replace(plain, base_timestamp=2**63 - 1),
        "first offset is the last possible": V2Batch(records(b"x", offset=2**63 - 1)),
        "raw snappy": V2Batch(PLAIN, SNAPPY, payload=raw_snappy(V2Batch(PLAIN).plain_region())),
        "gzip of two members": V2Batch(PLAIN, GZIP, payload=_two_members(V2Batch(PLAIN).plain_region(), GZIP)),
        "zstd of two frames": V2Batch(PLAIN, ZSTD, payload=_two_members(V2Batch(PLAIN).plain_region(), ZSTD)),
        "snappy of two streams": V2Batch(PLAIN, SNAPPY, payload=_two_members(V2Batch(PLAIN).plain_region(), SNAPPY)),
        **_lz4_batches("", LARGE, sound_frames(V2Batch(LARGE).plain_region())),
    }


def _lz4_batches(version: str, content: list[PlainRecord], frames: dict[str, bytes]) -> dict[str, V2Batch]:
    return {f"{version}lz4 with {name}": V2Batch(content, LZ4, payload=frame) for name, frame in frames.items()}


def _two_members(region: bytes, codec: int) -> bytes:
    return compressed(region[:20], codec) + compressed(region[20:], codec)


def _legacy_logs() -> Iterator[Log]:
    for magic, codec in FORMATS:
        if magic == 2:
            continue
        for name, content in {"plain": PLAIN, "compacted": COMPACTED, "large": LARGE}.items():
            yield Log(f"v{magic}-{CODEC_NAMES[codec]}-{name}", entries(content, magic, codec))
        if codec:
            yield from _wrappers(magic, codec)
    appended = (LegacyMessage(record, 1, timestamp_type=LOG_APPEND_TIME).encoded() for record in PLAIN)
    yield Log("v1-none-LogAppendTime", b"".join(appended))


def _wrappers(magic: int, codec: int) -> Iterator[Log]:
    plain = LegacyWrapper(PLAIN, codec, magic)
    inner = plain.inner_bytes()
    mixed = LegacyMessage(replace(PLAIN[0], offset=0), 1 - magic).encoded()
    name = f"v{magic}-{CODEC_NAMES[codec]}"
    yield Log(f"{name}-LogAppendTime", replace(plain, timestamp_type=LOG_APPEND_TIME, timestamp=9000).encoded())
    yield Log(f"{name}-wrapper offset 0", replace(plain, offset=0).encoded())
    yield Log(f"{name}-absolute inner offsets", replace(plain, relative=False).encoded())
    yield Log(f"{name}-relative inner offsets", replace(plain, relative=True).encoded())
    yield Log(f"{name}-wrapper offset far ahead", replace(plain, offset=10**12).encoded())
    yield Log(f"{name}-partial last message", replace(plain, inner=inner[:-5]).encoded())
    yield Log(f"{name}-a few bytes after the last", replace(plain, inner=inner + b"\0\0\0").encoded())
    yield Log(f"{name}-other magic inside", replace(plain, inner=mixed).encoded())


def _mixed_logs() -> Iterator[Log]:
    yield Log("nothing", b"")
    batches = [entries(records(b"a", b"b", offset=i * 2), *form) for i, form in enumerate(FORMATS)]
    yield Log("every format in turn", b"".join(batches))
    yield Log("offsets backwards", b"".join(reversed(batches)))


def impossible() -> list[Log]:
    """Logs whose CRCs hold, and whose content breaks a rule: single rules, by hand."""
    plain = V2Batch(PLAIN)
    region = plain.plain_region()
    small = [PlainRecord(10, 1000, b"k", b"v")]
    wrapper = LegacyWrapper(PLAIN, GZIP, 1)
    nameless: Any = ((None, b"x"),)
    logs: dict[str, Entry] = {
        "v2: count too large": replace(plain, records_count=len(PLAIN) + 1),
        "v2: count too small": replace(plain, records_count=len(PLAIN) - 1),
        "v2: count negative": replace(plain, records_count=-1),
        "v2: bytes after the records": replace(plain, region=region + b"\0"),
        "v2: varint of 11 bytes": V2Batch(small, region=b"\x80" * 10 + b"\0" + region),
        "v2: unknown codec 5": replace(plain, flags=5),
        "v2: unknown codec 7": replace(plain, flags=7),
        "v2: magic 3": replace(plain, magic=3),
        "v2: magic 127": replace(plain, magic=127),
        "v2: magic -1": replace(plain, magic=-1),
        "v2: wrong CRC": replace(plain, checksum=1),
        "v2: header without a key": V2Batch([replace(small[0], headers=nameless)]),
        "v2: header key is not UTF-8": V2Batch([replace(small[0], headers=((b"\xff\xfe", b"x"),))]),
        "v1: wrapper in a wrapper": replace(wrapper, inner=wrapper.encoded()),
        "v1: wrapper without a value": replace(wrapper, has_value=False),
        "v1: wrapper of nothing": replace(wrapper, inner=b""),
        "v1: wrapper of half a message": replace(wrapper, inner=wrapper.inner_bytes()[:20]),
        "v1: wrapper offset before the last": replace(wrapper, offset=3),
        "v1: wrapper of zstd": replace(wrapper, codec=ZSTD),
        "v0: wrapper of zstd": replace(wrapper, codec=ZSTD, magic=0),
        "v1: unknown codec 5": LegacyMessage(small[0], 1, codec=5),
        "v1: wrapper of v2": replace(wrapper, inner=V2Batch(small).encoded()),
        "v2: lz4 of two frames": V2Batch(PLAIN, LZ4, payload=_two_members(region, LZ4)),
        **_lz4_batches("v2: ", PLAIN, damaged_frames(region)),
        "v1: wrong CRC": LegacyMessage(small[0], 1, checksum=1),
        "v0: wrong CRC": LegacyMessage(small[0], 0, checksum=1),
        "v1: size 13": LegacyMessage(small[0], 1, size=13),
        "v1: size negative": LegacyMessage(small[0], 1, size=-1),
    }
    for codec in range(1, 5):
        name = CODEC_NAMES[codec]
        payload = compressed(region, codec)
        logs[f"v2: {name}, nothing at all"] = V2Batch(PLAIN, codec, payload=b"")
        logs[f"v2: {name} cut short"] = V2Batch(PLAIN, codec, payload=payload[:-9])
        logs[f"v2: {name}, garbage after the stream"] = V2Batch(PLAIN, codec, payload=payload + b"garbage")
        logs[f"v2: {name}, not compressed"] = V2Batch(PLAIN, codec, payload=region)
        logs[f"v2: {name}, count too large"] = V2Batch(PLAIN, codec, records_count=len(PLAIN) + 1)
        logs[f"v2: {name}, count too small"] = V2Batch(PLAIN, codec, records_count=len(PLAIN) - 1)
        logs[f"v2: {name}, bytes after the records"] = V2Batch(PLAIN, codec, region=region + b"\0")
    whole = V2Batch(records(b"after", offset=100)).encoded()
    made = [Log(name, entry.encoded() + whole) for name, entry in logs.items()]
    zeros = [Log(f"{n} zero bytes", entries(PLAIN, 2) + bytes(n)) for n in (1, 11, 12, 16, 17, 61, 4096)]
    garbage = [Log(f"{n} bytes of garbage", entries(PLAIN, 2) + b"\xa5" * n) for n in (1, 12, 17, 61, 4096)]
    return [*made, *zeros, *garbage]


AFTER = entries(records(b"next", offset=50), 2)


def damaged(magic: int, codec: int) -> list[Log]:
    """One small entry broken in every way, a sound one behind it."""
    entry = _small(magic, codec)
    return [*_truncated(entry), *_flipped(entry)]


def _small(magic: int, codec: int) -> bytes:
    content = [PlainRecord(7, 1000, b"k", b"v"), PlainRecord(8, 1001, None, b"vv")]
    if magic == 2:
        content[0] = replace(content[0], headers=((b"h", b"x"),))
    if codec or magic == 2:
        return entries(content, magic, codec)
    return entries(content[:1], magic)


def _truncated(entry: bytes) -> Iterator[Log]:
    for length in range(len(entry)):
        yield Log(f"cut at {length}", entry[:length])


def _flipped(entry: bytes) -> Iterator[Log]:
    for bit in range(len(entry) * 8):
        broken = bytearray(entry)
        broken[bit // 8] ^= 0x80 >> bit % 8
        yield Log(f"byte {bit // 8} bit {bit % 8}", bytes(broken) + AFTER)
        if bit // 8 >= 16:
            yield Log(f"byte {bit // 8} bit {bit % 8}, CRC right", with_right_checksum(bytes(broken)) + AFTER)
