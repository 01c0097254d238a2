"""`kafkalog explain DIR`: what a broker would do at its start on a data directory, in its order, without doing it.

text    FILE: what the broker does, a line a step; below a partition's name those of its files; then whether it starts
json    {"version": 2, "starts": true, "steps": [...], "partitions": [{..., "steps": [...]}], ...}
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, UNREADABLE
from kafkalog.cli.common_options import LogPath, document_option, jobs_option
from kafkalog.cli.json_shapes import JSON_VERSION, of_finding, of_place, text_of
from kafkalog.cli.output import colour_wanted, counted, human_size, path_text, printable, styled, write_text
from kafkalog.cli.progress import Progress
from kafkalog.cli.signals import raised
from kafkalog.cli.verify import COLOURS
from kafkalog.storage.data_dir.discover import discover, log_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalog.fsck.explaining import Explanation, PartitionStart, Step

# The most findings of one code that are shown for a partition without --verbose.
_SHOWN = 3

EPILOG = """\b
Exit codes:
  0  a broker starts, and no data is lost
  1  it does not start, or data is deleted, cut off, set aside, lost or
     served wrongly
  2  wrong usage
  3  unreadable: not a data directory, or some file could not be read

Nothing is changed. All segments are read, as by kafkalog verify, also those
that a broker does not read: it serves what is damaged in them. Topics and
replicas are compared with the cluster's metadata, if DIR has them
(__cluster_metadata-0). server.properties is not read.

\b
Examples:
  kafkalog explain /var/lib/kafka
  kafkalog explain --as-if unclean /var/lib/kafka
                                     after a crash, or kill -9
  kafkalog explain -v /var/lib/kafka | less
  kafkalog explain -o json /var/lib/kafka | jq .starts
"""


@click.command(short_help="Tell what a broker would do at its start.", epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=LogPath())
@click.option(
    "--as-if", type=click.Choice(["clean", "unclean"]),
    help="The stop of the last broker to assume.  [default: by .kafka_cleanshutdown]",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="All partitions and all steps.")
@jobs_option
@document_option
def explain(directory: Path, as_if: str | None, verbose: bool, jobs: int, form: str) -> int:
    """Tell what a broker would do if it started on the data directory DIR, in its order, without doing it: what it
    recovers, rebuilds, cuts off, deletes and sets aside, where the logs begin and end then, and whether it starts.

    The text leaves out partitions without findings.
    """
    from kafkalog.fsck import explaining

    clean = None if as_if is None else as_if == "clean"
    with raised(), Progress(lambda: log_bytes(discover(directory))) as progress:
        found = explaining.explain(directory, clean=clean, jobs=jobs, progress=progress.advance)
    if form == "json":
        write_text(text_of(_document(found), indent=2) + "\n")
    else:
        for line in _lines(found, verbose=verbose):
            write_text(line + "\n")
    if not found.is_readable:
        return UNREADABLE
    return FINDINGS if "error" in found.severities else SOUND


def _lines(found: Explanation, *, verbose: bool) -> Iterator[str]:
    before, after = found.directory_steps
    yield from _told(before, found.path, "", verbose=verbose)
    for each in found.partitions:
        if verbose or any(step.finding for step in each.steps):
            yield printable(_name(each))
            yield from _told(each.steps, each.partition.path, "  ", verbose=verbose)
    yield from _told(after, found.path, "", verbose=verbose)
    if found.bytes_to_recover:
        yield f"{printable(path_text(found.path))}: {human_size(found.bytes_to_recover)} to read in the recovery"
    yield f"{printable(path_text(found.path))}: {_verdict(found)}"


def _name(start: PartitionStart) -> str:
    return start.partition.name + (f" -{start.partition.mark}" if start.partition.mark else "")


def _told(steps: Iterable[Step], directory: Path, indent: str, *, verbose: bool) -> Iterator[str]:
    shown = Counter[str]()
    colour = colour_wanted()
    for step in steps:
        if step.finding is not None and not verbose:
            shown[step.finding.code] += 1
            if shown[step.finding.code] > _SHOWN:
                continue
        line = indent + printable(_sentence(step, directory))
        severity = str(step.consequence.severity)
        yield styled(line, colour and severity in COLOURS, fg=COLOURS.get(severity))
    for code, count in shown.items():
        if count > _SHOWN:
            yield f"{indent}{code}: {count - _SHOWN} more of them; --verbose shows all"


def _sentence(step: Step, directory: Path) -> str:
    path = "" if step.path == str(directory) else path_text(step.path.removeprefix(f"{directory}/"))
    label = "" if step.consequence.severity == "info" else f"{step.consequence}: "
    if step.finding is None:
        return f"{path}: {label}{step.does}" if path else label + step.does
    finding = step.finding
    place = path + ("" if finding.position is None else f":{finding.position}")
    gone = "" if step.first_offset is None else f"; offsets {step.first_offset}..{step.last_offset} go"
    return f"{place}: {label}{finding.message} ({finding.code}): it {step.does}{gone}".removeprefix(": ")


def _verdict(found: Explanation) -> str:
    if not found.starts:
        return f"a broker does not start: {counted(len(found.obstacles), 'obstacle')}, see no-start above"
    starts = f"{'' if found.formatted else 'once the directory is formatted, '}a broker starts"
    worst = Counter(each.consequence for each in found.all_steps if each.consequence.severity == "error")
    if not worst:
        known = "" if found.is_readable else ", as far as could be read"
        return f"{starts}, and nothing is lost{known}"
    return f"{starts}, but: " + ", ".join(f"{count} {consequence}" for consequence, count in sorted(worst.items()))


def _document(found: Explanation) -> dict[str, Any]:
    before, after = found.directory_steps
    return {
        "version": JSON_VERSION,
        "path": path_text(found.path),
        "clean_shutdown": found.was_clean,
        "assumed_clean": found.clean,
        "starts": found.starts,
        "bytes_to_recover": found.bytes_to_recover,
        "steps": [_fields(each) for each in (*before, *after)],
        "partitions": [
            {
                **of_place(each.partition.path, each.partition.topic_partition),
                "mark": each.partition.mark,
                "segments": each.segments,
                "recovered_segments": each.recovered_segments,
                "bytes_to_recover": each.bytes_to_recover,
                "log_start_offset": each.log_start_offset,
                "high_watermark": each.high_watermark,
                "log_end_offset": each.log_end_offset,
                "steps": [_fields(step) for step in each.steps],
            }
            for each in found.partitions
        ],
    }


def _fields(step: Step) -> dict[str, Any]:
    return {
        "stage": str(step.stage),
        "path": path_text(step.path),
        "does": path_text(step.does),
        "severity": str(step.consequence.severity),
        "consequence": str(step.consequence),
        "cuts": step.cuts,
        "first_offset": step.first_offset,
        "last_offset": step.last_offset,
        "finding": None if step.finding is None else of_finding(step.finding),
    }
