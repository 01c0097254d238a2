"""`kafkalog.Record`: all records of a segment as objects, key and value read."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

import pickle
import time

from benchmarks import KIND_NAMES, path_of

from kafkalog import FileMessageSet, Record


class Objects:
    """Each codec, and one-record batches."""

    params = KIND_NAMES
    param_names = ("kind",)

    def setup(self, kind: str) -> None:
        """The segment."""
        self.path = path_of(kind)

    def read(self) -> int:
        """The number of records."""
        count = size = 0
        for record in FileMessageSet(self.path, sealed=True):
            count += 1
            size += len(record.key or b"") + len(record.value or b"")
        return count

    def time_records(self, kind: str) -> None:
        """By iterating."""
        self.read()

    def track_records_per_second(self, kind: str) -> float:
        """Best of three."""
        seconds = []
        for _ in range(3):
            begin = time.perf_counter()
            count = self.read()
            seconds.append(time.perf_counter() - begin)
        return count / min(seconds)

    track_records_per_second.unit = "records/s"  # type: ignore[attr-defined]

    def peakmem_records(self, kind: str) -> None:
        """Bounded, whatever the length of the segment."""
        self.read()


class OneRecord:
    """A record by itself."""

    def setup(self) -> None:
        """One with everything."""
        self.arguments = {"value": b"v" * 175, "key": b"key", "headers": (("h", b"x"),), "timestamp": 1, "offset": 2}
        self.record = Record(**self.arguments)

    def time_make(self) -> None:
        """The constructor."""
        Record(**self.arguments)

    def time_hash(self) -> None:
        """Its hash."""
        hash(self.record)

    def time_pickle(self) -> None:
        """There and back."""
        pickle.loads(pickle.dumps(self.record))
