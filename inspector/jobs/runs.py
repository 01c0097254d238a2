"""What screens look at: a job that runs, or has run, and what it has said so far. No Textual here.

    run = runs.start(VerifyRun(VerifyJob(path)))       # at once; `run.version` rises when there is something new
    run.cancel()                                       # at once, whatever the process does

Runs outlive the screens that began them, so that who goes away and comes back finds them; a few of each kind. A thread
starts the process and waits for what it says; all that a run holds changes in the screen's own thread.
"""

from __future__ import annotations

import asyncio
import re
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from kafkalog.fsck import Finding, Severity
from kafkalog.scan.progress import Progress
from kafkalog.scan.search import Match, SearchProgress
from kafkalog.scan.statistics import Totals
from kafkalog.scan.transactions import TransactionsState

from .checks import Check, Checked
from .jobs import Ended, Job, SearchJob, StatisticsJob, TransactionsJob, VerifyJob
from .process import Frame, Process

J = TypeVar("J", bound=Job)
RunState: TypeAlias = Literal["running", "finished", "cancelled", "failed"]
# Findings and matches that are held; of others only how many there are.
LISTED = 20_000
KEPT = 4


class Run(Generic[J]):
    """A job that runs, or has run. state: "failed": see `problem`. seconds: the time it has taken so far."""

    def __init__(self, job: J) -> None:
        self.job = job
        self.state: RunState = "running"
        self.problem: str | None = None
        # The last progress or state that was said.
        self.latest: Any = None
        self.version = 0
        self._began = time.monotonic()
        self._took: float | None = None
        self._process: Process | None = None
        self._changed = asyncio.Event()

    @property
    def is_running(self) -> bool:
        """Whether there may be more to come."""
        return self.state == "running"

    @property
    def seconds(self) -> float:
        """The seconds since it began, or until it ended."""
        return time.monotonic() - self._began if self._took is None else self._took

    @property
    def progress(self) -> Progress | SearchProgress:
        """The progress in bytes of segments; that of a search or a check is all that it says."""
        return getattr(self.latest, "progress", self.latest) or Progress(0, 0)

    def take(self, frame: Frame) -> None:
        """Take in what the process has said."""
        self.latest = frame.latest or self.latest

    def cancel(self) -> None:
        """End it now; what it has said stays."""
        if self.is_running:
            self._end("cancelled")
            if self._process is not None:
                self._process.kill()

    async def changed(self) -> None:
        """Wait until there is something new, or it has ended."""
        self._changed.clear()
        if self.is_running:
            await self._changed.wait()

    def begin(self) -> None:
        """Start the process; call it in the thread that looks at the run, which has an event loop."""
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        Thread(target=self._work, name=type(self).__name__, daemon=True).start()

    def _work(self) -> None:
        try:
            problem = self._listen()
        except OSError as error:
            problem = str(error)
        # The loop may have ended, with all who look.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hear, Frame(ended=Ended(problem)))

    def _listen(self) -> str:
        """Hear what the process says, and return why there is no more of it, if it has not said so itself."""
        self._process = process = Process(self.job)
        if not self.is_running:
            process.kill()
        with suppress(RuntimeError):
            for frame in process.frames():
                self._loop.call_soon_threadsafe(self._hear, frame)
        return f"the process that did it has ended (exit code {process.close()})"

    def _hear(self, frame: Frame) -> None:
        if not self.is_running:
            return
        self.take(frame)
        if frame.ended is not None:
            self._end("finished" if frame.ended.problem is None else "failed", frame.ended.problem)
        self._tell()

    def _end(self, state: RunState, problem: str | None = None) -> None:
        self.state, self.problem = state, problem
        self._took = time.monotonic() - self._began
        self._tell()

    def _tell(self) -> None:
        self.version += 1
        self._changed.set()


class VerifyRun(Run[VerifyJob]):
    """A check. findings: the first `LISTED`; counts: of all."""

    def __init__(self, job: VerifyJob) -> None:
        super().__init__(job)
        self.findings: list[Finding] = []
        self.counts: Counter[Severity] = Counter()
        self.check = Check(job.path)

    def take(self, frame: Frame) -> None:
        """Take in findings and progress."""
        self.counts.update(finding.severity for finding in frame.items)
        self.findings += frame.items[: LISTED - len(self.findings)]
        self.check.add(frame.items)
        self.check.finished = frame.ended is not None and frame.ended.problem is None
        super().take(frame)


