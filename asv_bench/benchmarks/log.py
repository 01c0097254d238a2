"""`kafkalog.storage.log` and `writable_log`: appending, seeking, opening and recovering logs of many segments."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

import shutil
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from benchmarks import SCALE

import kafkalog
from kafkalog import Record
from kafkalog.storage.unified_log import Opening, WritableLog

sys.path.append(str(Path(__file__).resolve().parents[2]))

from asv_bench.logs import BenchLog, make_log

SEGMENTS, SEGMENT_BYTES = 1_000, 1_000_000
LARGE_SEGMENTS, LARGE_SEGMENT_BYTES = 10, 100_000_000
APPENDED = 100_000
FIRST_TIMESTAMP = 1_700_000_000_000
READS = 500
STRIDE = 611_953  # prime: offsets in no order


class _Made:
    """A log that is made once, in a directory that is deleted when all is measured."""

    timeout = 600
    segments, segment_bytes = SEGMENTS, SEGMENT_BYTES

    def setup_cache(self) -> tuple[Path, BenchLog]:
        """asv hands this to every method, and may delete its own directory before."""
        directory = Path(tempfile.mkdtemp(prefix="kafkalog-bench-"))
        return directory, make_log(directory / "bench-0", self.segments, max(1, round(self.segment_bytes * SCALE)))


def _opened(log: BenchLog, *, clean: bool = True) -> WritableLog:
    point = log.end if clean else 0
    return WritableLog.load(log.directory, None, Opening(had_clean_shutdown=clean, recovery_point=point))


class Append:
    """Records of 200 bytes, to a log that is opened for it."""

    params = (1, 500)
    param_names = ("in_batch",)

    def setup(self, in_batch: int) -> None:
        """The records, and an empty directory."""
        self.directory = Path(tempfile.mkdtemp(prefix="kafkalog-bench-"))
        records = [Record(bytes([i % 256]) * 200, timestamp=FIRST_TIMESTAMP + i) for i in range(5_000)]
        self.batches = [records[i : i + in_batch] for i in range(0, len(records), in_batch)]
        self.log = kafkalog.open(self.directory / "bench-0", "a")

    def teardown(self, in_batch: int) -> None:
        """Nothing is left."""
        self.log.close()
        shutil.rmtree(self.directory)

    def time_append(self, in_batch: int) -> None:
        """So many calls as there are batches in the records."""
        for batch in islice(cycle(self.batches), round(APPENDED * SCALE) // in_batch):
            self.log.append(batch)


class Seek(_Made):
    """The first record of random reads, in a log that is written to, or only read."""

    params = ("a", "r")
    param_names = ("mode",)

    def setup(self, made: tuple[Path, BenchLog], mode: str) -> None:
        """The log, every index looked into once."""
        _, self.made = made
        self.log = _opened(self.made) if mode == "a" else kafkalog.open(self.made.directory)
        self.offsets = [STRIDE * i % self.made.end for i in range(READS)]
        self.log.offset_for_timestamp(self.made.timestamp(self.made.end - 1))

    def teardown(self, made: tuple[Path, BenchLog], mode: str) -> None:
        """Closed, as it was."""
        self.log.close()

    def time_by_offset(self, made: tuple[Path, BenchLog], mode: str) -> None:
        """To the first record."""
        for offset in self.offsets:
            next(self.log.records(offset))

    def time_by_timestamp(self, made: tuple[Path, BenchLog], mode: str) -> None:
        """To its offset."""
        for offset in self.offsets:
            self.log.offset_for_timestamp(self.made.timestamp(offset))

    def time_batches_by_offset(self, made: tuple[Path, BenchLog], mode: str) -> None:
        """To the bytes."""
        for offset in self.offsets:
            self.log.read(offset, 1 << 14)

    def time_columns(self, made: tuple[Path, BenchLog], mode: str) -> None:
        """All of it."""
        for _ in self.log.columns():
            pass


class Open(_Made):
    """A thousand segments, after a clean stop."""

    def time_open(self, made: tuple[Path, BenchLog]) -> None:
        """And closed, which asv cannot leave out."""
        _opened(made[1]).close()


class Recover(_Made):
    """Large segments, after an unclean stop."""

    segments, segment_bytes = LARGE_SEGMENTS, LARGE_SEGMENT_BYTES
    unit = "GB/s"

    def track_recovery(self, made: tuple[Path, BenchLog]) -> float:
        """Every checksum computed, indexes built anew."""
        from time import perf_counter

        best = float("inf")
        for _ in range(3):
            begin = perf_counter()
            log = _opened(made[1], clean=False)
            best = min(best, perf_counter() - begin)
            log.close()
        return made[1].bytes / best / 1e9
