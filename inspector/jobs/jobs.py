"""The jobs: what each is asked for, and what it says while it goes on. No Textual here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from inspector.reading.search import Search, SearchProgress
from inspector.reading.statistics import Statistics, StatisticsState
from inspector.reading.verifying import Verification
from kafkalog.fsck import Finding
from kafkalog.scan.progress import Progress
from kafkalog.scan.search import ALL_FIELDS, FieldName, Match, pattern
from kafkalog.scan.transactions import TransactionsState

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


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """A data directory, a partition or a file; says `Finding`s and `Progress`."""

    path: Path
    deep: bool = False

    def events(self) -> Iterator[Finding | Progress | Ended]:
        """What is found, as it is found."""
        verification = Verification(self.path, deep=self.deep)
        yield from verification
        yield Ended(verification.problem)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to search for. case: upper and lower differ. start: the log's start, or the record `offset` on or back."""

    text: str
    regex: bool = False
    case: bool = True
    fields: frozenset[FieldName] = ALL_FIELDS
    start: Start = "start"

    def pattern(self) -> re.Pattern[bytes]:
        """ValueError: no regular expression."""
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

    def events(self) -> Iterator[Match | int | SearchProgress | Ended]:
        """Matches, as they are found."""
        from inspector.model import Model

        model = Model(self.path)
        start = None if self.wanted.start == "start" else self.offset
        search = Search(
            model.partition(),
            self.wanted.pattern(),
            fields=self.wanted.fields,
            start=start,
            backwards=self.wanted.start == "back",
        )
        matches = 0
        for event in search:
            if isinstance(event, Match):
                matches += 1
                yield event if matches <= self.listed else event.offset
            else:
                yield event
        yield Ended()


@dataclass(frozen=True, slots=True)
class StatisticsJob:
    """Of the partition, or of the segment file, at `path`; says what is known so far."""

    path: Path

    def events(self) -> Iterator[StatisticsState | Ended]:
        """Now and then, and at the end."""
        from inspector.model import Model

        statistics = Statistics(Model(self.path).partition())
        while not statistics.step(STEP_SECONDS).is_done:
            yield statistics.state()
        yield statistics.state()
        yield Ended()


@dataclass(frozen=True, slots=True)
class TransactionsJob:
    """Of the partition, or of the segment file, at `path`; says how much there is, then what is known so far."""

    path: Path

    def events(self) -> Iterator[TransactionsState | Progress | Ended]:
        """Now and then, and at the end."""
        from inspector.model import Model

        scan = Model(self.path).partition().scan_transactions()
        # Which are open is known only when the log behind the newest snapshot has been read.
        yield scan.step(0)
        while not scan.step(STEP_SECONDS).is_done:
            yield scan.state()
        yield scan.state()
        yield Ended()


STEP_SECONDS = 0.1
Job: TypeAlias = VerifyJob | SearchJob | StatisticsJob | TransactionsJob
