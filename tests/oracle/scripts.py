"""Scripts for a log: what leaders, followers, clients, time and accidents do to it, drawn with a seed.

A script is written while Kafka plays it: the author looks at what state the log is in after each command, so offsets,
epochs and sequences are mostly right, and sometimes just beside it. What comes out can be played again by anyone: a
step is a line (`UnifiedLogDriver.java` says what each means, `log_files.py` what damage is), Kafka's answer to it, and
what changed among the files.

A log that was damaged is not opened as one that was closed cleanly: Kafka believes that and goes on behind a torn tail,
kafkalog looks and recovers.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from kafkalog import FileMessageSet
from kafkalog.errors import CorruptRecordError
from kafkalog.record.layout import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from tests.oracle.kafka_log import Answer, KafkaLogs
from tests.oracle.log_files import SNAPSHOT_HEADER_BYTES, Contents, changes, contents, damage
from tests.oracle.script_batches import ABORT, COMMIT, LARGEST_SEQUENCE, Batches, Producer, base64_of

START_OF_TIME = 3_000_000_000_000  # long after any file's real modification time, which answers must not depend on
SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000
ISOLATION = ("LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED", "TXN_COMMITTED")
PRODUCER_IDS = (1, 2, 3, 4)
LOST_TO_THE_LOG = "KafkaStorageException"  # after one, Kafka's log takes nothing more

State = dict[str, Any]


class Step(NamedTuple):
    """A line, Kafka's answer to it, and the files that it made or changed (None: removed)."""

    line: str
    answer: Answer
    files: Contents


def script(seed: int, kafka: KafkaLogs, golden: str | None = None) -> list[Step]:
    """The script of this seed, played in an empty directory of Kafka's, or in one filled by a broker (`log_files`)."""
    author = Author(seed, kafka, golden)
    with suppress(HalfDone):
        author.write()
    kafka.abandon()
    return author.steps


class HalfDone(Exception):
    """Kafka refused something of which it had done a part already: nothing is asked of its log after that."""


def is_half_done(line: str, before: Contents, after: Contents) -> bool:
    """Whether a command that was refused changed a log, as when an index is found full after the bytes are in it."""
    command = line.partition(" ")[0]
    if command == "open":
        return True
    logs = {name: content for name, content in after.items() if name.endswith(".log") and content != before.get(name)}
    if command in ("truncate", "restart"):
        return bool(logs) or any(name.endswith(".log") for name in before.keys() - after.keys())
    # One that was preallocated does not grow when it is written to, and is cut when the next one is begun.
    written = [
        size >= before[name][0] if name in before else crc != crc32(bytes(size)) for name, (size, crc) in logs.items()
    ]
    return command in ("leader", "follower") and any(written)


def in_an_offset(log: Path, position: int) -> bool:
    """Whether a byte is of an entry's offset, which no checksum covers: what to do about it is a matter of taste."""
    data, start = log.read_bytes(), 0
    while start + LOG_OVERHEAD <= position:
        start += LOG_OVERHEAD + max(0, int.from_bytes(data[start + 8 : start + LOG_OVERHEAD], "big", signed=True))
    return start <= position < start + 8


def choice_of(draw: random.Random, chances: Mapping[Any, float]) -> Any:
    return draw.choices(list(chances), list(chances.values()))[0]


