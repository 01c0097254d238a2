"""Kinds of damage, each a function that damages the bytes of a segment, always in the same way."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import TypeAlias

from tests.helpers.damage import flipped, with_bytes

# Takes the bytes of a segment and the positions of its batches, the end of the last one included.
Kind: TypeAlias = Callable[[bytes, list[int]], bytes]
TEXT = b"The quick brown fox jumps over the lazy dog. "
PAGE = 4096


def places_of(data: bytes) -> list[int]:
    """Return where the batches of a sound segment begin, and where the last one ends."""
    places = [0]
    while places[-1] + 12 <= len(data) and (size := struct.unpack_from(">i", data, places[-1] + 8)[0]):
        places.append(places[-1] + 12 + size)
    return places


def _batch(share: float, places: list[int]) -> tuple[int, int]:
    """Return start and end of the batch so far into the segment, 0 <= share <= 1."""
    i = min(int(share * (len(places) - 1)), len(places) - 2)
    return places[i], places[i + 1]


def _flip(share: float, byte: int) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        start, end = _batch(share, places)
        return flipped(data, start + byte if byte >= 0 else end + byte, 3)

    return damage


def _field(share: float, at: int, new: bytes) -> Kind:
    return lambda data, places: with_bytes(data, _batch(share, places)[0] + at, new)


def _size_by(share: float, more: int) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        start, end = _batch(share, places)
        return with_bytes(data, start + 8, struct.pack(">i", end - start - 12 + more))

    return damage


def _size_over(share: float, batches: int) -> Kind:
    """A size field that leads beyond so many batches more."""

    def damage(data: bytes, places: list[int]) -> bytes:
        start, _ = _batch(share, places)
        last = min(places.index(start) + 1 + batches, len(places) - 1)
        return with_bytes(data, start + 8, struct.pack(">i", places[last] - start - 12))

    return damage


def _overwritten(share: float, new: Callable[[int], bytes], length: int, within: int = 0) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        at = _batch(share, places)[0] + within
        return with_bytes(data, at, new(min(length, len(data) - at)))

    return damage


def _zeroed(share: float) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        start, end = _batch(share, places)
        return with_bytes(data, start, bytes(end - start))

    return damage


def _page(data: bytes, places: list[int]) -> bytes:
    at = places[-1] // 2 // PAGE * PAGE
    return with_bytes(data, at, bytes(min(PAGE, len(data) - at)))


def _inserted(share: float, new: bytes, within: int) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        at = _batch(share, places)[0] + within
        return data[:at] + new + data[at:]

    return damage


def _cut_out(share: float, within: int, length: int) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        at = _batch(share, places)[0] + within
        return data[:at] + data[at + length :]

    return damage


def _batch_gone(data: bytes, places: list[int]) -> bytes:
    start, end = _batch(0.5, places)
    return data[:start] + data[end:]


def _cut_off(kept: Callable[[list[int]], int]) -> Kind:
    return lambda data, places: data[: max(0, kept(places))]


def _appended(new: bytes) -> Kind:
    return lambda data, places: data[: places[-1]] + new


def _half_a_batch(data: bytes, places: list[int]) -> bytes:
    start, end = _batch(1, places)
    return data[: places[-1]] + data[start : (start + end) // 2]


def _each(step: int) -> Kind:
    def damage(data: bytes, places: list[int]) -> bytes:
        for end in places[1::step]:
            data = flipped(data, end - 1, 0)
        return data

    return damage


def _both(first: Kind, second: Kind) -> Kind:
    """The second damage lies behind the first, and none of them moves bytes."""
    return lambda data, places: second(first(data, places), places)


def _noise(length: int) -> bytes:
    return random.Random(length).randbytes(length)


KINDS: dict[str, Kind] = {
    "the first payload": _flip(0, -1),
    "a payload": _flip(0.5, -1),
    "the last payload": _flip(1, -1),
    "a checksum": _flip(0.4, 18),
    "attributes": _flip(0.6, 22),
    "every payload": _each(1),
    "every third payload": _each(3),
    "two payloads side by side": _both(_flip(0.4, -1), _flip(0.6, -1)),
    "size 0": _field(0.5, 8, bytes(4)),
    "size 13": _field(0.3, 8, struct.pack(">i", 13)),
    "a negative size": _field(0.5, 8, b"\xff\xff\xff\xff"),
    "the first size as large as can be": _field(0, 8, b"\x7f\xff\xff\xff"),
    "a size as large as can be": _field(0.5, 8, b"\x7f\xff\xff\xff"),
    "the last size 1 MiB": _field(1, 8, struct.pack(">i", 1 << 20)),
    "a size 1 more": _size_by(0.5, 1),
    "a size 1 less": _size_by(0.5, -1),
    "a size 100 more": _size_by(0, 100),
    "a size over the next batch": _size_over(0.3, 1),
    "a size over three batches": _size_over(0.3, 3),
    "a size over all others": _size_over(0.4, 1 << 20),
    "the first size over all others": _size_over(0, 1 << 20),
    "a size over all others, and the last payload": _both(_size_over(0.4, 1 << 20), _flip(1, -1)),
    "the last batch ends before it begins": _field(1, 23, b"\x80"),
    "magic 3": _field(0.5, 16, b"\3"),
    "the first magic 255": _field(0, 16, b"\xff"),
    "magic and size": _both(_field(0.3, 8, struct.pack(">i", 7)), _field(0.3, 16, b"\7")),
    "a zeroed batch": _zeroed(0.5),
    "the last batch zeroed": _zeroed(1),
    "the first batch zeroed": _zeroed(0),
    "a zeroed header": _overwritten(0.5, bytes, 26),
    "a zeroed page": _page,
    "1 KiB of noise": _overwritten(0.4, _noise, 1024, within=30),
    "noise up to the end": _overwritten(0.7, _noise, 1 << 30, within=40),
    "1 byte put in": _inserted(0.5, b"x", 50),
    "100 bytes put in": _inserted(0.5, TEXT * 2 + b"..........", 40),
    "200 zeros put in between": _inserted(0.4, bytes(200), 0),
    "text put in at the start": _inserted(0, TEXT, 0),
    "100 bytes cut out": _cut_out(0.5, 40, 100),
    "a header cut out": _cut_out(0.3, 0, 61),
    "a batch cut out": _batch_gone,
    "5000 bytes cut out": _cut_out(0.3, 70, 5000),
    "the last byte cut off": _cut_off(lambda places: places[-1] - 1),
    "cut off within a header": _cut_off(lambda places: places[-2] + 15),
    "cut off in the middle": _cut_off(lambda places: places[-1] // 2 + 5),
    "half a batch at the end": _half_a_batch,
    "text at the end": _appended(TEXT * 9),
    "zeros at the end": _appended(bytes(5000)),
    "zeros and a torn batch at the end": _both(_appended(bytes(300) + TEXT), _flip(0.5, -1)),
    "an offset below the segment": _field(0.5, 0, struct.pack(">q", -5)),
    "an offset far beyond the segment": _field(0.5, 0, struct.pack(">q", 1 << 50)),
}
