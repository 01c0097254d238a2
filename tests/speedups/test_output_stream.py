"""The stream of linked segments: the bytes its plain twin writes, and no crash, whatever Python calls it with.

Any order of calls is tried in tests/stateful; here is what has a name.
"""

from __future__ import annotations

import copy
import gc
import io
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.output_stream import BufferingOutputStream, ReservedOutput
from tests.reference import output_stream as reference

# The address sanitizer ends the process where memory is refused, and needs more of it than a limit would leave.
no_memory = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer refuses no memory")
# The stream's own kinds of numbers, each with its least and its most.
RANGES = {
    "write_byte": (-128, 255),
    "write_short": (-(2**15), 2**16 - 1),
    "write_int": (-(2**31), 2**32 - 1),
    "write_long": (-(2**63), 2**63 - 1),
    "write_varint": (-(2**31), 2**31 - 1),
    "write_varlong": (-(2**63), 2**63 - 1),
}


def written(method: str, *arguments: Any, segment_size: int = 64) -> bytes:
    stream = BufferingOutputStream(segment_size)
    getattr(stream, method)(*arguments)
    return stream.to_bytes()


# --- what is written


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"), (300, "d804"),
        (8191, "fe7f"), (-8192, "ff7f"), (8192, "808001"), (2**31 - 1, "feffffff0f"), (-(2**31), "ffffffff0f"),
    ],
)  # fmt: skip
def test_varints_are_those_of_kafka(value: int, expected: str) -> None:
    assert written("write_varint", value).hex() == expected
    assert written("write_varlong", value).hex() == expected


def test_the_longest_varlongs_take_ten_bytes() -> None:
    assert written("write_varlong", 2**63 - 1).hex() == "feffffffffffffffff01"
    assert written("write_varlong", -(2**63)).hex() == "ffffffffffffffffff01"


@pytest.mark.parametrize(
    ("method", "value", "expected"),
    [
        ("write_byte", -1, "ff"),
        ("write_byte", 255, "ff"),
        ("write_short", 0x0102, "0102"),
        ("write_short", 0xFFFE, "fffe"),
        ("write_int", -2, "fffffffe"),
        ("write_int", 0x01020304, "01020304"),
        ("write_int", 0xFFFFFFFF, "ffffffff"),
        ("write_long", 0x0102030405060708, "0102030405060708"),
        ("write_long", -(2**63), "8000000000000000"),
    ],
)
@pytest.mark.parametrize("segment_size", [1, 3, 64])
def test_integers_are_big_endian_also_across_segments(
    method: str, value: int, expected: str, segment_size: int
) -> None:
    assert written(method, value, segment_size=segment_size).hex() == expected


@given(
    kind=st.sampled_from(sorted(RANGES)), values=st.lists(st.integers(-(2**63), 2**64)), segment_size=st.integers(1, 9)
)
def test_numbers_are_written_as_the_twin_writes_them(kind: str, values: list[int], segment_size: int) -> None:
    stream, twin = BufferingOutputStream(segment_size), reference.BufferingOutputStream(segment_size)
    least, most = RANGES[kind]
    for value in values:
        for output in (stream, twin):
            if least <= value <= most:
                getattr(output, kind)(value)
            else:
                with pytest.raises(OverflowError):
                    getattr(output, kind)(value)
    assert stream.to_bytes() == twin.to_bytes()


def test_a_full_segment_is_followed_by_a_new_one_and_not_written_to_again() -> None:
    stream = BufferingOutputStream(4)
    stream.write(b"abcd")
    assert [bytes(piece) for piece in stream.pieces()] == [b"abcd"]
    stream.write(b"efghij")
    assert [bytes(piece) for piece in stream.pieces()] == [b"abcd", b"efgh", b"ij"]
    assert [bytes(piece) for piece in stream.pieces(6)] == [b"gh", b"ij"]
    assert stream.pieces(10) == []


