"""A real broker on loopback ports, and a conversation with it through Kafka's own clients (`BrokerClient.java`).

    with Broker(directory) as broker:        # formats directory/data, a controller and a broker in one
        run = broker.start()                 # run.said: the lines of its log
        broker.client.create({...}); broker.client.produce("orders-0", records); broker.client.view("orders-0")
        run.stop()                           # or run.kill()

One virtual machine asks for the whole time; the broker has one for each start.
"""

import json
import random
import re
import signal
import socket
import subprocess
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from kafkalog.storage.checkpoint.partition_metadata_file import random_topic_id
from tests.oracle import java

CLIENT = Path(__file__).with_name("BrokerClient.java")
LOGGING_POM = Path(__file__).with_name("logging_pom.xml")
PATIENCE_S = 180  # a broker starts in a few seconds, where the machine has nothing else to do
SMALL_MACHINE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
SPOKEN_OF = ("kafka.log", "org.apache.kafka.storage", "kafka.server.KafkaRaftServer")
STARTED = re.compile(r"^INFO kafka\.server\.KafkaRaftServer - .*Kafka Server started", re.MULTILINE)
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # How long one that was killed must wait until it is taken for another; and how long a slow machine may pause one.
    "broker.session.timeout.ms": 10000,
    "broker.heartbeat.interval.ms": 500,
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 300,
    "log.segment.delete.delay.ms": 100,
    "log.flush.start.offset.checkpoint.interval.ms": 300,
    "log.retention.ms": -1,
    "log.index.size.max.bytes": 65536,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
}


class Seen(NamedTuple):
    """A record as a consumer sees it; timestamp in ms."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class View(NamedTuple):
    """A partition from outside. `times`: offset and timestamp of the first record not before a time, by the time.

    `latest`: of the record with the largest timestamp. `producers`: id, epoch, last sequence, last timestamp,
    coordinator epoch, first offset of the open transaction; -1 where there is none.
    """

    low: int
    stable: int
    end: int
    uncommitted: list[Seen]
    committed: list[Seen]
    times: dict[int, tuple[int, int] | None]
    latest: tuple[int, int]
    producers: set[tuple[int, ...]]


class BrokerFailed(Exception):
    """It did not start; the text is its log."""


class Broker:
    """A cluster of one; a context manager. `data` is its data directory, formatted if it is not there."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        options: Sequence[str] = ("-Xmx320m", *SMALL_MACHINE),
        *,
        pom: Path = java.POM,
        user: int | None = None,
    ) -> None:
        """settings: besides those above; options: of its virtual machine; pom: names its version; user: runs it."""
        self.data = directory / "data"
        self._directory = directory
        self._config = directory / "server.properties"
        broker, controller = free_ports(2)
        self.address = f"127.0.0.1:{broker}"
        all_settings = SETTINGS | {
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": self.data,
            **(settings or {}),
        }
        self._config.write_text("".join(f"{name}={value}\n" for name, value in all_settings.items()))
        self._command = java.kafka_command(
            "kafka.Kafka", [str(self._config)], options=[*options, *_logging()], poms=(pom, LOGGING_POM)
        )
        self._user = user
        self._runs: list[Run] = []
        self._cleanup = ExitStack()
        self.client = Client(self.address, directory / "client.log")

    def __enter__(self) -> Self:
        self._cleanup.callback(self._kill_all)
        self._cleanup.enter_context(self.client)
        if not self.data.exists():
            assert self.client.ask("format", cluster=random_topic_id(), config=str(self._config)) == 0
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def _kill_all(self) -> None:
        for run in self._runs:
            run.kill()

    def start(self, patience: float = PATIENCE_S) -> "Run":
        """The broker, ready to be asked. BrokerFailed: it ended instead, or was not ready in time and was killed."""
        log = self._directory / f"broker-{len(self._runs)}.log"
        run = Run(self._command, log, self._user)
        self._runs.append(run)
        run.wait_until_started(patience)
        return run


