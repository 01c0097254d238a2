"""The table: a line a comparison, kafkalog and the peer in millions of items a second, their ratio, the goal.

    codec    reading                        kafkalog          peer              ratio     goal
    lz4      columns                           12.40   java      7.61            1.63x   ≥ 1.35   met

In JSON the same rows as objects, one list; a row that could not be measured has `missing`, the reason, in place of
figures.
"""

from dataclasses import asdict, dataclass

from asv_bench.comparison.dump import Dump
from asv_bench.comparison.goals import CALLS, CALLS_2, DUMP_GOALS, Comparison
from asv_bench.comparison.rounds import Results
from asv_bench.comparison.workers import Memory


@dataclass(frozen=True)
class Row:
    """One line; `unit` is what `ours` and `theirs` count."""

    kind: str
    title: str
    peer: str
    unit: str
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    goal: float | None = None
    met: bool | None = None
    missing: str | None = None
    ours_seconds: float | None = None
    theirs_seconds: float | None = None


def compared(kind: str, comparison: Comparison, results: Results) -> Row:
    """The row of one comparison."""
    keys = (comparison.reader, comparison.case), (comparison.peer, comparison.peer_case)
    unit = "M batches/s" if comparison.group in {"headers", "crc"} else "M records/s"
    ours, theirs = (results.best.get(key) for key in keys)
    reasons = dict.fromkeys(results.missing[key] for key in keys if key in results.missing)
    goal = comparison.goal(kind) if comparison.gain is None else _gained(comparison.gain, results)
    ratio = ours.rate / theirs.rate if ours and theirs else None
    return Row(
        kind,
        comparison.title,
        comparison.peer if comparison.peer != comparison.reader else f"{comparison.peer} {comparison.peer_case}",
        unit,
        ours.rate if ours else None,
        theirs.rate if theirs else None,
        ratio,
        goal,
        None if goal is None or ratio is None else ratio >= goal,
        "; ".join(reasons) or None,
        ours.seconds if ours else None,
        theirs.seconds if theirs else None,
    )


def _gained(part: float, results: Results) -> float | None:
    """The goal for two threads; None for uncompressed batches, for which no package is called."""
    best = results.best
    return part * best[CALLS_2].rate / best[CALLS].rate if {CALLS, CALLS_2} <= best.keys() else None


def dumped(ours: Dump, peer: str, theirs: Dump) -> Row:
    """The row of a dump: seconds, so the ratio is theirs to ours."""
    ratio = theirs.seconds / ours.seconds if ours.seconds and theirs.seconds else None
    goal = DUMP_GOALS.get(peer)
    met = None if ratio is None or goal is None else ratio >= goal
    missing = "; ".join(dump.missing for dump in (ours, theirs) if dump.missing) or None
    title = "dump of every record"
    seconds = ours.seconds, theirs.seconds
    return Row("none", title, peer, "s", *seconds, ratio, goal, met, missing, *seconds)


def remembered(kind: str, reader: str, case: str, memory: Memory | str) -> Row:
    """The row of a reader's memory: at most, and without mapped pages."""
    title = f"peak memory, {case}"
    if isinstance(memory, str):
        return Row(kind, title, reader, "MB", missing=memory)
    return Row(kind, title, reader, "MB", memory.peak, memory.peak_anonymous)


HEAD = f"{'codec':8} {'reading':28} {'kafkalog':>9}   {'peer':22} {'':>9}  {'ratio':>8}   goal"
MEMORY_HEAD = f"{'codec':8} {'reading':28} {'reader':12} {'peak MB':>9} {'not mapped':>12}"


def line(row: Row) -> str:
    """A row as text."""
    start = f"{row.kind:8} {row.title:28}"
    if row.unit == "MB":
        if row.missing:
            return f"{start} {row.peer:12} skipped: {row.missing}"
        return f"{start} {row.peer:12} {row.ours or 0:9.0f} {row.theirs or 0:12.0f}"
    text = f"{start} {_number(row.ours)}   {row.peer:22} {_number(row.theirs)}"
    if row.ratio is None:
        return f"{text}  skipped: {row.missing}"
    goal = f"≥ {row.goal:.2f}  {'met' if row.met else 'MISSED'}" if row.goal else "-"
    return f"{text}  {row.ratio:7.2f}x   {goal}"


def _number(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:9.2f}"


def as_dict(row: Row) -> dict[str, object]:
    """Return a row for JSON, without the fields that are None."""
    return {name: value for name, value in asdict(row).items() if value is not None}
