"""A Python writer in a process of its own: `python writing_workers.py NAME` answers "case TAB path" with a JSON line.

A case is "codec size how target"; the records of `path` are read before the clock starts. How: `bytes`, a call a
record; `records`, all records of a batch by one call; `made`, the same, and they are made of bytes within the measured
time; `level6`, as `records`, by zlib's level 6; `split`, kafkalog finds out itself where a batch ends. Target:
`memory`, or `file`, opened within the measured time. Or a case is "stream NAME": calls of that method of an output
stream.
"""

import json
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
STREAM_CALLS = 50_000
STREAM_SEGMENT_BYTES = 16 * 1024

Plain = list[tuple[int, bytes, bytes]]  # timestamp, key, value
Batches = Iterator[bytearray] | Iterator[memoryview]


@cache
def batches_of(path: Path) -> list[Plain]:
    """The records of a file as `writing.py` makes it, batch by batch."""
    data, position = path.read_bytes(), 0
    batches = []
    while position < len(data):
        (count,) = struct.unpack_from(">i", data, position)
        position += 4
        batch = []
        for _ in range(count):
            timestamp, length = struct.unpack_from(">qi", data, position)
            key = data[position + 12 : position + 12 + length]
            position += 12 + length
            (length,) = struct.unpack_from(">i", data, position)
            value = data[position + 4 : position + 4 + length]
            position += 4 + length
            batch.append((timestamp, key, value))
        batches.append(batch)
    return batches


@cache
def records_of(path: Path) -> list[list[Any]]:
    """The same as kafkalog's records."""
    from kafkalog import Record

    return [[Record(value, key, (), timestamp) for timestamp, key, value in batch] for batch in batches_of(path)]


# --- batches


def kafkalog_records(path: Path, settings: Any) -> Callable[[], Batches]:
    """All records of a batch at once."""
    from kafkalog.record.records_builder import RecordsBuilder

    def build(batches: Iterable[list[Any]]) -> Batches:
        for batch in batches:
            builder = RecordsBuilder(settings)
            builder.extend(batch)
            yield builder.build()

    return partial(build, records_of(path))


def kafkalog_made(path: Path, settings: Any) -> Callable[[], Batches]:
    """The same, from bytes."""
    from kafkalog import Record
    from kafkalog.record.records_builder import RecordsBuilder

    def build(batches: Iterable[Plain]) -> Batches:
        for batch in batches:
            builder = RecordsBuilder(settings)
            builder.extend([Record(value, key, (), timestamp) for timestamp, key, value in batch])
            yield builder.build()

    return partial(build, batches_of(path))


def kafkalog_bytes(path: Path, settings: Any) -> Callable[[], Batches]:
    """A call a record."""
    from kafkalog.record.records_builder import RecordsBuilder

    def build(batches: Iterable[Plain]) -> Batches:
        for batch in batches:
            builder = RecordsBuilder(settings)
            for timestamp, key, value in batch:
                builder.append(value, key, (), timestamp)
            yield builder.build()

    return partial(build, batches_of(path))


def kafkalog_split(path: Path, settings: Any, size: int) -> Callable[[], Batches]:
    """Divided into batches of at most so many bytes."""
    from kafkalog.record.message_set import batches_of_records

    def build(records: Sequence[Any]) -> Iterator[memoryview]:
        for message_set in batches_of_records(records, settings, max_size=size):
            yield message_set.buffer

    return partial(build, [record for batch in records_of(path) for record in batch])


def kafkalog(codec: str, size: int, how: str, path: Path) -> Callable[[], Batches]:
    """kafkalog's batches, in one of its ways."""
    from kafkalog import CompressionType
    from kafkalog.record.records_builder import BatchSettings

    settings = BatchSettings(
        compression_type=CompressionType(CODECS[codec]), compression_level=6 if how == "level6" else None
    )
    if how == "split":
        return kafkalog_split(path, settings, size)
    ways = {"records": kafkalog_records, "level6": kafkalog_records, "made": kafkalog_made, "bytes": kafkalog_bytes}
    return ways[how](path, settings)


def aiokafka(codec: str, size: int, _how: str, path: Path) -> Callable[[], Batches]:
    """aiokafka's compiled builder."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    def build(batches: Iterable[Plain], number: int) -> Batches:
        for batch in batches:
            builder = DefaultRecordBatchBuilder(2, number, 0, -1, -1, -1, size)
            for offset, (timestamp, key, value) in enumerate(batch):
                builder.append(offset, timestamp, key, value, [])
            yield builder.build()

    return partial(build, batches_of(path), CODECS[codec])


# --- where they go


def to_memory(build: Callable[[], Batches]) -> tuple[dict[str, float], int]:
    """Built, measured and let go."""
    begin = _now()
    total = sum(map(len, build()))
    return _since(begin), total


def to_kafkalog_file(build: Callable[[], Batches], path: Path) -> tuple[dict[str, float], int]:
    """Appended to a `FileMessageSet`."""
    from kafkalog import ByteBufferMessageSet, FileMessageSet

    begin = _now()
    file = FileMessageSet(path, read_only=False)
    total = 0
    for batch in build():
        total += file.append(ByteBufferMessageSet(batch))
    seconds = _since(begin)
    file.delete()
    return seconds, total


def to_plain_file(build: Callable[[], Batches], path: Path) -> tuple[dict[str, float], int]:
    """Written to a file of Python's: aiokafka has none."""
    begin = _now()
    file = open(path, "wb", buffering=0)  # noqa: SIM115 - it is closed when the clock has stopped
    total = 0
    for batch in build():
        total += file.write(batch)
    seconds = _since(begin)
    file.close()
    path.unlink()
    return seconds, total


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


def _since(begin: tuple[float, float]) -> dict[str, float]:
    cpu_end, end = time.thread_time(), time.perf_counter()
    return {"seconds": end - begin[0], "cpu_seconds": cpu_end - begin[1]}


WRITERS = {"kafkalog": (kafkalog, to_kafkalog_file), "aiokafka": (aiokafka, to_plain_file)}


def written(writer: str, case: str, path: Path) -> dict[str, float]:
    """One case of batches, measured."""
    prepare, to_file = WRITERS[writer]
    codec, size, how, target = case.split()
    build = prepare(codec, int(size), how, path)
    seconds, total = to_memory(build) if target == "memory" else to_file(build, path.with_name(f"{writer}.log"))
    return seconds | {"items": sum(map(len, batches_of(path))), "bytes": total}


# --- output streams


def called(writer: str, method: str) -> dict[str, float]:
    """Calls of one method of kafkalog's output stream, or of its plain twin."""
    if writer == "kafkalog":
        from kafkalog._speedups.output_stream import BufferingOutputStream
    else:
        from tests.reference.output_stream import BufferingOutputStream  # type: ignore[assignment]
    values = [place * 21_000 - 2**29 for place in range(STREAM_CALLS)]
    begin = _now()
    write = getattr(BufferingOutputStream(STREAM_SEGMENT_BYTES), method)
    for value in values:
        write(value)
    return _since(begin) | {"items": STREAM_CALLS, "bytes": -1}


def main() -> None:
    """Answer requests until there are no more."""
    writer = sys.argv[1]
    for line in sys.stdin:
        case, _, path = line.rstrip("\n").partition("\t")
        kind, _, method = case.partition(" ")
        print(json.dumps(called(writer, method) if kind == "stream" else written(writer, case, Path(path))), flush=True)


if __name__ == "__main__":
    main()
