"""asv's benchmarks. They mirror the package: `record_framing` measures `kafkalog.record.framing`, and so on.

All read the segments that `segments.py` makes, a twentieth of their full length unless `KAFKALOG_BENCH_SCALE` says
otherwise. Times are for the whole segment; what is comparable from length to length is tracked as a rate.
"""

import os
import sys
from pathlib import Path

SCALE = float(os.environ.get("KAFKALOG_BENCH_SCALE", "0.06"))

# asv may run a benchmark from anywhere.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from segments import CODECS, KINDS, records_count, segment  # noqa: E402

CODEC_NAMES = tuple(CODECS)
KIND_NAMES = tuple(KINDS)


def path_of(kind: str) -> Path:
    """The segment of one kind, its pages in the page cache."""
    path = segment(kind, SCALE)
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):  # in pieces: all of it at once would be the peak of memory
            pass
    return path


def records_of(kind: str) -> int:
    """How many records it holds."""
    return records_count(kind, SCALE)
