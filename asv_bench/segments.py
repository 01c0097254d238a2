"""The segments that every benchmark reads: the same records in each codec, and one set of one-record batches.

    bench-none-0/00000000000000000000.log     1.88 M records in 64 KiB batches of about 345: about 357 MB
    bench-{gzip,snappy,lz4,zstd}-0/…          the same batches, bodies compressed, framed as Kafka's Java client does
    bench-single-0/…                          1 M of the records, each alone in its batch

A record has a key of 7 bytes and a JSON value of about 175. No kafkalog code takes part: aiokafka's builder writes
the batches, the codecs' own libraries compress the bodies, and offsets, sizes, attributes and CRC-32C are patched
into the 61-byte headers here. So a reader is never measured against its own writer. Everything follows from a fixed
seed.

Files are made once, under `build/bench` (or `KAFKALOG_BENCH_DIR`), and appear complete or not at all.
"""

import argparse
import os
import shutil
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path

import cramjam
import crc32c
import lz4.frame
import numpy as np
import zstandard
from aiokafka.record.default_records import DefaultRecordBatchBuilder

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
KINDS = (*CODECS, "single")

RECORDS = 1_880_000
SINGLE_RECORDS = 1_000_000
BATCH_BYTES = 64 * 1024
FIRST_TIMESTAMP = 1_700_000_000_000

HEADER_BYTES = 61
ATTRIBUTES = 21  # where the CRC's coverage begins
_FRAME = struct.Struct(">qii")  # base offset, bytes that follow, leader epoch
_SNAPPY_BLOCK = 32 * 1024
_SNAPPY_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_VALUE = (
    b'{"id":%d,"user":"user-%d","event":"%b","price":%.2f,"ts":%d,'
    b'"session":"%016x","ok":%b,"tag":"%b","path":"/shop/%d/item/%d"}'
)
_CHUNK = 20_000
_FORMAT = 1  # part of the directory's name: raise it when the bytes change


def default_directory() -> Path:
    """`KAFKALOG_BENCH_DIR`, or `build/bench` beside the package."""
    chosen = os.environ.get("KAFKALOG_BENCH_DIR")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[1] / "build" / "bench"


def default_scale() -> float:
    """`KAFKALOG_BENCH_SCALE`: 1 is the full 357 MB, 0.06 about 20 MB."""
    return float(os.environ.get("KAFKALOG_BENCH_SCALE", "1"))


