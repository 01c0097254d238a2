"""Whatever is written in whatever order: the stream, its plain twin and a bytearray hold the same bytes.

Segments are so small that nearly every write meets the end of one.
"""

from __future__ import annotations

import gc
import io
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from kafkalog._speedups.output_stream import BufferingOutputStream, ReservedOutput
from tests.helpers.strategies import INT64_EDGES
from tests.reference import output_stream as reference
from tests.reference.encode import varint
from tests.stateful.sizes import sized

numbers = (
    st.sampled_from([*INT64_EDGES, -(2**15), 255, 256, 2**16 - 1, 2**32 - 1, 2**32, 2**63, -(2**63) - 1])
    | st.integers(-130, 260)
    | st.integers(-(2**64), 2**64)
)
# The least and the most that each can hold, and the bytes it takes; None: as many as the number needs.
KINDS = {
    "write_byte": (-128, 255, 1),
    "write_short": (-(2**15), 2**16 - 1, 2),
    "write_int": (-(2**31), 2**32 - 1, 4),
    "write_long": (-(2**63), 2**63 - 1, 8),
    "write_varint": (-(2**31), 2**31 - 1, None),
    "write_varlong": (-(2**63), 2**63 - 1, None),
}
kinds = st.sampled_from(sorted(KINDS))
lengths = st.integers(0, 12) | st.sampled_from([-1, -(2**63), 40])
offsets = st.integers(-2, 14) | st.sampled_from([2**63 - 1, 2**64, -(2**63)])


def encoded(kind: str, value: int) -> bytes | None:
    """What writing the number writes; None where it is too large."""
    least, most, size = KINDS[kind]
    if not least <= value <= most:
        return None
    return varint(value) if size is None else (value % 2 ** (8 * size)).to_bytes(size, "big")


def part(data: bytes, offset: int, length: int | None) -> bytes | None:
    """data[offset:offset + length]; None where it is not all there."""
    end = len(data) if length is None else offset + length
    return data[offset:end] if 0 <= offset <= end <= len(data) else None


def outcome(output: Any, method: str, *arguments: Any) -> type[Exception] | None:
    """What calling the method raises."""
    try:
        getattr(output, method)(*arguments)
    except (IndexError, OverflowError) as error:
        return type(error)
    return None


class Reservation:
    """A reservation, its twin, and what is left of it in the model."""

    def __init__(self, compiled: ReservedOutput, twin: reference.ReservedOutput, at: int, left: int) -> None:
        self.compiled, self.twin, self.at, self.left = compiled, twin, at, left


class OutputStreamMachine(RuleBasedStateMachine):
    reservations = Bundle("reservations")

    @initialize(segment_size=st.integers(1, 9))
    def begin(self, segment_size: int) -> None:
        self.stream = BufferingOutputStream(segment_size)
        self.twin = reference.BufferingOutputStream(segment_size)
        self.model = bytearray()
        self.lent: list[tuple[memoryview, int]] = []

    def both(self, expected: bytes | None, method: str, *arguments: Any) -> None:
        """Both streams take `expected`, or (None) raise the same and take nothing."""
        raised = outcome(self.stream, method, *arguments)
        assert raised == outcome(self.twin, method, *arguments)
        assert (raised is None) == (expected is not None)
        self.model += expected or b""

    @rule(kind=kinds, value=numbers)
    def write_number(self, kind: str, value: int) -> None:
        self.both(encoded(kind, value), kind, value)

    @rule(data=st.binary(max_size=30), offset=offsets, length=st.none() | lengths)
    def write_range(self, data: bytes, offset: int, length: int | None) -> None:
        self.both(part(data, offset, length), "write", data, offset, length)

    @rule(data=st.binary(max_size=30))
    def write_what_lends_its_bytes(self, data: bytes) -> None:
        self.stream.write(memoryview(bytearray(data)).cast("b"))
        self.twin.write(data)
        self.model += data

    @rule(start=st.integers(0, 40))
    def write_its_own_bytes(self, start: int) -> None:
        # One piece: all of them would double the stream at every call.
        for piece in self.stream.pieces(min(start, len(self.model)))[:1]:
            copy = bytes(piece)
            self.stream.write(piece)
            self.twin.write(copy)
            self.model += copy

    @rule(length=lengths)
    def skip(self, length: int) -> None:
        self.both(bytes(length) if length >= 0 else None, "skip", length)

    @rule(target=reservations, length=st.integers(0, 24))
    def reserve(self, length: int) -> Reservation:
        reservation = Reservation(self.stream.reserve(length), self.twin.reserve(length), len(self.model), length)
        self.model += bytes(length)
        return reservation

    @rule(length=st.integers(max_value=-1))
    def reserve_less_than_nothing(self, length: int) -> None:
        with pytest.raises(IndexError):
            self.stream.reserve(length)

    def fill(self, place: Reservation, expected: bytes | None, method: str, *arguments: Any) -> None:
        fits = expected is not None and len(expected) <= place.left
        raised = outcome(place.compiled, method, *arguments)
        assert raised == outcome(place.twin, method, *arguments)
        assert (raised is None) == fits
        if expected is not None and fits:
            self.model[place.at : place.at + len(expected)] = expected
            place.at += len(expected)
            place.left -= len(expected)
        assert place.compiled.remaining == place.twin.remaining == place.left

    @rule(place=reservations, kind=kinds, value=numbers)
    def fill_with_a_number(self, place: Reservation, kind: str, value: int) -> None:
        self.fill(place, encoded(kind, value), kind, value)

    @rule(place=reservations, data=st.binary(max_size=30), offset=offsets, length=st.none() | lengths)
    def fill_with_a_range(self, place: Reservation, data: bytes, offset: int, length: int | None) -> None:
        self.fill(place, part(data, offset, length), "write", data, offset, length)

    @rule(place=consumes(reservations))
    def forget_a_reservation(self, place: Reservation) -> None:
        del place
        gc.collect(0)

    @rule(start=st.integers(0, 60))
    def borrow(self, start: int) -> None:
        at = min(start, len(self.model))
        for piece in self.stream.pieces(at):
            self.lent.append((piece, at))
            at += len(piece)
        assert at == len(self.model)

    @invariant()
    def all_hold_the_same_bytes(self) -> None:
        assert self.stream.size == len(self.stream) == self.twin.size == len(self.model)
        assert self.stream.to_bytes() == self.twin.to_bytes() == self.model
        assert [bytes(piece) for piece in self.stream.pieces()] == self.twin.pieces()

    @invariant()
    def what_was_lent_shows_what_is_there_now(self) -> None:
        for piece, at in self.lent:
            assert piece == self.model[at : at + len(piece)]

    @invariant()
    def copies_are_whole(self) -> None:
        file = io.BytesIO()
        buffer = bytearray(len(self.model) + 1)
        assert self.stream.write_to(file) == self.stream.write_to(buffer) == len(self.model)
        assert file.getvalue() == self.model
        assert buffer == self.model + b"\0"

    def teardown(self) -> None:
        # The views outlive what lent them.
        del self.stream
        if hasattr(self, "lent"):
            self.what_was_lent_shows_what_is_there_now()


TestOutputStream = OutputStreamMachine.TestCase
TestOutputStream.settings = sized(1, steps=50)
