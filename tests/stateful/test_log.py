"""A log in any order of appends, rolls, truncations, deletions, stops and crashes agrees with its writer's history.

The model is a `History`: the values by offset, and what of them was flushed.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import kafkalog
from kafkalog import ByteBufferMessageSet, IsolationLevel, Record
from tests.crash.history import History, Operation
from tests.crash.runs import Session, opened
from tests.crash.workload import NAME, NOW, Writer, inspect, lasts_of, records_of
from tests.stateful.sizes import sized

SEEDS = st.integers(0, 2**32)


class LogMachine(RuleBasedStateMachine):
    session: Session

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.top = Path(tempfile.mkdtemp(prefix="log", dir=memory))
        self.root = self.top / "0"
        self.history = History()
        self.worked = 0

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.session.give_up()
        shutil.rmtree(self.top)

    @initialize(seed=SEEDS)
    def begin(self, seed: int) -> None:
        self.root.mkdir()
        self._open(seed)

    def _open(self, seed: int) -> None:
        self.session = opened(self.root, random.Random(seed))
        self.log = self.session.log

    # --- operations

    @rule(seed=SEEDS, steps=st.integers(1, 4))
    def work(self, seed: int, steps: int) -> None:
        # Another seed each time: nothing distinguishes equal records.
        self.worked += 1
        rng = random.Random(seed << 16 | self.worked)
        work, checkpoint = self.session.scheduler.run, self.session.manager.checkpoint
        writer = Writer(self.log, rng, self.history, NOW, background=work, checkpoint=checkpoint)
        for _ in range(steps):
            writer.step()

    @rule(gap=st.integers(0, 3), count=st.integers(1, 3), seed=SEEDS)
    def append_as_follower(self, gap: int, count: int, seed: int) -> None:
        values = tuple(f"{seed}-{self.log.log_end_offset}-{i}:" for i in range(count))
        first = self.log.log_end_offset + gap
        records = [Record(value.encode(), timestamp=NOW) for value in values]
        self.history.begin(Operation("append", first, values))
        self.log.append_as_follower(
            ByteBufferMessageSet.from_records(records, base_offset=first, partition_leader_epoch=0)
        )
        self.history.done(self.log.log_start_offset)

    @rule(offset=st.integers(0, 40))
    def truncate_fully(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.history.begin(Operation("truncate", 0))
        self.history.done(offset)
        self.history.end = self.history.flushed = offset
        self.history.stale.clear()

    @rule(back=st.integers(0, 10))
    def set_the_high_watermark(self, back: int) -> None:
        self.log.update_high_watermark(self.log.log_end_offset - back)

    @rule(seed=SEEDS)
    def stop_and_begin_again(self, seed: int) -> None:
        self.session.close()
        self._open(seed)
        self.history.check(records_of(self.log))
        self._adopt()

    @rule(seed=SEEDS, damage=st.sampled_from(["none", "cut", "zeroed", "garbage"]), indexes=st.booleans())
    def crash(self, seed: int, damage: str, indexes: bool) -> None:
        """Unflushed batches may be damaged from any place on, and their indexes be anything."""
        image = self.top / str(int(self.root.name) + 1)
        shutil.copytree(self.root, image)
        rng = random.Random(seed)
        unflushed = self.log.segments and [each for each in self.log.segments if self._is_unflushed(each.base_offset)]
        for segment in unflushed:
            batches = [each for each in segment.log.batches() if each.last_offset >= self.log.recovery_point]
            path = image / segment.path.relative_to(self.root)
            if batches and damage != "none":
                _damage(path, batches[0].position, segment.size, damage, rng)
            if indexes and segment.base_offset >= self.log.recovery_point:
                _damage_indexes(path, rng)
        self.session.give_up()
        self.root = image
        self._open(seed)
        self.history.check(records_of(self.log), power_lost=damage != "none")
        self._adopt()

    def _is_unflushed(self, base: int) -> bool:
        following = [each.base_offset for each in self.log.segments if each.base_offset > base]
        return not following or following[0] > self.log.recovery_point

    def _adopt(self) -> None:
        log = self.log
        self.history.adopt(records_of(log), lasts_of(log), log.log_start_offset, log.log_end_offset)
        # What was not flushed before is not now.
        self.history.flushed = min(log.recovery_point, log.log_end_offset)

    # --- invariants

    @invariant()
    def the_log_is_what_was_written(self) -> None:
        found = records_of(self.log)
        self.history.check(found)
        inspect(self.log, self.history)
        for isolation, end in (
            (IsolationLevel.HIGH_WATERMARK, self.log.high_watermark),
            (IsolationLevel.LOG_END, self.log.log_end_offset),
        ):
            seen = [(each.offset, each.value) for each in self.log.records(isolation=isolation)]
            assert seen == [each for each in found if each[0] < end]
            assert self.log.count(isolation=isolation) == len(seen)

    @invariant()
    def another_process_sees_the_same(self) -> None:
        with kafkalog.open(self.root / "data" / NAME) as beside:
            seen = [(each.offset, each.value) for each in beside.records(self.log.log_start_offset)]
            assert seen == records_of(self.log)
            assert beside.log_end_offset <= self.log.log_end_offset


def _damage(path: Path, start: int, end: int, kind: str, rng: random.Random) -> None:
    data = path.read_bytes()
    at = rng.randint(start, end)
    tail = {"cut": b"", "zeroed": bytes(len(data) - at), "garbage": rng.randbytes(len(data) - at)}[kind]
    path.write_bytes(data[:at] + tail)


def _damage_indexes(path: Path, rng: random.Random) -> None:
    for suffix in (".index", ".timeindex"):
        index = path.with_suffix(suffix)
        what = rng.choice(["kept", "gone", "zeroed", "garbage", "cut"])
        if not index.exists() or what == "kept":
            continue
        size = index.stat().st_size
        index.write_bytes({"gone": b"", "zeroed": bytes(size), "garbage": rng.randbytes(size), "cut": b"\0"}[what])
        if what == "gone":
            index.unlink()


TestLog = LogMachine.TestCase
TestLog.settings = sized(4, steps=12)
