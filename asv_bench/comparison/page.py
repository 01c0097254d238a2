"""The readings as a page for the documentation: a plot and a table for each path, and where the time goes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from asv_bench.comparison import plots
from asv_bench.comparison.report import Row

HEAD = "| codec | kafkalog | beside | | ratio | goal |\n|---|---:|---|---:|---:|---|"


def write(path: Path, note: str, rows: Sequence[Row], shares: Mapping[str, Mapping[str, float]]) -> None:
    """Write the page of the readings; `shares` by codec."""
    parts = [note]
    for name in dict.fromkeys(row.title for row in rows if row.unit.startswith("M ")):
        own = [row for row in rows if row.title == name]
        title = f"{name[:1].upper()}{name[1:]}"
        table = "\n".join([HEAD, *map(_line, own)])
        parts += [f"### {title}", _plot(path, title, own), f"In {own[0].unit}.", table]
    if shares:
        parts += ["### Where the time of columns goes", "\n".join(_share_lines(shares))]
    write_parts(path, parts)


def write_parts(path: Path, parts: Sequence[str]) -> None:
    """Write a page that consists of these paragraphs and tables."""
    head = "<!-- Written by asv_bench/peers.py --page; measured, not edited. -->"
    path.write_text("\n\n".join([head, *(part.strip() for part in parts)]) + "\n", encoding="utf-8")


def _plot(path: Path, title: str, rows: Sequence[Row]) -> str:
    """Draw kafkalog and its peers, by codec."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    peers = {row.peer: dict[str, float | None]() for row in rows}
    ours = {row.kind: row.ours for row in rows if row.ours is not None}
    for row in rows:
        peers[row.peer][row.kind] = row.theirs
    figures = {name: [each.get(kind) for kind in kinds] for name, each in {"kafkalog": ours, **peers}.items()}
    return plots.bars(path, title, rows[0].unit, kinds, figures)


def _line(row: Row) -> str:
    if row.ratio is None:
        return f"| {row.kind} | - | {row.peer} | - | - | skipped |"
    return f"| {row.kind} | {row.ours:.2f} | {row.peer} | {row.theirs:.2f} | {row.ratio:.2f} | {_goal(row)} |"


def _goal(row: Row) -> str:
    if row.goal is None or row.ratio is None:
        return ""
    return f"≥ {row.goal:.2f} " + ("met" if row.met else f"missed by {1 - row.ratio / row.goal:.0%}")


def _share_lines(shares: Mapping[str, Mapping[str, float]]) -> list[str]:
    names = list(dict.fromkeys(name for each in shares.values() for name in each))
    rule = "|".join(["---", *["---:" for _ in names]])
    lines = [f"| codec | {' | '.join(names)} |", f"|{rule}|"]
    for codec, each in shares.items():
        figures = " | ".join(f"{each.get(name, 0):.0%}" for name in names)
        lines.append(f"| {codec} | {figures} |")
    return lines
