"""One data directory, in which a broker and kafkalog write by turns, and what each of them then finds in it.

broker     creates the topics, writes; kafkalog reads along and may not write
kafkalog   appends, truncates, makes partitions; the broker may not start meanwhile
broker     reads, appends, rolls, deletes, and is killed
kafkalog   recovers, appends, decides, deletes
broker     reads, stops
kafkalog   appends in a process that is killed
broker     recovers, reads
"""

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog import CompressionType, LogConfig, LogManager, WritableLog
from kafkalog.errors import LogLockedError
from kafkalog.storage.checkpoints import read_offset_checkpoint
from kafkalog.storage.paths import LOG_START_OFFSET_CHECKPOINT, PARTITION_METADATA, TopicPartition, segment_files
from tests.oracle.broker import PATIENCE_S, Broker, BrokerFailed, Seen, View
from tests.oracle.broker_pages import ABORT, COMMIT, Author, Fate, Ledger, Producer, seen, view

APPENDER = Path(__file__).with_name("appender.py")
CODECS = list(CompressionType)
KEPT_FOREVER = LogConfig(retention_ms=-1)
SMALL_SEGMENTS = LogConfig(segment_bytes=4096, retention_ms=-1)
RETAINED = replace(SMALL_SEGMENTS, retention_bytes=12_000)
RETAINED_LATER = replace(SMALL_SEGMENTS, retention_bytes=6_000)
CONFIGS = {"rolled": SMALL_SEGMENTS, "retained": RETAINED, "killed": SMALL_SEGMENTS}
TOPICS = {
    "written": {},
    "cut": {},
    "producers": {},
    "hanging": {},
    "rolled": SMALL_SEGMENTS.to_topic_config(),
    "retained": RETAINED.to_topic_config(),
    "killed": {"internal.segment.bytes": "4096"},
}
PARTITIONS = ["written-0", "cut-0", "producers-0", "hanging-0", "rolled-0", "retained-0", "made-0", "made-1"]
RECORDS_BEFORE_THE_KILL = 2_000


@dataclass
class Page:
    """A moment at which the log is handed over: what is in it, what its last writer and its next one find in it."""

    ledger: dict[str, tuple[list[Seen], list[Seen]]] = field(default_factory=dict)
    ours: dict[str, View] = field(default_factory=dict)
    brokers: dict[str, View] = field(default_factory=dict)
    broker_said: list[str] = field(default_factory=list)


@dataclass
class Story:
    """What was seen, in the order in which it came about."""

    refused: list[str] = field(default_factory=list)
    read_along: list[tuple[list[Seen], list[Seen]]] = field(default_factory=list)
    segments_read_along: int = 0
    end_after_cut: int = -1
    loaded: list[str] = field(default_factory=list)
    duplicates: list[bool] = field(default_factory=list)
    refusal_of_broker: str = ""
    left_aside: list[str] = field(default_factory=list)
    after_append: Page = field(default_factory=Page)
    recovered_bytes: int = 0
    after_crash_of_broker: Page = field(default_factory=Page)
    after_recovery: Page = field(default_factory=Page)
    appended_when_killed: int = 0
    values_after_kill: list[bytes | None] = field(default_factory=list)
    said_after_kill: list[str] = field(default_factory=list)


def tell(directory: Path) -> Story:
    """Let it all happen, below `directory`."""
    with Broker(directory) as broker:
        return Telling(broker).story