class Author:
    """Writes one script."""

    def __init__(self, seed: int, kafka: KafkaLogs, golden: str | None = None) -> None:
        self.draw = random.Random(seed)
        self.kafka = kafka
        self.golden = golden
        self.steps: list[Step] = []
        self.files: Contents = {}
        self.state: State | None = None
        self.last_state: State = {}
        self.settings = self._settings()
        self.batches = Batches(self.draw, START_OF_TIME)
        self.epoch = 0
        self.sent: dict[int, list[str]] = {}
        self.commands = self._commands()
        # Kafka does not look at the room that an index has left between the batches of one append.
        self.further_batches = (0, 0, 0, 1, 2, 4) if int(str(self.settings["segment.index.bytes"])) > 1000 else (0,)

    # --- the course of it

    def write(self) -> None:
        self._pass_time(0)
        closed = True
        if self.golden:
            self._say(f"damage golden {self.golden}")
            closed = "crash" not in self.golden
        for session in range(self.draw.choice((1, 2, 2, 3, 4))):
            if session:
                closed = not self._accidents(closed) and closed
            self._open(session, closed)
            closed = self._session()

    def _open(self, session: int, closed: bool) -> None:
        logs, opening = self._names(".log"), self._opening(session, closed)
        self._say(opening)
        was_split = session and not set(logs).issuperset(self._names(".log"))
        if was_split and any(map(self._begins_without_time, self._names(".log"))):
            # Until the next opening Kafka goes by the time of day, and not by the script's, where it asks for how long
            # a part has waited whose first batch has no timestamp.
            self._say("crash")
            self._say(opening.replace("open . clean", "open . unclean"))

    def _begins_without_time(self, log: str) -> bool:
        with FileMessageSet(self.kafka.directory / log) as batches, suppress(CorruptRecordError):
            first = next(batches.batches(), None)
            return first is not None and first.max_timestamp < 0
        return False

    def _session(self) -> bool:
        """Whether it was closed, and not left to a crash."""
        for _ in range(self.draw.randrange(10, 50)):
            choice_of(self.draw, self.commands)()
            if self.steps[-1].answer.get("error") == LOST_TO_THE_LOG:
                break
        closed = self.draw.random() < 0.4
        self._say("close" if closed else "crash")
        return closed and "error" not in self.steps[-1].answer

    def _say(self, line: str) -> Answer:
        if line.startswith("damage"):
            damage(self.kafka.directory, line)
            answer: Answer = {"answer": True, "state": None}
        else:
            answer = self.kafka.run(line)
        files = contents(self.kafka.directory)
        if "error" in answer and is_half_done(line, self.files, files):
            raise HalfDone
        self.steps.append(Step(line, answer, changes(self.files, files)))
        self.files = files
        self.state = answer["state"]
        self.last_state = self.state or self.last_state
        self.epoch = max([self.epoch, *(epoch for epoch, _ in (self.state or NO_EPOCHS)["epochs"])])
        return answer

    # --- openings

    def _settings(self) -> dict[str, object]:
        if self.golden:
            return dict(GOLDEN_SETTINGS)
        chosen: dict[str, object] = {name: self.draw.choice(values) for name, values in SETTINGS.items()}
        for name, (chance, values) in RARER_SETTINGS.items():
            if self.draw.random() < chance:
                chosen[name] = self.draw.choice(values)
        return chosen

    def _opening(self, session: int, closed: bool) -> str:
        if session and self.draw.random() < 0.1:
            self.settings = self._settings()
        clean = closed and self.draw.random() < 0.85
        words = [f"{name}={value}" for name, value in self.settings.items()]
        return " ".join(["open .", "clean" if clean else "unclean", *self._checkpoints(session), *words])

    def _checkpoints(self, session: int) -> tuple[str, str]:
        """Where the log starts and from where to recover, as they may have been written some time ago."""
        if not session:
            start = self.draw.choice((0, 0, 0, 0, 5, 1000) if not self.golden else (0, 0, 0, 492))
            return str(start), str(self.draw.choice((0, start)))
        old, bases = self.last_state, [base for base, _ in self.last_state["segments"]]
        start = self.draw.choice((old["log_start"], old["log_start"], old["log_start"], bases[0], 0))
        recovery = self.draw.choice((old["recovery_point"],) * 4 + (0, self.draw.choice(bases), old["log_end"]))
        if self.draw.random() < 0.03:
            start = old["log_end"] + 3
        return str(start), str(recovery)

    # --- accidents

    def _accidents(self, closed: bool) -> bool:
        """Whether one befell a log, and not only what stands beside it: no clean stop leaves it so."""
        if self.draw.random() > (0.2 if closed else 0.8):
            return False
        damaged: list[str] = []
        for _ in range(self.draw.choice((1, 1, 1, 2))):
            # What is to replace a segment is whole: kafkalog does not let damage in by that door.
            accidents = [each for each in self._possible_accidents() if not (damaged and ".swap" in each[0])]
            for line in self.draw.choice(accidents or [[]]):
                damaged.append(line)
                self._say(line)
            if damaged and damaged[-1].endswith(".swap"):
                break
        return any(".log" in line for line in damaged)

    def _possible_accidents(self) -> Iterator[list[str]]:
        """The lines of each."""
        logs = self._names(".log")
        if logs:
            yield from [[line] for line in self._tail_accidents(logs[-1])] * 4
            yield from ([line] for line in self._cuts_and_flips(self.draw.choice(logs)))
            yield from self._leftovers(self.draw.choice(logs))
        # Kafka recovers a segment without its indexes before those in front of it, whose leader epochs it passes over
        # then if it has lost them; kafkalog has each wait for its turn.
        knows_epochs = self.last_state.get("epochs") and self._size("leader-epoch-checkpoint")
        for suffix in (".index", ".txnindex", ".timeindex", ".snapshot")[0 if knows_epochs else 2 :]:
            if names := self._names(suffix):
                yield from ([line] for line in self._file_accidents(self.draw.choice(names)))
        if self._size("leader-epoch-checkpoint") and len(self._names(".index")) == len(logs):
            yield ["damage remove leader-epoch-checkpoint"]

    def _cuts_and_flips(self, log: str) -> Iterator[str]:
        if size := self._size(log):
            yield f"damage cut {log} {self.draw.randrange(1, size + 1)}"
            yield f"damage cut {log} {self.draw.randrange(1, min(60, size) + 1)}"
            for position in (self.draw.randrange(size), size - 1 - self.draw.randrange(min(size, 100))):
                if not in_an_offset(self.kafka.directory / log, position):
                    yield f"damage flip {log} {position}"

    def _tail_accidents(self, log: str) -> Iterator[str]:
        yield from self._cuts_and_flips(log)
        # Where nothing recovers them, Kafka calls zeros damage, kafkalog an end.
        yield f"damage zeros {log} {self.draw.choice((1, 11, 12, 17, 100, 700))}"
        yield f"damage append {log} {self.draw.randbytes(self.draw.choice((1, 16, 17, 40))).hex()}"
        torn = self.batches.fetched(self.last_state["log_end"], [self.epoch], ())
        yield f"damage append {log} {torn[: self.draw.randrange(1, len(torn))].hex()}"
        yield f"damage append {log} {torn.hex()}"
        far = self.last_state["log_end"] + 2**31 + self.draw.randrange(9)
        yield f"damage append {log} {self.batches.far_away(far, self.epoch).hex()}"

    def _leftovers(self, log: str) -> Iterator[list[str]]:
        """What an unfinished deletion, cleaning or split leaves; and a log that has been taken away."""
        stem = log.removesuffix(".log")
        files = [f"{stem}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")]
        files = [name for name in files if name in self.files]
        for suffix in (".deleted", ".cleaned", ".swap") if len(files) > 2 else ():
            yield [f"damage copy {name} {name}{suffix}" for name in files]
        yield [f"damage remove {log}"]
        if "preallocate" not in self.settings:
            # Without its indexes a segment is recovered by Kafka before the others: what is cut off then, as the room
            # that was preallocated, does not end the log; in kafkalog nothing follows a segment that was cut.
            yield [f"damage write {int(stem) + 1:020}.log "]
        yield [f"damage write {int(stem) + 1:020}.index 0000000000000000"]
        yield [f"damage write {int(stem) + 1:020}.snapshot 0001"]

    def _file_accidents(self, name: str) -> Iterator[str]:
        yield f"damage remove {name}"
        yield f"damage empty {name}"
        size = self._size(name)
        if name.endswith(".snapshot"):
            # The order of its entries is nobody's business, so only what is before them is touched.
            size = min(size, SNAPSHOT_HEADER_BYTES)
        if size:
            yield f"damage cut {name} {self.draw.randrange(1, size + 1)}"
        if size and not name.endswith((".index", ".timeindex")):  # whose entries Kafka believes without a look
            yield f"damage flip {name} {self.draw.randrange(size)}"
            yield f"damage zeros {name} {self.draw.choice((1, 8, 12, 24))}"

    def _names(self, suffix: str) -> list[str]:
        return [name for name in self.files if name.endswith(suffix)]

    def _size(self, name: str) -> int:
        path = self.kafka.directory / name
        return path.stat().st_size if path.exists() else 0

    # --- commands

    def _commands(self) -> dict[Callable[[], object], float]:
        """How often what is said: some logs are mostly a follower's, some see few transactions."""
        leads = self.draw.choice((12, 12, 8, 2))
        producing = self.draw.choice((0, 8, 16))
        return {
            self._lead: leads,
            self._lead_producer: producing * leads / 12,
            self._lead_marker: producing * leads / 18,
            self._lead_oddly: 1.5,
            self._follow: 14 - leads,
            self._follow_oddly: (14 - leads) / 8,
            self._move_high_watermark: 9,
            self._move_log_start: 1.5,
            self._truncate: 1.5,
            self._restart: 0.15,
            self._plainly: 5,
            self._pass: 2,
            self._read: 10,
            self._seek_time: 4,
            self._ask: 1,
        }

    @property
    def here(self) -> State:
        assert self.state is not None
        return self.state

    def _append(self, data: bytes, *, origin: str = "CLIENT", version: int = 0) -> Answer:
        if self.draw.random() < 0.04:
            self.epoch += self.draw.choice((1, 1, 3))
        epoch = choice_of(self.draw, {-1: 1, max(0, self.epoch - 1): 6, self.epoch: 300})
        return self._say(f"leader {base64_of(data)} {epoch} {origin} {version}")

    def _lead(self) -> None:
        self._append(self.batches.older_format() if self.draw.random() < 0.1 else self.batches.plain())

    def _lead_oddly(self) -> None:
        origin = choice_of(self.draw, {"CLIENT": 6, "COORDINATOR": 2, "RAFT_LEADER": 2, "REPLICATION": 1})
        if origin == "RAFT_LEADER" and self.draw.random() < 0.7:
            base = self.here["log_end"] - (self.draw.random() < 0.1)
            self._append(self.batches.fetched(max(0, base), [self.epoch], ()), origin=origin)
            return
        data = self.batches.odd(int(str(self.settings["internal.segment.bytes"])))
        # A batch without records, from anybody else, would get the offset of the one before it.
        self._append(data, origin="CLIENT" if len(data) == RECORD_BATCH_OVERHEAD else origin)

    def _lead_producer(self) -> None:
        producer = self._producer()
        sent = self.sent.setdefault(producer.id, [])
        if sent and self.draw.random() < 0.15:
            self._say(self.draw.choice(sent[-7:]))
            return
        if producer.epoch < 0:
            sequence, epoch = self.draw.choice((0, 0, 0, 5, LARGEST_SEQUENCE - 3)), self.draw.choice((0, 0, 3))
        else:
            sequence, epoch = self._next_of(producer)
        transactional = self.draw.random() < (0.95 if producer.in_transaction else 0.5)
        self._append(self.batches.of(producer, sequence, transactional=transactional, epoch=epoch))
        sent.append(self.steps[-1].line)

    def _next_of(self, producer: Producer) -> tuple[int, int]:
        """Sequence and epoch of what comes next; or not quite."""
        right = producer.next_sequence
        if self.draw.random() < 0.8:
            return right, producer.epoch
        return self.draw.choice(
            (
                ((right + 1) % 2**31, producer.epoch),
                (max(0, right - 1), producer.epoch),
                (right, producer.epoch + 1),
                (0, producer.epoch + 1),
                (right, max(0, producer.epoch - 1)),
            )
        )

    def _lead_marker(self) -> None:
        open_ones = [each for each in self._producers() if each.in_transaction]
        producer = self.draw.choice(open_ones) if open_ones and self.draw.random() < 0.9 else self._producer()
        version = choice_of(self.draw, {0: 10, 1: 2, 2: 4, -1: 0.3})
        right = max(0, producer.epoch) + (version == 2)
        epoch = right + self.draw.choice((0,) * 8 + (1, -1))
        known = producer.coordinator_epoch if producer.coordinator_epoch >= 0 else 3
        coordinator_epoch = max(0, known + self.draw.choice((0,) * 8 + (1, -1)))
        kind = self.draw.choice((ABORT, COMMIT))
        data = self.batches.marker(producer, kind, epoch=max(0, epoch), coordinator_epoch=coordinator_epoch)
        self._append(data, origin=self.draw.choice(("COORDINATOR",) * 15 + ("CLIENT",)), version=version)

    def _producers(self) -> list[Producer]:
        known = self.here["producers"]
        return [
            Producer(each, known[str(each)][0], known[str(each)][1], known[str(each)][3], known[str(each)][4] >= 0)
            if str(each) in known
            else Producer(each)
            for each in PRODUCER_IDS
        ]

    def _producer(self) -> Producer:
        return self.draw.choice(self._producers())

    def _follow(self) -> None:
        """What a fetch from the leader brings."""
        latest = max((epoch for epoch, _ in self.here["epochs"]), default=self.epoch)
        epochs = [latest]
        for _ in range(self.draw.choice(self.further_batches)):
            epochs.append(epochs[-1] + (self.draw.random() < 0.15))
        base = self.here["log_end"] + (self.draw.randrange(1, 20) if self.draw.random() < 0.1 else 0)
        self._fetch(self.batches.fetched(base, epochs, self._producers()), epochs[-1])

    def _fetch(self, data: bytes, epoch: int) -> None:
        self.epoch = max(self.epoch, epoch)
        self._say(f"follower {base64_of(data)} {epoch}")

    def _follow_oddly(self) -> None:
        end, epoch, fetched = self.here["log_end"], self.epoch, self.batches.fetched
        now = fetched(end, [epoch], ())
        made = [
            fetched(max(0, end - 1), [epoch], ()),
            fetched(0, [epoch], ()),
            fetched(end + 50, [epoch], ()) + now,
            now + now,
            fetched(end, [-1], ()),
            fetched(end, [epoch, epoch + 5], ()),
            fetched(end, [epoch + 1], ()),
            fetched(end, [max(0, epoch - 2)], ()),
            now[:-1] + bytes([now[-1] ^ 1]),
            now + now[: self.draw.randrange(len(now))],
            b"",
        ]
        if self.draw.random() < 0.3:
            made = [fetched(end + 2**31 + 5, [epoch], ())]
        self._fetch(self.draw.choice(made), epoch)

    def _move_high_watermark(self) -> None:
        start, end = self.here["log_start"], self.here["log_end"]
        near = self._near(start, end)
        target = end if self.draw.random() < 0.7 else near
        self._say(f"{'raise-hw' if self.draw.random() < 0.3 else 'hw'} {target}")

    def _near(self, start: int, end: int, beyond: int = 2) -> int:
        """An offset from start to end, or just outside."""
        if self.draw.random() < 0.4:
            start = max(start, end - 15)
        return max(0, self.draw.randint(start - beyond, max(start, end) + beyond))

    def _move_log_start(self) -> None:
        self._say(f"start {self._near(self.here['log_start'], self.here['hw'])}")

    def _truncate(self) -> None:
        target = self._near(self.here["log_start"], self.here["log_end"])
        self._say(f"truncate {-1 if self.draw.random() < 0.02 else target}")

    def _restart(self) -> None:
        at = self.draw.choice((self.here["log_end"] + 10, self.here["log_start"], 0, 500))
        self._say(f"restart {at} {self.draw.choice(('-', '-', '-', max(0, at - 3)))}")

    def _plainly(self) -> None:
        said = {"roll": 5, "flush false": 2, "flush true": 2, "retention": 6, "snapshot": 1, "expire": 1}
        self._say(choice_of(self.draw, said))

    def _pass(self) -> None:
        self._pass_time(choice_of(self.draw, {5: 10, 700: 10, 20 * SECOND_MS: 5, 2 * HOUR_MS: 2, 2 * DAY_MS: 0.5}))

    def _pass_time(self, ms: int) -> None:
        self.batches.now += ms
        self._say(f"clock {self.batches.now}")

    def _read(self) -> None:
        offset = self._near(self.here["log_start"], self.here["log_end"], 1)
        size = self.draw.choice((0, 1, 20, 90, 200, 200, 1000, 1000, 100_000, 2**31 - 1))
        min_one = self.draw.choice(("true", "false"))
        self._say(f"read {offset} {size} {self.draw.choice(ISOLATION)} {min_one}")

    def _seek_time(self) -> None:
        special = self.draw.choice((-1, -2, -3, -3, -3, -4, -5, -6))
        times = (special, special, self.batches.now - 3 * DAY_MS, self.batches.now + HOUR_MS, 0)
        near = self.batches.now + self.draw.randrange(-3000, 600)
        self._say(f"time {self.draw.choice(times) if self.draw.random() < 0.5 else near}")

    def _ask(self) -> None:
        self._say(f"epoch-end {self.draw.randint(-1, self.epoch + 2)}")


