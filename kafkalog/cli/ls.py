"""`kafkalog ls`: a row per partition of a data directory, a row per segment of a partition, or one row for a file.

Only headers are read. Damage in a segment is reported in its row and does not hide other segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, exit_code_of
from kafkalog.cli.common_options import paths_argument, select, topic_option, wide_option
from kafkalog.cli.json_shapes import JSON_VERSION, of_place, of_summary, text_of
from kafkalog.cli.output import (
    Column,
    colour_wanted,
    complain,
    hint_of,
    human_size,
    printable,
    rfc3339,
    short_size,
    short_time,
    styled,
    table,
    table_width,
    write_text,
)
from kafkalog.cli.progress import Progress
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover, log_bytes

if TYPE_CHECKING:
    from kafkalog.scan.summary import SegmentSummary

# On a narrow terminal the columns with the lowest `keep` are hidden first; times matter more than counts of batches.
COLUMNS = (
    Column("PARTITION"),
    Column("SEGMENTS", right=True, keep=2),
    Column("SIZE", right=True),
    Column("BATCHES", right=True, keep=1),
    Column("RECORDS", right=True, keep=7),
    Column("START", right=True, keep=6),
    Column("END", right=True),
    Column("FIRST TIME", keep=5),
    Column("LAST TIME", keep=8),
    Column("CODEC", keep=4),
    Column("FMT", keep=3),
    Column("STATE"),
)
NAME_TITLES = {"partition": "PARTITION", "segment": "SEGMENT", "file": "FILE"}


@dataclass(frozen=True)
class Row:
    """A line of the list.

    Attributes:
        kind: "partition", "segment" or "file".
        path: The path of the directory or the file.
        summary: The summary of its headers.
        partition: The partition that it is, or belongs to; None for a file.
    """

    kind: str
    path: Path
    summary: SegmentSummary
    partition: PartitionDir | None = None

    @property
    def name(self) -> str:
        """The name of the partition or the file."""
        return self.partition.name if self.kind == "partition" and self.partition is not None else self.path.name

    def cells(self, *, short: bool = False, total: bool = False) -> list[str]:
        """Return the cells, in the order of COLUMNS.

        Args:
            short: Whether to shorten sizes and times.
            total: Whether the row is the total below its segments.
        """
        summary = self.summary
        size, time = (short_size, short_time) if short else (human_size, _time)
        return [
            f"total of {summary.segments}" if total else printable(self.name),
            "" if self.kind != "partition" or total else f"{summary.segments}",
            size(summary.size_in_bytes),
            f"{summary.batches}",
            _records(summary),
            _number(summary.start_offset),
            _number(summary.end_offset),
            time(summary.first_timestamp),
            time(summary.last_timestamp),
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
        if self.summary.deleted_records:
            states.append(f"{self.summary.deleted_records} deleted")
        return " ".join(states)

    def document(self) -> dict[str, Any]:
        """Return the row as JSON: exact values, null if unknown."""
        partition = self.partition
        mine = LogFile(self.path).topic_partition if partition is None else partition.topic_partition
        return {
            "version": JSON_VERSION,
            "kind": self.kind,
            **of_place(self.path, mine),
            "mark": None if partition is None else partition.mark,
            **of_summary(self.summary, self.kind),
        }


def _time(timestamp: int) -> str:
    return rfc3339(timestamp, "seconds") or ""


def _records(summary: SegmentSummary) -> str:
    if summary.records is not None:
        return f"{summary.records}"
    return f"≥{summary.records_min}" if summary.records_max is None else f"≤{summary.records_max}"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value}"


def rows_of(place: DataDir | PartitionDir | LogFile, progress: Progress) -> Iterator[Row]:
    """Yield the rows for one PATH; for a partition, first the row of the whole partition.

    Damage is in the rows.

    Raises:
        OSError: The directory was not listed.
    """
    from kafkalog.scan.summary import summarise

    if isinstance(place, DataDir):
        yield from (_partition_row(each, progress)[0] for each in place.partitions)
    elif isinstance(place, LogFile):
        yield Row("file", place.path, summarise(place.path, advance=progress.advance))
    else:
        whole, segments = _partition_row(place, progress)
        yield whole
        yield from segments


def _partition_row(partition: PartitionDir, progress: Progress) -> tuple[Row, list[Row]]:
    """Return the row of a partition and those of its segments. Errors are in the row of the part that has them."""
    from kafkalog.cli.log_source import open_unhidden
    from kafkalog.scan.summary import SegmentSummary, summarise

    total, rows = SegmentSummary(), []
    try:
        log, problems = open_unhidden(partition.path)
        with log:
            for segment in log.segments:
                summary = summarise(
                    segment.path, sealed=segment.sealed, advance=progress.advance, log_start=log.log_start_offset
                )
                rows.append(Row("segment", segment.path, summary, partition))
                total.add(summary)
            start = log.log_start_offset
            total.errors += problems
            total.start_offset = start
            total.end_offset = max(start, start if total.end_offset is None else total.end_offset)
    except (OSError, KafkaLogError) as error:
        total.errors.append(error)
        total.tail = "unreadable" if isinstance(error, OSError) else "damaged"
    return Row("partition", partition.path, total, partition), rows


class Listing:
    """The printed list, in the selected form, and the most severe exit code."""

    def __init__(self, form: str, *, wide: bool = False) -> None:
        self.form = form
        self.width = None if wide else table_width()
        self.exit_code = SOUND
        self.documents: list[dict[str, Any]] = []
        self._hidden: dict[str, None] = {}

    def show(self, path: Path, rows: Iterable[Row], title: bool) -> None:
        """Print the rows of one PATH. If the user interrupts, the rows so far are printed."""
        shown: list[Row] = []
        try:
            for row in rows:
                shown.append(row)
                self._take(row)
        finally:
            if self.form == "text":
                self._print_table(path, shown, title)
        # The row of a partition also has the errors of its segments.
        for error in {id(error): error for row in shown for error in row.summary.errors}.values():
            complain(error)

    def _take(self, row: Row) -> None:
        self.exit_code = max([self.exit_code, *map(exit_code_of, row.summary.errors)])
        if self.form == "jsonl":
            write_text(text_of(row.document()) + "\n")
        elif self.form == "json":
            self.documents.append(row.document())

    def _print_table(self, path: Path, rows: list[Row], title: bool) -> None:
        colour = colour_wanted()
        if title:
            write_text(styled(printable(str(path)), colour, bold=True) + "\n")
        # The row of the whole partition is the footer of the table.
        body = sorted(rows, key=lambda row: row.kind == "partition")
        titles, *lines = self._fitted(body)
        write_text(styled(titles, colour, bold=True) + "\n")
        for row, line in zip(body, lines, strict=True):
            write_text((styled(line, colour, fg="red") if row.summary.errors else line) + "\n")

    def _fitted(self, rows: list[Row]) -> list[str]:
        """Return the lines of a table. If it is too wide, shorten sizes and times, and then hide columns."""
        kind = rows[0].kind if rows else "partition"
        columns = [Column(NAME_TITLES[kind]), *COLUMNS[1:]]
        with_total = kind == "segment"
        cells = [row.cells(total=with_total and row.kind == "partition") for row in rows]
        whole = table(columns, cells)
        if self.width is None or max(map(len, whole.lines)) <= self.width:
            return whole.lines
        cells = [row.cells(short=True, total=with_total and row.kind == "partition") for row in rows]
        fitted = table(columns, cells, self.width)
        self._hidden |= dict.fromkeys(fitted.hidden)
        return fitted.lines

    def finish(self) -> None:
        """Write the hint about hidden columns, and the JSON array."""
        if self._hidden:
            write_text(styled(hint_of(self._hidden), colour_wanted(), dim=True) + "\n")
        if self.form == "json":
            write_text(text_of(self.documents, indent=2) + "\n")


EPILOG = """\b
Examples:
  kafkalog ls /var/lib/kafka                a row for each partition
  kafkalog ls /var/lib/kafka -t 'orders*'   of some topics
  kafkalog ls /var/lib/kafka/orders-0       a row for each segment
  kafkalog ls -o json /var/lib/kafka | jq '.[] | select(.errors != [])'
                                            the partitions with damage
