"""Messages of formats 0 and 1 written as they come, what is only known later filled in before them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, TimestampType
from kafkalog.record.message_writer import MessageWriter
from tests.helpers.strategies import payloads
from tests.reference.encode import LegacyMessage, PlainRecord

SEGMENT_SIZES = [1, 2, 3, 5, 1000]
segment_sizes = st.integers(1, 40)


def message(segment_size: int = 64, **fields: Any) -> bytes:
    writer = MessageWriter(segment_size)
    writer.write(**fields)
    return writer.to_bytes()


def framed(offset: int, content: bytes) -> bytes:
    return struct.pack(">qi", offset, len(content)) + content


# --- prefixes


@pytest.mark.parametrize("segment_size", SEGMENT_SIZES)
def test_a_length_counts_what_is_written_inside(segment_size: int) -> None:
    writer = MessageWriter(segment_size)
    writer.write(b"ab")
    with writer.with_length_prefix():
        writer.write(b"inside")
    writer.write(b"cd")
    assert writer.to_bytes() == b"ab\0\0\0\x06insidecd"


@pytest.mark.parametrize("segment_size", SEGMENT_SIZES)
def test_a_checksum_is_that_of_zlib_over_what_is_written_inside(segment_size: int) -> None:
    writer = MessageWriter(segment_size)
    writer.write(b"ab")
    with writer.with_crc32_prefix():
        writer.write(b"inside")
    writer.write(b"cd")
    assert writer.to_bytes() == b"ab" + struct.pack(">I", zlib.crc32(b"inside")) + b"insidecd"


@pytest.mark.parametrize("segment_size", SEGMENT_SIZES)
def test_prefixes_stand_inside_one_another(segment_size: int) -> None:
    writer = MessageWriter(segment_size)
    with writer.with_crc32_prefix():
        writer.write_byte(7)
        with writer.with_length_prefix():
            with writer.with_crc32_prefix():
                writer.write(b"innermost")
            with writer.with_length_prefix():
                pass
    inner = struct.pack(">I", zlib.crc32(b"innermost")) + b"innermost" + bytes(4)
    covered = b"\x07" + struct.pack(">i", len(inner)) + inner
    assert writer.to_bytes() == struct.pack(">I", zlib.crc32(covered)) + covered


@given(pieces=st.lists(st.binary(max_size=30)), segment_size=segment_sizes, before=st.binary(max_size=50))
def test_a_checksum_goes_over_any_number_of_segments(pieces: list[bytes], segment_size: int, before: bytes) -> None:
    writer = MessageWriter(segment_size)
    writer.write(before)
    with writer.with_crc32_prefix():
        for piece in pieces:
            writer.write(piece)
    content = b"".join(pieces)
    assert writer.to_bytes() == before + struct.pack(">I", zlib.crc32(content)) + content


class Boastful(MessageWriter):
    """Says that it has written two gigabytes, so that nobody has to."""

    claimed = 0

    @property
    def size(self) -> int:
        return super().size + self.claimed


def test_a_length_that_a_signed_field_does_not_hold_is_refused() -> None:
    writer = Boastful(100)
    with pytest.raises(OverflowError, match="2147483648"), writer.with_length_prefix():
        writer.claimed = 2**31
    writer = Boastful(100)
    with writer.with_length_prefix():
        writer.claimed = 2**31 - 1
    assert writer.to_bytes() == b"\x7f\xff\xff\xff"


# --- messages


@pytest.mark.parametrize("segment_size", SEGMENT_SIZES)
@pytest.mark.parametrize(("magic", "checksum"), [(0, 1978725405), (1, 109425508)])
def test_the_checksum_is_that_of_kafkas_own_test(magic: int, checksum: int, segment_size: int) -> None:
    content = message(segment_size, key=b"key1", timestamp=283843, magic=magic, payload=b"value1")
    assert int.from_bytes(content[:4], "big") == checksum
    (batch,) = ByteBufferMessageSet(framed(0, content)).batches()
    assert (batch.checksum, batch.is_valid) == (checksum, True)


@given(
    key=payloads,
    value=payloads,
    timestamp=st.integers(-1, 2**63 - 1),
    magic=st.integers(0, 1),
    timestamp_type=st.integers(0, 1),
    segment_size=segment_sizes,
)
def test_a_message_is_the_one_that_the_reference_encodes(
    key: bytes | None, value: bytes | None, timestamp: int, magic: int, timestamp_type: int, segment_size: int
) -> None:
    fields: dict[str, Any] = {"key": key, "timestamp": timestamp, "timestamp_type": TimestampType(timestamp_type)}
    content = message(segment_size, magic=magic, payload=value, **fields)
    expected = LegacyMessage(
        PlainRecord(9, timestamp, key, value), magic, timestamp_type=timestamp_type if magic else 0
    )
    assert framed(9, content) == expected.encoded()


def test_a_payload_may_be_written_by_a_callable() -> None:
    given_whole = message(key=b"k", payload=b"the value")

    def in_pieces(writer: MessageWriter) -> None:
        writer.write(b"the ")
        writer.write(b"value")

    assert message(3, key=b"k", payload=in_pieces) == given_whole
    assert message(payload=lambda _: None) == message(payload=b"")
    assert message(payload=None) != message(payload=b"")


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("segment_size", SEGMENT_SIZES)
def test_a_wrapper_holds_messages_that_are_written_straight_into_it(magic: int, segment_size: int) -> None:
    inner = [framed(i, message(key=b"k", timestamp=i, magic=magic, payload=b"v%d" % i)) for i in range(3)]

    def compressed(writer: MessageWriter) -> None:
        writer.write(zlib.compress(b"".join(inner), wbits=31))

    wrapper = message(segment_size, compression_type=CompressionType.GZIP, timestamp=2, magic=magic, payload=compressed)
    messages = ByteBufferMessageSet(framed(2, wrapper))
    assert [(record.offset, record.value) for record in messages] == [(0, b"v0"), (1, b"v1"), (2, b"v2")]
    (batch,) = messages.batches()
    assert (batch.compression_type, batch.is_valid) == (CompressionType.GZIP, True)


def test_several_messages_stand_one_after_the_other() -> None:
    writer = MessageWriter(7)
    for i in range(3):
        writer.write_long(i)
        with writer.with_length_prefix():
            writer.write(key=None, timestamp=i, payload=b"v%d" % i)
    messages = ByteBufferMessageSet(writer.to_bytes())
    assert [(record.offset, record.timestamp, record.key, record.value) for record in messages] == [
        (0, 0, None, b"v0"),
        (1, 1, None, b"v1"),
        (2, 2, None, b"v2"),
    ]


def test_the_timestamp_type_is_a_bit_that_format_0_does_not_have() -> None:
    attributes_at = 5
    log_append = TimestampType.LOG_APPEND_TIME
    assert message(magic=1, timestamp_type=log_append, payload=b"")[attributes_at] == 0x08
    assert message(magic=0, timestamp_type=log_append, payload=b"")[attributes_at] == 0
    assert message(magic=0, timestamp_type=TimestampType.NO_TIMESTAMP_TYPE, payload=b"")[attributes_at] == 0


# --- what is refused

REFUSED: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"magic": 2}, ValueError),
    ({"magic": -1}, ValueError),
    ({"magic": "1"}, TypeError),
    ({"timestamp": -2}, ValueError),
    ({"timestamp": 2**63}, ValueError),
    ({"timestamp": 1.5}, TypeError),
    ({"timestamp": None}, TypeError),
    ({"magic": 0, "compression_type": CompressionType.ZSTD}, ValueError),
    ({"magic": 1, "compression_type": CompressionType.ZSTD}, ValueError),
    ({"compression_type": 4}, ValueError),
    ({"compression_type": 5}, ValueError),
    ({"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, ValueError),
    ({"timestamp_type": 2}, ValueError),
    ({"key": "text"}, TypeError),
    ({"key": 5}, TypeError),
    ({"key": memoryview(b"abcdef")[::2]}, TypeError),
    ({"payload": "text"}, TypeError),
    ({"payload": memoryview(b"abcdef")[::2]}, TypeError),
    ({"value": b"a word that it does not know"}, TypeError),
]


@pytest.mark.parametrize(("fields", "error"), REFUSED)
def test_an_invalid_message_is_refused_before_its_first_byte_is_written(
    fields: dict[str, Any], error: type[Exception]
) -> None:
    writer = MessageWriter(4)
    writer.write(b"before")
    with pytest.raises(error):
        writer.write(**({"key": b"k", "payload": b"v"} | fields))
    assert writer.to_bytes() == b"before"


@pytest.mark.parametrize(
    "call",
    [
        lambda writer: writer.write(),
        lambda writer: writer.write(None),
        lambda writer: writer.write("text"),
        lambda writer: writer.write(b"bytes", payload=b"and a message"),
        lambda writer: writer.write(None, 3, payload=b"v"),
        lambda writer: writer.write(None, 0, 3, payload=b"v"),
    ],
)
def test_neither_bytes_nor_a_message_or_both_are_refused(call: Callable[[MessageWriter], object]) -> None:
    writer = MessageWriter(4)
    with pytest.raises(TypeError):
        call(writer)
    assert writer.size == 0


def test_a_payload_that_fails_fails_the_message() -> None:
    def failing(_: MessageWriter) -> None:
        raise RuntimeError("no value")

    with pytest.raises(RuntimeError, match="no value"):
        MessageWriter(4).write(payload=failing)
