"""`kafkalog recover DIR`: recover a data directory after an unclean stop, before a broker is started.

text    a line per partition that was changed or failed, with the messages, then a summary
json    {"version": 2, "partitions": [...], "obstacles": [], "summary": {...}}
"""

from __future__ import annotations

import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, UNREADABLE
from kafkalog.cli.common_options import LogPath, document_option, quiet_option
from kafkalog.cli.json_shapes import JSON_VERSION, known, of_finding, of_place, of_ranges, text_of
from kafkalog.cli.output import complain, counted, human_size, path_text, printable, write_text
from kafkalog.cli.progress import Progress
from kafkalog.cli.signals import raised
from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.data_dir.discover import DataDir, discover

if TYPE_CHECKING:
    from kafkalog.fsck.findings import Finding
    from kafkalog.fsck.recovering import RecoveredPartition

EPILOG = """\b
Exit codes:
  0  the directory is marked as closed cleanly
  1  some partition could not be recovered; the others are; or something else,
     such as a foreign directory, keeps a broker from starting
  2  wrong usage
  3  not a data directory, locked by a broker or another writer, unreadable,
     or with a damaged checkpoint

As a broker does after an unclean stop, this reads each partition from its
recovery point on, rebuilds indexes, leader epochs and producer state, and cuts
off what is incomplete; each removal is reported, with the offsets that are
lost by it. It changes files: no broker may run. Interrupted, it goes on from
where it was when it is run again.

\b
Examples:
  kafkalog recover /var/lib/kafka               with all processors
  kafkalog recover -j 4 /var/lib/kafka          with four processes
  kafkalog recover -o json /var/lib/kafka | jq .summary
"""


@click.command(short_help="Recover a data directory after an unclean stop.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=LogPath())
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(min=1), default=None,
    help="The number of processes.  [default: one per processor]",
)  # fmt: skip
@document_option
@quiet_option
def recover(directory: Path, jobs: int | None, form: str, quiet: bool) -> int:
    """Do what a broker does in the data directory DIR after an unclean stop, with several processes, and mark the
    directory as closed cleanly. A broker then starts on it without recovery.
    """
    from kafkalog.fsck import recovering

    size = 0
    # The recovery raises the error, unless the lock keeps it from beginning.
    with suppress(CorruptCheckpointError):
        size = recovering.bytes_to_recover(directory)
    start = time.monotonic()
    results: list[RecoveredPartition] = []
    obstacles: list[Finding] = []
    ended, code = False, SOUND
    try:
        with raised(), Progress(lambda: size, quiet=quiet) as progress:
            for result in recovering.recover(
                directory, jobs=jobs or len(os.sched_getaffinity(0)), progress=progress.advance
            ):
                results.append(result)
                progress.clear()
                _show(result, silent=quiet or form == "json")
        ended = True
        obstacles = _obstacles(directory)
    except CorruptCheckpointError as error:
        complain(f"{error}; kafkalog repair {shlex.quote(str(directory))} mends it")
        code = UNREADABLE
    finally:
        # Changes are reported also after an error or an interruption.
        summary = _summary(results, size, time.monotonic() - start)
        if form == "json":
            fields = {"partitions": list(map(_fields, results)), "obstacles": list(map(of_finding, obstacles))}
            write_text(text_of({"version": JSON_VERSION, **fields, "summary": summary}, 2) + "\n")
        elif ended and not quiet:
            write_text(_sentence(summary) + "\n")
    for each in obstacles:
        complain(f"a broker does not start: {each}")
        if each.mend is not None:
            complain(f"  to mend it: {each.mend}")
    return code or (FINDINGS if summary["failed"] or obstacles else SOUND)


def _obstacles(directory: Path) -> list[Finding]:
    """Return what else keeps a broker from starting."""
    from kafkalog.fsck.start_checks import obstacles

    place = discover(directory)
    return list(obstacles(place)) if isinstance(place, DataDir) else []


def _summary(results: list[RecoveredPartition], size: int, seconds: float) -> dict[str, Any]:
    return {
        "partitions": len(results),
        "changed": sum(bool(each.messages or each.lost_offsets) for each in results),
        "failed": sum(each.error is not None for each in results),
        "bytes": size,
        "seconds": round(seconds, 3),
    }


def _show(result: RecoveredPartition, *, silent: bool) -> None:
    """Print what was changed in a partition, unless `silent`; and an error."""
    if not silent:
        write_text("".join(printable(message) + "\n" for message in result.messages))
        if result.lost_offsets is not None:
            first, last = result.lost_offsets
            write_text(f"{result.topic_partition}: offsets {first}..{last} are lost\n")
    if result.error is not None:
        complain(f"{result.topic_partition} was not recovered: {result.error}")


def _fields(result: RecoveredPartition) -> dict[str, Any]:
    return {
        **of_place(result.directory, result.topic_partition),
        "log_start_offset": known(result.log_start_offset),
        "log_end_offset": known(result.log_end_offset),
        "high_watermark": known(result.high_watermark),
        "lost_offsets": of_ranges([] if result.lost_offsets is None else [result.lost_offsets]),
        "messages": [path_text(each) for each in result.messages],
        "error": None if result.error is None else path_text(str(result.error)),
    }


def _sentence(summary: dict[str, Any]) -> str:
    if not summary["partitions"]:
        return "nothing to recover: the directory was closed cleanly, or has no partitions"
    counts = (
        f"{counted(summary['partitions'], 'partition')}, {human_size(summary['bytes'])} in {summary['seconds']:.1f} s"
    )
    mark = "not marked as closed cleanly" if summary["failed"] else "marked as closed cleanly"
    return f"{counts}: {summary['changed']} changed, {summary['failed']} failed; {mark}"
