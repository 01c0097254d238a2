"""`kafkalog ls`: a row a partition of a data directory, a row a segment of a partition, or one for a file.

From headers alone; damage in one segment is told in its row and hides no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, exit_code_of
from kafkalog.cli.output import (
    Column,
    colour_wanted,
    complain,
    human_size,
    printable,
    rfc3339,
    styled,
    table,
    table_width,
    write_text,
)
from kafkalog.cli.progress import Progress
from kafkalog.cli.selection import select, topic_option

if TYPE_CHECKING:
    from kafkalog.cli.summary import Summary
    from kafkalog.storage.data_dir import DataDir, LogFile, PartitionDir

COLUMNS = (
    Column("PARTITION"),
    Column("SEGMENTS", right=True, keep=4),
    Column("SIZE", right=True),
    Column("BATCHES", right=True, keep=2),
    Column("RECORDS", right=True),
    Column("START", right=True),
    Column("END", right=True),
    Column("FIRST TIME", keep=1),
    Column("LAST TIME", keep=5),
    Column("CODEC", keep=6),
    Column("FORMAT", keep=3),
    Column("STATE"),
)
NAME_TITLES = {"partition": "PARTITION", "segment": "SEGMENT", "file": "FILE"}


@dataclass(frozen=True)
class Row:
    """A line of the list. kind: "partition", "segment" or "file"."""

    kind: str
    path: Path
    summary: Summary
    partition: PartitionDir | None = None

    @property
    def name(self) -> str:
        return self.partition.name if self.kind == "partition" and self.partition is not None else self.path.name

    def cells(self) -> list[str]:
        """In the order of COLUMNS."""
        summary = self.summary
        return [
            printable(self.name),
            "" if self.kind != "partition" else f"{summary.segments}",
            human_size(summary.size_in_bytes),
            f"{summary.batches}",
            _records(summary),
            _number(summary.start_offset),
            _number(summary.end_offset),
            rfc3339(summary.first_timestamp, "seconds") or "",
            rfc3339(summary.last_timestamp, "seconds") or "",
            ",".join(name for name, _ in summary.codecs.most_common()),
            ",".join(f"v{magic}" for magic in sorted(summary.magics)),
            self._state(),
        ]

    def _state(self) -> str:
        mark = self.partition.mark if self.partition is not None and self.kind == "partition" else None
        states = [f"-{mark}"] if mark else []
        if self.summary.errors:
            states.append("unreadable" if self.summary.tail == "unreadable" else "DAMAGED")
        elif self.summary.tail != "end":
            states.append(f"{self.summary.tail} tail, {human_size(self.summary.tail_size)}")
        return " ".join(states)

    def document(self) -> dict[str, Any]:
        """The row as JSON shows it: exact, and null for what is not known."""
        topic_partition = self.partition.topic_partition if self.partition is not None else None
        return {
            "kind": self.kind,
            "path": os.fspath(self.path),
            "topic": topic_partition.topic if topic_partition else None,
            "partition": topic_partition.partition if topic_partition else None,
            "mark": self.partition.mark if self.partition is not None else None,
            **_summary_document(self.summary),
        }


def _summary_document(summary: Summary) -> dict[str, Any]:
    return {
        "segments": summary.segments,
        "size_in_bytes": summary.size_in_bytes,
        "batches": summary.batches,
        "control_batches": summary.control_batches,
        "records": summary.records_min if summary.records_exact else None,
        "records_exact": summary.records_exact,
        "records_min": summary.records_min,
        "records_max": summary.records_max,
        "start_offset": summary.start_offset,
        "end_offset": summary.end_offset,
        "first_timestamp": None if summary.first_timestamp < 0 else summary.first_timestamp,
        "first_time": rfc3339(summary.first_timestamp),
        "last_timestamp": None if summary.last_timestamp < 0 else summary.last_timestamp,
        "last_time": rfc3339(summary.last_timestamp),
        "compression_types": dict(summary.codecs),
        "magics": sorted(summary.magics),
        "tail": summary.tail,
        "tail_bytes": summary.tail_size,
        "errors": [str(error) for error in summary.errors],
    }


def _records(summary: Summary) -> str:
    if summary.records_exact:
        return f"{summary.records_min}"
    return f"≥{summary.records_min}" if summary.records_max is None else f"≤{summary.records_max}"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value}"


def rows_of(place: DataDir | PartitionDir | LogFile, progress: Progress) -> Iterator[Row]:
    """The rows for one PATH; for a partition, first that of all of it.

    Damage is in the rows. OSError: the directory cannot be listed.
    """
    from kafkalog.cli.summary import summarise
    from kafkalog.storage.data_dir import DataDir, LogFile

    if isinstance(place, DataDir):
        yield from (_partition_row(each, progress)[0] for each in place.partitions)
    elif isinstance(place, LogFile):
        yield Row("file", place.path, summarise(place.path, advance=progress.advance))
    else:
        whole, segments = _partition_row(place, progress)
        yield whole
        yield from segments


def _partition_row(partition: PartitionDir, progress: Progress) -> tuple[Row, list[Row]]:
    """The row of a partition and those of its segments. What is damaged or cannot be read is told in its row."""
    from kafkalog.cli.summary import Summary, summarise
    from kafkalog.errors import KafkaLogError
    from kafkalog.storage.log import Log

    total, rows = Summary(), []
    try:
        with Log(partition.path) as log:
            for segment in log.segments:
                summary = summarise(segment.path, sealed=segment.sealed, advance=progress.advance)
                rows.append(Row("segment", segment.path, summary, partition))
                total.add(summary)
            start = log.log_start_offset
            total.start_offset = start
            total.end_offset = max(start, start if total.end_offset is None else total.end_offset)
    except (OSError, KafkaLogError) as error:
        total.errors.append(error)
        total.tail = "unreadable" if isinstance(error, OSError) else "damaged"
    return Row("partition", partition.path, total, partition), rows


def size_of(place: DataDir | PartitionDir | LogFile) -> int:
    """Bytes of all its log files, for the progress line; what cannot be read counts as nothing."""
    from kafkalog.storage.data_dir import DataDir, LogFile
    from kafkalog.storage.paths import segment_files

    if isinstance(place, DataDir):
        return sum(map(size_of, place.partitions))
    try:
        files = [place.path] if isinstance(place, LogFile) else [path for _, path in segment_files(place.path)]
        return sum(path.stat().st_size for path in files)
    except OSError:
        return 0


class Listing:
    """Prints rows in the form asked for, and remembers the gravest exit code."""

    def __init__(self, form: str) -> None:
        self.form = form
        self.exit_code = SOUND
        self.documents: list[dict[str, Any]] = []

    def show(self, path: Path, rows: Iterable[Row], title: bool) -> None:
        """The rows of one PATH; what has come so far is shown even when the user interrupts."""
        shown: list[Row] = []
        try:
            for row in rows:
                shown.append(row)
                self._take(row)
        finally:
            if self.form == "text":
                self._print_table(path, shown, title)
        # The row of a partition has its segments' errors too.
        for error in {id(error): error for row in shown for error in row.summary.errors}.values():
            complain(error)

    def _take(self, row: Row) -> None:
        self.exit_code = max([self.exit_code, *map(exit_code_of, row.summary.errors)])
        if self.form == "jsonl":
            write_text(_json(row.document()) + "\n")
        elif self.form == "json":
            self.documents.append(row.document())

    def _print_table(self, path: Path, rows: list[Row], title: bool) -> None:
        colour = colour_wanted()
        if title:
            write_text(styled(printable(str(path)), colour, bold=True) + "\n")
        # The row of the whole partition is its footer, so that the eye ends on it.
        body = sorted(rows, key=lambda row: row.kind == "partition") if rows else []
        name = NAME_TITLES[body[0].kind] if body else "PARTITION"
        columns = [Column(name), *COLUMNS[1:]]
        titles, *lines = table(columns, [row.cells() for row in body], table_width())
        write_text(styled(titles, colour, bold=True) + "\n")
        for row, line in zip(body, lines, strict=True):
            write_text((styled(line, colour, fg="red") if row.summary.errors else line) + "\n")

    def finish(self) -> None:
        """What can be written only when all is known."""
        if self.form == "json":
            write_text(_json(self.documents, indent=2) + "\n")


def _json(document: object, indent: int = 0) -> str:
    import msgspec

    encoded = msgspec.json.encode(document)
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode("utf-8")


@click.command(short_help="List what is there: topics, partitions, segments, records, offsets, times.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@topic_option
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
    help="Text for people; JSON as one array, or a line a row.",
)  # fmt: skip
def ls(paths: tuple[Path, ...], topics: tuple[str, ...], form: str) -> int:
    """List the partitions of a data directory, the segments of a partition, or a file. Only headers are read.

    START is the first offset, END the one after the last. RECORDS leaves control records out; ≤ stands before it
    where compressed messages of formats 0 and 1 tell only how many they hold at most. FIRST and LAST TIME are UTC.
    A torn tail is what a broker that is writing, or that died, leaves at the end of a log. The exit code is 1 where
    something is damaged.
    """
    listing = Listing(form)
    try:
        for path in paths:
            _list(listing, path, topics, title=len(paths) > 1)
    finally:
        listing.finish()
    return listing.exit_code


def _list(listing: Listing, path: Path, topics: tuple[str, ...], *, title: bool) -> None:
    """One PATH that cannot be read does not hide the others."""
    from kafkalog.errors import NotALogError
    from kafkalog.storage.data_dir import discover

    try:
        place = select(discover(path), topics)
        with Progress(size_of(place)) as progress:
            listing.show(path, rows_of(place, progress), title)
    except (NotALogError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        complain(error)
        listing.exit_code = max(listing.exit_code, FINDINGS, exit_code_of(error))
