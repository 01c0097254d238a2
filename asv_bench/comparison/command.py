"""The command line of the comparison: chooses kinds and readings, measures, prints rows as they come."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from asv_bench.comparison import page, report
from asv_bench.comparison.dump import measure_dumps
from asv_bench.comparison.goals import CASES, COMPARISONS, MEMORY
from asv_bench.comparison.report import Row
from asv_bench.comparison.rounds import Rounds, machine, measure
from asv_bench.comparison.time_shares import shares
from asv_bench.comparison.workers import ReaderFailed, watched
from asv_bench.segments import KINDS, default_scale, records_count, segment
from tests.oracle.java import JavaUnavailable

DUMP_ROUNDS = 3  # at most: Kafka's takes a quarter of a minute
NOT_BY_CPU = {"threads", "dump"}  # it is the time on the clock that they are about
SKIPPED = (ReaderFailed, JavaUnavailable, FileNotFoundError)

NOTE = """\
Best of {rounds} interleaved rounds, page cache warm, {clock} time, scale {scale:g} of 357 MB; {machine}.
In M records/s; headers and CRC in M batches/s. kafkalog and Java open the file within the measured time; aiokafka and
kafka-python are given its bytes, kafka-python a twentieth of them. java: Kafka's FileRecords.batches() and
streamingIterator() with reused buffers, in a warm virtual machine."""


def main(arguments: list[str] | None = None) -> None:
    """kafkalog beside its peers, on the same segments."""
    options = _options(arguments)
    rows = []
    if options.output == "text":
        print(
            NOTE.format(rounds=options.rounds, clock=options.clock, machine=machine(), scale=options.scale), flush=True
        )
    head = ""
    for row in _rows(options):
        rows.append(row)
        if options.output == "text":
            head = _print(row, head)
    if options.output == "json":
        described = {"machine": machine(), "scale": options.scale, "rounds": options.rounds, "clock": options.clock}
        print(json.dumps(described | {"rows": [report.as_dict(row) for row in rows]}, indent=1))
    if options.page is not None:
        note = NOTE.format(rounds=options.rounds, clock=options.clock, machine=machine(), scale=options.scale)
        found = {kind: shares(_segment(kind, options)) for kind in options.codec or KINDS if kind != "single"}
        page.write(options.page, note, rows, {kind: each for kind, each in found.items() if each is not None})
    missed = [row for row in rows if row.met is False]
    if missed:
        print(f"{len(missed)} goals missed", file=sys.stderr)


def _print(row: Row, head: str) -> str:
    wanted = report.MEMORY_HEAD if row.unit == "MB" else report.HEAD
    if wanted != head:
        print(f"\n{wanted}")
    print(report.line(row), flush=True)
    return wanted


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers", description=main.__doc__)
    parser.add_argument(
        "--codec", action="append", choices=KINDS, help="only this one (single: 1-record batches); repeatable"
    )
    parser.add_argument("--only", action="append", choices=CASES, help="only these readings; repeatable")
    parser.add_argument("--rounds", type=int, default=5)
    clock_help = "cpu: processor time of the reading thread, for a machine that others use too (default: %(default)s)"
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help=clock_help)
    parser.add_argument("--scale", type=float, default=default_scale(), help="of the 357 MB (default: %(default)s)")
    parser.add_argument("--directory", type=Path, help="where the segments are kept (default: build/bench)")
    parser.add_argument("--page", type=Path, help="also write the readings as Markdown, and where the time goes (perf)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser.parse_args(arguments)


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    chosen = set(options.only or CASES)
    if options.clock == "cpu":
        chosen -= NOT_BY_CPU
    kinds = options.codec or KINDS
    for kind in kinds:
        comparisons = [
            comparison for comparison in COMPARISONS if comparison.group in chosen and comparison.applies_to(kind)
        ]
        if comparisons:
            rounds = Rounds(options.rounds, records_count(kind, options.scale), options.clock)
            results = measure(_segment(kind, options), comparisons, rounds)
            yield from (report.compared(kind, comparison, results) for comparison in comparisons)
    if "dump" in chosen and "none" in kinds:
        records = records_count("none", options.scale)
        ours, peers = measure_dumps(_segment("none", options), min(options.rounds, DUMP_ROUNDS), records)
        yield from (report.dumped(ours, name, dump) for name, dump in peers.items())
    if "memory" in chosen:
        for kind in kinds:
            yield from _memory(kind, _segment(kind, options))


def _segment(kind: str, options: argparse.Namespace) -> Path:
    return segment(kind, options.scale, options.directory)


def _memory(kind: str, path: Path) -> Iterator[Row]:
    for reader, case in MEMORY:
        try:
            yield report.remembered(kind, reader, case, watched(reader, case, path)[1])
        except SKIPPED as error:
            yield report.remembered(kind, reader, case, str(error))
