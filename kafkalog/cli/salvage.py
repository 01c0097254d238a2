"""`kafkalog salvage SRC DEST`: copy the good batches of damaged partitions to new ones that a broker accepts.

text    a line per finding about the source, as `verify` prints it, and one per new partition
json    {"version": 2, "partitions": [...]}
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, exit_code_of
from kafkalog.cli.common_options import LogPath, document_option, quiet_option, select, topic_option
from kafkalog.cli.json_shapes import JSON_VERSION, of_place, text_of
from kafkalog.cli.output import complain, counted, human_size, printable, write_text
from kafkalog.cli.progress import Progress
from kafkalog.cli.signals import raised
from kafkalog.errors import KafkaLogError, LogLockedError
from kafkalog.fsck.findings import Finding
from kafkalog.storage.checkpoint.partition_metadata_file import is_topic_id
from kafkalog.storage.data_dir.discover import META_PROPERTIES, DataDir, LogFile, PartitionDir, discover, log_bytes
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT

if TYPE_CHECKING:
    from kafkalog.fsck.salvaging import SalvagedPartition

EPILOG = """\b
Exit codes:
  0  everything was copied, or was there already
  1  something was left out: lost bytes, damaged batches, torn tails
  2  wrong usage
  3  no log in SRC, DEST is locked, or the partition DEST exists, or a file
     cannot be read or written; of a data directory, the other partitions are
     still copied

SRC is only read. Offsets, leader epochs and the topic id are those of SRC;
empty batches take the place of damaged ones; indexes and producer state are
built anew. A partition in DEST appears when it is complete, and is not made
again: interrupted, the same command names it and goes on with the others. No
broker may run on the data directory of DEST.

\b
Examples:
  kafkalog salvage /var/lib/kafka/orders-0 /mnt/new/orders-0
  kafkalog salvage /var/lib/kafka /mnt/new      all partitions
  kafkalog salvage -t 'orders*' /var/lib/kafka /mnt/new
  kafkalog salvage --deep backup/orders-0 /mnt/new/orders-0
  kafkalog salvage -o json backup/orders-0 /mnt/new/orders-0 | jq .partitions
"""


@click.command(short_help="Copy what is good of a damaged log to a new one.", epilog=EPILOG)
@click.argument("source", metavar="SRC", type=LogPath())
@click.argument("destination", metavar="DEST", type=LogPath())
@topic_option
@click.option(
    "--topic-id", metavar="ID", help="The topic id, 22 characters.  [default: that of SRC, or of its cluster]"
)
@click.option("--deep", is_flag=True, help="Leave out batches, too, whose records consumers cannot read.")
@document_option
@quiet_option
def salvage(  # noqa: PLR0917 # click passes them by name
    source: Path, destination: Path, topics: tuple[str, ...], topic_id: str | None, deep: bool, form: str, quiet: bool
) -> int:
    """Copy every good batch of SRC, a partition directory, to DEST, a new one; of a data directory, those of all its
    partitions to new ones in DEST.
    """
    from kafkalog.fsck.salvaging import salvage as salvage_partition

    place = select(discover(source), topics)
    is_data_dir, partitions = isinstance(place, DataDir), _partitions(place)
    _refuse_misuse(source, destination, topic_id, partitions)
    _refuse_foreign(destination if is_data_dir else destination.parent)
    silent, results = quiet or form == "json", list[Any]()
    progress, code, missing = Progress(lambda: log_bytes(place), quiet=quiet), SOUND, 0

    def report(finding: Finding) -> None:
        nonlocal code, missing
        if finding.code in {"segment-gap", "offset-gap"}:
            missing += (finding.last_offset or 0) + 1 - (finding.first_offset or 0)
        code = code if finding.severity == "info" else max(code, FINDINGS)
        progress.clear()
        if not silent:
            write_text(printable(str(finding)) + "\n")

    try:
        with raised(), progress:
            for each in partitions:
                target, missing = destination / each.name if is_data_dir else destination, 0
                try:
                    made = salvage_partition(
                        each.path, target, topic_id=topic_id, deep=deep, report=report, progress=progress.advance
                    )
                    results.append(made)
                except (LogLockedError, BrokenPipeError):
                    raise
                except (KafkaLogError, OSError) as error:
                    progress.clear()
                    if is_data_dir and isinstance(error, FileExistsError) and not target.is_symlink():
                        complain(f"{target}: left as it is, because it is there already")
                        continue
                    complain(error)
                    code = max(code, exit_code_of(error))
                    continue
                progress.clear()
                if not silent:
                    write_text(_sentence(results[-1], missing) + "\n")
    finally:
        if form == "json":
            fields = [_fields(each) for each in results]
            write_text(text_of({"version": JSON_VERSION, "partitions": fields}, 2) + "\n")
    return code


def _partitions(place: DataDir | PartitionDir | LogFile) -> list[PartitionDir]:
    """Return the partitions to salvage: of a data directory, those that a broker serves, not being deleted or moved."""
    if isinstance(place, LogFile):
        raise click.UsageError("SRC is a file: give its partition directory")
    return [each for each in place.partitions if each.mark is None] if isinstance(place, DataDir) else [place]


def _refuse_misuse(source: Path, destination: Path, topic_id: str | None, partitions: list[PartitionDir]) -> None:
    real_source, real_destination = (Path(os.path.realpath(each)) for each in (source, destination))
    if real_source in {real_destination, *real_destination.parents}:
        raise click.UsageError("DEST is SRC or lies in it, and SRC is only read")
    if topic_id is None:
        return
    if not is_topic_id(topic_id):
        raise click.UsageError(f"--topic-id {topic_id} is not a topic id: 22 characters of base64url, not all A")
    if len({each.topic_partition and each.topic_partition.topic for each in partitions}) > 1:
        raise click.UsageError("--topic-id is the id of one topic, and SRC has several: choose one with --topic")


def _refuse_foreign(directory: Path) -> None:
    """Refuse a data directory that would lie in another one."""
    above = Path(os.path.realpath(directory)).parent
    if any((above / name).exists() for name in (META_PROPERTIES, CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT)):
        raise click.UsageError(
            f"{directory} would lie in the data directory {above}, and no broker would start on that"
        )


def _sentence(result: SalvagedPartition, missing: int) -> str:
    """Return what was copied, with the number of offsets that the source does not have."""
    copied = f"{counted(result.batches, 'batch', 'es')}, {human_size(result.size_in_bytes)}"
    start, end = result.log_start_offset, result.log_end_offset
    offsets = f"offsets {start}..{end - 1}" if start < end else f"empty, the next offset is {end}"
    batches = f"{counted(result.batches_left_out, 'batch', 'es')} and " if result.batches_left_out else ""
    left = (
        f"{batches}{human_size(result.bytes_left_out)} in all left out" if result.bytes_left_out else "nothing left out"
    )
    gaps = f"; {counted(missing, 'offset')} missing in SRC" if missing else ""
    return f"{printable(str(result.directory))}: {copied}, {offsets}; {left}{gaps}"


def _fields(result: SalvagedPartition) -> dict[str, Any]:
    return {
        **of_place(result.directory, result.topic_partition),
        "topic_id": result.topic_id,
        "log_start_offset": result.log_start_offset,
        "log_end_offset": result.log_end_offset,
        "batches": result.batches,
        "size_in_bytes": result.size_in_bytes,
        "batches_left_out": result.batches_left_out,
        "bytes_left_out": result.bytes_left_out,
    }
