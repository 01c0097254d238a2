"""Building batches, and appending them to a file: kafkalog beside aiokafka's builder and Kafka's own.

Everybody is given the same records in memory, already divided into batches, and makes the same batches of them; only
what a codec's library makes of their bytes differs, and so bytes a record stand beside the rates. Nobody waits for the
disk: files are opened within the measured time, and closed or deleted after it, without flushing.
"""

import argparse
import json
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from asv_bench.comparison import report
from asv_bench.comparison.goals import Comparison
from asv_bench.comparison.report import Row
from asv_bench.comparison.rounds import Key, Results, Workers, machine
from asv_bench.comparison.workers import JAVA_OPTIONS, Worker
from asv_bench.segments import CODECS, KINDS, default_directory, default_scale, records
from tests.oracle import java

GROUP = "writing"
RECORDS = 100_000
FEWEST_RECORDS = 10_000
BATCH_BYTES = (16 * 1024, 64 * 1024)
PYTHON_WRITERS = Path(__file__).with_name("writing_workers.py")
JAVA_WRITER = Path(__file__).resolve().parents[1] / "java" / "WriterWorker.java"

AIOKAFKA_GOALS = dict.fromkeys(CODECS, 1.2) | {"none": 2.0}
JAVA_GOALS = dict.fromkeys(CODECS, 1.0)
STREAM = "stream"
STREAM_GOALS = {STREAM: 10.0}

NOTE = """\
Writing: best of {rounds} interleaved rounds, {clock} time, {records} records of 182 bytes; {machine}.
In M records/s (stream: M calls/s), then bytes a record of kafkalog and of the peer. All build the same batches, of so
many records as 16 or 64 KB hold uncompressed. kafkalog is given `Record`s; in the rows that say so it makes them, or
takes each record's bytes by a call of its own as aiokafka does, or finds out itself where a batch ends. gzip:
kafkalog's default is ISA-L's level 2, larger than zlib's level 6, which the others use and kafkalog takes where the
row says so. lz4: aiokafka compresses harder than kafkalog and Java."""
HEAD = (
    f"{'codec':8} {'writing':28} {'kafkalog':>9}   {'peer':22} {'':>9}  {'ratio':>8}   goal             bytes a record"
)


@dataclass(frozen=True)
class WritingRow(Row):
    """A row with what a record takes in the batches of each, in bytes."""

    ours_bytes: float | None = None
    theirs_bytes: float | None = None


# --- what is compared


def _comparisons(codec: str) -> list[Comparison]:
    return [comparison for size in BATCH_BYTES for comparison in _of_size(codec, size)]


def _of_size(codec: str, size: int) -> Iterator[Comparison]:
    """A case is "codec size how target", as the workers read it."""
    title, start = f"{size // 1024} KB", f"{codec} {size}"
    for target, where in (("memory", "in memory"), ("file", "to a file")):
        ours, theirs = f"{start} records {target}", f"{start} bytes {target}"
        yield Comparison(GROUP, f"{title} {where}", ours, "aiokafka", theirs, AIOKAFKA_GOALS)
        yield Comparison(GROUP, f"{title} {where}", ours, "java", theirs, JAVA_GOALS)
    theirs = f"{start} bytes memory"
    for how, what in (("made", "Records made"), ("bytes", "call a record")):
        yield Comparison(GROUP, f"{title}, {what}", f"{start} {how} memory", "aiokafka", theirs)
    if codec == "none":  # else kafkalog puts more records into a batch: as many as it expects to fit when compressed
        yield Comparison(GROUP, f"{title}, split by size", f"{start} split memory", "aiokafka", theirs)
    if codec == "gzip":
        for peer in ("aiokafka", "java"):
            yield Comparison(GROUP, f"{title}, level 6", f"{start} level6 memory", peer, theirs)


def _stream_comparisons() -> list[Comparison]:
    return [
        Comparison(GROUP, name, f"{STREAM} {name}", "plain Python", f"{STREAM} {name}", STREAM_GOALS)
        for name in ("write_int", "write_long")
    ]


# --- the records, in a file that every language reads


def _records_file(directory: Path, size: int, count: int) -> Path:
    """Batch after batch: int32 count, then int64 timestamp, int32 length, key, int32 length, value of each record."""
    path = directory / f"records-{size}"
    with open(path, "wb") as file:
        for batch in _batches(size, count):
            file.write(struct.pack(">i", len(batch)))
            file.writelines(map(_packed, batch))
    return path


def _packed(record: tuple[int, bytes, bytes]) -> bytes:
    timestamp, key, value = record
    return struct.pack(">qi", timestamp, len(key)) + key + struct.pack(">i", len(value)) + value


