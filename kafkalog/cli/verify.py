"""`kafkalog verify PATH...`: check logs for damage. It prints a line per finding, then verdicts and a summary.

text    PATH:POSITION: SEVERITY CODE: MESSAGE (bytes, offsets, expected, found)
        PATH: CONSEQUENCE: ERRORS, WARNINGS, CODES, and what a broker does: per partition, then for the directory
json    {"version": 2, "findings": [finding, ...], "summary": {...}}
jsonl   {"version": 2, "type": "finding", ...} per finding; {"version": 2, "type": "summary", ...} at the end
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkalog.cli import FINDINGS, SOUND, UNREADABLE
from kafkalog.cli.common_options import jobs_option, paths_argument, select, topic_option
from kafkalog.cli.json_shapes import JSON_VERSION, of_check, of_finding, text_of
from kafkalog.cli.output import colour_wanted, counted, human_size, path_text, printable, styled, write_text
from kafkalog.cli.progress import Progress
from kafkalog.cli.signals import raised
from kafkalog.errors import NotALogError
from kafkalog.fsck.findings import Finding, Summary, Verdict
from kafkalog.sizes import parse_size
from kafkalog.storage.data_dir.discover import discover, log_bytes

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafkalog.fsck.verifying import Options, Place

COLOURS = {"error": "red", "warning": "yellow"}

EPILOG = """\b
Exit codes:
  0  sound: nothing but warnings (unless --strict) and infos
  1  findings: something is damaged or lost
  2  wrong usage
  3  unreadable: some file or directory could not be read, or not to its
     end; the rest has been checked

\b
Severities, by what follows if a broker starts with it:
  error    no-start, data-deleted, set-aside, records-lost, served-wrongly
  warning  rebuilt (the broker repairs it), doubtful (it accepts it, but no
           broker writes it)
  info     harmless: normal, or left over

\b
Examples:
  kafkalog verify /var/lib/kafka              every checksum of a broker
  kafkalog verify --deep -t orders /var/lib/kafka
                                              and every record of a topic
  kafkalog verify -j 8 /var/lib/kafka         faster, if nothing else runs
  kafkalog verify --throttle 50MB/s /var/lib/kafka
                                              slower, beside a busy broker
  kafkalog verify --only checkpoints,layout /var/lib/kafka
                                              whether a broker would start
  kafkalog verify --for-version 4.2 --only layout /var/lib/kafka
                                              whether Kafka 4.2 takes it
  kafkalog verify -q orders-0 || echo damaged
  kafkalog verify -o jsonl /var/lib/kafka | jq -r .code
