"""A Python reader in a process of its own: `python readers.py NAME` answers "case TAB path" with one JSON line.

A case is prepared before the clock starts. kafkalog is given the path, and opens the file within the measured time,
as Java does; aiokafka and kafka-python read no files, so they are given the bytes, already in memory: a small
advantage that is theirs.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

SLICE = 1 / 20  # of the file, for readers that would take minutes over the whole


class Reading(NamedTuple):
    """What was read: records (or batches), and the bytes of their keys and values (-1: not counted)."""

    items: int
    bytes: int


Case = Callable[[Path], Callable[[], Reading]]


def kafkalog_columns(path: Path, *, threads: int, check_crcs: bool, sealed: bool = True) -> Reading:
    """All columns of the file, chunk by chunk. Sealed, as all segments but the newest are, it is mapped; else read."""
    from kafkalog import FileMessageSet

    items = 0
    for columns in FileMessageSet(path, sealed=sealed).columns(threads=threads, check_crcs=check_crcs):
        items += len(columns)
    return Reading(items, -1)


def kafkalog_objects(path: Path) -> Reading:
    """`Record` objects, key and value read; CRCs are checked."""
    from kafkalog import FileMessageSet

    items = size = 0
    for record in FileMessageSet(path, sealed=True):
        items += 1
        size += len(record.key) + len(record.value)  # type: ignore[arg-type]  # no record here has a null
    return Reading(items, size)


def kafkalog_headers(path: Path) -> Reading:
    """The header table, from opening the file."""
    from kafkalog import FileMessageSet

    return Reading(len(FileMessageSet(path, sealed=True).headers()), -1)


def kafkalog_crc(path: Path) -> Reading:
    """Every batch's CRC, in one pass over the file; and the header table, to say how many there were."""
    from kafkalog import FileMessageSet

    messages = FileMessageSet(path)
    messages.ensure_valid()
    return Reading(len(messages.headers()), -1)


def kafkalog_valid(path: Path) -> Reading:
    """Every batch's CRC, asked of one batch after the other."""
    from kafkalog import FileMessageSet

    items = 0
    for batch in FileMessageSet(path).batches():
        batch.ensure_valid()
        items += 1
    return Reading(items, -1)


def aiokafka_objects(data: bytes, *, check_crcs: bool) -> Reading:
    """aiokafka's compiled records, key and value read."""
    from aiokafka.record.memory_records import MemoryRecords

    items = size = 0
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        if check_crcs and not batch.validate_crc():
            raise ValueError("a CRC does not match")
        for record in batch:
            items += 1
            size += len(record.key) + len(record.value)
    return Reading(items, size)


def aiokafka_headers(data: bytes) -> Reading:
    """aiokafka's batches and the two offsets a consumer asks of each."""
    from aiokafka.record.memory_records import MemoryRecords

    items = total = 0
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        items += 1
        total += batch.next_offset - batch.base_offset
    return Reading(items, -1)


def aiokafka_crc(data: bytes) -> Reading:
    """Every batch's CRC."""
    from aiokafka.record.memory_records import MemoryRecords

    items = 0
    batches = MemoryRecords(data)
    while batches.has_next():
        if not batches.next_batch().validate_crc():
            raise ValueError("a CRC does not match")
        items += 1
    return Reading(items, -1)


def kafka_python_objects(data: bytes) -> Reading:
    """kafka-python's records, key and value read."""
    from kafka.record.memory_records import MemoryRecords

    items = size = 0
    for batch in MemoryRecords(data):
        for record in batch:
            items += 1
            size += len(record.key) + len(record.value)
    return Reading(items, size)


def _limit(case: str, *arguments: Any) -> Case:
    """A case of `limit.py`."""

    def prepared(path: Path) -> Callable[[], Reading]:
        sys.path.append(str(Path(__file__).resolve().parents[2]))
        from asv_bench.comparison import limit

        read = getattr(limit, case)(path, *arguments)
        return lambda: Reading(*read())

    return prepared


def _of_path(read: Callable[..., Reading], **options: Any) -> Case:
    return lambda path: partial(read, path, **options)


def _of_bytes(read: Callable[..., Reading], *, part: float = 1.0, **options: Any) -> Case:
    return lambda path: partial(read, _bytes(path, part), **options)


@cache
def _bytes(path: Path, part: float) -> bytes:
    with open(path, "rb") as file:
        return file.read(max(1 << 20, round(path.stat().st_size * part)))


READERS: dict[str, dict[str, Case]] = {
    "kafkalog": {
        "columns": _of_path(kafkalog_columns, threads=1, check_crcs=False),
        "columns_crc": _of_path(kafkalog_columns, threads=1, check_crcs=True),
        "columns_crc_read": _of_path(kafkalog_columns, threads=1, check_crcs=True, sealed=False),
        "columns_2": _of_path(kafkalog_columns, threads=2, check_crcs=False),
        "columns_crc_2": _of_path(kafkalog_columns, threads=2, check_crcs=True),
        "objects_crc": _of_path(kafkalog_objects),
        "headers": _of_path(kafkalog_headers),
        "crc": _of_path(kafkalog_crc),
        "valid": _of_path(kafkalog_valid),
    },
    "aiokafka": {
        "objects": _of_bytes(aiokafka_objects, check_crcs=False),
        "objects_crc": _of_bytes(aiokafka_objects, check_crcs=True),
        "headers": _of_bytes(aiokafka_headers),
        "crc": _of_bytes(aiokafka_crc),
    },
    "limit": {
        "columns_crc": _limit("limit"),
        "headers": _limit("headers"),
        "calls": _limit("bare_calls", 1),
        "calls_2": _limit("bare_calls", 2),
    },
    "kafka-python": {"objects": _of_bytes(kafka_python_objects, part=SLICE)},
}


def main() -> None:
    """Answer requests until there are no more."""
    cases = READERS[sys.argv[1]]
    for line in sys.stdin:
        case, _, path = line.rstrip("\n").partition("\t")
        print(json.dumps(_measured(cases[case](Path(path)))), flush=True)


def _measured(read: Callable[[], Reading]) -> dict[str, float]:
    begin, cpu_begin = time.perf_counter(), time.thread_time()
    reading = read()
    cpu_seconds, seconds = time.thread_time() - cpu_begin, time.perf_counter() - begin
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "items": reading.items, "bytes": reading.bytes}


if __name__ == "__main__":
    main()
