"""`kafkalog repair PATH`: plan the repair of a damaged data directory or partition, make it, or undo it.

text    a line per change, two per finding that is left, then what was done and what can be done
json    {"version": 2, "changes": [...], "left": [...], ...}; of --undo {"version": 2, "restored": [...], ...}
"""

from __future__ import annotations

import shlex
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkalog.cli import FINDINGS, SOUND, UNREADABLE
from kafkalog.cli.common_options import LogPath, document_option, jobs_option, quiet_option
from kafkalog.cli.json_shapes import JSON_VERSION, of_finding, of_ranges, text_of
from kafkalog.cli.output import complain, counted, path_text, printable, write_text
from kafkalog.cli.progress import Progress
from kafkalog.cli.signals import raised
from kafkalog.storage.data_dir.discover import DataDir, LogFile, PartitionDir, discover, log_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalog.fsck.repair_plan import RepairPlan

EPILOG = """\b
Exit codes:
  0  nothing to do, or all of it done
  1  a plan with changes; something is left that this cannot mend; or files
     have changed since the plan or the repair
  2  wrong usage
  3  not a log, locked by a broker or another writer, or a file cannot be read
     or written

Without --apply, nothing is changed. No batch that can be read is dropped; what
is damaged in the middle of a log stays, unless --drop-corrupt is given, which
names the offsets that go, and puts an empty batch in their place. If other
replicas have the records, moving the partition aside and letting the broker
fetch it loses nothing.

The journal, a directory beside the data directory, keeps every byte that is
replaced until it is deleted. Interrupted, the next --apply goes on.

\b
Examples:
  kafkalog repair /var/lib/kafka                what would be done
  kafkalog repair --apply /var/lib/kafka        do it
  kafkalog repair --apply --drop-corrupt /var/lib/kafka/orders-0
  kafkalog repair --undo /var/lib/kafka.repair-20261123-101500.123456
  kafkalog repair -o json /var/lib/kafka | jq .changes
"""


@click.command(short_help="Mend a damaged data directory in place, or undo that.", epilog=EPILOG)
@click.argument("path", type=LogPath(), required=False)
@click.option("--apply", "applied", is_flag=True, help="Make the changes.")
@click.option("--undo", type=LogPath(), metavar="JOURNAL", help="Restore what a repair changed; delete its journal.")
@click.option("--drop-corrupt", is_flag=True, help="Drop damaged batches too, and accept that records are gone.")
@click.option(
    "--topic-id", metavar="ID",
    help="The topic id, 22 characters.  [default: that of the cluster's metadata, or of the topic's others]",
)  # fmt: skip
@click.option(
    "--journal", "journals", type=LogPath(), metavar="DIR",
    help="The directory in which the journal is made, as one of its own; give DIR again after an interruption.  "
    "[default: the directory that the data directory is in]",
)  # fmt: skip
@jobs_option
@document_option
@quiet_option
def repair(  # noqa: PLR0917 # click passes them by name
    path: Path | None, applied: bool, undo: Path | None, drop_corrupt: bool, topic_id: str | None,
    journals: Path | None, jobs: int, form: str, quiet: bool,
) -> int:  # fmt: skip
    """Show what is wrong with PATH, a data directory or a partition directory, and how it would be mended in place;
    with --apply, mend it. No broker may run then.
    """
    if undo is not None:
        return _undo(undo, form, quiet=quiet)
    if path is None:
        raise click.UsageError("missing PATH")
    from kafkalog.fsck import apply_repair, plan_repair
    from kafkalog.fsck.findings import UNREADABLE_CODES

    found = discover(path)
    topic_ids = {} if topic_id is None else {_topic(found): topic_id}
    make = partial(plan_repair, path, drop_corrupt=drop_corrupt, topic_ids=topic_ids, journals=journals, jobs=jobs)
    with raised(), Progress(lambda: log_bytes(found), quiet=quiet) as progress:
        plan, journal = _planned(make, progress), None
        if applied:
            with _telling_unfinished(plan):
                if plan.unfinished is not None:
                    apply_repair(plan)
                    plan = _planned(make, progress)
                journal = apply_repair(plan)
    for why in plan.stray_journals.values():
        complain(why)
    if form == "json":
        write_text(text_of(_fields(plan, journal), 2) + "\n")
    elif not quiet:
        write_text("".join(printable(line) + "\n" for line in _lines(plan, journal)))
    if any(each.finding.code in UNREADABLE_CODES for each in plan.left):
        return UNREADABLE
    return FINDINGS if plan.left or (journal is None and (plan.changes or plan.unfinished)) else SOUND


def _planned(make: Callable[..., RepairPlan], progress: Progress) -> RepairPlan:
    try:
        return make(progress=progress.advance)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    finally:
        progress.clear()


