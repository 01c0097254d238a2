"""One run: a writer at work on a disk that stops, fails or loses power; then the log is opened again and looked at."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import kafkalog
from kafkalog import LogManager, WritableLog
from kafkalog.errors import KafkaLogError
from tests.crash.background import HeldScheduler
from tests.crash.disk import Disk, Fail, Fault, Stop, Stopped
from tests.crash.history import History
from tests.crash.workload import CONFIG, NAME, NOW, Refused, Writer, inspect, lasts_of, records_of, retry


@dataclass
class Session:
    """A data directory opened to write, with one partition."""

    manager: LogManager[WritableLog]
    log: WritableLog
    scheduler: HeldScheduler

    def close(self) -> None:
        self.scheduler.run()
        self.manager.close()

    def give_up(self) -> None:
        """Return files and locks to the system; the directory is not looked at any more."""
        for end in (self.log.abandon, self.manager.close):
            with suppress(KafkaLogError, OSError, ExceptionGroup):
                end()


def opened(root: Path, rng: random.Random, sessions: list[Session] | None = None) -> Session:
    config = replace(
        CONFIG, flush_messages=rng.choice([2**63 - 1, 2**63 - 1, 1]), preallocate=rng.choice([False, False, True])
    )
    scheduler = HeldScheduler()
    manager = LogManager(root / "data", "a", config, scheduler=scheduler, clock=lambda: NOW)
    try:
        log = manager[NAME] if NAME in manager else manager.create(NAME)
    except BaseException:
        with suppress(KafkaLogError, OSError, ExceptionGroup, Stopped):
            manager.close()
        raise
    session = Session(manager, log, scheduler)
    if sessions is not None:
        sessions.append(session)
    return session


def work(session: Session, rng: random.Random, history: History, steps: int) -> Writer:
    writer = Writer(
        session.log, rng, history, NOW, background=session.scheduler.run, checkpoint=session.manager.checkpoint
    )
    for _ in range(steps):
        writer.step()
    return writer


def look(root: Path, rng: random.Random, history: History, *, power_lost: bool) -> None:
    """Open the log that is left and compare it with the history; go on with it, close it, and open it once more."""
    session = opened(root, rng)
    try:
        log = session.log
        found = records_of(log)
        history.check(found, power_lost=power_lost)
        inspect(log, history)
        if not power_lost:
            retry(log, history.pending, NOW)
        history.adopt(records_of(log), lasts_of(log), log.log_start_offset, log.log_end_offset)
        work(session, rng, history, 6)
        history.check(records_of(log))
        inspect(log, history)
    finally:
        session.close()
    beside = [(each.offset, each.value) for each in kafkalog.open(root / "data" / NAME)]
    history.check(beside)
    again = opened(root, rng)
    try:
        assert records_of(again.log) == beside
        assert again.log.recovery_point == again.log.log_end_offset
        # A truncation within a batch leaves a gap behind the last batch, which no file tells of.
        assert history.end_of_batches() <= again.log.log_end_offset <= history.end
        inspect(again.log, history)
    finally:
        again.close()


def _until_stopped(disk: Disk, rng: random.Random, history: History, steps: int) -> None:
    sessions: list[Session] = []
    with disk:
        try:
            session = opened(disk.root, rng, sessions)
            work(session, rng, history, steps)
            if rng.random() < 0.3:
                session.close()
        except Stopped:
            pass
    with suppress(Stopped):
        for session in sessions:
            session.give_up()


def calls_of(root: Path, seed: int, steps: int) -> int:
    """How many calls a run makes that nothing stops."""
    disk = Disk(root)
    _until_stopped(disk, random.Random(seed), History(), steps)
    return disk.calls


def stopped_at(root: Path, seed: int, at: int, steps: int) -> None:
    """The process goes at the `at`-th call: all it did until then is there."""
    rng, history = random.Random(seed), History()
    # A copy first: what is given up afterwards must not tidy up.
    (root / "one").mkdir()
    with_copy = _Copying(root / "one", root / "two", Stop(at))
    with_copy.run(rng, history, steps)
    look(root / "two", random.Random(seed + at), history, power_lost=False)


class _Copying:
    def __init__(self, root: Path, copy: Path, fault: Fault, *, remembers: bool = False) -> None:
        self.disk = Disk(root, fault, remembers=remembers)
        self.copy = copy

    def run(self, rng: random.Random, history: History, steps: int) -> None:
        sessions: list[Session] = []
        with self.disk:
            try:
                session = opened(self.disk.root, rng, sessions)
                work(session, rng, history, steps)
                if rng.random() < 0.3:
                    session.close()
            except Stopped:
                pass
        try:
            self.keep()
        finally:
            self.disk.forget()
            for session in sessions:
                session.give_up()

    def keep(self) -> None:
        shutil.copytree(self.disk.root, self.copy)


class _LosingPower(_Copying):
    def __init__(self, root: Path, copy: Path, fault: Fault, rng: random.Random | None) -> None:
        super().__init__(root, copy, fault, remembers=True)
        self.rng = rng

    def keep(self) -> None:
        self.disk.image(self.copy, self.rng)


def power_lost_at(root: Path, seed: int, at: int, steps: int, *, strictly: bool) -> None:
    """The power goes at the `at`-th call: of what was not synced, nothing is there or (not strictly) any part."""
    rng, history = random.Random(seed), History()
    (root / "one").mkdir()
    lost = None if strictly else random.Random(seed * 1_000_003 + at)
    _LosingPower(root / "one", root / "two", Stop(at), lost).run(rng, history, steps)
    look(root / "two", random.Random(seed + at), history, power_lost=True)


def failing_at(root: Path, seed: int, fault: Fail, steps: int) -> None:
    """Calls fail as on a full disk, and succeed again: what was acknowledged stays, the rest is whole or not there."""
    rng, history = random.Random(seed), History()
    disk = Disk(root, fault)
    sessions: list[Session] = []
    try:
        with disk:
            _work_on_failing(disk, rng, history, steps, sessions)
    finally:
        for session in sessions:
            session.give_up()
    look(root, rng, history, power_lost=False)


def _work_on_failing(disk: Disk, rng: random.Random, history: History, steps: int, sessions: list[Session]) -> None:
    try:
        session = opened(disk.root, rng, sessions)
    except Refused:
        disk.heal()
        session = opened(disk.root, rng, sessions)
    writer = Writer(
        session.log, rng, history, NOW, background=session.scheduler.run, checkpoint=session.manager.checkpoint
    )
    writer.errors = Refused
    for _ in range(steps):
        before = len(writer.raised)
        writer.step()
        # What could be neither written whole nor cut off is told of, and in a preallocated file looks like damage.
        if len(writer.raised) > before and not any("not be cut off" in str(each) for each in writer.raised):
            # Whoever reads meanwhile, here or in another process, sees whole records only.
            history.check(records_of(session.log))
            history.check([(each.offset, each.value) for each in kafkalog.open(session.log.directory)])
    disk.heal()
    with suppress(ExceptionGroup, *Refused):
        session.close()
