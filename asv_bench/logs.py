"""Logs of many segments, as a broker leaves them that was shut down: what opening, recovering and random reads need.

    bench-0/00000000000000000000.log  .index  .timeindex       batches of 16 KiB, what a producer sends unless told
            00000000000000000800.log  .index  .timeindex       otherwise; a millisecond a record, timestamps rise with
            ...                                                offsets; indexed every 4096 bytes
            leader-epoch-checkpoint

The batches of a few are used again and again: offsets, timestamps and CRC are patched in. No kafkalog code takes part.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import crc32c

from asv_bench.segments import ATTRIBUTES, FIRST_TIMESTAMP, full_batches

BATCH_BYTES = 16 * 1024
INDEX_INTERVAL_BYTES = 4096
EPOCH_CHECKPOINT = "0\n1\n0 0\n"

_TEMPLATES = 16
_RECORDS_FOR_TEMPLATES = 4_000
_RECORDS_COUNT_AT = 57
_LAST_OFFSET_DELTA_AT = 23
_TIMESTAMPS_AT = 27
_CRC_AT = 17


@dataclass(frozen=True)
class BenchLog:
    """A partition directory; offsets run from 0 to `end`, the record at offset i has timestamp first + 7 i (ms)."""

    directory: Path
    segments: int
    end: int
    bytes: int

    def timestamp(self, offset: int) -> int:
        """The timestamp of the record at `offset`, ms."""
        return FIRST_TIMESTAMP + 7 * offset


def make_log(directory: Path, segments: int, segment_bytes: int, templates: list[bytearray] | None = None) -> BenchLog:
    """Write so many segments of about so many bytes, each one batch at least.

    templates: batches to use again and again, if not those that are described above; their records 7 ms apart.
    """
    directory.mkdir(parents=True)
    templates = templates or _templates()
    offset = size = 0
    for _ in range(segments):
        first, written = offset, 0
        names = [directory / f"{first:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")]
        spans = []
        with open(names[0], "wb") as file:
            for batch in _batches(templates, first, segment_bytes):
                count = struct.unpack_from(">i", batch, _RECORDS_COUNT_AT)[0]
                offset += count
                spans.append((offset - 1, written))
                written += file.write(batch)
        names[1].write_bytes(b"".join(struct.pack(">ii", last - first, at) for last, at in spans[1:]))
        times = dict.fromkeys([*spans[1:], spans[-1]])
        names[2].write_bytes(
            b"".join(struct.pack(">qi", FIRST_TIMESTAMP + 7 * last, last - first) for last, _ in times)
        )
        size += written
    (directory / "leader-epoch-checkpoint").write_text(EPOCH_CHECKPOINT)
    return BenchLog(directory, segments, offset, size)


def _templates() -> list[bytearray]:
    """Some batches of the kind that `segments` makes, smaller."""
    batches = full_batches(_RECORDS_FOR_TEMPLATES, BATCH_BYTES)
    return list(islice(batches, _TEMPLATES))


def _batches(templates: list[bytearray], offset: int, most_bytes: int) -> Iterator[bytearray]:
    """Batches from `offset` on, `most_bytes` of them or a single one; each is the caller's until the next."""
    written = number = 0
    while True:
        batch = templates[number % len(templates)]
        if number and written + len(batch) > most_bytes:
            return
        last = struct.unpack_from(">i", batch, _LAST_OFFSET_DELTA_AT)[0]
        first_timestamp = FIRST_TIMESTAMP + 7 * offset
        struct.pack_into(">q", batch, 0, offset)
        struct.pack_into(">qq", batch, _TIMESTAMPS_AT, first_timestamp, first_timestamp + 7 * last)
        struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[ATTRIBUTES:]))
        yield batch
        offset, written, number = offset + last + 1, written + len(batch), number + 1
