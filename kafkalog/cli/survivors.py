"""What can still be read of a damaged log, and how to go on behind damage: `--skip-damage`.

    sound | damaged batch | sound ........ | lost bytes | sound ...
    ^-----^ a stretch       ^--------------^ another      ^-----

What is damaged or lost is what `verify` finds; content that does not follow the format is met while reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kafkalog.cli.log_source import Located, Source, between
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.findings import Finding, Severity
from kafkalog.fsck.verifying import verify_file
from kafkalog.record.record_columns import RecordColumns
from kafkalog.storage.data_dir.discover import LogFile, PartitionDir
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.segment.file_message_set import FileMessageSet

# Batches that are damaged and can be stepped over, and bytes among which no batch can be made out.
DAMAGED_BATCHES = frozenset({"crc-mismatch", "unknown-magic", "batch-too-short"})
LOST_BYTES = frozenset({"lost-bytes", "wrong-size", "torn-tail", "zeroed-tail", "preallocated-tail"})

# Told what is damaged, and whether that is a finding; a torn tail of an active segment is none.
Report = Callable[[object, bool], None]


class Stretch(NamedTuple):
    """Positions [start, end) in a file that can be read, perhaps none, and what is wrong right before them."""

    wrong: list[Finding]
    start: int
    end: int


def stretches(file: FileMessageSet, codes: frozenset[str]) -> Iterator[Stretch]:
    """The stretches of a file between findings of these codes."""
    found = sorted(each for each in verify_file(file.path) if each.code in codes)
    at, wrong = 0, list[Finding]()
    for each in found:
        start = at if each.position is None else each.position
        if start > at:
            yield Stretch(wrong, at, start)
            wrong = []
        wrong.append(each)
        at = max(at, each.end or 0)
    yield Stretch(wrong, at, max(at, file.size_in_bytes))


class SurvivingSource(Source):
    """A source that goes on behind damage, and reports it."""

    def __init__(self, place: PartitionDir | LogFile, report: Report) -> None:
        super().__init__(place)
        self._report = report

    @property
    def start_offset(self) -> int:
        """The first offset that may be read, or what the file's name says."""
        try:
            return super().start_offset
        except KafkaLogError:
            return segment_base_offset(Path(self.files[0].path).name) or 0

    @property
    def end_offset(self) -> int:
        """The offset after the last batch, wherever that is."""
        for file in self.files[-1:]:
            for _, start, end in reversed(list(stretches(file, DAMAGED_BATCHES | LOST_BYTES))):
                last = file.read(start, end - start).last_offset()
                if last is not None:
                    return max(self.start_offset, last + 1)
        return super().end_offset

    @property
    def torn(self) -> None:
        """It is reported with the rest."""

    def _first_as_late(self, timestamp: int) -> int | None:  # noqa: ARG002 # no header is relied on
        return 0

    def _parts(self, first: int, stop: int) -> Iterator[RecordColumns]:
        return between(self._surviving_parts(first), first, stop)

    def _surviving_parts(self, first: int) -> Iterator[RecordColumns]:
        for file, start, end in self._stretches(first, DAMAGED_BATCHES | LOST_BYTES):
            yield from self._columns(file, start, end)

    def _columns(self, file: FileMessageSet, start: int, end: int) -> Iterator[RecordColumns]:
        while start < end:
            part = file.read(start, end - start)
            try:
                yield from part.columns()
            except KafkaLogError as error:
                behind = _behind(part, error)
                if behind is None:
                    raise
                self._report(error, True)
                start = behind
            else:
                return

    def _all_batches(self, first: int) -> Iterator[Located]:
        for file, start, end in self._stretches(first, LOST_BYTES):
            for batch in file.read(start, end - start).batches():
                yield Located(Path(file.path), batch)

    def _stretches(self, first: int, codes: frozenset[str]) -> Iterator[tuple[FileMessageSet, int, int]]:
        """From the batch that holds the offset `first` on; what is wrong before it is not reported."""
        files = self.files
        bases = [segment_base_offset(Path(file.path).name) for file in files[1:]]
        for file, following in zip(files, [*bases, None], strict=True):
            if following is not None and following <= first:
                continue
            for wrong, start, end in stretches(file, codes):
                at = _position_of(file, first, start, end)
                if at is None and start < end:
                    continue
                self._report_all(wrong)
                if at is not None:
                    yield file, at, end

    def _report_all(self, wrong: list[Finding]) -> None:
        for finding in wrong:
            if finding.severity is not Severity.INFO:
                self._report(finding, finding.severity is Severity.ERROR)


def _position_of(file: FileMessageSet, offset: int, start: int, end: int) -> int | None:
    """The position in [start, end) of the first batch whose last offset is `offset` or more; None: there is none."""
    for run in file.read(start, end - start).header_runs():
        reached = run["last_offset"] >= offset
        if reached.any():
            return int(run["position"][int(reached.argmax())])
    return None


def _behind(part: FileMessageSet, error: KafkaLogError) -> int | None:
    """The position after the batch in which the error is; None: that is not known.

    A batch that ends too early has its error at its end, where the next one begins.
    """
    at = -1 if error.position is None else error.position
    for batch in part.batches():
        end = batch.position + batch.size_in_bytes
        if batch.position <= at <= end:
            try:
                batch.columns()
            except KafkaLogError:
                return end
    return None


def way_round(source: Source, error: KafkaLogError) -> str:
    """What to add to the line about damage that has ended a dump: how to go on behind it; "" where nothing follows."""
    paths = [file.path for file in source.files]
    if error.position is None or error.path not in paths:
        return ""
    i = paths.index(error.path)
    file = source.files[i]
    after = _behind_in_file(file, error) or error.position + 1
    found = _next_offset(file, after)
    if found is None:
        following = segment_base_offset(Path(paths[i + 1]).name) if i + 1 < len(paths) else None
        return "" if following is None else _advice(following)
    return _advice(found if _can_be_asked_for(file, found, after) else None)


def _behind_in_file(file: FileMessageSet, error: KafkaLogError) -> int | None:
    try:
        return _behind(file, error)
    except KafkaLogError:
        return None


def _advice(offset: int | None) -> str:
    return "; --skip-damage goes on after it" + ("" if offset is None else f", as does --from {offset}")


def _next_offset(file: FileMessageSet, position: int) -> int | None:
    """The first offset of the next sound batch from `position` on, as its header has it; None: there is none."""
    for _, start, end in stretches(file, DAMAGED_BATCHES | LOST_BYTES):
        for run in file.read(start, end - start).header_runs() if end > position else ():
            later = run["position"] >= position
            if later.any():
                return int(run["base_offset"][int(later.argmax())])
    return None


def _can_be_asked_for(file: FileMessageSet, offset: int, position: int) -> bool:
    """Whether the headers lead from the start of the file to `offset`, and that is at `position` or behind it."""
    try:
        at = _position_of(file, offset, 0, file.size_in_bytes) if offset >= 0 else None
    except KafkaLogError:
        return False
    return at is not None and at >= position