@contextmanager
def _telling_unfinished(plan: RepairPlan) -> Iterator[None]:
    """Tell of a repair that was interrupted in the middle of its changes."""
    from kafkalog.fsck.repair_planning import journals_at, unfinished_in

    try:
        yield
    except BaseException:
        if (journal := unfinished_in(journals_at(plan.journal_stem, plan.place))) is not None:
            complain(f"the repair is not complete: run it again to finish it, or undo it with --undo {journal}")
        raise


def _undo(journal: Path, form: str, *, quiet: bool) -> int:
    from kafkalog.fsck import undo_repair
    from kafkalog.fsck.repair_journal import Journal

    changed = dict.fromkeys(each.path for each in Journal.read(journal).steps)
    directory = undo_repair(journal)
    if form == "json":
        fields = {
            "version": JSON_VERSION,
            "path": path_text(directory),
            "journal": path_text(journal),
            "restored": [path_text(each) for each in changed],
        }
        write_text(text_of(fields, 2) + "\n")
    elif not quiet:
        write_text(printable(f"{directory}: as before the repair; {journal} is deleted") + "\n")
    return SOUND


def _topic(found: DataDir | PartitionDir | LogFile) -> str:
    """Return the only topic of a place."""
    if isinstance(found, LogFile):
        raise click.UsageError("PATH is a file: give its partition directory")
    partitions = found.partitions if isinstance(found, DataDir) else (found,)
    topics = {each.topic_partition.topic for each in partitions if each.topic_partition}
    if len(topics) != 1:
        raise click.UsageError("--topic-id is the id of one topic: give a partition directory of it")
    return topics.pop()


def _lines(plan: RepairPlan, journal: Path | None) -> list[str]:
    from kafkalog.fsck.repair_plan import Mending

    here = shlex.quote(str(plan.path))
    if plan.unfinished is not None:
        return [
            f"a repair was interrupted; its journal is {plan.unfinished}",
            f"to finish it: kafkalog repair --apply {here}",
            f"to undo it: kafkalog repair --undo {shlex.quote(str(plan.unfinished))}",
        ]
    lines = []
    for change in plan.changes:
        lines.append(str(change))
        if change.holds and journal is None:
            moved = shlex.quote(str(change.path))
            name = shlex.quote(change.holds.partition or "TOPIC-NUMBER")
            new = shlex.quote(str(change.path.parent)) + f"/{name}"
            salvage = f"mv {moved} {new}, if that is not there, or kafkalog salvage {moved} COPY/{name}"
            dump = f"kafkalog dump --skip-damage {moved}"
            if change.mending is Mending.SETTLE:
                keep = "move the files out of the directory before, or take them from the journal afterwards"
            else:
                keep = salvage if change.path.is_dir() else dump
            lines.append(f"  to keep its records: {keep}")
    for left in plan.left:
        lines += [f"left: {left.finding}", f"  {left.why}"]
    summary = counted(len(plan.changes), "change") if plan.changes else "nothing to change"
    if plan.left:
        summary += f", {counted(len(plan.left), 'finding')} left"
    if journal is not None:
        if any(change.holds for change in plan.changes):
            lines.append("records were moved into the journal: do not delete it before they are elsewhere")
        lines += [
            f"{summary}; the journal is {journal}",
            f"to undo this: kafkalog repair --undo {shlex.quote(str(journal))}",
        ]
    elif plan.changes:
        lines.append(f"{summary}; nothing was changed. With --apply, it will be")
    else:
        lines.append(summary)
    return lines


def _fields(plan: RepairPlan, journal: Path | None) -> dict[str, Any]:
    return {
        "version": JSON_VERSION,
        "path": path_text(plan.path),
        "journal": None if journal is None else path_text(journal),
        "unfinished_journal": None if plan.unfinished is None else path_text(plan.unfinished),
        "stray_journals": [
            {"path": path_text(path), "why": path_text(why)} for path, why in plan.stray_journals.items()
        ],
        "changes": [
            {
                "kind": str(change.mending),
                "path": path_text(change.path),
                "description": path_text(str(change)),
                "topic_id": change.topic_id,
                "cluster_topic_id": change.cluster_topic_id,
                "lost_offsets": of_ranges(change.lost),
                "holds": None
                if change.holds is None
                else {
                    "files": change.holds.files,
                    "size_in_bytes": change.holds.size_in_bytes,
                    "records": change.holds.records,
                    "records_exact": change.holds.is_exact,
                    "partition": change.holds.partition,
                },
                "dropped_lines": [path_text(line) for line in change.dropped_lines],
                "findings": [of_finding(each) for each in change.findings],
            }
            for change in plan.changes
        ],
        "left": [{"why": path_text(left.why), "finding": of_finding(left.finding)} for left in plan.left],
    }
