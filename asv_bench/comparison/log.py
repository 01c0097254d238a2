"""The log: appending, reading, seeking, opening and recovering, beside Kafka's own `UnifiedLog`.

    scratch/kafkalog/bench-0 | java/bench-0      1,000 segments, a copy for each, which keep them open
            large/bench-0                        10 segments; whoever opens it closes it before the other's turn
            kafkalog/new-0 | java/new-0          appended to, and deleted

Both have the same settings, a topic's defaults; nobody waits for the disk. Everything is deleted afterwards.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from asv_bench.comparison.rounds import Results, Workers, machine
from asv_bench.comparison.workers import JAVA_OPTIONS, Answer, Worker
from asv_bench.logs import make_log
from asv_bench.segments import default_directory, default_scale
from tests.oracle import java

GROUP = "log"
APPENDED, READS = 1_000_000, 20_000
FEWEST_APPENDED, FEWEST_READS = 20_000, 1_000
SEGMENTS, SEGMENT_BYTES = 1_000, 1_000_000
LARGE_SEGMENTS, LARGE_SEGMENT_BYTES = 10, 1_000_000_000
LONG_ROUNDS = 3  # at most, where each takes seconds
PYTHON_WORKER = Path(__file__).with_name("log_workers.py")
JAVA_WORKER = Path(__file__).resolve().parents[1] / "java" / "LogWorker.java"

NOTE = """\
Log: best of {rounds} interleaved rounds, page cache warm, {clock} time, scale {scale:g}; {machine}.
java: Kafka's UnifiedLog in a warm virtual machine, with the system's clock and a scheduler of one thread. Appends are
of {appended} records of 200 bytes that are there as objects, the high watermark following; reads of a log of {segments}
segments of {segment_mb:.2g} MB, in batches of 16 KiB, random ones to the first record; the large log has {large_gb:.2g}
GB."""
HEAD = f"{'log':34} {'kafkalog':>10} {'java':>10}   {'':14} {'ratio':>8}   goal"


@dataclass(frozen=True)
class Unit:
    """What is told of an answer, and whether less of it is better."""

    name: str
    less: bool = False

    def of(self, answer: Answer) -> float:
        """The figure."""
        seconds = answer.seconds
        if self.name == "GB/s":
            return answer.bytes / seconds / 1e9
        scale = {"us a read": 1e6, "ms": 1e3, "ms/1000 segm.": 1e6, "records/s": 1.0}[self.name]
        if self.name == "ms":
            return seconds * scale
        return seconds / answer.items * scale if self.less else answer.items / seconds


RECORDS, EACH = Unit("records/s"), Unit("us a read", less=True)
OPENED, TIME, RECOVERED = Unit("ms/1000 segm.", less=True), Unit("ms", less=True), Unit("GB/s")


@dataclass(frozen=True)
class Case:
    """One line: what both are asked, and what kafkalog means to reach: a figure, or a ratio to Java's."""

    title: str
    ours: str
    theirs: str
    unit: Unit
    goal: float | None = None
    ratio_goal: float | None = None
    long: bool = False


@dataclass(frozen=True)
class LogRow:
    """A line with its figures; ratio: how many times as fast as Java."""

    title: str
    unit: str
    ours: float | None
    theirs: float | None
    ratio: float | None
    goal: str | None
    met: bool | None
    missing: str | None


def cases(scale: float) -> list[Case]:
    """What is measured."""
    appended, reads = max(FEWEST_APPENDED, round(APPENDED * scale)), max(FEWEST_READS, round(READS * scale))
    by_offset, by_time = f"offset {reads}", f"timestamp {reads}"
    return [
        Case("append, batches of 500", f"append 500 {appended}", f"append 500 {appended}", RECORDS, ratio_goal=1.0),
        Case("append, one by one", f"append 1 {appended}", f"append 1 {appended}", RECORDS, goal=100_000),
        Case("read all as records", "records", "all", RECORDS),
        Case("read all as columns", "columns", "all", RECORDS),
        Case("random read by offset", by_offset, by_offset, EACH, goal=50),
        Case("random read by time", by_time, by_time, EACH, goal=50),
        Case("the same, read-only, by offset", f"reader-{by_offset}", by_offset, EACH),
        Case("the same, read-only, by time", f"reader-{by_time}", by_time, EACH),
        Case("open after a clean stop", "open", "open", OPENED, goal=50),
        Case("open the large log, clean stop", "open-large", "open-large", TIME),
        Case("recover the large log", "recover", "recover", RECOVERED, goal=2.0, long=True),
    ]


class LogWorkers(Workers):
    """Both processes."""

    def _worker(self, reader: str) -> Worker:
        if reader not in self._running:
            program = (
                java.command(JAVA_WORKER, options=JAVA_OPTIONS)
                if reader == "java"
                else [sys.executable, "-P", str(PYTHON_WORKER)]
            )
            self._running[reader] = self.enter_context(Worker(reader, self.clock, program))
        return self._running[reader]


