"""Interleaved rounds over one segment: every reader in turn, again and again; the best round of each counts.

A reader that fails, or cannot be started, is left out from then on, with its reason; the others go on.
"""

import os
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from asv_bench.comparison.goals import Comparison
from asv_bench.comparison.workers import Answer, ReaderFailed, Worker
from tests.oracle.java import JavaUnavailable

# Before the clock counts: Java compiles while it runs, which takes more readings of a short segment than of a long one.
WARM_UP_SECONDS = {"java": 2.0}
WARM_UP_READINGS = {"java": 4}
PARTIAL = {"kafka-python"}  # reads a part of the file, as `readers.py` says

Key = tuple[str, str]  # reader, case


@dataclass
class Results:
    """The best answer of each reader and case, and why others have none."""

    best: dict[Key, Answer] = field(default_factory=dict)
    missing: dict[Key, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rounds:
    """How to measure: so many rounds, by time on the clock (wall) or of the reading thread's processor (cpu)."""

    count: int
    records: int
    clock: str = "wall"


def measure(path: Path, comparisons: Sequence[Comparison], rounds: Rounds) -> Results:
    """The best of each reading that the comparisons name; who does not read all records does not count."""
    results = Results()
    ours = [(comparison.reader, comparison.case) for comparison in comparisons]
    theirs = [(comparison.peer, comparison.peer_case) for comparison in comparisons]
    keys = sorted(dict.fromkeys(ours + theirs), key=lambda key: key[1])  # comparable readings follow one another
    with Workers(results, rounds.clock) as workers:
        for key in keys:
            workers.warm_up(key, path)
        for _ in range(rounds.count):
            for key in keys:
                workers.ask(key, path)
    _drop_partial(results, rounds.records)
    return results


def _drop_partial(results: Results, records: int) -> None:
    for key, answer in list(results.best.items()):
        reader, case = key
        reads_all = reader not in PARTIAL and case not in {"headers", "crc", "valid"}
        if reads_all and answer.items != records:
            results.missing[key] = f"{reader}, {case}: {answer.items} records read of {records}"
            del results.best[key]


class Workers(ExitStack):
    """The readers' processes, each started when it is first needed; what goes wrong is noted in the results."""

    def __init__(self, results: Results, clock: str) -> None:
        super().__init__()
        self.results = results
        self.clock = clock
        self._running: dict[str, Worker] = {}

    def warm_up(self, key: Key, path: Path) -> None:
        """Readings that do not count."""
        reader, _ = key
        seconds, readings = 0.0, 0
        while readings < WARM_UP_READINGS.get(reader, 1) or seconds < WARM_UP_SECONDS.get(reader, 0.0):
            answer = self._answer(key, path)
            if answer is None:
                return
            seconds, readings = seconds + answer.seconds, readings + 1

    def ask(self, key: Key, path: Path) -> None:
        """A reading that counts; the fastest is kept."""
        answer = self._answer(key, path)
        before = self.results.best.get(key)
        if answer and (before is None or answer.seconds < before.seconds):
            self.results.best[key] = answer

    def _answer(self, key: Key, path: Path) -> Answer | None:
        if key in self.results.missing:
            return None
        reader, case = key
        try:
            return self._worker(reader).ask(case, path)
        except (ReaderFailed, JavaUnavailable) as error:
            self.results.missing[key] = str(error)
            self.results.best.pop(key, None)
            self._running.pop(reader, None)  # a fresh process may still do its other cases
            return None

    def _worker(self, reader: str) -> Worker:
        if reader not in self._running:
            self._running[reader] = self.enter_context(Worker(reader, self.clock))
        return self._running[reader]


def machine() -> str:
    """Describe the machine, for the note above the figures."""
    return f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}"