class SearchRun(Run[SearchJob]):
    """A search. matches: the first `LISTED` matches; offsets: those of all, in the order in which they were found.

    current: the match that was gone to last. on_the_way: the screen has not come there so far.
    """

    def __init__(self, job: SearchJob) -> None:
        super().__init__(job)
        self.pattern = job.wanted.pattern()
        self.matches: list[Match] = []
        self.offsets = array("q")
        self.current: int | None = None
        self.on_the_way = False

    @property
    def backwards(self) -> bool:
        """Whether it goes from high offsets to low ones."""
        return self.job.wanted.start == "back"

    @property
    def reached(self) -> SearchProgress | None:
        """How far it has come."""
        return cast("SearchProgress | None", self.latest)

    def take(self, frame: Frame) -> None:
        """Take in matches and progress."""
        self.matches += frame.items
        self.offsets.extend(frame.offsets)
        super().take(frame)

    def match_at(self, offset: int) -> Match | None:
        """Return the match in the record with that offset, as far as it is listed."""
        i = self._place(offset, bisect_left)
        return self.matches[i] if i < len(self.matches) and self.matches[i].offset == offset else None

    def marked_at(self, offset: int) -> re.Pattern[bytes] | None:
        """Return what to mark in the record with that offset.

        Of a regular expression, what it has found there: it may itself go back for ever, and all keys with it.
        """
        if not self.job.wanted.regex:
            return self.pattern
        match = self.match_at(offset)
        return None if match is None else re.compile(re.escape(match.excerpt[slice(*match.excerpt_span)]))

    def beside(self, offset: int | None, forwards: bool) -> int | None:
        """Return the offset of the next match after (or before) an offset; None as offset: the first (or last)."""
        if not self.offsets:
            return None
        # In the order of offsets, which is not that of a search that goes back.
        further = forwards != self.backwards
        if offset is None:
            return self.offsets[0 if further else -1]
        i = self._place(offset, bisect_right) if further else self._place(offset, bisect_left) - 1
        return self.offsets[i] if 0 <= i < len(self.offsets) else None

    def may_find(self, forwards: bool) -> bool:
        """Return whether there may be more matches in that direction, later on."""
        return self.is_running and forwards != self.backwards

    def _place(self, offset: int, bisect: Callable[..., int]) -> int:
        sign = -1 if self.backwards else 1
        return bisect(self.offsets, sign * offset, key=lambda each: sign * each)


class StatisticsRun(Run[StatisticsJob]):
    """The run of statistics, with what is known so far."""

    @property
    def statistics(self) -> Totals | None:
        """What is known so far."""
        return cast("Totals | None", self.latest)


class TransactionsRun(Run[TransactionsJob]):
    """The run that finds transactions, with those that are known so far."""

    @property
    def transactions(self) -> TransactionsState | None:
        """Those that are known so far; at first there is only progress."""
        return self.latest if isinstance(self.latest, TransactionsState) else None


R = TypeVar("R", bound=Run[Any])


class Runs:
    """The runs of an application, by kind and path."""

    def __init__(self) -> None:
        self._runs: OrderedDict[tuple[type[Run[Any]], Path], Run[Any]] = OrderedDict()

    def start(self, run: R) -> R:
        """Begin a run, and end what runs of its kind."""
        key = type(run), run.job.path
        for (kind, _), other in self._runs.items():
            if kind is type(run):
                other.cancel()
        self._runs.pop(key, None)
        self._runs[key] = run
        for old in [each for each in self._runs if each[0] is type(run)][:-KEPT]:
            del self._runs[old]
        run.begin()
        return run

    def end(self, path: Path) -> None:
        """End what runs at a path, or below it."""
        for run in self._runs.values():
            if run.job.path == path or path in run.job.path.parents:
                run.cancel()

    def close(self) -> None:
        """End all runs."""
        for run in self._runs.values():
            run.cancel()

    def of(self, kind: type[R], path: Path) -> R | None:
        """Return the last run of a kind at a path."""
        return cast("R | None", self._runs.get((kind, path)))

    def checked(self, path: Path) -> tuple[Checked, str | None]:
        """Return what the latest check says of a partition or a segment, and its problem."""
        for run in reversed(self._runs.values()):
            if isinstance(run, VerifyRun) and (found := run.check.of(path))[0] != "unchecked":
                return found
        return "unchecked", None
