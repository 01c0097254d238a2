"""What the comparison with Spark reads: one partition a codec, and a thousand segments to be planned.

    none-0/00000000000000000000.log  .index  .timeindex      4 segments, 1.08 GB, batches of 16 KiB
    zstd-0/...                                               as many records
    planned-0/...                                            1,000 segments of 1 GiB

A record has a key of 8 bytes, one of 1,000, and a value of 100. What is to be planned holds little but holes, with
indexes as full as a broker's; only its last segment is real.
"""

import os
import struct
from pathlib import Path

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from asv_bench.logs import BATCH_BYTES, BenchLog, make_log
from asv_bench.segments import FIRST_TIMESTAMP, compressed_batches

CODECS = ("none", "zstd")
SEGMENTS, SEGMENT_BYTES = 4, 270_000_000
PLANNED_SEGMENTS, PLANNED_BYTES = 1_000, 1 << 30
KEYS, VALUE_BYTES = 1_000, 100
_TEMPLATES = 64
_FRAME = struct.Struct(">qii")
_HEADER = struct.Struct(">qiibIhi")  # base offset, size, leader epoch, magic, CRC, attributes, last offset delta
_BATCH_RECORDS, _STEP = 60, 4_000_000
_CUT_BYTES = 128 << 20


def make(directory: Path, codec: str, scale: float, segments: int = SEGMENTS) -> BenchLog:
    """The partition of one codec; `directory` is its parent."""
    plain = _templates()
    templates = plain if codec == "none" else list(compressed_batches(b"".join(plain), codec))
    share = sum(map(len, templates)) / sum(map(len, plain))
    return make_log(directory / f"{codec}-0", segments, round(SEGMENT_BYTES * scale * share), templates)


def _templates() -> list[bytearray]:
    random = np.random.default_rng(6)
    return [_batch(random) for _ in range(_TEMPLATES)]


def _batch(random: np.random.Generator) -> bytearray:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, BATCH_BYTES)
    count = 0
    while True:
        key, user, price, session = (int(random.integers(high)) for high in (KEYS, 10**6, 10**6, 2**63 - 1))
        value = b'{"user":"user-%06d","price":%06d,"session":"%016x","path":"/shop/%d"}' % (user, price, session, key)
        timestamp = FIRST_TIMESTAMP + 7 * count
        if builder.append(count, timestamp, b"key%05d" % key, value.ljust(VALUE_BYTES), []) is None:
            batch: bytearray = builder.build()
            _FRAME.pack_into(batch, 0, 0, len(batch) - 12, 0)
            return batch
        count += 1


def make_planned(directory: Path) -> Path:
    """A partition directory that is there to be planned only."""
    planned, index = directory / "planned-0", directory / "planned.index"
    end = (PLANNED_SEGMENTS - 1) * _STEP
    make_log(planned, 1, BATCH_BYTES)
    for path in list(planned.glob("0*")):
        path.rename(planned / f"{end:020d}{path.suffix}")
    with open(planned / f"{end:020d}.log", "r+b") as last:
        last.write(struct.pack(">q", end))  # the base offset, which no checksum covers
    places = range(1, PLANNED_BYTES // BATCH_BYTES)
    index.write_bytes(b"".join(struct.pack(">ii", place * _BATCH_RECORDS, place * BATCH_BYTES) for place in places))
    for base in range(0, end, _STEP):
        segment = planned / f"{base:020d}.log"
        _write_holes(segment, base)
        segment.with_suffix(".index").hardlink_to(index)
    return planned


def _write_holes(segment: Path, base: int) -> None:
    """Headers of batches where a segment is likely to be cut, and nothing else."""
    with open(segment, "wb") as file:
        file.truncate(PLANNED_BYTES)
        for goal in range(_CUT_BYTES, PLANNED_BYTES, _CUT_BYTES):
            for place in range(goal // BATCH_BYTES - 1, goal // BATCH_BYTES + 2):
                first = base + (place - 1) * _BATCH_RECORDS + 1
                header = _HEADER.pack(first, BATCH_BYTES - 12, 0, 2, 0, 0, _BATCH_RECORDS - 1)
                os.pwrite(file.fileno(), header, place * BATCH_BYTES)
