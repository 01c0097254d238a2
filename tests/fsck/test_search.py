"""The search for the next sound entry: it finds every one and nothing else, in linear time."""

from __future__ import annotations

import os
import random
import signal
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.fsck import ranges, search
from kafkalog.fsck.ranges import CRC32, CRC32C, RangeChecksums
from kafkalog.fsck.search import WINDOW_BYTES, SoundEntries
from kafkalog.storage.mapped import ReadableFile
from tests.helpers.damage import batch, check, log, start_of
from tests.reference.compression import LZ4, NONE, SNAPPY
from tests.reference.encode import FORMATS, V2Batch, entries, records

MIB = 1 << 20
SECONDS = 240


@pytest.mark.parametrize(("polynomial", "function"), [(CRC32, zlib.crc32), (CRC32C, crc32c)])
@given(data=st.data())
def test_the_checksum_of_any_range_is_that_of_its_bytes(
    polynomial: int, function: Callable[[bytes], int], data: st.DataObject
) -> None:
    content = random.Random(data.draw(st.integers(0, 99))).randbytes(3 * ranges.BLOCK_BYTES + 77)
    origin = data.draw(st.integers(0, 100))
    place = st.integers(origin, len(content))
    pairs = [sorted(pair) for pair in data.draw(st.lists(st.tuples(place, place), min_size=1, max_size=40))]
    checksums = RangeChecksums(lambda at, size: memoryview(content)[at : at + size], origin, len(content), polynomial)
    starts, ends = np.array(pairs, np.int64).T
    assert checksums.of(starts, ends).tolist() == [function(content[start:end]) for start, end in pairs]


def found_in(path: Path, data: bytes) -> list[int]:
    path.write_bytes(data)
    sound, at, found = SoundEntries(ReadableFile(path), len(data)), 0, []
    while (place := sound.first(at, len(data))) is not None:
        found.append(place)
        at = place + 1
    return found


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_every_entry_is_found_wherever_it_begins(tmp_path: Path, magic: int, codec: int) -> None:
    generator = random.Random(magic * 8 + codec)
    data, places = b"", []
    for i in range(200):
        data += generator.randbytes(generator.randrange(3000))
        entry = entries(records(generator.randbytes(generator.randrange(100)), None, b"", offset=3 * i), magic, codec)
        places.append(len(data))
        data += entry
    found = found_in(tmp_path / "log", data)
    assert set(places) <= set(found)
    # An uncompressed set of the older formats is an entry a message; and snappy leaves random bytes as they are.
    if magic == 2 or codec not in {NONE, SNAPPY}:
        assert found == places


@pytest.mark.parametrize("codec", [SNAPPY, LZ4])
def test_messages_inside_a_damaged_wrapper_are_not_those_of_the_log(tmp_path: Path, codec: int) -> None:
    generator = random.Random(codec)
    wrappers = [entries(records(*map(generator.randbytes, [300] * 4), offset=4 * i), 1, codec) for i in range(6)]
    data = bytearray(b"".join(wrappers))
    data[start_of(wrappers, 3) : start_of(wrappers, 3) + 30] = bytes(30)
    (finding,) = check(tmp_path / f"{0:020}.log", bytes(data)).findings
    assert (finding.code, finding.position, finding.length) == (
        "lost-bytes", start_of(wrappers, 3), len(wrappers[3]),
    )  # fmt: skip


def test_an_entry_across_windows_is_found(tmp_path: Path) -> None:
    entry = batch(0)
    for before in range(WINDOW_BYTES - 70, WINDOW_BYTES + 2, 3):
        assert found_in(tmp_path / "log", b"\xee" * before + entry) == [before]


def test_an_entry_with_a_wrong_checksum_is_not_found(tmp_path: Path) -> None:
    entry = bytearray(batch(0))
    for at in range(17, 100):
        entry[at] ^= 1
        assert found_in(tmp_path / "log", bytes(entry)) == []
        entry[at] ^= 1


def header(size: int) -> bytes:
    return struct.pack(">qiibIhiqqqhii", 5, size, 0, 2, 0x12345678, 0, 10, 0, 0, -1, -1, -1, 3)


@contextmanager
def time_limit() -> Iterator[None]:
    """Fail after minutes: a search in linear time takes seconds, one in quadratic time hours."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"the search takes more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("size", [MIB, pytest.param(32 * MIB, marks=pytest.mark.slow)], ids=["1 MiB", "32 MiB"])
@pytest.mark.parametrize(
    "filler",
    [
        b"\x00",
        b"\x01",
        b"\x02",
        b"\xff",
        b"\x01\x00",
        b"\x00\x00\x01\x01\x01",
        header(1 << 24),
        header(2**31 - 1),
        None,
    ],
    ids=["zeros", "0x01", "0x02", "0xff", "0x0100", "fives", "headers of 16 MiB", "headers of 2 GiB", "random"],
)
def test_misleading_bytes_are_searched_in_linear_time(tmp_path: Path, filler: bytes | None, size: int) -> None:
    filling = random.Random(7).randbytes(size) if filler is None else filler * (size // len(filler))
    before, after = b"".join(log()), V2Batch(records(b"the last", offset=10**6)).encoded()
    with time_limit():
        checked = check(tmp_path / f"{0:020}.log", before + filling + after)
    assert len(checked.findings) == 1
    assert (checked.findings[0].code, checked.findings[0].position) == ("lost-bytes", len(before))
    assert checked.findings[0].end == len(before) + len(filling)
    assert checked.summary.batches == 9


@pytest.mark.parametrize("count", [500, pytest.param(4000, marks=pytest.mark.slow)])
def test_sound_batches_between_false_headers_are_found_in_linear_time(tmp_path: Path, count: int) -> None:
    pieces = [V2Batch(records(b"v", offset=place)).encoded() + header(1 << 20) for place in range(count)]
    with time_limit():
        checked = check(tmp_path / f"{0:020}.log", b"".join(pieces) + batch(10**4))
    assert checked.codes == ["lost-bytes"] * count
    assert checked.summary.batches == count + 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    with path.open("wb") as file:
        for place in range(64):
            file.write(batch(place, 200_000))
        file.write(header(1 << 24) * 100_000)
        file.truncate(256 * MIB)
        file.seek(0, os.SEEK_END)
        file.write(batch(1000))
    tracemalloc.start()
    try:
        assert check(path, deep=True).codes == ["lost-bytes"]
        assert tracemalloc.get_traced_memory()[1] < 48 * MIB
    finally:
        tracemalloc.stop()


def test_a_batch_larger_than_the_read_buffer_is_checked(tmp_path: Path) -> None:
    batches = [batch(0), batch(1, 1_500_000), batch(2), batch(3, 1_500_000)]
    path = tmp_path / f"{0:020}.log"
    assert check(path, b"".join(batches), deep=True).findings == []
    data = bytearray(b"".join(batches))
    data[start_of(batches, 1) + 5_000_000] ^= 4
    data[start_of(batches, 3) + 5_000_000] ^= 4
    assert [finding.position for finding in check(path, bytes(data)).findings] == [
        start_of(batches, 1), start_of(batches, 3),
    ]  # fmt: skip


def test_windows_and_blocks_fit() -> None:
    assert search.WINDOW_BYTES % ranges.BLOCK_BYTES == 0
