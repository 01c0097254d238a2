"""Growth: how time and memory rise with bytes, segments and partitions; each step in a fresh process.

    decode      all columns of 1, 4 and 16 GB: time in proportion, memory flat
    open, plan  a partition of 10, 1,000 and 100,000 small segments, opened, and planned for Spark
    manager     a data directory of 10, 1,000 and 10,000 partitions

A curve is linear if the last step needs at most a quarter more for each unit than the one before; memory is flat if the
last step holds at most a quarter more than the first. Everything is deleted afterwards.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from asv_bench.comparison import page, plots, spark_logs
from asv_bench.comparison.rounds import machine
from asv_bench.comparison.workers import Answer, Memory, ReaderFailed, watched
from asv_bench.logs import make_log
from asv_bench.segments import default_directory, default_scale, full_batches

GROUP = "growth"
WORKER = Path(__file__).with_name("growth_workers.py")
GIGABYTE = 1_000_000_000
MOST_GROWTH = 1.25
# A step that must be expected to take longer is left out: what rises too fast would take hours.
LONGEST_SECONDS = 120.0
# A step that takes longer than this is measured once.
LONG_SECONDS = 10.0

NOTE = """\
Best of {rounds} rounds, each in a fresh process, {clock} time, scale {scale:g}; {machine}.
Peak memory is that of the process, Python and numpy included; in brackets without mapped files, whose pages the system
can drop. For zstd, MB count the batches before they were compressed."""
HEAD = f"{'curve':32} {'':>8} {'':10} {'seconds':>9} {'us for each':>12} {'peak MB':>9} {'':>8}   goal"
PAGE_HEAD = "| | | | seconds | µs for each | peak MB | | goal |\n|---|---:|---|---:|---:|---:|---:|---|"


@dataclass(frozen=True)
class Curve:
    """What is measured at each step. flat: the memory, not only the time for each unit, is to stay the same."""

    title: str
    case: str
    flat: bool = False


@dataclass(frozen=True)
class Ground:
    """What several curves read: made once, at all sizes, by `make`."""

    unit: str
    counts: tuple[int, ...]
    make: Callable[[Path, Sequence[int]], list[Path]]
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Step:
    """A point of a curve. growth: of the time for each unit since the step before; of the memory since the first."""

    title: str
    unit: str
    count: int
    seconds: float | None = None
    peak: float | None = None
    peak_anonymous: float | None = None
    growth: float | None = None
    memory_growth: float | None = None
    met: bool | None = None
    missing: str | None = None


# --- what is read


def _of_bytes(codec: str, scratch: Path, megabytes: Sequence[int]) -> list[Path]:
    """One log of the largest size; the smaller ones are links to its first segments."""
    smallest, largest = megabytes[0], megabytes[-1]
    part = smallest * 1_000_000 / spark_logs.SEGMENT_BYTES
    log = spark_logs.make(scratch, codec, part, segments=largest // smallest).directory
    names = sorted(path.name for path in log.glob("0*.log"))
    paths = []
    for size in megabytes[:-1]:
        paths.append(scratch / f"{size}" / log.name)
        paths[-1].mkdir(parents=True)
        for name in names[: size // smallest]:
            for path in log.glob(f"{name[:20]}.*"):
                (paths[-1] / path.name).hardlink_to(path)
        shutil.copy(log / "leader-epoch-checkpoint", paths[-1])
    return [*paths, log]


def _of_segments(scratch: Path, segments: Sequence[int]) -> list[Path]:
    """Segments of one batch of one record each."""
    batches = _small_batches()
    return [make_log(scratch / f"{count}" / "bench-0", count, 1, batches).directory for count in segments]


def _of_partitions(scratch: Path, partitions: Sequence[int]) -> list[Path]:
    """Partitions of one segment each, in a data directory that a broker has closed."""
    batches = _small_batches()
    for count in partitions:
        for number in range(count):
            make_log(scratch / f"{count}" / f"bench-{number}", 1, 1, batches)
    return [scratch / f"{count}" for count in partitions]


def _small_batches() -> list[bytearray]:
    return list(islice(full_batches(1), 1))


GROUNDS = (
    *(
        Ground(
            "MB",
            (1_000, 4_000, 16_000),
            partial(_of_bytes, codec),
            (Curve(f"columns of a log, {codec}", "columns", flat=True),),
        )
        for codec in ("none", "zstd")
    ),
    Ground(
        "segments",
        (10, 1_000, 100_000),
        _of_segments,
        (
            Curve("open a log to read", "open"),
            Curve("open a log to write", "open-write"),
            Curve("plan a read of Spark", "plan"),
        ),
    ),
    Ground(
        "partitions",
        (10, 1_000, 10_000),
        _of_partitions,
        (Curve("LogManager to read, each log", "manager"), Curve("LogManager to write", "manager-write")),
    ),
)


def _scaled(ground: Ground, scale: float) -> list[int]:
    """The sizes at this scale: of bytes all of them, else the largest."""
    if ground.unit == "MB":
        return [max(1, round(ground.counts[0] * scale)) * count // ground.counts[0] for count in ground.counts]
    *smaller, largest = ground.counts
    return [*smaller, max(2 * smaller[-1], round(largest * scale))]


# --- measuring


def _steps(options: argparse.Namespace, directory: Path) -> Iterator[Step]:
    for ground in GROUNDS:
        if not options.curves or {curve.case for curve in ground.curves} & set(options.curves):
            with tempfile.TemporaryDirectory(prefix=".growth.", dir=directory) as scratch:
                counts = _scaled(ground, options.scale)
                places = list(zip(counts, ground.make(Path(scratch), counts), strict=True))
                for curve in ground.curves:
                    if not options.curves or curve.case in options.curves:
                        yield from _measured(curve, ground.unit, places, options)


def _measured(
    curve: Curve, unit: str, places: Sequence[tuple[int, Path]], options: argparse.Namespace
) -> Iterator[Step]:
    found: list[Step] = []
    for count, path in places:
        step, seconds = Step(curve.title, unit, count), _expected(found, count)
        if seconds > LONGEST_SECONDS and not curve.flat:
            step = replace(step, missing=f"would take some {seconds:,.0f} s", met=False)
        else:
            step = _judged(curve, _step(curve, step, path, options), found, is_last=len(found) + 1 == len(places))
        found.append(step)
        yield step


def _expected(before: Sequence[Step], count: int) -> float:
    """How long a step will take, if time rises as it did before, in proportion at least."""
    if len(before) < 2 or not before[-2].seconds or not before[-1].seconds:
        return 0.0
    rise = math.log(before[-1].seconds / before[-2].seconds) / math.log(before[-1].count / before[-2].count)
    return float(before[-1].seconds * (count / before[-1].count) ** max(1.0, rise))


def _step(curve: Curve, step: Step, path: Path, options: argparse.Namespace) -> Step:
    """The step with its figures: the best time, the highest memory."""
    program = [sys.executable, "-P", str(WORKER)]
    found: list[tuple[Answer, Memory]] = []
    try:
        while len(found) < options.rounds and (not found or found[-1][0].seconds < LONG_SECONDS):
            found.append(watched(GROUP, curve.case, path, options.clock, program))
    except ReaderFailed as error:
        return replace(step, missing=str(error))
    return replace(
        step,
        seconds=min(answer.seconds for answer, _ in found),
        peak=max(memory.peak for _, memory in found),
        peak_anonymous=max(memory.peak_anonymous for _, memory in found),
    )


def _judged(curve: Curve, step: Step, before: Sequence[Step], *, is_last: bool) -> Step:
    """The step beside those before it; the last one is to be as they were."""
    if step.seconds is None or step.peak is None or not before:
        return step
    growth = memory_growth = None
    if before[-1].seconds:
        growth = step.seconds / step.count / (before[-1].seconds / before[-1].count)
    if before[0].peak_anonymous and step.peak_anonymous:
        memory_growth = step.peak_anonymous / before[0].peak_anonymous
    judged = [growth, memory_growth] if curve.flat else [growth]
    met = all(each is not None and each <= MOST_GROWTH for each in judged) if is_last else None
    return replace(step, growth=growth, memory_growth=memory_growth, met=met)


# --- telling


def _cells(step: Step) -> list[str]:
    """The title, how many of what, seconds, µs for each, memory, and the verdict."""
    start = [step.title, f"{step.count:,}", step.unit]
    if step.seconds is None:
        return [*start, "-", "-", "-", "", f"skipped: {step.missing}" + (" MISSED" if step.met is False else "")]
    each = step.seconds / step.count * 1e6
    memory = [f"{step.peak:.0f}", f"({step.peak_anonymous:.0f})"]
    return [*start, f"{step.seconds:.3f}", f"{each:,.0f}" if each >= 1000 else f"{each:.1f}", *memory, _verdict(step)]


def _verdict(step: Step) -> str:
    if step.met is None:
        return ""
    parts = [f"{step.growth:.2f} times the time for each"]
    if step.memory_growth is not None and step.unit == "MB":
        parts.append(f"{step.memory_growth:.2f} times the memory")
    return f"{', '.join(parts)}: ≤ {MOST_GROWTH:g} {'met' if step.met else 'MISSED'}"


def _line(step: Step) -> str:
    title, count, unit, seconds, each, peak, anonymous, verdict = _cells(step)
    return f"{title:32} {count:>8} {unit:10} {seconds:>9} {each:>12} {peak:>9} {anonymous:>8}   {verdict}".rstrip()


def _write(path: Path, note: str, steps: Sequence[Step]) -> None:
    """The page: plots of time by unit and of the memory of reading, then the table."""
    panels = [(unit, "seconds", _points(steps, unit, "seconds")) for unit in dict.fromkeys(step.unit for step in steps)]
    pictures = [plots.curves(path, "Time", panels)]
    if any(step.unit == "MB" for step in steps):
        pictures.append(
            plots.curves(path, "Memory", [("MB", "peak MB, not mapped", _points(steps, "MB", "peak_anonymous"))])
        )
    table = "\n".join([PAGE_HEAD, *(f"| {' | '.join(_cells(step))} |" for step in steps)])
    page.write_parts(path, [note, *pictures, table])


def _points(steps: Sequence[Step], unit: str, field: str) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for step in steps:
        if step.unit == unit and step.missing is None:
            found.setdefault(step.title, []).append((step.count, getattr(step, field)))
    return found


def main(arguments: Sequence[str]) -> None:
    """How time and memory rise with bytes, segments and partitions."""
    options = _options(arguments)
    directory = options.directory or default_directory()
    directory.mkdir(parents=True, exist_ok=True)
    note = NOTE.format(rounds=options.rounds, clock=options.clock, scale=options.scale, machine=machine())
    if options.output == "text":
        print(f"\nGrowth: {note}\n\n{HEAD}", flush=True)
    steps = []
    for step in _steps(options, directory):
        steps.append(step)
        if options.output == "text":
            print(_line(step), flush=True)
    if options.output == "json":
        described = {"machine": machine(), "scale": options.scale, "rounds": options.rounds, "clock": options.clock}
        print(json.dumps(described | {"steps": [asdict(step) for step in steps]}, indent=1))
    if options.page is not None:
        _write(options.page, note, steps)
    missed = [step for step in steps if step.met is False]
    if missed:
        print(f"{len(missed)} goals of growth missed", file=sys.stderr)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"peers --only {GROUP}", description=main.__doc__)
    cases = [curve.case for ground in GROUNDS for curve in ground.curves]
    parser.add_argument("--curve", action="append", dest="curves", choices=dict.fromkeys(cases), help="only this one")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: processor time of the process")
    parser.add_argument("--scale", type=float, default=default_scale(), help="1: 16 GB, 100,000 segments; needs 17 GB")
    parser.add_argument("--directory", type=Path, help="where files are written (default: build/bench)")
    parser.add_argument("--page", type=Path, help="also write the curves as Markdown, with plots beside it")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    # What is not compressed has no codec; the comparisons take this.
    parser.add_argument("--codec", action="append", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)
