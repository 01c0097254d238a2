"""`kafkalog.record.framing` and its kernel: the header table of a run of entries in memory."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

from benchmarks import path_of

from kafkalog import ByteBufferMessageSet


class Headers:
    """Large batches, and one a record."""

    params = ("none", "single")
    param_names = ("kind",)

    def setup(self, kind: str) -> None:
        """The bytes, read."""
        self.message_set = ByteBufferMessageSet(path_of(kind).read_bytes())

    def time_headers(self, kind: str) -> None:
        """The whole table."""
        self.message_set.headers()

    def time_batches(self, kind: str) -> None:
        """A `RecordBatch` an entry."""
        for _ in self.message_set.batches():
            pass

    def peakmem_headers(self, kind: str) -> None:
        """The bytes and the table."""
        self.message_set.headers()
