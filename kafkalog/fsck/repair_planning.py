"""The plan of a repair: `plan_repair`. It only reads; `repairing` carries it out.

Rebuilt files follow from the log, so nothing is rebuilt beside a damaged log until its damage is dropped, except files
that keep a broker from starting: they are made from the sound batches.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from kafkalog._speedups.row_counts import count_rows
from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck.checkpoint_checks import OFFSET_CHECKPOINTS, Checkpoints
from kafkalog.fsck.consequences import Consequence, Severity
from kafkalog.fsck.findings import Finding
from kafkalog.fsck.layout_checks import LEFT_OVER, names_in
from kafkalog.fsck.repair_journal import APPLYING, UNDOING, Journals, State, journals_of, state_of
from kafkalog.fsck.repair_plan import (
    OF_SOUND_BATCHES,
    REBUILDING,
    Change,
    Left,
    LogContent,
    Mending,
    Offsets,
    Place,
    RepairPlan,
    is_of_form,
    mending_of,
)
from kafkalog.fsck.salvaging import lost_offsets
from kafkalog.fsck.state_checks import metadata_findings
from kafkalog.fsck.topic_ids import TopicIds
from kafkalog.fsck.verifying import Options, scope_of, verify_path
from kafkalog.storage.checkpoint.checkpoint_file import read_damaged_offset_checkpoint
from kafkalog.storage.checkpoint.partition_metadata_file import is_topic_id
from kafkalog.storage.data_dir.discover import META_PROPERTIES, DataDir, LogFile, PartitionDir, discover
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    CLUSTER_METADATA_TOPIC,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SWAP_SUFFIX,
    parse_partition_dir,
    real_path,
    segment_base_offset,
    segment_files,
)
from kafkalog.storage.recovery.swap_files import completed_swaps
from kafkalog.storage.remote_path import local_path
from kafkalog.storage.segment.file_message_set import FileMessageSet

PathLike = str | os.PathLike[str]
# The changes that write no file into a partition.
_OUTSIDE = {Mending.ACCEPT_LOSS, Mending.CHECKPOINT, Mending.ASIDE, Mending.ORPHANS}
_BLOCKING = {
    **dict.fromkeys(("unreadable", "not-a-log", "file-changed", "segment-gone", "dangling-link", "mode"),
                    "the log cannot be read as a whole: mend that first"),
    "control-record": "a control record is damaged: salvage the partition",
}  # fmt: skip
# Files that a partition needs as soon as a repair has written any file but a segment into it.
_OF_A_BROKER = {"index-missing", "time-index-missing", "snapshot-missing", "leader-epoch-missing"}
_ON_THEIR_WAY_OUT = ("-delete", "-stray")


def plan_repair(
    path: PathLike,
    *,
    drop_corrupt: bool = False,
    topic_ids: Mapping[str, str] | None = None,
    journals: PathLike | None = None,
    jobs: int = 1,
    progress: Callable[[int], object] | None = None,
) -> RepairPlan:
    """Check a data directory or a partition, and plan its repair. Nothing is changed.

    Args:
        path: The data directory or the partition.
        drop_corrupt: Whether damaged batches are dropped, and the loss of records is accepted that are gone already.
        topic_ids: The topic ids that are known, by topic. That of another topic is the one that the cluster's metadata
            in the data directory have; without them, the one that most of its partitions there have.
        journals: The directory for the journal, outside the data directory; None: the one that holds the data
            directory.
        jobs: The number of processes that check, as for `Options`.
        progress: Called with the number of bytes checked since the last call.

    Raises:
        NotALogError: The path is no data directory or partition.
        ValueError: A topic id is none, or `journals` lies in the data directory.
        OSError: The path cannot be read.
        ChildProcessError: A worker process was killed.
    """
    path = Path(os.path.abspath(local_path(path)))  # noqa: PTH100 - a link keeps its name
    found, topic_ids = discover(path), topic_ids or {}
    if isinstance(found, LogFile):
        raise NotALogError("a file: give its partition directory", str(path))
    if wrong := [each for each in topic_ids.values() if not is_topic_id(each)]:
        raise ValueError(f"{wrong[0]!r} is not a topic id: 22 characters of base64url, not all A")
    place = _place_of(found)
    stem = _journal_stem(place, path, journals)
    known = journals_at(stem, place)
    if (journal := unfinished_in(known)) is not None:
        return RepairPlan(path, (), (), journal, known.strays, place, stem, {})
    inside = frozenset((*known.strays, *(each.path for each in known.found)))
    place = replace(place, partitions=tuple(each for each in place.partitions if real_path(each) not in inside))
    states = states_of([place.data_dir, *place.partitions])
    findings = list(verify_path(path, Options(progress=progress, jobs=jobs, expect_all=True)))
    checkpoints = Checkpoints(place.data_dir)
    served = {each: parse_partition_dir(each.name) for each in {path, *place.siblings} - {place.data_dir}}
    ids_found = partial(
        metadata_findings, served, checkpoints.cluster, checkpoints.node[0], kraft=checkpoints.is_of_kraft
    )
    if isinstance(found, PartitionDir):
        of_ids = ids_found()
        findings += [each for directory, each in of_ids.items() if directory == path]
    of_cluster = {} if checkpoints.cluster is None else checkpoints.cluster.topic_ids
    known_ids = TopicIds(topic_ids, of_cluster, place.siblings)
    planning = _Planning(place, drop_corrupt, known_ids, journals=stem.parent, known_journals=inside)
    changes, left = planning.plan(dict.fromkeys(findings))
    written = {each.path.parent: each.topic_id for each in changes if each.topic_id and each.path.parent in served}
    # The id that the user gives wins over those of other partitions, but not over the cluster's.
    after = ids_found(written=written) if written and checkpoints.cluster is not None else {}
    left += [Left(after[each], _of_written_id(after[each])) for each in written if each in after]
    touched = {place.data_dir, *(place.holding(each.path) for each in changes)}
    states = {each: state for each, state in states.items() if each.parent in touched}
    return RepairPlan(path, tuple(changes), tuple(left), None, known.strays, place, stem, states)


def _of_written_id(finding: Finding) -> str:
    """Return why a finding is left that is about a topic id which the repair writes."""
    return f"with the topic id that is written, a broker {finding.rule.clean}"


def journals_at(stem: Path, place: Place) -> Journals:
    """Return the journals of a place: where one is made now, and where repairs of other paths in it make theirs."""
    data_dir = real_path(place.data_dir)
    names = {stem.name, data_dir.name, *(each.name for each in (*place.siblings, *place.partitions))}
    return journals_of({stem.parent, data_dir.parent, data_dir}, data_dir, names)


def unfinished_in(journals: Journals) -> Path | None:
    """Return the first journal of an interrupted repair or undo; None without one."""
    return next((each.path for each in journals.found if each.state in {APPLYING, UNDOING}), None)


def _place_of(found: DataDir | PartitionDir) -> Place:
    if isinstance(found, DataDir):
        kept = tuple(each.path for each in found.partitions if not each.path.name.endswith(_ON_THEIR_WAY_OUT))
        return Place(found.path, kept, tuple(each.path for each in found.partitions if each.mark is None))
    data_dir, siblings = found.path.parent, list[Path]()
    with suppress(NotALogError, OSError):
        if isinstance(beside := discover(data_dir), DataDir):
            siblings = [each.path for each in beside.partitions if each.mark is None]
    return Place(data_dir, (found.path,), tuple(siblings))


def _journal_stem(place: Place, path: Path, journals: PathLike | None) -> Path:
    """Return the path of the journal but for the time: beside the data directory, or a partition that is in none.

    A directory is a data directory if it has the files of one, or another partition with segments.
    """
    own_files = (place.data_dir / name for name in (META_PROPERTIES, CLEAN_SHUTDOWN_FILE, *OFFSET_CHECKPOINTS))
    others = (each for each in place.siblings if each not in place.partitions)
    is_inside = any(each.exists() for each in own_files) or any(map(segment_files, others))
    beside = real_path(place.data_dir if is_inside else path)
    home = beside.parent if journals is None else real_path(journals)
    if beside in {home, *home.parents}:
        raise ValueError(f"{journals} is in the data directory, which a broker would not start with")
    return home / beside.name


def states_of(directories: Iterable[Path]) -> dict[Path, State]:
    """Return the state of each file in these directories, but for the lock."""
    found = {}
    for directory in directories:
        with suppress(OSError):
            found.update({each: state_of(each) for each in directory.iterdir() if each.name != LOCK_FILE})
    return found


_Found = tuple[Finding, Mending | None]


class _Planning:
    """The making of a plan: the changes that mend findings."""

    def __init__(
        self,
        place: Place,
        drop_corrupt: bool,
        topic_ids: TopicIds,
        *,
        journals: Path,
        known_journals: Collection[Path],
    ) -> None:
        self._place = place
        self._known_journals = known_journals
        self._drop_corrupt = drop_corrupt
        self._topic_ids = topic_ids
        self._journals = journals
        self._changes: dict[tuple[Mending, Path], list[Finding]] = {}
        self._written_ids: dict[Path, str] = {}
        self._left: list[Left] = []

    def plan(self, findings: Iterable[Finding]) -> tuple[list[Change], list[Left]]:
        """Return the changes, and what is left."""
        by_partition: dict[Path | None, list[_Found]] = {}
        starts_file = self._place.data_dir / LOG_START_OFFSET_CHECKPOINT
        # A broker that writes leader epochs writes both checkpoints.
        self._log_starts_lost = not _size_of(starts_file) and bool(
            _size_of(starts_file.with_name(RECOVERY_POINT_CHECKPOINT))
        )
        # Findings without harm are ignored, except left-over files and preallocated tails.
        found = [
            (each, mending_of(each))
            for each in findings
            if each.code in {"left-over", "preallocated-tail"} or each.severity is not Severity.INFO
        ]
        # Findings in a directory that is moved aside need no change of their own.
        aside = (each for each, mending in found if mending is Mending.ASIDE and not self._why_not(each, mending, None))
        moved = {path for each in aside if (path := Path(each.path)).is_dir()}
        for finding, mending in found:
            path = Path(finding.path)
            if path.parent not in moved and (path not in moved or mending is Mending.ASIDE):
                by_partition.setdefault(self._place.holding(path), []).append((finding, mending))
            self._log_starts_lost |= is_of_form(finding) and finding.path.endswith(f"/{LOG_START_OFFSET_CHECKPOINT}")
        for partition in self._place.partitions:
            if partition not in moved:
                self._plan_topic_id(partition)
        starts = {each.partition for each, _ in by_partition.get(None, []) if each.code == "log-start-before-log"}
        for directory, found in by_partition.items():
            lost = self._log_starts_lost or (directory is not None and directory.name in starts)
            self._plan_partition(directory, [_follows(each, log_start_lost=lost) for each in found])
        changes = [
            Change(
                mending,
                path,
                tuple(found),
                self._written_ids.get(path),
                tuple(_lost(mending, path, found)),
                _moved_content(mending, path, found),
                tuple(read_damaged_offset_checkpoint(path)[1]) if any(map(is_of_form, found)) else (),
                self._other_id_of_cluster(path),
            )
            for (mending, path), found in self._changes.items()
        ]
        return changes, self._left

    def _plan_partition(self, directory: Path | None, found: Sequence[_Found]) -> None:
        tails = [each for each in found if each[0].code == "preallocated-tail" and each[1] is None]
        found = [each for each in found if each not in tails]
        if any(mending in REBUILDING for _, mending in found):
            # Alone it is left: a broker cuts it off. Here the recovery that rebuilds would.
            found += [(tail, Mending.CUT) for tail, _ in tails]
        codes = {finding.code for finding, _ in found}
        kinds = {mending for _, mending in found}
        blocked = next((why for code, why in _BLOCKING.items() if code in codes), "")
        is_damaged = not blocked and Mending.DROP in kinds and not self._drop_corrupt
        if is_damaged:
            blocked = "the log is damaged: mend that first"
        rewritten = bool(kinds & {Mending.CUT, Mending.DROP}) and not blocked
        planned: list[tuple[Finding, Mending | None, str]] = []
        for finding, mending in found:
            why = self._why_not(finding, mending, directory)
            urgent = finding.consequence is Consequence.NO_START and mending in OF_SOUND_BATCHES
            if not why and mending in REBUILDING and not (is_damaged and urgent):
                why = blocked
            # With a file of another format no broker starts: any other one is better.
            doubted = "leader-epoch" in codes and finding.code != "leader-epoch-format"
            if not why and mending is Mending.EPOCHS and doubted:
                # Which of both is wrong is not known, and recovery takes the highest epoch of the batches.
                why = "a batch has a wrong leader epoch, which a rebuilt file would have too; if the file is wrong"
                why += f": mv {finding.path} ASIDE, and a broker begins a new one with its next epoch"
            if not why and mending is Mending.ACCEPT_LOSS and not (rewritten or self._drop_corrupt):
                why = "the records are gone: take them from another replica, or accept that with --drop-corrupt"
            planned.append((finding, mending, why))
        if directory is not None and self._stays_bare(directory, planned):
            planned = [each for each in planned if each[0].code not in _OF_A_BROKER]
        for finding, mending, why in planned:
            if why or mending is None:
                self._left.append(Left(finding, why))
            else:
                self._changes.setdefault((mending, self._target(finding, mending, directory)), []).append(finding)

    def _stays_bare(self, directory: Path, planned: Iterable[tuple[Finding, Mending | None, str]]) -> bool:
        """Return whether a partition has nothing but segments, and no change writes another file into it."""
        written = (each for each, mending, why in planned if not why and mending not in {None, *_OUTSIDE})
        changed = (Mending.TOPIC_ID, directory / PARTITION_METADATA) in self._changes
        return not changed and all(each.code in _OF_A_BROKER for each in written) and not names_in(directory).by_broker

    def _why_not(self, finding: Finding, mending: Mending | None, directory: Path | None) -> str:
        """Return why a finding is not mended, as far as that does not hang on others; empty if it can be."""
        why = ""
        if self._known_journals and real_path(finding.path) in self._known_journals:
            why = (
                f"the journal of a repair: move it out of the data directory, or kafkalog repair --undo {finding.path}"
            )
        elif mending is None:
            why = finding.mend or (
                f"a broker {finding.rule.clean}"
                if finding.consequence in {Consequence.REBUILT, Consequence.DOUBTFUL}
                else "no command mends it"
            )
        elif mending in REBUILDING and directory is None:
            why = "it is in no partition that a broker serves"
        elif mending is not Mending.ASIDE and self._place.is_in_place_of_file(Path(finding.path)):
            why = f"a directory is in the place of a file: mv {finding.path} ASIDE"
        elif mending is Mending.DROP and directory is not None and directory.name.startswith(CLUSTER_METADATA_TOPIC):
            why = "the log of the cluster's metadata must not have gaps: take it from another controller"
        elif mending is Mending.DROP and not self._drop_corrupt:
            why = f"{finding.mend}; or give --drop-corrupt"
        elif mending is Mending.TOPIC_ID and directory is not None and self._topic_id(directory, finding) is None:
            why = "the topic id is not known: give --topic-id"
            if finding.code == "topic-id-differs":
                why = (
                    f"it may be a topic of this name that was deleted; if it is not, give --topic-id {finding.expected}"
                )
        elif mending is Mending.ASIDE:
            why = self._why_not_aside(finding)
        return why

    def _why_not_aside(self, finding: Finding) -> str:
        path = Path(finding.path)
        if path.is_dir() and path.stat().st_dev != self._journals.stat().st_dev:
            return f"mv {path} ASIDE    # the journal would be on another file system"
        if finding.code == "swap-damaged" and not (
            self._drop_corrupt or path.with_name(path.name.removesuffix(SWAP_SUFFIX)).exists()
        ):
            return "it may be the only copy of its sound batches: --drop-corrupt moves it aside"
        return ""

    def _target(self, finding: Finding, mending: Mending, directory: Path | None) -> Path:
        """Return the path of a change."""
        path = Path(finding.path)
        if mending is Mending.INDEXES:
            return path.with_suffix(LOG_SUFFIX)
        if mending in {Mending.SNAPSHOTS, Mending.SETTLE, Mending.ACCEPT_LOSS, Mending.ORPHANS}:
            return directory or path.parent
        if mending is Mending.CHECKPOINT and directory is not None:
            return self._place.data_dir / LOG_START_OFFSET_CHECKPOINT
        return path

    def _plan_topic_id(self, directory: Path) -> None:
        """Plan to write the topic id that is given, if the partition has another one without a finding."""
        path = directory / PARTITION_METADATA
        given = self._topic_ids.differing(directory)
        if given is not None and (Mending.TOPIC_ID, path) not in self._changes:
            self._changes[Mending.TOPIC_ID, path] = []
            self._written_ids[path] = given

    def _topic_id(self, directory: Path, finding: Finding) -> str | None:
        """Return the topic id to write for a finding, and note it for the change; None if it is not known."""
        known = self._topic_ids.for_finding(directory, finding)
        if known is not None:
            self._written_ids[Path(finding.path)] = known
        return known

    def _other_id_of_cluster(self, path: Path) -> str | None:
        """Return the topic id that the cluster has, if another one is written to a `partition.metadata`."""
        known = self._topic_ids.of_cluster(path.parent)
        return None if self._written_ids.get(path) in {None, known} else known


def _follows(found: _Found, *, log_start_lost: bool) -> _Found:
    """Return the finding and its change, which may follow from another finding."""
    finding, mending = found
    if log_start_lost and finding.code == "leader-epoch-differs" and finding.found == "none":
        # The leader epochs begin later than the log if its start is not known.
        return finding, Mending.CHECKPOINT
    if mending is Mending.ORPHANS:
        swap = Path(finding.path).with_suffix(LOG_SUFFIX + SWAP_SUFFIX)
        if swap.exists() and swap.name in completed_swaps(names_in(swap.parent).files):
            # Its segment is put in place.
            return finding, Mending.INDEXES
    return found


def _lost(mending: Mending, path: Path, findings: Sequence[Finding]) -> Iterator[Offsets]:
    if mending is Mending.DROP and segment_base_offset(path.name) is not None:
        yield from lost_offsets(path, scope_of(path).bounds)
    elif mending in {Mending.CUT, Mending.ACCEPT_LOSS}:
        yield from dict.fromkeys(
            (each.first_offset, each.last_offset) for each in findings if each.first_offset is not None
        )


def _moved_content(mending: Mending, path: Path, findings: Sequence[Finding]) -> LogContent | None:
    """Return the content of the logs that a change moves away; None if it moves none."""
    if mending is Mending.ASIDE:
        content = _content_of(sorted(path.rglob(f"*{LOG_SUFFIX}*")) if path.is_dir() else [path])
        name = _partition_in(path.name) if path.is_dir() else None
        return content._replace(partition=name) if content.records or (content.files and path.is_dir()) else None
    if mending is Mending.SETTLE:
        directory = Path(findings[0].path).parent
        content = _content_of(directory / name for name in _only_copies(names_in(directory).files))
        return content if content.records else None
    return None


def _only_copies(names: Collection[str]) -> Iterator[str]:
    """Yield the names of left-over files of segments that are not there, and are not put in their place."""
    for name in sorted({*names} - completed_swaps(names)):
        segment, dot, _ = name.rpartition(".")
        if dot and name.endswith(LEFT_OVER) and segment.endswith(LOG_SUFFIX) and segment not in names:
            yield name


def _content_of(paths: Iterable[Path]) -> LogContent:
    """Return how many files there are, and what is in them."""
    files = size = records = 0
    is_exact = True
    for each in paths:
        if not each.is_file():
            continue
        files += 1
        try:
            size += each.stat().st_size
            with FileMessageSet(each, mapped=False) as log:
                for rows in log.header_runs():
                    _, _, counted, more, *_ = count_rows(rows)
                    records += counted
                    is_exact &= not more
        except (KafkaLogError, OSError):
            is_exact = False
    return LogContent(files, size, records, is_exact)


def _partition_in(name: str) -> str | None:
    """Return the partition that a name begins with; None if none does, or several do: `a-1-b-2.bak`."""
    known = {name[: match.end()] for match in re.finditer(r"-[0-9]+(?![0-9])", name)}
    known = {str(partition) for each in known - {name} if (partition := parse_partition_dir(each)) is not None}
    return known.pop() if len(known) == 1 else None


def _size_of(path: Path) -> int:
    """Return the size of a file; 0 if there is none."""
    return path.stat().st_size if path.is_file() else 0
