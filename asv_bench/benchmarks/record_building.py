"""`kafkalog.record.records_builder`: batches of 16 and 64 KiB, in memory and to a file; and the output stream."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import CODEC_NAMES
from segments import records

from kafkalog import ByteBufferMessageSet, CompressionType, FileMessageSet, Record
from kafkalog._speedups.output_stream import BufferingOutputStream
from kafkalog.record.message_set import batches_of_records
from kafkalog.record.records_builder import BatchSettings, RecordsBuilder

RECORDS = 10_000
RECORD_BYTES = 190  # in a batch, uncompressed
BATCH_BYTES = (16 * 1024, 64 * 1024)


class Building:
    """The same 10,000 records in each codec, so many a batch as it holds uncompressed."""

    params = (CODEC_NAMES, BATCH_BYTES)
    param_names = ("codec", "batch_bytes")

    def setup(self, codec: str, batch_bytes: int) -> None:
        """The records, and a directory to write to."""
        self.settings = BatchSettings(compression_type=CompressionType[codec.upper()])
        self.plain = list(records(RECORDS))
        made = [Record(value, key, (), timestamp) for timestamp, key, value in self.plain]
        length = batch_bytes // RECORD_BYTES
        self.batches = [made[start : start + length] for start in range(0, RECORDS, length)]
        self.directory = Path(tempfile.mkdtemp())

    def teardown(self, codec: str, batch_bytes: int) -> None:
        """The directory goes."""
        shutil.rmtree(self.directory)

    def build(self) -> Iterator[bytearray]:
        """Batch after batch."""
        for batch in self.batches:
            builder = RecordsBuilder(self.settings)
            builder.extend(batch)
            yield builder.build()

    def time_extend(self, codec: str, batch_bytes: int) -> None:
        """All records of a batch by one call."""
        for _ in self.build():
            pass

    def time_append_each(self, codec: str, batch_bytes: int) -> None:
        """A call a record, in one batch."""
        builder = RecordsBuilder(self.settings)
        for timestamp, key, value in self.plain:
            builder.append(value, key, (), timestamp)
        builder.build()

    def time_append_to_file(self, codec: str, batch_bytes: int) -> None:
        """Built and appended, not flushed."""
        file = FileMessageSet(self.directory / f"{0:020d}.log", read_only=False)
        for batch in self.build():
            file.append(ByteBufferMessageSet(batch))
        file.delete()

    def time_split_by_size(self, codec: str, batch_bytes: int) -> None:
        """Batches that the builder's own measure ends."""
        made = (record for batch in self.batches for record in batch)
        for _ in batches_of_records(made, self.settings, max_size=batch_bytes):
            pass

    def track_records_per_second(self, codec: str, batch_bytes: int) -> float:
        """In memory, by one call a batch, best of five."""
        seconds = []
        for _ in range(5):
            begin = time.perf_counter()
            self.time_extend(codec, batch_bytes)
            seconds.append(time.perf_counter() - begin)
        return RECORDS / min(seconds)

    track_records_per_second.unit = "records/s"  # type: ignore[attr-defined]

    def track_bytes_per_record(self, codec: str, batch_bytes: int) -> float:
        """What a record takes in a batch."""
        return sum(map(len, self.build())) / RECORDS

    track_bytes_per_record.unit = "bytes"  # type: ignore[attr-defined]


class OutputStream:
    """Numbers written to segments of 16 KiB."""

    def setup(self) -> None:
        """The numbers."""
        self.values = range(-5000, 5000)

    def time_write_int(self) -> None:
        """Four bytes each."""
        write = BufferingOutputStream(BATCH_BYTES[0]).write_int
        for value in self.values:
            write(value)

    def time_write_long(self) -> None:
        """Eight bytes each."""
        write = BufferingOutputStream(BATCH_BYTES[0]).write_long
        for value in self.values:
            write(value)

    def time_write_varlong(self) -> None:
        """As many as they need."""
        write = BufferingOutputStream(BATCH_BYTES[0]).write_varlong
        for value in self.values:
            write(value)
