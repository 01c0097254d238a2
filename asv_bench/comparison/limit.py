"""The limit of a reading: what remains if nothing lies between the calls of libraries.

    read -> CRC-32C of each batch -> the codec's own decompression -> a bare parse of all records

The places of the batches are known before the clock starts. Some batches are read, checked, decompressed to one buffer
and parsed by one call of the kernel, so that their bytes are still in the cache; no row is looked at in Python.

`bare_calls` are the calls of the codec's library alone, in one or two threads: what a second thread can gain with these
packages. `headers` is one `pread` a batch.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import cramjam
import numpy as np
import zstandard
from crc32c import crc32c
from isal import isal_zlib

from kafkalog import FileMessageSet
from kafkalog._speedups.decode import decode_batches

STRETCH_BYTES = 1 << 20
# A batch of the segments has less than 64 KiB.
ROOM = 1 << 17
CRC_COVERS_FROM = 21
HEADER_BYTES = 61
_XERIAL_HEADER_BYTES = 16
_LZ4_HEADER_BYTES = 7
_LZ4_BLOCK_BYTES = 1 << 16

Call = Callable[[memoryview, memoryview], int]


class Stretch(NamedTuple):
    """Consecutive batches: their rows of the header table, and of each where it and its records begin and end."""

    rows: np.ndarray
    batches: list[tuple[int, int]]
    records: list[tuple[int, int]]


def _copied(data: bytes, out: memoryview) -> int:
    out[: len(data)] = data
    return len(data)


def _snappy(data: memoryview, out: memoryview) -> int:
    at, written = _XERIAL_HEADER_BYTES, 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        written += cramjam.snappy.decompress_raw_into(data[at + 4 : at + 4 + size], out[written:])
        at += 4 + size
    return written


def _lz4(data: memoryview, out: memoryview) -> int:
    at, written = _LZ4_HEADER_BYTES, 0
    while size := int.from_bytes(data[at : at + 4], "little"):
        block = data[at + 4 : at + 4 + size]
        written += cramjam.lz4.decompress_block_into(block, out[written : written + _LZ4_BLOCK_BYTES], 0)
        at += 4 + size
    return written


def _zstd() -> Call:
    decompressor = zstandard.ZstdDecompressor()
    return lambda data, out: decompressor.stream_reader(data).readinto(out)


# By codec number; the function is made once a thread.
CALLS: dict[int, Callable[[], Call]] = {
    1: lambda: lambda data, out: _copied(isal_zlib.decompress(data, 31, ROOM), out),
    2: lambda: _snappy,
    3: lambda: _lz4,
    4: _zstd,
}


def _stretches(path: Path) -> tuple[int, list[Stretch]]:
    """Return the codec of a file, and its batches in groups of about a megabyte."""
    rows = FileMessageSet(path).headers()
    starts, ends = rows["position"] + HEADER_BYTES, rows["position"] + rows["size_in_bytes"]
    cuts = np.flatnonzero(np.diff(rows["position"] // STRETCH_BYTES)) + 1
    made = []
    for part in np.split(np.arange(len(rows)), cuts):
        own, first = rows[part], int(rows["position"][part[0]])
        begins = own["position"] - first
        batches = list(zip(begins.tolist(), (begins + own["size_in_bytes"]).tolist(), strict=True))
        records = list(zip((starts[part] - first).tolist(), (ends[part] - first).tolist(), strict=True))
        made.append(Stretch(own, batches, records))
    return int(rows["compression_type"][0]), made


def limit(path: Path) -> Callable[[], tuple[int, int]]:
    """Return a reading of all columns, as near to the libraries' calls as Python comes."""
    codec, stretches = _stretches(path)
    stored = memoryview(bytearray(max(stretch.batches[-1][1] for stretch in stretches)))
    out = memoryview(bytearray(max(len(stretch.batches) for stretch in stretches) * ROOM))
    decompress = CALLS[codec]() if codec else None

    def read() -> tuple[int, int]:
        items = 0
        with path.open("rb", buffering=0) as file:
            for rows, batches, records in stretches:
                size = batches[-1][1]
                file.readinto(stored[:size])
                for start, end in batches:
                    crc32c(stored[start + CRC_COVERS_FROM : end])
                if decompress is None:
                    items += decode_batches(stored[:size], rows, None, None, int(rows["position"][0]))[2]
                    continue
                ends, at = [], 0
                for start, end in records:
                    at += decompress(stored[start:end], out[at:])
                    ends.append(at)
                items += _parsed(out[:at], rows, ends)
        return items, -1

    return read


def _parsed(out: memoryview, rows: np.ndarray, ends: list[int]) -> int:
    stops = np.array(ends, np.int64)
    return int(decode_batches(out, rows, np.concatenate(([0], stops[:-1])), stops)[2])


def headers(path: Path) -> Callable[[], tuple[int, int]]:
    """Return a reading of the header of each batch, one at a time."""
    positions = FileMessageSet(path).headers()["position"].tolist()

    def read() -> tuple[int, int]:
        with path.open("rb", buffering=0) as file:
            fd = file.fileno()
            for position in positions:
                os.pread(fd, HEADER_BYTES, position)
        return len(positions), -1

    return read


def bare_calls(path: Path, threads: int) -> Callable[[], tuple[int, int]]:
    """Return a reading that only decompresses, in so many threads; items are records."""
    codec, stretches = _stretches(path)
    count = sum(int(stretch.rows["records_count"].sum()) for stretch in stretches)
    data = memoryview(path.read_bytes())
    regions = [
        data[int(rows["position"][0]) + start : int(rows["position"][0]) + end]
        for rows, _, records in stretches
        for start, end in records
    ]

    def run(first: int) -> None:
        decompress, out = CALLS[codec](), memoryview(bytearray(ROOM))
        for region in regions[first::threads]:
            decompress(region, out)

    def read() -> tuple[int, int]:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, range(threads)))
        return count, -1

    return read