class Run:
    """A broker from its start to its end."""

    def __init__(self, command: Sequence[str], log: Path, user: int | None) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, user=user)

    @property
    def text(self) -> str:
        return self._log.read_text("utf-8", "replace")

    @property
    def said(self) -> list[str]:
        """The lines of its log so far: level, logger, text."""
        return self.text.splitlines()

    @property
    def is_up(self) -> bool:
        return self._process.poll() is None

    def wait_until_started(self, patience: float) -> None:
        give_up = time.monotonic() + patience
        while not STARTED.search(self.text):
            if self._process.poll() is not None or time.monotonic() > give_up:
                self.kill()
                raise BrokerFailed(self.text)
            time.sleep(0.1)

    def stop(self) -> None:
        """Shut it down in order."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait()


class Client:
    """Kafka's own producer, consumer and admin client, in one virtual machine."""

    def __init__(self, address: str, log: Path) -> None:
        self._address = address
        self._log = log
        self._command = java.command(CLIENT, options=["-Xmx256m", *SMALL_MACHINE])

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        return self

    def __exit__(self, *_: object) -> None:
        java.end(self._process)

    def ask(self, what: str, **details: Any) -> Any:
        """The answer to one question; an AssertionError where it is an error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "broker": self._address, **details}) + "\n")
        self._process.stdin.flush()
        line = java.line_from(self._process, what)
        assert line, self._log.read_text("utf-8", "replace")
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def create(self, topics: Mapping[str, Mapping[str, str]], partitions: int = 1) -> None:
        """Topics with their settings."""
        self.ask("create", topics={name: {"partitions": partitions, "config": topics[name]} for name in topics})

    def produce(
        self,
        partition: str,
        records: Iterable[Seen],
        codec: str = "none",
        *,
        transaction: str | None = None,
        commit: bool | None = True,
    ) -> list[int]:
        """Send records, whose offsets are not looked at, and return those that they got.

        transaction: its producer's name; commit: False aborts it, None leaves it undecided for a quarter of an hour.
        """
        rows = [_packed(record) for record in records]
        offsets: list[int] = self.ask(
            "produce", partition=partition, codec=codec, records=rows, id=transaction, commit=commit
        )
        return offsets

    def delete_records(self, partition: str, before: int) -> int:
        """The first offset that is left."""
        low: int = self.ask("delete", partition=partition, before=before)
        return low

    def low(self, partition: str) -> int:
        """The first offset that there is."""
        low: int = self.ask("low", partition=partition)
        return low

    def view(self, partition: str, times: Iterable[int] = ()) -> View:
        """Return what a consumer and an admin client see."""
        found = self.ask("view", partition=partition, times=sorted(times))
        return View(
            low=found["low"],
            stable=found["stable"],
            end=found["end"],
            uncommitted=[_unpacked(row) for row in found["read_uncommitted"]],
            committed=[_unpacked(row) for row in found["read_committed"]],
            times={time: answer and tuple(answer) for time, answer in found["times"]},
            latest=tuple(found["latest"]),
            producers={tuple(each) for each in found["producers"]},
        )


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses now, and that no system gives to who asks for any."""
    found: list[int] = []
    with ExitStack() as open_sockets:
        while len(found) < count:
            port, each = random.randrange(12_000, 30_000), open_sockets.enter_context(socket.socket())
            with suppress(OSError):
                each.bind(("127.0.0.1", port))
                found.append(port)
    return found


def _logging() -> list[str]:
    """Warnings of all, and what the log layer is about; a line says level, logger and text."""
    name = "-Dorg.slf4j.simpleLogger"
    levels = [f"{name}.log.{logger}=info" for logger in SPOKEN_OF]
    return [f"{name}.defaultLogLevel=warn", f"{name}.showThreadName=false", *levels]


def _packed(record: Seen) -> list[Any]:
    headers = [[name, _base64(value)] for name, value in record.headers]
    return [record.timestamp, _base64(record.key), _base64(record.value), headers]


def _unpacked(row: list[Any]) -> Seen:
    offset, timestamp, key, value, headers = row
    return Seen(offset, timestamp, _bytes(key), _bytes(value), tuple((name, _bytes(each)) for name, each in headers))


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