def test_only_a_given_range_is_written() -> None:
    assert written("write", b"abcdef", 2) == b"cdef"
    assert written("write", b"abcdef", 2, 3) == b"cde"
    assert written("write", b"abcdef", 6) == b""
    assert written("write", b"", 0, 0) == b""


def test_every_object_with_a_buffer_is_written(tmp_path: Any) -> None:
    import array

    import numpy as np

    assert written("write", bytearray(b"abc")) == b"abc"
    assert written("write", memoryview(b"abc")[1:]) == b"bc"
    assert written("write", array.array("b", [-1, 1])) == b"\xff\x01"
    assert written("write", np.array([[1, 2], [3, 4]], ">i2")) == bytes([0, 1, 0, 2, 0, 3, 0, 4])


# --- what is reserved


def test_a_length_stands_before_what_it_counts_and_is_written_after() -> None:
    stream = BufferingOutputStream(3)
    stream.write(b"ab")
    length = stream.reserve(4)
    assert length.remaining == 4
    stream.write(b"payload")
    length.write_int(7)
    assert length.remaining == 0
    assert stream.to_bytes() == b"ab\0\0\0\x07payload"


def test_a_reservation_is_zero_until_it_is_filled_and_is_filled_in_order() -> None:
    stream = BufferingOutputStream(5)
    stream.write(b"1234")
    place = stream.reserve(7)
    stream.write(b"z")
    assert stream.to_bytes() == b"1234" + bytes(7) + b"z"
    place.write(b"ab")
    place.write_byte(99)
    assert (place.remaining, stream.to_bytes()) == (4, b"1234abc" + bytes(4) + b"z")


@pytest.mark.parametrize("segment_size", [1, 4, 100])
def test_writing_past_a_reservation_is_refused_and_nothing_of_it_written(segment_size: int) -> None:
    stream = BufferingOutputStream(segment_size)
    place = stream.reserve(3)
    stream.write(b"behind")
    with pytest.raises(IndexError, match="3"):
        place.write_int(-1)
    assert (place.remaining, stream.to_bytes()) == (3, b"\0\0\0behind")
    place.write(b"abc")
    with pytest.raises(IndexError):
        place.write_byte(1)
    place.write(b"")
    assert stream.to_bytes() == b"abcbehind"


def test_a_reservation_of_nothing_takes_nothing() -> None:
    stream = BufferingOutputStream(2)
    for place in (stream.reserve(0), ReservedOutput()):
        with pytest.raises(IndexError):
            place.write_byte(1)
    assert stream.to_bytes() == b""


def test_a_reservation_outlives_its_stream() -> None:
    stream = BufferingOutputStream(2)
    stream.write(b"abc")
    place = stream.reserve(5)
    (piece, *_) = stream.pieces(3)
    stream.write(bytes(100))
    del stream
    gc.collect()
    place.write(b"12345")
    assert bytes(piece) == b"1"


def test_a_stream_begun_again_is_empty_and_earlier_reservations_fill_the_earlier_bytes() -> None:
    stream = BufferingOutputStream(2)
    stream.write(b"abc")
    place = stream.reserve(5)
    lent = stream.pieces()
    stream.__init__(3)  # type: ignore[misc]
    stream.write(b"new")
    place.write(b"12345")
    assert stream.to_bytes() == b"new"
    assert b"".join(lent) == b"abc12345"


# --- what is refused


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, None), (4, None), (0, -1), (0, 4), (2, 2), (3, 1), (2**63 - 1, 1), (1, 2**63 - 1), (2**64, None), (0, 2**64)],
)
def test_a_range_that_is_not_there_is_refused(offset: int, length: int | None) -> None:
    stream = BufferingOutputStream(2)
    with pytest.raises(IndexError):
        stream.write(b"abc", offset, length)
    assert stream.size == 0


