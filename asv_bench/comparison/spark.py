"""Spark: kafkalog's data source beside Spark's own Kafka source, batches that are ready, and Parquet, in one session.

    scratch/data/none-0 | zstd-0     a broker's directory, written before it starts: it serves what kafkalog reads
            planned-0                1,000 segments to be planned

Spark's source is fetched by Maven; where that cannot be, what needs it is left out. Everything is deleted afterwards.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asv_bench.comparison import page, plots, spark_logs
from asv_bench.comparison.rounds import Results, Workers, machine
from asv_bench.comparison.workers import BROKER_SETTINGS, JAVA_OPTIONS, Worker
from asv_bench.logs import BenchLog
from asv_bench.segments import default_directory, default_scale
from tests.oracle import java, spark_environment
from tests.oracle.broker import Broker

GROUP = "spark"
WORKER = Path(__file__).with_name("spark_workers.py")

QUERIES = {"count": "count()", "sum": "agg(sum(length(value)))", "groups": "groupBy(key).count()"}
OURS, PEERS = "kafkalog", ("ready", "kafka", "parquet", "kafkalog, chosen", "rdd, Arrow", "rdd, records")
LONG = {"rdd, records"}  # measured once
RATE_GOAL, SHARE_GOAL, TIMES_GOAL = 3.0, 0.9, 4.0
PLAN_GOAL_MS, MEMORY_GOAL_MB = 100, 300

NOTE = """\
Spark: best of {rounds} interleaved rounds after one that does not count, page cache warm, {clock} time;
scale {scale:g}; {machine};
pyspark {pyspark}, local[2]. Some {rows:,} records with a key of 8 and a value of 100 bytes, {megabytes:,.0f} MB
uncompressed; {tasks}.
In M rows/s, all columns unless chosen. ready: a data source that yields Arrow batches made before; kafka: Spark's own
source, in as many tasks, and a broker on the same processors that serves the same files; parquet: the same rows, from
which Spark reads the columns that it needs, or none to count. cpu: processor time of Spark's Java and Python, half of
it, as there are two tasks; the broker's is left out."""
PAGE_HEAD = "| codec | query | kafkalog | beside | | ratio | goal |\n|---|---|---:|---|---:|---:|---|"
HEAD = f"{'codec':6} {'query':26} {'kafkalog':>9}   {'peer':18} {'':>9}  {'ratio':>8}   goal"


@dataclass(frozen=True)
class SparkRow:
    """One line. ours, theirs: M rows/s, ms or MB, as `unit` says; ratio: how many times as fast."""

    codec: str
    query: str
    peer: str
    unit: str
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    goal: str | None = None
    met: bool | None = None
    missing: str | None = None


class SparkWorkers(Workers):
    """One process for all readers, which share a session."""

    def __init__(self, results: Results, program: list[str], clock: str = "wall") -> None:
        super().__init__(results, clock)
        self._program = program

    def _worker(self, reader: str) -> Worker:  # noqa: ARG002 - whoever reads
        if "" not in self._running:
            self._running[""] = self.enter_context(Worker("spark", self.clock, self._program))
        return self._running[""]


@dataclass(frozen=True)
class Ground:
    """What is read, by whom: partitions by codec, and what the workers are told."""

    logs: dict[str, BenchLog]
    planned: Path
    settings: dict[str, Any]
    without_broker: str | None

    def program(self) -> list[str]:
        """The command of a worker."""
        return [sys.executable, "-P", str(WORKER), json.dumps(self.settings)]


def _prepared(scratch: Path, options: argparse.Namespace, stack: ExitStack) -> Ground:
    settings: dict[str, Any] = {"jars": "", "broker": "", "scratch": str(scratch / "spark"), "value_bytes": 100}
    without, data = _environment(settings), scratch / "data"
    broker = None
    if without is None:
        broker = stack.enter_context(Broker(scratch, BROKER_SETTINGS, JAVA_OPTIONS))
        data = broker.data
        run = broker.start()
        broker.client.create({codec: {} for codec in options.codecs})
        run.stop()
    logs = {codec: _made(data, codec, options.scale) for codec in options.codecs}
    settings["rows"] = {log.directory.name: log.end for log in logs.values()}
    if broker is not None:
        settings["broker"] = broker.address
        stack.callback(broker.start().stop)
    return Ground(logs, spark_logs.make_planned(scratch), settings, without)


