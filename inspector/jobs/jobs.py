"""The jobs: what each is asked for, and what it says while it goes on. No Textual here."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kafkalog.errors import NotALogError
from kafkalog.fsck import Options, verify_path
from kafkalog.scan.progress import Progress
from kafkalog.scan.search import ALL_FIELDS, FieldName, Match, Search, pattern
from kafkalog.scan.statistics import LogStatistics
from kafkalog.scan.transactions import TransactionScan
from kafkalog.storage.data_dir.discover import discover, log_bytes

Start: TypeAlias = Literal["start", "here", "back"]
STARTS: tuple[Start, ...] = ("start", "here", "back")
# Of the keys, values and headers; by turns, as the prompt has them.
FIELDS: tuple[frozenset[FieldName], ...] = (
    ALL_FIELDS,
    frozenset(("key",)),
    frozenset(("value",)),
    frozenset(("headers",)),
    frozenset(("key", "value")),
)


@dataclass(frozen=True, slots=True)
class Ended:
    """The last that a job says. problem: why it did not come to its end; None = it did."""

    problem: str | None = None


Emit: TypeAlias = Callable[[object], None]


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """The check of a data directory, a partition or a file; reports `Finding`s and `Progress`."""

    path: Path
    deep: bool = False

    def run(self, emit: Emit) -> None:
        """Report findings as they are found."""
        total, done = size_of(self.path), 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            emit(Progress(min(done, total), total))

        for finding in verify_path(self.path, Options(deep=self.deep, progress=advance)):
            emit(finding)
        emit(Progress(total, total))


def size_of(path: Path) -> int:
    """Return the size of all segments that a check reads; what cannot be looked at counts as 0 bytes."""
    try:
        return log_bytes(discover(path))
    except (OSError, NotALogError):
        return 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to search for. case: upper and lower differ. start: the log's start, or the record `offset` on or back."""

    text: str
    regex: bool = False
    case: bool = True
    fields: frozenset[FieldName] = ALL_FIELDS
    start: Start = "start"

    def pattern(self) -> re.Pattern[bytes]:
        """Return what to search for; ValueError: it is no regular expression."""
        return pattern(self.text, regex=self.regex, case=self.case)

    @property
    def fields_named(self) -> str:
        """key, value, headers."""
        return " ".join(name for name in ("key", "value", "headers") if name in self.fields)


@dataclass(frozen=True, slots=True)
class SearchJob:
    """Over the partition, or file, at `path`; says the first `listed` matches, of others the offsets, and progress."""

    path: Path
    wanted: Wanted
    offset: int | None = None
    listed: int = 20_000

    def run(self, emit: Emit) -> None:
        """Report matches as they are found."""
        wanted, matches = self.wanted, 0
        start = None if wanted.start == "start" else self.offset
        search = Search(
            self.path, wanted.pattern(), fields=wanted.fields, start=start, backwards=wanted.start == "back"
        )
        for event in search:
            is_match = isinstance(event, Match)
            matches += is_match
            emit(event.offset if isinstance(event, Match) and matches > self.listed else event)


@dataclass(frozen=True, slots=True)
class StatisticsJob:
    """The statistics of a partition or a segment file; reports what is known so far."""

    path: Path

    def run(self, emit: Emit) -> None:
        """Report the sums now and then, and at the end."""
        with closing(LogStatistics(self.path)) as statistics:
            while not statistics.step(STEP_SECONDS).is_done:
                emit(statistics.totals())
            emit(statistics.totals())


@dataclass(frozen=True, slots=True)
class TransactionsJob:
    """The transactions of a partition or a segment file; reports the size, then what is known so far."""

    path: Path

    def run(self, emit: Emit) -> None:
        """Report the transactions now and then, and at the end."""
        with closing(TransactionScan(self.path, is_file=self.path.is_file())) as scan:
            # Which are open is known only when the log behind the newest snapshot has been read.
            emit(scan.step(0))
            while not scan.step(STEP_SECONDS).is_done:
                emit(scan.state())
            emit(scan.state())


STEP_SECONDS = 0.1
Job: TypeAlias = VerifyJob | SearchJob | StatisticsJob | TransactionsJob