@pytest.mark.parametrize("length", [-1, -(2**63), -(2**64), 2**64])
def test_skipping_backwards_or_beyond_all_memory_is_refused(length: int) -> None:
    stream = BufferingOutputStream(2)
    with pytest.raises(IndexError):
        stream.skip(length)
    with pytest.raises(IndexError):
        stream.reserve(length)
    with pytest.raises(IndexError):
        stream.pieces(length)
    assert stream.size == 0


@no_memory
@pytest.mark.parametrize("length", [2**63 - 1, 2**62, 2**47])
def test_more_than_memory_can_take_is_refused_at_once_and_nothing_changed(length: int) -> None:
    stream = BufferingOutputStream(16)
    stream.write(b"abc")
    with pytest.raises(MemoryError):
        stream.skip(length)
    with pytest.raises(MemoryError):
        stream.reserve(length)
    stream.write(b"d")
    assert stream.to_bytes() == b"abcd"


@pytest.mark.parametrize("segment_size", [0, -1, -(2**63)])
def test_a_segment_has_at_least_one_byte(segment_size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        BufferingOutputStream(segment_size)


@no_memory
def test_a_segment_larger_than_memory_is_refused() -> None:
    with pytest.raises(MemoryError):
        BufferingOutputStream(2**63 - 1)


@pytest.mark.parametrize("kind", sorted(RANGES))
@pytest.mark.parametrize("value", [1.5, "1", None, b"1"])
def test_a_value_that_is_no_integer_is_refused(kind: str, value: object) -> None:
    with pytest.raises(TypeError):
        written(kind, value)


@pytest.mark.parametrize("data", ["text", None, 5, [1, 2]])
def test_a_value_that_is_no_bytes_is_refused(data: object) -> None:
    with pytest.raises(TypeError):
        written("write", data)


def test_bytes_that_do_not_lie_in_one_piece_are_refused() -> None:
    with pytest.raises(BufferError):
        written("write", memoryview(b"abcdef")[::2])


class Forgetful(BufferingOutputStream):
    """Does not begin its stream."""

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize("use", [lambda s: s.write(b"a"), lambda s: s.skip(1), lambda s: s.reserve(1)])
def test_a_stream_without_its_constructor_raises(use: Callable[[BufferingOutputStream], object]) -> None:
    stream = Forgetful()
    with pytest.raises(TypeError):
        use(stream)
    assert stream.size == 0


class Unskipping(BufferingOutputStream):
    """Does not skip."""

    def skip(self, length: Any) -> None:
        pass


def test_a_subclass_cannot_take_the_room_from_a_reservation() -> None:
    stream = Unskipping(2)
    stream.reserve(100).write(b"x" * 100)
    assert stream.to_bytes() == b"x" * 100


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_neither_a_stream_nor_a_reservation_is_copied(duplicate: Callable[[object], object]) -> None:
    """Two that shared the segments, and not the count of what is in them, would write over other memory."""
    stream = BufferingOutputStream(2)
    for each in (stream, stream.reserve(3)):
        with pytest.raises(TypeError, match="copied"):
            duplicate(each)


class Meddler:
    """Garbage that writes to the stream when it is collected."""

    def __init__(self, stream: BufferingOutputStream) -> None:
        self.stream, self.itself = stream, self

    def __del__(self) -> None:
        self.stream.write(b"[meddled]")


def test_garbage_that_writes_to_the_stream_writes_between_the_others_writes() -> None:
    stream = BufferingOutputStream(2)
    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(50):
            Meddler(stream)
            stream.write(b"<abcdefg>")
            stream.reserve(3).write(b"(!)")
            stream.pieces(stream.size // 2)
        gc.collect()
    finally:
        gc.set_threshold(*thresholds)
    rest = stream.to_bytes()
    assert len(rest) == stream.size == 50 * len(b"<abcdefg>(!)[meddled]")
    for part in (b"<abcdefg>", b"(!)", b"[meddled]"):
        assert rest.count(part) == 50


@no_memory
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory holds on Linux only")
def test_a_stream_that_runs_out_of_memory_is_as_it_was() -> None:
    code = """
import resource
from kafkalog._speedups.output_stream import BufferingOutputStream
stream = BufferingOutputStream(1 << 20)
stream.write(b"abc")
place = stream.reserve(2)
resource.setrlimit(resource.RLIMIT_AS, (600 << 20, 600 << 20))
for length in (10 << 30, 500 << 20):
    for use in (stream.skip, stream.reserve):
        for _ in range(100):
            before = stream.size
            try:
                use(length)
            except MemoryError:
                assert stream.size == before
                break
        else:
            raise SystemExit("memory was never short")
place.write(b"de")
stream.write(b"f")
assert stream.pieces()[0][:5] == b"abcde"
assert stream.pieces()[-1][-1:] == b"f"
"""
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=600)


# --- where it goes


def test_a_stream_is_copied_to_the_front_of_a_buffer() -> None:
    stream = BufferingOutputStream(2)
    stream.write(b"abcde")
    target = bytearray(b"........")
    assert stream.write_to(target) == 5
    assert stream.write_to(memoryview(target)[3:]) == 5
    assert target == b"abcabcde"


def test_a_buffer_too_short_or_not_to_be_written_is_refused_and_left_alone() -> None:
    stream = BufferingOutputStream(2)
    stream.write(b"abcde")
    target = bytearray(4)
    with pytest.raises(IndexError, match="5 bytes do not fit into 4"):
        stream.write_to(target)
    assert target == bytes(4)
    with pytest.raises((BufferError, ValueError, TypeError)):
        stream.write_to(b"12345678")


class Sluggish(io.RawIOBase):
    """Takes a byte or two at a time, and stops waiting after `limit`."""

    def __init__(self, limit: int = 10**9) -> None:
        self.taken, self.limit, self.random = bytearray(), limit, random.Random(1)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int | None:
        amount = min(self.random.randint(1, 2), self.limit - len(self.taken), len(data))
        if not amount:
            return None
        self.taken += data[:amount]
        return amount


def test_a_file_that_takes_little_at_a_time_gets_all() -> None:
    stream = BufferingOutputStream(7)
    stream.write(bytes(range(100)))
    file = Sluggish()
    assert stream.write_to(file) == 100
    assert file.taken == bytes(range(100))


@pytest.mark.parametrize("limit", [0, 3, 7, 50])
def test_a_file_that_does_not_block_raises_with_the_bytes_it_took(limit: int) -> None:
    stream = BufferingOutputStream(7)
    stream.write(bytes(range(100)))
    file = Sluggish(limit)
    with pytest.raises(BlockingIOError) as error:
        stream.write_to(file)
    assert error.value.characters_written == limit
    assert file.taken == bytes(range(limit))


def test_a_buffered_file_that_does_not_block_raises_with_the_bytes_it_took() -> None:
    stream = BufferingOutputStream(7)
    stream.write(bytes(range(100)))
    raw = Sluggish(40)
    file = io.BufferedWriter(raw, buffer_size=16)
    with pytest.raises(BlockingIOError) as error:
        stream.write_to(file)
    # Some of it lies in the buffer, and comes when the file takes bytes again.
    raw.limit = 10**9
    file.flush()
    assert raw.taken == bytes(range(error.value.characters_written))


class Endless(io.RawIOBase):
    def write(self, data: Any) -> int:
        return 0


def test_a_file_that_takes_nothing_is_not_asked_for_ever() -> None:
    stream = BufferingOutputStream(7)
    stream.write(b"abc")
    with pytest.raises(BlockingIOError):
        stream.write_to(Endless())


def test_a_file_that_writes_to_the_stream_gets_what_was_there_before() -> None:
    stream = BufferingOutputStream(2)
    stream.write(b"abcde")

    class Echo(io.BytesIO):
        def write(self, data: Any) -> int:
            stream.write(data)
            return super().write(data)

    file = Echo()
    assert stream.write_to(file) == 5
    assert file.getvalue() == b"abcde"
    assert stream.to_bytes() == b"abcdeabcde"