def _environment(settings: dict[str, Any]) -> str | None:
    """Why Spark's own source cannot be asked; None: it can."""
    # Spark's Python workers import what is in this tree, too.
    os.environ |= {**spark_environment.variables(), "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    for name in spark_environment.HIDDEN:
        os.environ.pop(name, None)
    try:
        settings["jars"] = spark_environment.source_jars()
    except java.JavaUnavailable as error:
        return str(error)
    return None


def _made(data: Path, codec: str, scale: float) -> BenchLog:
    """In place of the segment that the broker made, which is empty; its partition.metadata stays."""
    partition, fresh = data / f"{codec}-0", data.parent / "fresh"
    made = spark_logs.make(fresh, codec, scale)
    partition.mkdir(parents=True, exist_ok=True)
    for old in [*partition.glob("0*"), *partition.glob("leader-epoch-checkpoint")]:
        old.unlink()
    for path in made.directory.iterdir():
        path.rename(partition / path.name)
    return BenchLog(partition, made.segments, made.end, made.bytes)


# --- measuring


def _rows(ground: Ground, options: argparse.Namespace) -> Iterator[SparkRow]:
    with SparkWorkers(Results(), ground.program(), options.clock) as workers:
        for codec in ground.logs:
            for query in options.queries:
                yield from _measured(ground, workers, codec, query, options)
        yield _planning(ground, workers, options.rounds)
    for codec in ground.logs:
        yield _memory(ground, codec)


def _measured(
    ground: Ground, workers: SparkWorkers, codec: str, query: str, options: argparse.Namespace
) -> Iterator[SparkRow]:
    peers = [peer for peer in PEERS if peer in options.peers]
    path = ground.logs[codec].directory
    readers = [OURS, *(each for each in peers if each != "kafka" or ground.without_broker is None)]
    keys = {reader: (f"{codec} {reader}", f"{reader} {query}") for reader in readers}
    for reader in readers:
        if reader not in LONG:
            workers.warm_up(keys[reader], path)
    for number in range(options.rounds):
        for reader in readers:
            if number == 0 or reader not in LONG:
                workers.ask(keys[reader], path)
    if ground.without_broker is not None:
        workers.results.missing[f"{codec} kafka", f"kafka {query}"] = ground.without_broker
    for peer in ("", *peers):
        yield _row(workers.results, codec, query, peer)


def _row(results: Results, codec: str, query: str, peer: str) -> SparkRow:
    ours = results.best.get((f"{codec} {OURS}", f"{OURS} {query}"))
    rate = ours.rate if ours else None
    key = (f"{codec} {peer or OURS}", f"{peer or OURS} {query}")
    theirs, missing = results.best.get(key), results.missing.get(key)
    if not peer:
        goal, met = None, None
        if codec == "none":
            goal, met = f"≥ {RATE_GOAL:g} M rows/s", None if rate is None else rate >= RATE_GOAL
        return SparkRow(codec, QUERIES[query], "", "M rows/s", rate, None, None, goal, met, missing)
    ratio = rate / theirs.rate if rate and theirs else None
    least = {"ready": SHARE_GOAL if codec == "none" else None, "kafka": TIMES_GOAL}.get(peer)
    met = None if least is None or ratio is None else ratio >= least
    goal = None if least is None else f"≥ {least:g}"
    their_rate = theirs.rate if theirs else None
    return SparkRow(codec, QUERIES[query], peer, "M rows/s", rate, their_rate, ratio, goal, met, missing)


def _planning(ground: Ground, workers: SparkWorkers, rounds: int) -> SparkRow:
    key = ("plan", "plan")
    for _ in range(rounds):
        workers.ask(key, ground.planned)
    answer, missing = workers.results.best.get(key), workers.results.missing.get(key)
    name = f"planning of {spark_logs.PLANNED_SEGMENTS:,} segments"
    if answer is None:
        return SparkRow("", name, "", "ms", missing=missing)
    took, tasks = answer.seconds * 1000, f"{answer.items} tasks, ms"
    return SparkRow("", name, tasks, "ms", took, goal=f"≤ {PLAN_GOAL_MS} ms", met=took <= PLAN_GOAL_MS)


def _memory(ground: Ground, codec: str) -> SparkRow:
    """Of a fresh session."""
    results = Results()
    with SparkWorkers(results, ground.program()) as workers:
        workers.ask(("memory", "memory sum"), ground.logs[codec].directory)
    answer = next(iter(results.best.values()), None)
    name, missing = "peak memory of a task", next(iter(results.missing.values()), None)
    if answer is None:
        return SparkRow(codec, name, "", "MB", missing=missing)
    peak, anonymous = answer.bytes / 1e6, answer.items / 1e6
    told = f"MB; {anonymous:.0f} not mapped"
    return SparkRow(codec, name, told, "MB", peak, goal=f"≤ {MEMORY_GOAL_MB} MB", met=peak <= MEMORY_GOAL_MB)


# --- telling


def _line(row: SparkRow) -> str:
    text = f"{row.codec:6} {row.query:26} {_number(row.ours)}   {row.peer or row.unit:18} {_number(row.theirs)}"
    text += f" {'':>9}" if row.ratio is None else f"  {row.ratio:7.2f}x"
    goal = "-" if row.goal is None else f"{row.goal}  {'' if row.met is None else 'met' if row.met else 'MISSED'}"
    return f"{text}   {goal}" + (f"  skipped: {row.missing}" if row.missing else "")


def _write(path: Path, note: str, rows: Sequence[SparkRow]) -> None:
    """The page: for each codec a plot of all readers, then the table."""
    rates = [row for row in rows if row.unit == "M rows/s"]
    queries = list(dict.fromkeys(row.query for row in rates))
    pictures = []
    for codec in dict.fromkeys(row.codec for row in rates):
        found = {
            (row.peer or OURS, row.query): row.theirs if row.peer else row.ours for row in rates if row.codec == codec
        }
        readers = dict.fromkeys(reader for reader, _ in found)
        figures = {reader: [found.get((reader, query)) for query in queries] for reader in readers}
        pictures.append(plots.bars(path, f"Rows of {codec}", "M rows/s", queries, figures))
    table = "\n".join([PAGE_HEAD, *(f"| {' | '.join(_cells(row))} |" for row in rows)])
    page.write_parts(path, [note, *pictures, table])


def _cells(row: SparkRow) -> list[str]:
    figures = [_number(value).strip() for value in (row.ours, row.theirs, row.ratio)]
    verdict = "" if row.met is None else " met" if row.met else " MISSED"
    goal = f"skipped: {row.missing}" if row.missing else f"{row.goal or ''}{verdict}"
    return [row.codec, row.query, figures[0], row.peer or row.unit, *figures[1:], goal]


def _number(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:9.2f}"


def main(arguments: Sequence[str]) -> None:
    """kafkalog's data source beside Spark's own."""
    options = _options(arguments)
    directory = options.directory or default_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark.", dir=directory) as name, ExitStack() as stack:
        wrong = _unavailable()
        if wrong is not None:
            print(f"\nSpark: skipped: {wrong}", file=sys.stderr)
            return
        ground = _prepared(Path(name), options, stack)
        _tell(ground, options)


def _unavailable() -> str | None:
    from kafkalog.spark.java import missing_java

    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is missing: pip install 'kafkalog[spark]'"
    return missing_java()


def _tell(ground: Ground, options: argparse.Namespace) -> None:
    rows = []
    if options.output == "text":
        print(f"\n{_note(ground, options)}\n\n{HEAD}", flush=True)
    for row in _rows(ground, options):
        rows.append(row)
        if options.output == "text":
            print(_line(row), flush=True)
    if options.output == "json":
        described = {"machine": machine(), "scale": options.scale, "rounds": options.rounds}
        print(json.dumps(described | {"rows": [asdict(row) for row in rows]}, indent=1))
    if options.page is not None:
        _write(options.page, _note(ground, options), rows)
    missed = [row for row in rows if row.met is False]
    if missed:
        print(f"{len(missed)} goals of Spark missed", file=sys.stderr)


def _note(ground: Ground, options: argparse.Namespace) -> str:
    tasks = [f"{codec}: {log.bytes / 1e6:,.0f} MB in {_tasks(log)} tasks" for codec, log in ground.logs.items()]
    return NOTE.format(
        rounds=options.rounds,
        clock=options.clock,
        scale=options.scale,
        machine=machine(),
        pyspark=importlib.metadata.version("pyspark"),
        rows=max(log.end for log in ground.logs.values()),
        megabytes=spark_logs.SEGMENTS * spark_logs.SEGMENT_BYTES * options.scale / 1e6,
        tasks=", ".join(tasks),
    )


def _tasks(log: BenchLog) -> int:
    from kafkalog.spark import ReadOptions, plan_splits

    return len(plan_splits(ReadOptions.parse({"path": str(log.directory)})))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"peers --only {GROUP}", description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=default_scale(), help="1: logs of 1.08 GB")
    parser.add_argument("--codec", action="append", help="none or zstd; another one has no log here")
    parser.add_argument("--query", action="append", dest="queries", choices=QUERIES, help="only this one; repeatable")
    parser.add_argument("--peer", action="append", dest="peers", choices=PEERS, help="only this one; repeatable")
    parser.add_argument("--directory", type=Path, help="where files are written (default: build/bench)")
    parser.add_argument("--page", type=Path, help="also write the rows as Markdown, with plots beside it")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    clock_help = "cpu: processor time of Spark's processes, half of it, for a machine that others use too"
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help=clock_help)
    options = parser.parse_args(arguments)
    options.codecs = [each for each in options.codec or spark_logs.CODECS if each in spark_logs.CODECS] or ["none"]
    options.queries, options.peers = options.queries or list(QUERIES), options.peers or list(PEERS)
    return options
