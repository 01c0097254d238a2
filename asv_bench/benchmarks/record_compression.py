"""`kafkalog._speedups.decompress`: the compressed part of one 64 KiB batch, decompressed."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

from benchmarks import CODEC_NAMES, path_of

from kafkalog import ByteBufferMessageSet
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