def _make(scratch: Path, scale: float) -> None:
    make_log(scratch / "kafkalog" / "bench-0", SEGMENTS, round(SEGMENT_BYTES * scale))
    shutil.copytree(scratch / "kafkalog", scratch / "java")
    make_log(scratch / "large" / "bench-0", LARGE_SEGMENTS, round(LARGE_SEGMENT_BYTES * scale))


def _measured(case: Case, workers: LogWorkers, scratch: Path, rounds: int) -> LogRow:
    keys = [("kafkalog", case.ours), ("java", case.theirs)]
    known = [key for key in keys if key in workers.results.best]
    for key in keys:
        if key not in known:
            workers.warm_up(key, scratch)
    for _ in range(min(rounds, LONG_ROUNDS) if case.long else rounds):
        for key in keys:
            workers.ask(key, scratch)
    return _row(case, workers.results, keys)


def _row(case: Case, results: Results, keys: Sequence[tuple[str, str]]) -> LogRow:
    answers = [results.best.get(key) for key in keys]
    ours, theirs = (None if answer is None else case.unit.of(answer) for answer in answers)
    ratio = None
    if ours and theirs:
        ratio = theirs / ours if case.unit.less else ours / theirs
    missing = "; ".join(dict.fromkeys(results.missing[key] for key in keys if key in results.missing)) or None
    return LogRow(case.title, case.unit.name, ours, theirs, ratio, *_judged(case, ours, ratio), missing)


def _judged(case: Case, ours: float | None, ratio: float | None) -> tuple[str | None, bool | None]:
    if case.ratio_goal is not None:
        return f"≥ {case.ratio_goal:.2f}x", None if ratio is None else ratio >= case.ratio_goal
    if case.goal is None:
        return None, None
    sign, met = ("≤", None if ours is None else ours <= case.goal)
    if not case.unit.less:
        sign, met = ("≥", None if ours is None else ours >= case.goal)
    return f"{sign} {case.goal:,g} {case.unit.name}", met


def _line(row: LogRow) -> str:
    text = f"{row.title:34} {_number(row.ours)} {_number(row.theirs)}   {row.unit:14}"
    ratio = f" {row.ratio:7.2f}x" if row.ratio is not None else f" {'-':>8}"
    goal = "-" if row.goal is None else f"{row.goal}  {'met' if row.met else 'MISSED'}"
    return f"{text}{ratio}   {goal}" + (f"  skipped: {row.missing}" if row.missing else "")


def _number(value: float | None) -> str:
    if value is None:
        return f"{'-':>10}"
    return f"{value:10,.0f}" if value >= 1000 else f"{value:10.2f}"


def main(arguments: Sequence[str]) -> None:
    """kafkalog's log beside Kafka's own."""
    options = _options(arguments)
    directory = options.directory or default_directory()
    directory.mkdir(parents=True, exist_ok=True)
    rows = []
    if options.output == "text":
        print(f"\n{_note(options)}\n\n{HEAD}", flush=True)
    with tempfile.TemporaryDirectory(prefix=".log.", dir=directory) as name:
        _make(Path(name), options.scale)
        with LogWorkers(Results(), options.clock) as workers:
            for case in cases(options.scale):
                rows.append(_measured(case, workers, Path(name), options.rounds))
                if options.output == "text":
                    print(_line(rows[-1]), flush=True)
    if options.output == "json":
        described = {"machine": machine(), "scale": options.scale, "rounds": options.rounds, "clock": options.clock}
        print(json.dumps(described | {"rows": [asdict(row) for row in rows]}, indent=1))
    missed = [row for row in rows if row.met is False]
    if missed:
        print(f"{len(missed)} goals of the log missed", file=sys.stderr)


def _note(options: argparse.Namespace) -> str:
    return NOTE.format(
        rounds=options.rounds,
        clock=options.clock,
        scale=options.scale,
        machine=machine(),
        appended=max(FEWEST_APPENDED, round(APPENDED * options.scale)),
        segments=SEGMENTS,
        segment_mb=SEGMENT_BYTES * options.scale / 1e6,
        large_gb=LARGE_SEGMENTS * LARGE_SEGMENT_BYTES * options.scale / 1e9,
    )


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"peers --only {GROUP}", description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time of one thread")
    parser.add_argument("--scale", type=float, default=default_scale(), help="1: logs of 1 GB twice, and of 10 GB")
    parser.add_argument("--directory", type=Path, help="where files are written (default: build/bench)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    # Batches of a log are not compressed; the other comparisons take this.
    parser.add_argument("--codec", action="append", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)
