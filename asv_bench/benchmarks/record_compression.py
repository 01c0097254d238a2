"""`kafkalog._speedups.decompress`: the compressed part of one 64 KiB batch, and many small ones."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

from benchmarks import CODEC_NAMES, path_of

from kafkalog import ByteBufferMessageSet, Record
from kafkalog._speedups.decompress import decompress

HEADER_BYTES = 61


class Decompress:
    """Each codec."""

    params = CODEC_NAMES
    param_names = ("codec",)

    def setup(self, codec: str) -> None:
        """The bytes behind the first batch's header."""
        data = path_of(codec).read_bytes()
        batch = next(iter(ByteBufferMessageSet(data).batches()))
        self.number = int(batch.compression_type)
        self.stored = memoryview(data)[HEADER_BYTES : batch.size_in_bytes]

    def time_decompress(self, codec: str) -> None:
        """Once."""
        decompress(self.number, self.stored)


class Shrinking:
    """A thousand batches that take a hundredth of their bytes: the memory for them grows."""

    params = CODEC_NAMES
    param_names = ("codec",)

    def setup(self, codec: str) -> None:
        """The batches."""
        batch = ByteBufferMessageSet.from_records([Record(b"shrinks" * 1000)], compression_type=codec)
        self.messages = ByteBufferMessageSet(bytes(batch) * 1000)

    def time_columns(self, codec: str) -> None:
        """All records."""
        for _ in self.messages.columns():
            pass