"""


class Report:
    """The printed findings and summary, in the selected form; nothing if `quiet`."""

    def __init__(self, form: str, *, quiet: bool) -> None:
        self._form = form
        self._quiet = quiet
        self._colour = colour_wanted()
        self._first = True

    def add(self, finding: Finding) -> None:
        """Write a finding immediately: there may be millions."""
        if self._quiet:
            return
        if self._form == "text":
            colour = self._colour and finding.severity in COLOURS
            write_text(styled(printable(str(finding)), colour, fg=COLOURS.get(finding.severity)) + "\n")
        elif self._form == "jsonl":
            write_text(text_of({"version": JSON_VERSION, "type": "finding", **of_finding(finding)}) + "\n")
        else:
            self._open()
            write_text(("" if self._first else ",") + f"\n    {text_of(of_finding(finding))}")
        self._first = False

    def finish(self, summary: Summary, *, deep: bool, complete: bool) -> None:
        """Write the summary.

        Args:
            summary: The counts of the check.
            deep: Whether every record was parsed.
            complete: Whether the check reached its end.
        """
        if self._quiet:
            return
        document = {"complete": complete, **of_check(summary, deep=deep)}
        if self._form == "text":
            before = None
            for path, verdict in summary.verdicts.items():
                # If one partition only has findings, the verdict on its directory is the same: one line is enough.
                lines = _verdict(path, verdict)[: 1 if verdict == before else None]
                write_text("".join(f"{printable(line)}\n" for line in lines))
                before = verdict
            write_text(("" if complete else "INCOMPLETE, so far: ") + _sentence(summary, deep=deep) + "\n")
        elif self._form == "jsonl":
            write_text(text_of({"version": JSON_VERSION, "type": "summary", **document}) + "\n")
        else:
            self._open()
            end = "" if self._first else "\n  "
            write_text(f'{end}],\n  "summary": {text_of(document)}\n}}\n')

    def _open(self) -> None:
        if self._first:
            write_text(f'{{\n  "version": {JSON_VERSION},\n  "findings": [')


def _verdict(path: str, verdict: Verdict) -> list[str]:
    """Return the worst consequence as a line, and if it needs attention, what a broker does and what mends it."""
    fields = verdict.as_dict()
    numbers = [
        counted(fields[name], name.removesuffix("s")) for name in ("errors", "warnings", "infos") if fields[name]
    ]
    lines = [f"{path_text(path)}: {fields['consequence']}: {', '.join(numbers)}: {', '.join(fields['codes'])}"]
    if verdict.worst.severity != "info":
        lines.append(f"  started after a clean stop, a broker {fields['clean_start']}")
        lines.append(f"  started after an unclean stop, it {fields['unclean_start']}")
        if fields["mend"]:
            lines.append(f"  to mend it: {fields['mend']}")
    return lines


def _sentence(summary: Summary, *, deep: bool) -> str:
    rate = f", {human_size(int(summary.bytes / summary.seconds))}/s" if summary.seconds > 0.1 else ""
    parts = [counted(summary.files, "file"), human_size(summary.bytes), counted(summary.batches, "sound batch", "es")]
    if deep:
        parts.append(counted(summary.records, "record"))
    found = [counted(summary.errors, "error"), counted(summary.warnings, "warning")]
    if summary.infos:
        found.append(counted(summary.infos, "info"))
    if summary.unreadable:
        found.append(f"{summary.unreadable} unreadable")
    return f"{', '.join(parts)} in {summary.seconds:.1f} s{rate}: {', '.join(found)}"


def exit_code(summary: Summary, *, strict: bool) -> int:
    """Return the exit code of a check. An unreadable file has priority, because the result is then unknown."""
    if summary.unreadable:
        return UNREADABLE
    return FINDINGS if summary.errors or (strict and summary.warnings) else SOUND


def _subjects(value: str) -> frozenset[str]:
    """Return the subjects of a list separated by commas."""
    from kafkalog.fsck.verifying import SUBJECTS

    subjects = frozenset(value.split(","))
    if not subjects <= SUBJECTS:
        unknown = ", ".join(sorted(subjects - SUBJECTS))
        raise click.BadParameter(f"{unknown!r} is none of {', '.join(sorted(SUBJECTS))}")
    return subjects


def _throttle(value: str) -> int:
    """Return the bytes per second in a text such as 50MB or 50MB/s."""
    rate = parse_size(value.lower().removesuffix("/s"))
    if not rate:
        raise click.BadParameter(f"{value!r} is no number of bytes per second, such as 50MB, 500K/s or 1G")
    return rate


def _version(value: str) -> str:
    """Return the name of a version that is known."""
    from kafkalog.fsck.version_checks import VERSIONS

    if value not in VERSIONS:
        raise click.BadParameter(f"{value!r} is none of {', '.join(VERSIONS)}")
    return value


@click.command(short_help="Check that everything is as Kafka wrote it.", epilog=EPILOG)
@paths_argument
@topic_option
@click.option("--deep", is_flag=True, help="Decompress and parse every record, not only checksums and headers.")
@click.option(
    "--only", metavar="SUBJECTS", type=_subjects,
    help="Check only some of logs,indexes,state,checkpoints,layout, separated by commas.",
)  # fmt: skip
@jobs_option
@click.option(
    "--throttle", metavar="SIZE/S", type=_throttle,
    help="Read no more bytes of logs per second, with all processes together: 50MB, 500K, 1G (powers of 1024), or a "
    "number of bytes.",
)  # fmt: skip
@click.option(
    "--for-version", metavar="X.Y", type=_version,
    help="Check too whether this version of Kafka takes the topics, settings and features of the cluster.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Warnings make the exit code 1, too.")
@click.option(
    "-o", "--output", "form", type=click.Choice(["text", "json", "jsonl"]), default="text", show_default=True,
    help="Text for people; JSON as one document, or a line a finding and one for the summary.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code tells.")
def verify(  # noqa: PLR0917 # click passes them by name
    paths: tuple[Path, ...],
    topics: tuple[str, ...],
    deep: bool,
    only: frozenset[str] | None,
    jobs: int,
    throttle: int | None,
    for_version: str | None,
    strict: bool,
    form: str,
    quiet: bool,
) -> int:
    """Check data directories, partitions and log files: framing, every checksum, the order of offsets, and all files
    beside the logs; with --deep also every record. At the end, what a broker would do that starts with it.

    A damaged batch does not end the check. Where the framing is destroyed, the next batch whose checksum holds is
    searched for, and the bytes and offsets in between are reported as lost.

    The order of the findings is the same with any number of processes. With more than one, those of a partition are
    kept in the directory for temporary files until all partitions before it are checked.
    """
    from kafkalog.fsck.verifying import SUBJECTS, Options

    summary, report = Summary(), Report(form, quiet=quiet)
    options = Options(
        deep=deep, only=only or SUBJECTS, jobs=jobs, throttle=throttle, for_version=for_version, summary=summary
    )
    places = [(path, _discovered(path, topics)) for path in paths]
    start, complete = time.monotonic(), False
    try:
        with raised():
            for path, place in places:
                with closing(_findings(path, place, options, quiet=quiet)) as findings:
                    for finding in findings:
                        report.add(finding)
        complete = True
    finally:
        if not complete:
            # The check sets it only with a finding and at its end.
            summary.seconds = time.monotonic() - start
        report.finish(summary, deep=deep, complete=complete)
    return exit_code(summary, strict=strict)


def _discovered(path: Path, topics: tuple[str, ...]) -> Place | OSError | NotALogError:
    """Return what is at a PATH, with the partitions that match, or why that is not known."""
    try:
        return select(discover(path), topics)
    except (OSError, NotALogError) as error:
        return error


def _findings(
    path: Path, place: Place | OSError | NotALogError, options: Options, *, quiet: bool
) -> Generator[Finding, None, None]:
    """Yield the findings of one PATH, clearing the progress line before each."""
    from kafkalog.fsck.verifying import not_readable, verify_place

    if isinstance(place, Exception):
        yield options.summary.count(not_readable(path, place))
        return
    with Progress(lambda: log_bytes(place), quiet=quiet) as progress:
        for finding in verify_place(place, replace(options, progress=progress.advance)):
            progress.clear()
            yield finding
