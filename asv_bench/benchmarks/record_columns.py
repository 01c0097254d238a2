"""`kafkalog.record.record_columns`: all records of a segment as arrays."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

import time

from benchmarks import KIND_NAMES, path_of, records_of

from kafkalog import FileMessageSet


class Columns:
    """Each codec, and one-record batches; with and without CRCs."""

    params = (KIND_NAMES, (True, False))
    param_names = ("kind", "check_crcs")

    def setup(self, kind: str, check_crcs: bool) -> None:
        """The segment."""
        self.path = path_of(kind)

    def read(self, check_crcs: bool, threads: int = 1) -> int:
        """The number of records."""
        columns = FileMessageSet(self.path, sealed=True).columns(threads=threads, check_crcs=check_crcs)
        return sum(len(part) for part in columns)

    def time_columns(self, kind: str, check_crcs: bool) -> None:
        """One thread."""
        self.read(check_crcs)

    def time_columns_of_two_threads(self, kind: str, check_crcs: bool) -> None:
        """Two threads."""
        self.read(check_crcs, threads=2)

    def track_records_per_second(self, kind: str, check_crcs: bool) -> float:
        """Best of three."""
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            count = self.read(check_crcs)
            seconds.append(time.perf_counter() - begin)
        if count != records_of(kind):
            raise AssertionError(f"{count} records read of {records_of(kind)}")
        return count / min(seconds)

    track_records_per_second.unit = "records/s"  # type: ignore[attr-defined]

    def peakmem_columns(self, kind: str, check_crcs: bool) -> None:
        """Bounded, whatever the length of the segment."""
        self.read(check_crcs)
