"""`kafkalog.record.record_batch`: CRCs, batch by batch, and one batch decoded by itself."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

from benchmarks import CODEC_NAMES, KIND_NAMES, path_of

from kafkalog import ByteBufferMessageSet


class Checksums:
    """The CRC of every batch."""

    params = KIND_NAMES
    param_names = ("kind",)

    def setup(self, kind: str) -> None:
        """The bytes, read."""
        self.message_set = ByteBufferMessageSet(path_of(kind).read_bytes())

    def time_ensure_valid(self, kind: str) -> None:
        """Every batch asked."""
        for batch in self.message_set.batches():
            batch.ensure_valid()


class OneBatch:
    """A batch of 64 KiB."""

    params = CODEC_NAMES
    param_names = ("codec",)

    def setup(self, codec: str) -> None:
        """The first batch."""
        self.batch = next(iter(ByteBufferMessageSet(path_of(codec).read_bytes()).batches()))

    def time_columns(self, codec: str) -> None:
        """Its columns."""
        self.batch.columns()

    def time_records(self, codec: str) -> None:
        """Its records."""
        for _ in self.batch:
            pass
