"""The readings as a page for the documentation: a table for each path, and where the time goes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from asv_bench.comparison.report import Row

HEAD = "| codec | kafkalog | beside | | ratio | goal |\n|---|---:|---|---:|---:|---|"


def write(path: Path, note: str, rows: Sequence[Row], shares: Mapping[str, Mapping[str, float]]) -> None:
    """Write the page; `shares` by codec."""
    parts = [f"<!-- Written by asv_bench/peers.py --page; measured, not edited. -->\n\n{note.strip()}"]
    for title in dict.fromkeys(row.title for row in rows if row.unit.startswith("M ")):
        own = [row for row in rows if row.title == title]
        parts.append(
            "\n".join([f"### {title[:1].upper()}{title[1:]}\n", f"In {own[0].unit}.\n", HEAD, *map(_line, own)])
        )
    if shares:
        parts.append("\n".join(["### Where the time of columns goes\n", *_share_lines(shares)]))
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


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
