"""The processes that read: started when first asked, one question at a time, a line each way.

`Worker.ask(case, path)` gives the answer of `readers.py` or `PeerWorker.java`: seconds, items, bytes. `watched` asks a
fresh process once and watches its memory from outside, the same way for every language.
"""

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.oracle import java

READERS = Path(__file__).with_name("readers.py")
JAVA_WORKER = Path(__file__).resolve().parents[1] / "java" / "PeerWorker.java"
JAVA_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")  # as Kafka's own scripts start a broker
# Segments given to a broker may have indexes of any size.
BROKER_SETTINGS = {"log.index.size.max.bytes": 10 << 20}


@dataclass(frozen=True)
class Answer:
    """One reading: how long it took, on the clock or on the reading thread's processor, and how much was read."""

    seconds: float
    items: int
    bytes: int

    @property
    def rate(self) -> float:
        """Millions of items a second."""
        return self.items / self.seconds / 1e6


@dataclass(frozen=True)
class Memory:
    """What a process held at most, in MB: in all, and without mapped files, whose pages the system can drop."""

    peak: float
    peak_anonymous: float


class ReaderFailed(Exception):
    """A reader could not do what it was asked; the text is its own."""


def command(reader: str) -> list[str]:
    """How to start a reader."""
    if reader == "java":
        return java.command(JAVA_WORKER, options=JAVA_OPTIONS)
    return [sys.executable, "-P", str(READERS), reader]


class Worker:
    """A reader's process."""

    def __init__(self, reader: str, clock: str = "wall", program: list[str] | None = None) -> None:
        """program: what answers, if it is not one that reads segments."""
        self.reader = reader
        self.clock = clock
        self.process = subprocess.Popen(
            program or command(reader), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._complaints: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stderr
        self._complaints.extend(line.rstrip() for line in self.process.stderr)

    def ask(self, case: str, path: Path) -> Answer:
        """One reading of `path`."""
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(f"{case}\t{path}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._listener.join(5)
            raise ReaderFailed(f"{self.reader}, {case}: {self._last_words()}")
        fields = json.loads(line)
        return Answer(fields["cpu_seconds" if self.clock == "cpu" else "seconds"], fields["items"], fields["bytes"])

    def _last_words(self) -> str:
        """Java says what went wrong before it says where, Python after it."""
        said = self._complaints or ["ended without a word"]
        return next((line for line in said if line.startswith("Exception in ")), said[-1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError):  # it is gone already
            self.process.stdin.close()
        self.process.wait()


def watched(
    reader: str, case: str, path: Path, clock: str = "wall", program: list[str] | None = None
) -> tuple[Answer, Memory]:
    """One reading in a fresh process. Linux tells the highest value in all; none of anonymous memory: sampled."""
    with Worker(reader, clock, program) as worker:
        samples: list[float] = []
        done = threading.Event()
        sampler = threading.Thread(target=_sample, args=(worker.process.pid, samples, done))
        sampler.start()
        try:
            answer = worker.ask(case, path)
        finally:
            done.set()
            sampler.join()
        return answer, Memory(_status(worker.process.pid)["VmHWM"], max(samples, default=0.0))


def _sample(pid: int, samples: list[float], done: threading.Event) -> None:
    while not done.is_set():
        samples.append(_status(pid).get("RssAnon", 0.0))  # none: the process has ended
        time.sleep(0.002)


def _status(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    fields = (line.split() for line in lines if line.startswith(("VmHWM", "RssAnon")))
    return {name.rstrip(":"): int(kilobytes) / 1e3 for name, kilobytes, _ in fields}
