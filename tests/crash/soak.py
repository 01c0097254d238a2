"""Reads a log again and again while it is truncated, rolled, deleted from, closed and opened again.

    python -m tests.crash.soak --minutes 60
    python -m tests.crash.soak --minutes 1 --seed 7 --readers 3

One process writes; others, and a thread beside the writer, iterate over the log. The value of each record is its
generation (the number of truncations before it) and its offset, so a reader knows which truncations a sequence of
records has passed over. A finding is

  - an offset that does not follow the one before it, or a value of another offset;
  - a record after one that was cut off before it was written;
  - an end before the log's end, or an error, that no truncation or deletion explains; any error of damage.

Exit code 0: nothing found; 1: findings, each with reader and time on stderr.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeAlias

import numpy as np

import kafkalog
from kafkalog import Log, LogConfig, Record, WritableLog
from kafkalog.errors import LogStateError, LogTruncatedError, OffsetOutOfRangeError

CONFIG = LogConfig(segment_bytes=60_000, index_interval_bytes=1000, retention_bytes=400_000, file_delete_delay_ms=0)
NAME = "soak-0"
MOST_TRUNCATIONS = 1 << 22
MOST_FINDINGS = 20
# A generation and an offset.
Seen: TypeAlias = tuple[int, int]


class Journal:
    """What the writer does to the end and the start of the log, in a file that all readers map."""

    def __init__(self, path: Path) -> None:
        self._cells = np.memmap(path, np.int64, "r+" if path.exists() else "w+", shape=(3 + MOST_TRUNCATIONS,))

    @property
    def state(self) -> tuple[int, int, int]:
        """Truncations begun and done, and deletions begun and done."""
        begun, done, deletions = self._cells[:3].tolist()
        return begun, done, deletions

    def begin(self, offset: int, log_end: int) -> None:
        """Note a truncation to `offset`; inverted if that is after the log end, so that offsets are left out."""
        begun = self.state[0]
        self._cells[3 + begun] = offset if offset <= log_end else ~offset
        self._cells[0] = begun + 1

    def done(self) -> None:
        self._cells[1] += 1

    def delete(self) -> None:
        """Count the begin of a deletion, or its end."""
        self._cells[2] += 1

    def cuts(self, first: int, last: int) -> list[int]:
        """The offsets that the log was truncated to between two generations, as noted by `begin`."""
        cuts: list[int] = self._cells[3 + first : 3 + last].tolist()
        return cuts


# --- writing


class Writer:
    """Changes a log by chance."""

    def __init__(self, directory: Path, journal: Journal, rng: random.Random) -> None:
        self.directory = directory
        self.log = kafkalog.open(directory, "a", CONFIG)
        self._journal = journal
        self._rng = rng

    def step(self) -> None:
        steps = (self.append, self.truncate, self.roll, self.retain, self.begin_anew, self.restart)
        self._rng.choices(steps, [60, 30, 4, 4, 0.5, 0.2])[0]()

    def append(self) -> None:
        log, rng = self.log, self._rng
        generation = self._journal.state[0]
        for _ in range(rng.randint(1, 12)):
            end = log.log_end_offset
            padding = b"x" * rng.choice([0, 0, 10, 10, 500, 5000])
            log.append([Record(b"%d %d " % (generation, end + i) + padding) for i in range(rng.choice([1, 1, 2, 5]))])

    def truncate(self) -> None:
        log, rng = self.log, self._rng
        offset = max(log.log_start_offset, log.log_end_offset - rng.choice([1, 3, 10, 50, 400]))
        # The log would end at the offset even if that is within a batch, which is removed whole.
        first = next(log.batches(offset, offset + 1), None)
        offset = offset if first is None else first.base_offset
        self._journal.begin(offset, log.log_end_offset)
        log.truncate_to(offset)
        self._journal.done()
        self.append()

    def roll(self) -> None:
        self.log.roll()

    def retain(self) -> None:
        self._journal.delete()
        self.log.delete_old_segments()
        self._journal.delete()

    def begin_anew(self) -> None:
        offset = max(0, self.log.log_end_offset + self._rng.randint(-30, 3))
        self._journal.begin(offset, self.log.log_end_offset)
        self._journal.delete()
        self.log.truncate_fully_and_start_at(offset)
        self._journal.delete()
        self._journal.done()

    def restart(self) -> None:
        self._rng.choice([self.log.close, self.log.abandon])()
        self.log = kafkalog.open(self.directory, "a", CONFIG)


# --- reading


def by_record(log: Log, start: int | None) -> Iterator[Seen]:
    return (_checked(record) for record in log.records(start))


def by_columns(log: Log, start: int | None) -> Iterator[Seen]:
    return (_checked(record) for part in log.columns(start) for record in part)


def by_threads(log: Log, start: int | None) -> Iterator[Seen]:
    return (_checked(record) for part in log.columns(start, threads=2) for record in part)


def by_batch(log: Log, start: int | None) -> Iterator[Seen]:
    return (_checked(record) for batch in log.batches(start) for record in batch if record.offset >= (start or 0))


def by_following(log: Log, start: int | None) -> Iterator[Seen]:
    return (_checked(record) for record in log.follow(start, timeout=0.01))


def _checked(record: Record) -> Seen:
    generation, offset = (record.value or b"").split(b" ", 2)[:2]
    if int(offset) != record.offset:
        raise AssertionError(f"offset {record.offset} has the value of {int(offset)}")
    return int(generation), record.offset


class Reader:
    """Iterates over a log until it is stopped. findings: what was wrong; counts: what was done."""

    def __init__(self, name: str, journal: Journal, rng: random.Random) -> None:
        self.name = name
        self.findings: list[str] = []
        self.counts: Counter[str] = Counter()
        self._journal = journal
        self._rng = rng

    def read(self, log: Log) -> None:
        """Iterate once."""
        before = self._journal.state
        read = self._rng.choice([by_record, by_record, by_columns, by_threads, by_batch, by_following])
        error: Exception | None = None
        last: Seen | None = None
        end = -1
        try:
            first, end = log.log_start_offset, log.log_end_offset
            start = self._rng.choice([None, None, self._rng.randint(first, max(first, end))])
            last = self._follow(read(log, start))
        except (LogTruncatedError, OffsetOutOfRangeError, FileNotFoundError) as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001 - a finding
            # Files are closed before the log is.
            if isinstance(raised, LogStateError) and isinstance(log, WritableLog):
                return
            self.find(read, f"{type(raised).__name__}: {raised}")
            return
        self.counts["iterations"] += 1
        after = self._journal.state
        # Nothing was truncated or deleted meanwhile.
        is_quiet = before == after and before[0] == before[1] and before[2] % 2 == 0
        if error is not None:
            self.counts[type(error).__name__] += 1
            if is_quiet:
                self.find(read, f"without a truncation or deletion: {type(error).__name__}: {error}")
        elif is_quiet and last is not None and last[1] + 1 < end:
            self.find(read, f"ended after {last[1]}, before the log's end {end}")

    def _follow(self, found: Iterator[Seen]) -> Seen | None:
        pause_at = self._rng.choice([-1, 1, self._rng.randint(0, 1000)])
        last: Seen | None = None
        for number, seen in enumerate(found):
            self.counts["records"] += 1
            if last is not None:
                self._compare(last, seen)
            last = seen
            if number == pause_at:
                time.sleep(self._rng.random() * 0.01)
        return last

    def _compare(self, last: Seen, seen: Seen) -> None:
        (generation, offset), (later, following) = last, seen
        if generation == later and following == offset + 1:
            return
        cuts = self._journal.cuts(generation, later)
        follows = following == offset + 1 or ~following in cuts
        if not follows or later < generation or min(cut if cut >= 0 else ~cut for cut in cuts) <= offset:
            what = f"offset {following} of generation {later} after {offset} of {generation}"
            raise AssertionError(f"{what}, the log having been truncated to {cuts[:20]}")

    def find(self, read: Callable[..., object], what: str) -> None:
        self.findings.append(f"{self.name}, {time.strftime('%H:%M:%S')}, {getattr(read, '__name__', '')}: {what}")
        print(self.findings[-1], file=sys.stderr, flush=True)


def read_in_process(name: str, directory: Path, seed: str, stopped: Event) -> None:
    """Read until the event; exit with code 1 for findings."""
    rng = random.Random(seed)
    reader = Reader(name, Journal(directory.parent / "journal"), rng)
    parent = multiprocessing.parent_process()
    while not stopped.is_set() and len(reader.findings) < MOST_FINDINGS:
        with kafkalog.open(directory) as log:
            for _ in range(rng.choice([1, 20, 200])):
                if not stopped.is_set():
                    reader.read(log)
        if parent is None or not parent.is_alive():
            break
    print(f"{name}: {dict(reader.counts)}", file=sys.stderr, flush=True)
    sys.exit(1 if reader.findings else 0)


def read_beside(reader: Reader, writer: Writer, stopped: Event) -> None:
    """Read the log that is written to, in a thread of its process."""
    while not stopped.is_set() and len(reader.findings) < MOST_FINDINGS:
        reader.read(writer.log)


def soak(directory: Path, seconds: float, seed: int, readers: int) -> int:
    """Write and read for some time; return the number of readers with findings."""
    context = multiprocessing.get_context("spawn")
    stopped = context.Event()
    journal = Journal(directory / "journal")
    writer = Writer(directory / NAME, journal, random.Random(seed))
    writer.append()
    names = [f"reader {number}" for number in range(1, readers + 1)]
    processes = [
        context.Process(target=read_in_process, args=(name, writer.directory, f"{seed} {name}", stopped))
        for name in names
    ]
    beside = Reader("thread", journal, random.Random(f"{seed} thread"))
    thread = threading.Thread(target=read_beside, args=(beside, writer, stopped))
    thread.start()
    for process in processes:
        process.start()
    deadline = time.monotonic() + seconds
    steps = 0
    try:
        while time.monotonic() < deadline and any(process.is_alive() for process in processes):
            writer.step()
            steps += 1
            # Otherwise no reader would ever come to the end of the log.
            time.sleep(0.001)
    finally:
        stopped.set()
        thread.join()
        for process in processes:
            process.join()
        writer.log.close()
    print(f"thread: {dict(beside.counts)}", file=sys.stderr)
    print(f"writer: {steps} steps, {journal.state[0]} truncations", file=sys.stderr)
    return sum(process.exitcode != 0 for process in processes) + bool(beside.findings)


def main(arguments: Sequence[str] | None = None) -> int:
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.soak",
        description=about,
        epilog=rest.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=1, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=None, help="of the writer's choices (default: another each time)")
    parser.add_argument("--readers", type=int, default=3, help="the number of reading processes (default: 3)")
    chosen = parser.parse_args(arguments)
    seed = random.randrange(1 << 32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", file=sys.stderr)
    # Each truncation is logged.
    logging.getLogger("kafkalog").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as directory:
        found = soak(Path(directory), 60 * chosen.minutes, seed, chosen.readers)
    print(f"readers with findings: {found}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