def segment(kind: str, scale: float | None = None, directory: Path | None = None) -> Path:
    """The path of the segment of one kind (a codec, or `single`), generated where it is missing."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    scale = default_scale() if scale is None else scale
    root = (directory or default_directory()) / f"v{_FORMAT}-scale-{scale:g}"
    partition = root / f"bench-{kind}-0"
    if not partition.exists():
        _generate(kind, scale, partition)
    return partition / f"{0:020d}.log"


def records_count(kind: str, scale: float | None = None) -> int:
    """How many records the segment of this kind holds."""
    scale = default_scale() if scale is None else scale
    return max(1, round((SINGLE_RECORDS if kind == "single" else RECORDS) * scale))


def _generate(kind: str, scale: float, partition: Path) -> None:
    partition.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{partition.name}.", dir=partition.parent))
    try:
        with open(unfinished / f"{0:020d}.log", "wb") as file:
            file.writelines(_batches(kind, scale, partition))
        unfinished.chmod(0o755)
        unfinished.rename(partition)
    except OSError:
        if not partition.exists():  # else another process was faster, and its bytes are the same
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _batches(kind: str, scale: float, partition: Path) -> Iterable[bytearray]:
    if kind == "single":
        return single_batches(records_count(kind, scale))
    if kind == "none":
        return full_batches(records_count(kind, scale))
    plain = segment("none", scale, partition.parents[1])
    return compressed_batches(plain.read_bytes(), kind)


def records(count: int) -> Iterator[tuple[int, bytes, bytes]]:
    """(timestamp, key, value) of each record."""
    random = np.random.default_rng(20)
    events = (b"click", b"view", b"buy", b"login")
    words = (b"true", b"false")
    for first in range(0, count, _CHUNK):
        size = min(_CHUNK, count - first)
        columns = [random.integers(0, high, size).tolist() for high in (100_000, 4, 2**63 - 1, 2, 30, 1000, 10_000)]
        prices = (random.random(size) * 1000).tolist()
        rows = zip(range(first, first + size), prices, *columns, strict=True)
        for i, price, user, event, session, ok, tag, shop, item in rows:
            timestamp = FIRST_TIMESTAMP + i * 7
            fields = (i, user, events[event], price, timestamp, session, words[ok], b"x" * tag, shop, item)
            yield timestamp, b"k%06d" % (i % 1_000_000), _VALUE % fields


def full_batches(count: int, size: int = BATCH_BYTES) -> Iterator[bytearray]:
    """Batches filled up to `size` bytes."""
    builder, base_offset, used = _builder(size), 0, 0
    for timestamp, key, value in records(count):
        if builder.append(used, timestamp, key, value, []) is None:
            yield _placed(builder, base_offset)
            builder, base_offset, used = _builder(size), base_offset + used, 0
            builder.append(used, timestamp, key, value, [])
        used += 1
    yield _placed(builder, base_offset)


def single_batches(count: int) -> Iterator[bytearray]:
    """A batch a record."""
    for offset, (timestamp, key, value) in enumerate(records(count)):
        builder = _builder()
        builder.append(0, timestamp, key, value, [])
        yield _placed(builder, offset)


def _builder(size: int = BATCH_BYTES) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, size)


def _placed(builder: DefaultRecordBatchBuilder, base_offset: int) -> bytearray:
    """The built batch as a broker stores it: offset and leader epoch filled in. Neither is under the CRC."""
    batch: bytearray = builder.build()
    _FRAME.pack_into(batch, 0, base_offset, len(batch) - 12, 0)
    return batch


def compressed_batches(plain: bytes, codec: str) -> Iterator[bytearray]:
    """The batches of an uncompressed segment, bodies compressed; codecs release the GIL, so on all processors."""
    compress, number = _compressors()[codec], CODECS[codec]
    entries = _entries(plain)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        while block := list(islice(entries, 256)):
            yield from pool.map(lambda entry: _with_body(entry, number, compress(bytes(entry[HEADER_BYTES:]))), block)


def _entries(segment_bytes: bytes) -> Iterator[memoryview]:
    view, position = memoryview(segment_bytes), 0
    while position < len(view):
        size = 12 + struct.unpack_from(">i", view, position + 8)[0]
        yield view[position : position + size]
        position += size


def _with_body(entry: memoryview, codec: int, body: bytes) -> bytearray:
    batch = bytearray(entry[:HEADER_BYTES]) + body
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    batch[ATTRIBUTES + 1] |= codec
    struct.pack_into(">I", batch, 17, crc32c.crc32c(memoryview(batch)[ATTRIBUTES:]))
    return batch


@cache
def _compressors() -> dict[str, Callable[[bytes], bytes]]:
    return {"gzip": _gzip, "snappy": _snappy, "lz4": _lz4, "zstd": _zstd}


def _gzip(body: bytes) -> bytes:
    stream = zlib.compressobj(-1, zlib.DEFLATED, 31)
    return stream.compress(body) + stream.flush()


def _snappy(body: bytes) -> bytes:
    """A xerial stream: header, then each 32 KiB as its length and a raw block."""
    parts = [body[i : i + _SNAPPY_BLOCK] for i in range(0, len(body), _SNAPPY_BLOCK)]
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in parts]
    return _SNAPPY_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _lz4(body: bytes) -> bytes:
    """Independent 64 KiB blocks, no content size, no checksums: the only shape that Kafka's reader takes."""
    block = lz4.frame.BLOCKSIZE_MAX64KB
    frame: bytes = lz4.frame.compress(body, block_size=block, block_linked=False, store_size=False)
    return frame


def _zstd(body: bytes) -> bytes:
    """Streamed, as Kafka does: no content size, and the window of a stream whose length is unknown."""
    stream = zstandard.ZstdCompressor(level=3).compressobj()
    return stream.compress(body) + stream.flush()


def main() -> None:
    """Generate the segments and say where they are."""
    parser = argparse.ArgumentParser(prog="python -m asv_bench.segments", description=main.__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only this one; may be repeated")
    parser.add_argument("--scale", type=float, default=default_scale(), help="1 is 357 MB")
    parser.add_argument("--directory", type=Path, default=default_directory())
    options = parser.parse_args()
    for kind in options.kind or KINDS:
        begin = time.perf_counter()
        path = segment(kind, options.scale, options.directory)
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB  {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
