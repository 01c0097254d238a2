"""Measure the memory and the time of each reader for decompression bombs: of bytes, of records, of headers.

    python -m tests.crash.bombs [KIND ...] [--codec CODEC] [--reader READER] [--mib MIB]

prints a table: kind of bomb, codec, bytes on disk, reader -> peak memory without that of the imports, time, outcome.
Each reader runs in a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from kafkalog import ByteBufferMessageSet, CompressionType
from kafkalog import open as open_log
from tests.reference.encode import LegacyMessage, LegacyWrapper, PlainRecord, V2Batch, varint

MIB = 1 << 20
MOST_SECONDS = 150
# The time of all records.
TIME = 1_700_000_000_000


# --- bombs


def _record(body: bytes) -> bytes:
    """Encode a v2 record: attributes, timestamp delta and offset delta 0 precede `body`."""
    return varint(3 + len(body)) + b"\0\0\0" + body


def _with_headers(headers: int) -> bytes:
    # Null key, null value, and headers with an empty key and an empty value.
    return _record(varint(-1) + varint(-1) + varint(headers) + b"\0\0" * headers)


def _tiny_records(size: int) -> tuple[bytes, int]:
    """Encode records without key and value whose offsets rise; return them and their number."""
    groups, first = [], 0
    for deltas in (64, 8192, 1 << 20, 1 << 27):
        width = len(varint(deltas - 1))
        count = min(deltas - first, size // (6 + width))
        record = np.zeros((count, 7 + width - 1), np.uint8)
        record[:, 0] = 2 * (5 + width)
        zigzag = 2 * np.arange(first, first + count, dtype=np.int64)
        for i in range(width):
            record[:, 3 + i] = zigzag >> 7 * i & 0x7F | (0x80 if i < width - 1 else 0)
        record[:, 3 + width] = record[:, 4 + width] = 1
        groups.append(record.tobytes())
        first, size = first + count, size - record.nbytes
    return b"".join(groups), first


def _one_record_batch(region: bytes, codec: int) -> bytes:
    return V2Batch(codec=codec, records_count=1, region=region, base_timestamp=TIME, max_timestamp=TIME).encoded()


def _headers(size: int, codec: int) -> bytes:
    return _one_record_batch(_with_headers(size // 2), codec)


def _headers_of_many(size: int, codec: int) -> bytes:
    count, headers = max(1, size // 100_000), 50_000
    return V2Batch(
        codec=codec, records_count=count, region=_with_headers(headers) * count, base_timestamp=TIME, max_timestamp=TIME
    ).encoded()


def _records(size: int, codec: int) -> bytes:
    region, count = _tiny_records(size)
    return V2Batch(
        codec=codec, records_count=count, last_offset_delta=count - 1, region=region, base_timestamp=TIME,
        max_timestamp=TIME,
    ).encoded()  # fmt: skip


def _messages(size: int, codec: int) -> bytes:
    """Encode a v1 wrapper of messages without key and value, whose offsets rise; it knows no zstd."""
    codec = CompressionType.GZIP if codec == CompressionType.ZSTD else codec
    message = np.frombuffer(LegacyMessage(PlainRecord(0, TIME, None, None), 1).encoded(), np.uint8)
    count = size // len(message)
    inner = np.tile(message, (count, 1))
    inner[:, :8] = np.arange(count, dtype=">i8").view(np.uint8).reshape(count, 8)
    wrapper = LegacyWrapper((), codec, offset=count - 1, timestamp=TIME, inner=inner.tobytes())
    return wrapper.encoded()


def _large(size: int, codec: int, byte: bytes = b"x") -> bytes:
    return _one_record_batch(_record(varint(-1) + varint(size) + byte * size + varint(0)), codec)


KINDS: dict[str, Callable[[int, int], bytes]] = {
    "headers": _headers,
    "headers of many": _headers_of_many,
    "records": _records,
    "messages": _messages,
    "large": _large,
    "escapes": lambda size, codec: _large(size, codec, b"\x01"),
    "binary": lambda size, codec: _large(size, codec, b"\xff"),
}


def written(root: Path, kind: str, codec: int, size: int, batches: int = 1) -> Path:
    """Write a log with the same bomb once or more often, and return its directory."""
    directory = root / "bombs-0"
    directory.mkdir()
    bomb = KINDS[kind](size, codec)
    data = bytearray(bomb)
    for i in range(1, batches):
        again = bytearray(bomb)
        again[:8] = (int.from_bytes(bomb[:8], "big") + (i << 28)).to_bytes(8, "big")
        data += again
    (directory / f"{0:020}.log").write_bytes(data)
    return directory


# --- readers


def _use_up(items: Iterator[object]) -> None:
    deque(items, maxlen=0)


def _spark(path: Path) -> None:
    from kafkalog.spark import plan_splits, read_split
    from kafkalog.spark.read.options import ReadOptions

    options = ReadOptions.parse({"path": str(path), "includeHeaders": "true"})
    for split in plan_splits(options):
        _use_up(iter(read_split(split, None, options)))


def _command(*arguments: str) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        from kafkalog.cli import main

        before = os.dup(1), os.dup(2)
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        try:
            main([arguments[0], str(path), *arguments[1:]])
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"exit code {end.code}") from None
        finally:
            os.dup2(before[0], 1)
            os.dup2(before[1], 2)

    return run


READERS: dict[str, Callable[[Path], object]] = {
    "records()": lambda path: _use_up(iter(open_log(path))),
    "in memory": lambda path: _use_up(iter(ByteBufferMessageSet(_segment(path).read_bytes()))),
    "columns()": lambda path: _use_up(open_log(path).columns()),
    "threads": lambda path: _use_up(open_log(path).columns(threads=2)),
    "to_arrow()": lambda path: _use_up(each.to_arrow() for each in open_log(path).columns()),
    "batch.columns()": lambda path: _use_up(batch.columns() for batch in open_log(path).batches()),
    "by time": lambda path: open_log(path).offset_for_timestamp(TIME),
    "count": lambda path: open_log(path).count(1, 1 << 40),
    "Spark": _spark,
    "dump": _command("dump", "-o", "jsonl"),
    "dump of an array": _command("dump", "-o", "json", "--control"),
    "dump of text": _command("dump"),
    "dump --limit 1": _command("dump", "--limit", "1"),
    "dump --skip-damage": _command("dump", "-o", "jsonl", "--skip-damage"),
    "ls": _command("ls"),
    "tail": _command("tail", "-n", "5"),
    "verify --deep": _command("verify", "--deep"),
    "inspect records": _command("inspect", "--headless", "records"),
    "inspect record": _command("inspect", "--headless", "record", "-o", "json"),
    "inspect statistics": _command("inspect", "--headless", "statistics"),
    "inspect search": _command("inspect", "--headless", "search", "--find", "zzz"),
}


def _segment(path: Path) -> Path:
    return path / f"{0:020}.log"


class Row(NamedTuple):
    """What one reader took."""

    peak: int
    seconds: float
    outcome: str


def measured(reader: str, path: Path) -> Row:
    """Run one reader in a new process."""
    command = [sys.executable, "-m", "tests.crash.bombs", "--run", reader, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return Row(-1, MOST_SECONDS, "stopped")
    peak, seconds, outcome = (done.stdout.strip().splitlines() or ["-1 0 killed"])[-1].split(" ", 2)
    return Row(int(peak), float(seconds), outcome)


def run(reader: str, path: Path) -> Row:
    """Run one reader in this process, after it has run for a small log, so that everything is imported."""
    work = READERS[reader]
    with TemporaryDirectory() as scratch, contextlib.suppress(Exception):
        work(written(Path(scratch), "records", CompressionType.ZSTD, 1000))
    base, begun, outcome = _memory("VmRSS"), time.process_time(), "read"
    Path("/proc/self/clear_refs").write_text("5")
    try:
        work(path)
    except BaseException as error:  # noqa: BLE001 - a row says whatever happened
        outcome = f"{type(error).__name__}: {error}"
    return Row(_memory("VmHWM") - base, time.process_time() - begun, outcome)


def _memory(name: str) -> int:
    """Return the memory of this process: now (VmRSS), or at most since it was last cleared (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith(name))


def main(arguments: Sequence[str]) -> None:
    """Print the table, or one row without measures."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.bombs", description=__doc__)
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--codec", action="append", choices=[each.name.lower() for each in CompressionType])
    parser.add_argument("--reader", action="append", choices=READERS)
    parser.add_argument("--mib", type=int, default=240)
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--run", nargs=2)
    wanted = parser.parse_args(arguments)
    if wanted.run:
        row = run(wanted.run[0], Path(wanted.run[1]))
        print(row.peak, f"{row.seconds:.2f}", row.outcome.replace("\n", " "))
        return
    for kind in wanted.kinds or KINDS:
        for codec in (CompressionType[each.upper()] for each in wanted.codec or ["zstd"]):
            with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as scratch:
                path = written(Path(scratch), kind, codec, wanted.mib * MIB, wanted.batches)
                for reader in wanted.reader or READERS:
                    row = measured(reader, path)
                    print(
                        f"{kind:16} {codec.name.lower():7} {_segment(path).stat().st_size:11,} {reader:19} "
                        f"{row.peak / MIB:8,.0f} MiB {row.seconds:7.1f} s  {row.outcome[:150]}",
                        flush=True,
                    )


if __name__ == "__main__":
    main(sys.argv[1:])