def _batches(size: int, count: int) -> Iterator[list[tuple[int, bytes, bytes]]]:
    batch: list[tuple[int, bytes, bytes]] = []
    builder = _builder(size)
    for timestamp, key, value in records(count):
        if builder.append(len(batch), timestamp, key, value, []) is None:
            yield batch
            batch, builder = [], _builder(size)
            builder.append(0, timestamp, key, value, [])
        batch.append((timestamp, key, value))
    yield batch


def _builder(size: int) -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, size)


# --- measuring


def _command(writer: str) -> list[str]:
    if writer == "java":
        return java.command(JAVA_WRITER, options=JAVA_OPTIONS)
    return [sys.executable, "-P", str(PYTHON_WRITERS), writer]


class Writers(Workers):
    """The writers' processes."""

    def _worker(self, reader: str) -> Worker:
        if reader not in self._running:
            self._running[reader] = self.enter_context(Worker(reader, self.clock, _command(reader)))
        return self._running[reader]


def _measure(comparisons: Sequence[Comparison], files: dict[int, Path], options: argparse.Namespace) -> Results:
    """The best of each writing that the comparisons name."""
    results = Results()
    ours = [("kafkalog", comparison.case) for comparison in comparisons]
    theirs = [(comparison.peer, comparison.peer_case) for comparison in comparisons]
    keys = dict.fromkeys(key for pair in zip(ours, theirs, strict=True) for key in pair)
    with Writers(results, options.clock) as writers:
        for key in keys:
            writers.warm_up(key, _file_of(key, files))
        for _ in range(options.rounds):
            for key in keys:
                writers.ask(key, _file_of(key, files))
    return results


def _file_of(key: Key, files: dict[int, Path]) -> Path:
    words = key[1].split()
    return files[BATCH_BYTES[0] if words[0] == STREAM else int(words[1])]


def _rows(options: argparse.Namespace) -> Iterator[WritingRow]:
    directory = options.directory or default_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing.", dir=directory) as scratch:
        files = {size: _records_file(Path(scratch), size, _records_count(options.scale)) for size in BATCH_BYTES}
        for codec in [codec for codec in CODECS if codec in (options.codec or CODECS)]:
            yield from _compared(codec, _comparisons(codec), files, options)
        if not options.codec or "none" in options.codec:
            yield from _compared(STREAM, _stream_comparisons(), files, options)


def _compared(
    kind: str, comparisons: Sequence[Comparison], files: dict[int, Path], options: argparse.Namespace
) -> Iterator[WritingRow]:
    results = _measure(comparisons, files, options)
    for each in comparisons:
        answers = [results.best.get(key) for key in (("kafkalog", each.case), (each.peer, each.peer_case))]
        sizes = [answer.bytes / answer.items if answer and answer.bytes >= 0 else None for answer in answers]
        row = report.compared(kind, each, results)
        yield WritingRow(**row.__dict__, ours_bytes=sizes[0], theirs_bytes=sizes[1])


def _records_count(scale: float) -> int:
    return max(FEWEST_RECORDS, round(RECORDS * scale))


# --- the command


def main(arguments: Sequence[str]) -> None:
    """kafkalog beside its peers, building batches of the same records."""
    options = _options(arguments)
    if options.codec and not set(options.codec) & set(CODECS):
        return
    rows = []
    if options.output == "text":
        count = _records_count(options.scale)
        print("\n" + NOTE.format(rounds=options.rounds, clock=options.clock, records=count, machine=machine()))
        print(f"\n{HEAD}", flush=True)
    for row in _rows(options):
        rows.append(row)
        if options.output == "text":
            print(_line(row), flush=True)
    if options.output == "json":
        described = {"machine": machine(), "scale": options.scale, "rounds": options.rounds, "clock": options.clock}
        print(json.dumps(described | {"rows": [report.as_dict(row) for row in rows]}, indent=1))
    missed = [row for row in rows if row.met is False]
    if missed:
        print(f"{len(missed)} goals of writing missed", file=sys.stderr)


def _line(row: WritingRow) -> str:
    text = report.line(row)
    if row.ours_bytes is None or row.theirs_bytes is None:
        return text
    return f"{text:{HEAD.index('bytes')}} {row.ours_bytes:6.1f} : {row.theirs_bytes:.1f}"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"peers --only {GROUP}", description=main.__doc__)
    parser.add_argument("--codec", action="append", choices=KINDS, help="only this one; repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time of the writer")
    parser.add_argument("--scale", type=float, default=default_scale(), help=f"of {RECORDS} records")
    parser.add_argument("--directory", type=Path, help="where files are written (default: build/bench)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser.parse_args(arguments)
