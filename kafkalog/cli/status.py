"""`kafkalog status PATH`: the state of a data directory, a line a partition, without reading the segments.

text    a table of partitions, then what is wrong with each, then the directory
json    {"version": 2, "partitions": [...], "clean_shutdown": true, "bytes_to_recover": 0, "problems": []}
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, UNREADABLE
from kafkalog.cli.common_options import LogPath, document_option, select, topic_option, wide_option
from kafkalog.cli.json_shapes import JSON_VERSION, of_place, text_of
from kafkalog.cli.output import (
    Column,
    colour_wanted,
    complain,
    hint_of,
    human_size,
    path_text,
    printable,
    styled,
    table,
    table_width,
    write_text,
)
from kafkalog.errors import NotALogError
from kafkalog.storage.data_dir.discover import DataDir, LogFile, discover

if TYPE_CHECKING:
    from kafkalog.scan.status import DirectoryStatus, PartitionStatus

COLUMNS = (
    Column("PARTITION"),
    Column("SEGMENTS", right=True, keep=1),
    Column("SIZE", right=True, keep=4),
    Column("START", right=True, keep=5),
    Column("STABLE", right=True, keep=3),
    Column("HIGH WATERMARK", right=True, keep=6),
    Column("END", right=True),
    Column("SYNCED", right=True, keep=2),
    Column("HEALTH"),
)

EPILOG = """\b
Exit codes:
  0  nothing wrong was found, at a glance
  1  a partition or a checkpoint is damaged, a broker would not start, or a
     transaction hangs
  2  wrong usage
  3  not a data directory or partition, or some file could not be read

\b
Examples:
  kafkalog status /var/lib/kafka
  kafkalog status -t 'orders*' /var/lib/kafka
  kafkalog status -o json /var/lib/kafka | jq '.partitions[] | .problem'
"""


@click.command(short_help="Show offsets, watermarks and health, at a glance.", epilog=EPILOG)
@click.argument("path", metavar="PATH", type=LogPath())
@topic_option
@document_option
@wide_option
def status(path: Path, topics: tuple[str, ...], form: str, wide: bool) -> int:
    """Show a line for each partition of a data directory: where the log starts and ends, its last stable offset and
    high watermark, up to which offset it is synced to disk, and its health at a glance.

    HEALTH is about checkpoints, ends, open transactions, and what keeps a broker from starting; the bytes of the
    segments are for `kafkalog verify`.
    HIGH WATERMARK and SYNCED are from the checkpoints, which a running broker writes every few seconds. The last lines
    say whether the last writer stopped cleanly, and how much a broker has to read at its start if not.
    """
    from kafkalog.scan.status import DirectoryStatus

    place = select(discover(path), topics)
    if isinstance(place, LogFile):
        raise NotALogError("a file has no status: give a partition or a data directory", str(path))
    is_data_dir = isinstance(place, DataDir)
    found = DirectoryStatus(path if is_data_dir else path.absolute().parent, is_data_dir=is_data_dir)
    rows = [found.status_of(each) for each in (place.partitions if isinstance(place, DataDir) else (place,))]
    if form == "json":
        write_text(text_of(_document(found, rows), indent=2) + "\n")
    else:
        _print(found, rows, None if wide else table_width())
    for problem in found.problems:
        complain(problem)
    if any(row.health == "unreadable" for row in rows):
        return UNREADABLE
    return FINDINGS if found.problems or any(row.problem for row in rows) else SOUND


def _print(found: DirectoryStatus, rows: list[PartitionStatus], width: int | None) -> None:
    colour = colour_wanted()
    shown = table(COLUMNS, [_cells(row) for row in rows], width)
    titles, *lines = shown.lines
    write_text(styled(titles, colour, bold=True) + "\n")
    for row, line in zip(rows, lines, strict=True):
        write_text((styled(line, colour, fg="red") if row.problem else line) + "\n")
    if shown.hidden:
        write_text(styled(hint_of(shown.hidden), colour, dim=True) + "\n")
    for row in rows:
        if row.problem is not None:
            write_text(f"{printable(row.partition.name)}: {printable(row.problem)}\n")
    write_text(f"{printable(str(found.path))}: {_shutdown(found)}\n")


def _shutdown(found: DirectoryStatus) -> str:
    if found.was_clean:
        return "the last writer stopped cleanly"
    if found.to_recover is None:
        return "not stopped cleanly"
    return f"a writer is running, or did not stop cleanly: {human_size(found.to_recover)} to read in a recovery"


def _cells(row: PartitionStatus) -> list[str]:
    offsets = (row.log_start_offset, row.last_stable_offset, row.high_watermark, row.log_end_offset, row.recovery_point)
    return [
        printable(row.partition.name) + (f" -{row.partition.mark}" if row.partition.mark else ""),
        f"{row.segments}",
        human_size(row.size_in_bytes),
        *("?" if offset is None else f"{offset}" for offset in offsets),
        f"{row.health}",
    ]


def _document(found: DirectoryStatus, rows: list[PartitionStatus]) -> dict[str, Any]:
    return {
        "version": JSON_VERSION,
        "partitions": [_fields(row) for row in rows],
        "clean_shutdown": found.was_clean,
        "bytes_to_recover": found.to_recover,
        "problems": [path_text(str(each)) for each in found.problems],
    }


def _fields(row: PartitionStatus) -> dict[str, Any]:
    return {
        **of_place(row.partition.path, row.partition.topic_partition),
        "mark": row.partition.mark,
        "segments": row.segments,
        "size_in_bytes": row.size_in_bytes,
        "log_start_offset": row.log_start_offset,
        "last_stable_offset": row.last_stable_offset,
        "high_watermark": row.high_watermark,
        "log_end_offset": row.log_end_offset,
        "recovery_point": row.recovery_point,
        "health": str(row.health),
        "problem": None if row.problem is None else path_text(row.problem),
    }