class Telling:
    """The acts, one after the other."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client = broker.client
        self.data = broker.data
        self.ledger = Ledger()
        self.story = Story()
        self._clock = int(time.time() * 1000) - 3_600_000
        self._idempotent, self._committing, self._aborting, self._hanging = (Producer(9000 + i) for i in range(4))
        self._broker_writes_first()
        self._we_append()
        self._broker_goes_on_and_is_killed()
        self._we_recover_and_go_on()
        self._broker_reads()
        self._we_are_killed()
        self._broker_recovers()

    def records(self, count: int, size: int = 20) -> list[Seen]:
        """New records of every kind, their times mostly rising."""
        return [self._record(place, size) for place in range(count)]

    def _record(self, place: int, size: int) -> Seen:
        self._clock += 10
        at = self._clock - (35 if place % 7 == 3 else 0)
        key = (b"key %d" % self._clock, None, b"")[place % 3]
        value = None if place % 5 == 4 else random.Random(self._clock).randbytes(size)
        headers = (("a", b"1"), ("ä", b""), ("a", None)) if place % 4 == 1 else ()
        return Seen(-1, at, key, value, headers)

    # --- the broker

    def _broker_writes_first(self) -> None:
        run = self.broker.start()
        self.client.create(TOPICS)
        self.client.create({"made": {}}, partitions=2)
        for codec in CODECS:
            self._produce("written-0", 4, codec)
        for _ in range(3):
            self._produce("cut-0", 10)
        self._produce("producers-0", 5, transaction="first", fate=Fate.ABORTED)
        self._produce("producers-0", 5, transaction="first")
        self._read_along()
        self._may_not_write()
        run.stop()

    def _produce(
        self,
        name: str,
        count: int,
        codec: CompressionType = CompressionType.NONE,
        *,
        size: int = 20,
        transaction: str | None = None,
        fate: Fate = Fate.COMMITTED,
    ) -> None:
        records, commit = self.records(count, size), fate is Fate.COMMITTED
        offsets = self.client.produce(name, records, codec.name.lower(), transaction=transaction, commit=commit)
        self.ledger.note(name, offsets, records, fate)

    def _read_along(self) -> None:
        with kafkalog.open(self.data / "rolled-0") as log:
            for _ in range(6):
                self._produce("rolled-0", 10, size=200)
                self.story.read_along.append((seen(log), self.ledger.uncommitted("rolled-0")))
            self.story.segments_read_along = len(log.segments)

    def _may_not_write(self) -> None:
        for attempt in (lambda: LogManager(self.data, "a"), lambda: kafkalog.open(self.data / "cut-0", "a")):
            try:
                attempt().close()
            except LogLockedError as error:
                self.story.refused.append(str(error))

    def _broker_goes_on_and_is_killed(self) -> None:
        run = self.broker.start()
        self._asked(self.story.after_append)
        self.story.left_aside = [each.name for each in self.data.iterdir() if each.name.startswith("unknown-0.")]
        for name in PARTITIONS:
            self._produce(name, 10, CODECS[len(name) % len(CODECS)], size=400)
        self._produce("producers-0", 5, transaction="second", fate=Fate.ABORTED)
        self._delete_by_broker()
        self.story.after_append.broker_said = run.said
        run.kill()
        for name in self.story.left_aside:
            shutil.rmtree(self.data / name)

    def _delete_by_broker(self) -> None:
        low = self.client.delete_records("rolled-0", self.ledger.uncommitted("rolled-0")[-15].offset)
        self.ledger.forget("rolled-0", low)
        _wait_for_log_start(self.data, TopicPartition("rolled", 0), low)
        _wait_for_retention(self.data / "retained-0", RETAINED.retention_bytes)
        self.ledger.forget("retained-0", self.client.low("retained-0"))

    def _broker_reads(self) -> None:
        run = self.broker.start()
        self._asked(self.story.after_recovery)
        run.stop()
        self.story.after_recovery.broker_said = run.said

    def _broker_recovers(self) -> None:
        run = self.broker.start()
        self.story.values_after_kill = [each.value for each in self.client.view("killed-0").uncommitted]
        run.stop()
        self.story.said_after_kill = run.said

    def _asked(self, page: Page) -> None:
        page.brokers = {name: self.client.view(name, self.ledger.times(name)) for name in PARTITIONS}

    # --- kafkalog

    def _we_append(self) -> None:
        with LogManager(self.data, "a", KEPT_FOREVER, topic_configs=CONFIGS) as manager:
            self.story.loaded = list(manager)
            self._append_to("written-0", manager["written-0"])
            self._append_of_producers(manager["producers-0"])
            self._leave_hanging(manager["hanging-0"])
            self._append_to("rolled-0", manager["rolled-0"])
            manager["rolled-0"].delete_records(75)
            self._append_to("retained-0", manager["retained-0"])
            self._apply_retention(manager, "rolled-0", "retained-0")
            manager.delete("made-1")
            self._append_to("made-1", manager.create("made-1"))
            self._append_to("unknown-0", manager.create("unknown-0"))
        self._make_partition_of_known_topic()
        self._cut()
        with LogManager(self.data) as manager:
            self._look_into(self.story.after_append, manager)

    def _append_to(self, name: str, log: WritableLog) -> None:
        author = Author(log, self.ledger)
        for codec in CODECS:
            author.append(self.records(10, 400), codec)

    def _append_of_producers(self, log: WritableLog) -> None:
        author, one, other = Author(log, self.ledger), self._committing, self._aborting
        for codec in CODECS:
            author.send(self._idempotent, self.records(2), codec)
        again = author.send(self._idempotent, self.records(3))
        self.story.duplicates.append(author.send_again(again).is_duplicate)
        for codec in CODECS:
            author.send(one, self.records(3), codec, Fate.COMMITTED)
            author.append(self.records(1))
            author.send(other, self.records(2), codec, Fate.ABORTED)
        author.end(other, ABORT, self._clock)
        author.send(other, self.records(2), fate=Fate.COMMITTED)
        author.end(one, COMMIT, self._clock, version=2)
        author.end(other, COMMIT, self._clock)
        self._again = again

    def _leave_hanging(self, log: WritableLog) -> None:
        author = Author(log, self.ledger)
        author.send(self._hanging, self.records(3), fate=Fate.ABORTED)
        author.end(self._hanging, ABORT, self._clock)
        author.append(self.records(2))
        author.send(self._hanging, self.records(3), CompressionType.ZSTD, Fate.UNDECIDED)
        author.append(self.records(2))

    def _make_partition_of_known_topic(self) -> None:
        """As somebody who knows nothing but the topic's id."""
        place, identity = self.data / "made-0", self.data.parent / PARTITION_METADATA
        shutil.move(place / PARTITION_METADATA, identity)
        shutil.rmtree(place)
        place.mkdir()
        shutil.move(identity, place / PARTITION_METADATA)
        with kafkalog.open(place, "a") as log:
            self._append_to("made-0", log)

    def _cut(self) -> None:
        """Into the second of three batches, so that it goes whole."""
        with kafkalog.open(self.data / "cut-0", "a") as log:
            log.truncate_to(15)
            self.story.end_after_cut = log.log_end_offset
            self.ledger.cut("cut-0", 10)
            try:
                self.broker.start()
            except BrokerFailed as error:
                self.story.refusal_of_broker = str(error)
            Author(log, self.ledger).append(self.records(5))

    def _apply_retention(self, manager: LogManager[WritableLog], *names: str) -> None:
        """Now, as a broker does soon; a log answers otherwise to times while segments before its start are there."""
        for name in names:
            manager[name].delete_old_segments()
            self.ledger.forget(name, manager[name].log_start_offset)

    def _we_recover_and_go_on(self) -> None:
        def progress(done: int, of: int) -> None:
            self.story.recovered_bytes = max(done, self.story.recovered_bytes)

        configs = CONFIGS | {"retained": RETAINED_LATER}
        with LogManager(self.data, "a", KEPT_FOREVER, topic_configs=configs, progress=progress) as manager:
            for log in manager.values():
                log.update_high_watermark(log.log_end_offset)
            self._look_into(self.story.after_crash_of_broker, manager)
            for name in ("written-0", "cut-0", "rolled-0", "retained-0", "made-0", "made-1"):
                self._append_to(name, manager[name])
            author = Author(manager["producers-0"], self.ledger)
            self.story.duplicates.append(author.send_again(self._again).is_duplicate)
            author.send(self._idempotent, self.records(3))
            Author(manager["hanging-0"], self.ledger).end(self._hanging, COMMIT, self._clock)
            self.ledger.decide("hanging-0", Fate.COMMITTED)
            self._apply_retention(manager, "retained-0")
            self._look_into(self.story.after_recovery, manager)

    def _look_into(self, page: Page, logs: LogManager[Any]) -> None:
        """What is to be found, and what kafkalog finds."""
        for name in PARTITIONS:
            page.ledger[name] = self.ledger.uncommitted(name), self.ledger.committed(name)
            page.ours[name] = view(logs[name], self.ledger.times(name))

    def _we_are_killed(self) -> None:
        """At no particular moment of an append."""
        command = [sys.executable, "-P", str(APPENDER), str(self.data / "killed-0")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                self.story.appended_when_killed = int(line)
                if self.story.appended_when_killed > RECORDS_BEFORE_THE_KILL:
                    process.kill()


def _wait_for_log_start(data: Path, partition: TopicPartition, low: int) -> None:
    _wait_until(
        lambda: read_offset_checkpoint(data / LOG_START_OFFSET_CHECKPOINT).get(partition) == low,
        f"the broker's checkpoint says that {partition} begins at {low}",
    )


def _wait_for_retention(directory: Path, limit: int) -> None:
    def nothing_more_goes() -> bool:
        try:
            sizes = [path.stat().st_size for _, path in segment_files(directory)]
        except FileNotFoundError:  # one goes just now
            return False
        return sum(sizes[1:]) < limit

    _wait_until(nothing_more_goes, f"{directory.name} has less than {limit} bytes before its active segment")


def _wait_until(true: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < give_up, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.1)