"""


@click.command(short_help="List what is there: topics, partitions, segments, records, offsets, times.", epilog=EPILOG)
@paths_argument
@topic_option
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
    help="Text for people; json: one array; jsonl: a line for each row.",
)  # fmt: skip
@wide_option
def ls(paths: tuple[Path, ...], topics: tuple[str, ...], form: str, wide: bool) -> int:
    """List the partitions of data directories, the segments of partitions, or files. Only headers are read.

    START is the first offset, END the one after the last. RECORDS counts neither control records nor records below the
    log start offset; STATE counts the latter as deleted. ≤ means at most: compressed messages of formats 0 and 1 do not
    tell the exact number. FIRST and LAST TIME are UTC. FMT is the format of the messages, v0 to v2. On a narrow
    terminal sizes and times are shorter (K is KiB), and the columns that matter least are hidden.

    A torn tail is an incomplete batch at the end of a log: a broker is writing it, or died while it did. DAMAGED means
    that headers do not follow each other: sizes, formats and codecs that do not exist, a size that leads beyond other
    batches, or a segment that ends in part of a batch though another segment follows. Then the row counts what can be
    read, and the exit code is 1. Few checksums are computed: of the last batch, and of those before missing offsets.
    `kafkalog verify` checks all bytes.

    In JSON the names are Kafka's (none, gzip, snappy, lz4, zstd), times ms since the epoch, null = none or not known.
    Each row has a "version", which rises when a field is removed or changes its meaning.
    """
    listing = Listing(form, wide=wide)
    try:
        for path in paths:
            _list(listing, path, topics, title=len(paths) > 1)
    finally:
        listing.finish()
    return listing.exit_code


def _list(listing: Listing, path: Path, topics: tuple[str, ...], *, title: bool) -> None:
    """List one PATH. An error in reading it is reported, and the next PATH follows.

    Raises:
        OSError: stdout was not written.
    """
    try:
        place = select(discover(path), topics)
        with Progress(lambda: log_bytes(place)) as progress:
            listing.show(path, rows_of(place, progress), title)
    except (NotALogError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None:
            # The error is about stdout, not about a file that was read.
            raise
        complain(error)
        listing.exit_code = max(listing.exit_code, FINDINGS, exit_code_of(error))
