"""`.snapshot` files: the state of a log's producers before the offset in the file's name.

    00 01                     version int16
    f3 1a 60 21               CRC-32C of all bytes after it
    00 00 00 02               number of producers, int32
    .. (46 bytes)             producer id int64 | epoch int16 | last sequence int32 | last offset int64 |
                              offset delta int32 | timestamp int64 | coordinator epoch int32 |
                              first offset of the open transaction int64
    .. (46 bytes)

-1 means none. Only the latest of a producer's five batches is stored, so a repetition of an older one is not recognized
after loading. The producers are in no particular order.
Source: storage/.../internals/log/ProducerStateManager.java, storage/src/main/resources/message/ProducerSnapshot.json.
"""

import re
import struct
from collections.abc import Iterable
from pathlib import Path

from crc32c import crc32c

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog.errors import CorruptSnapshotError
from kafkalog.storage.file_names import SNAPSHOT_SUFFIX, file_names
from kafkalog.storage.files.durable import write_atomically
from kafkalog.storage.files.small_file import read_small_file
from kafkalog.storage.producer.producer_state_entry import BatchMetadata, ProducerStateEntry

VERSION = 1
MAX_BYTES = 256 << 20  # 5.8 million producers
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6
_NAME = re.compile(rf"([0-9]+){re.escape(SNAPSHOT_SUFFIX)}", re.ASCII)


def snapshot_files(directory: Path) -> dict[int, Path]:
    """Return the path of each snapshot of a partition directory by its offset; empty if there is no directory."""
    try:
        names = filter(None, map(_NAME.fullmatch, file_names(directory)))
    except FileNotFoundError:
        return {}
    found = {int(name[1]): directory / name[0] for name in names}
    return {offset: path for offset, path in found.items() if offset <= INT64_MAX}


def read_snapshot(path: Path) -> list[ProducerStateEntry]:
    """Read the producers of a snapshot, in the order of the file.

    Raises:
        CorruptSnapshotError: The file does not follow the format, or its CRC is wrong.
        OSError: The file cannot be read.
    """
    data = read_small_file(path, MAX_BYTES, CorruptSnapshotError)
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError("the file ends within its header", str(path), 0, f"{_HEADER.size} bytes", len(data))
    version, stored, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError("the version is unknown", str(path), 0, VERSION, version)
    computed = crc32c(memoryview(data)[_CRC_FROM:])
    if stored != computed:
        raise CorruptSnapshotError("the CRC does not hold", str(path), 2, f"{computed:#010x}", f"{stored:#010x}")
    end = _HEADER.size + count * _ENTRY.size
    if count < 0 or end > len(data):
        raise CorruptSnapshotError("the file ends before its last producer", str(path), 6, f"{end} bytes", len(data))
    return [_entry(fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size : end])]


def write_snapshot(path: Path, entries: Iterable[ProducerStateEntry], *, sync: bool = True) -> None:
    """Write a snapshot atomically.

    Args:
        path: The file.
        entries: The producers.
        sync: Whether to write it to the disk before returning.

    Raises:
        OSError: The file cannot be written.
    """
    write_atomically(path, encode_snapshot(entries), sync=sync)


def holds_the_same(path: Path, entries: Iterable[ProducerStateEntry]) -> bool:
    """Return whether a snapshot exists and has exactly these producers, in any order.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        found = read_snapshot(path)
    except (CorruptSnapshotError, FileNotFoundError):
        return False
    return sorted(map(_fields, found)) == sorted(map(_fields, entries))


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the bytes of a snapshot."""
    rows = [_ENTRY.pack(*_fields(entry)) for entry in entries]
    covered = b"".join([len(rows).to_bytes(4, "big"), *rows])
    return VERSION.to_bytes(2, "big") + crc32c(covered).to_bytes(4, "big") + covered


def _fields(entry: ProducerStateEntry) -> tuple[int, ...]:
    began = entry.current_txn_first_offset
    return (
        entry.producer_id,
        entry.producer_epoch,
        entry.last_seq,
        entry.last_data_offset,
        entry.last_offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        -1 if began is None else began,
    )


def _entry(fields: tuple[int, ...]) -> ProducerStateEntry:
    producer_id, epoch, last_seq, last_offset, offset_delta, timestamp, coordinator_epoch, began = fields
    batches = (BatchMetadata(last_seq, last_offset, offset_delta, timestamp),) if last_offset >= 0 else ()
    open_since = began if began >= 0 else None
    return ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, open_since, batches)