NO_EPOCHS: State = {"epochs": []}
GOLDEN_SETTINGS = {"internal.segment.bytes": 100_000, "segment.index.bytes": 65536, "index.interval.bytes": 1024}
SETTINGS: dict[str, tuple[int, ...]] = {
    "internal.segment.bytes": (300, 600, 600, 1000, 1000, 2000, 5000),
    "segment.index.bytes": (48, 120, 480, 4096, 4096),
    "index.interval.bytes": (0, 100, 300, 300, 1000),
}
RARER_SETTINGS: dict[str, tuple[float, tuple[object, ...]]] = {
    "retention.bytes": (0.3, (0, 1000, 3000)),
    "retention.ms": (0.3, (0, 600, 10 * SECOND_MS, HOUR_MS)),
    "segment.ms": (0.2, (1, 500, 10 * SECOND_MS)),
    "cleanup.policy": (0.15, ("compact", "compact,delete")),
    "compression.type": (0.1, ("uncompressed",)),
    "message.timestamp.type": (0.1, ("LogAppendTime",)),
    "message.timestamp.before.max.ms": (0.1, (HOUR_MS, DAY_MS)),
    "max.message.bytes": (0.1, (150, 400)),
    "flush.messages": (0.15, (1, 7)),
    "preallocate": (0.08, ("true",)),
    "file.delete.delay.ms": (0.1, (0,)),
}
