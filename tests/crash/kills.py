"""A writer in a process of its own that is killed with SIGKILL, at any moment, again and again in one directory.

writer   reports each operation through a pipe before it begins, and once it has returned
here     reads the pipe, kills, opens the log and compares it with the reports
"""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import kafkalog
from tests.crash.history import History, Operation
from tests.crash.workload import CONFIG, NAME, Writer, inspect, lasts_of, records_of, retry

# How long a writer lives at most, s.
LONGEST = 0.06
KILLS = 3


class _Reporter:
    """Sends what a `History` records through a pipe, unbuffered, so that a kill loses none of it."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def begin(self, operation: Operation) -> None:
        self._send(operation.to_json())

    def done(self, log_start: int) -> None:
        self._send(str(log_start))

    def failed(self, log_end: int, *, refused: bool, whole: bool) -> NoReturn:
        raise AssertionError("nothing fails here")

    def _send(self, line: str) -> None:
        os.write(self._pipe, line.encode() + b"\n")


def _now() -> int:
    return time.time_ns() // 1_000_000


def _write(root: Path, seed: int, pipe: int) -> NoReturn:
    """In the child: work until somebody ends it."""
    try:
        log = kafkalog.open(root / NAME, "a", CONFIG)
        os.write(pipe, b"open\n")
        writer = Writer(log, random.Random(seed), _Reporter(pipe), _now(), background=int, checkpoint=int)
        while True:
            writer.step()
    except BaseException:  # noqa: BLE001 - the parent shows it
        os.write(pipe, traceback.format_exc().encode())
    finally:
        os._exit(1)


def killed(root: Path, seed: int) -> None:
    """Start a writer, kill it and look, a few times over. AssertionError: the log is not what it must be."""
    rng, history = random.Random(seed), History()
    for _ in range(KILLS):
        _replay(_reports_until_killed(root, rng), history)
        with kafkalog.open(root / NAME, "a", CONFIG) as log:
            history.check(records_of(log))
            inspect(log, history)
            retry(log, history.pending, _now())
            history.adopt(records_of(log), lasts_of(log), log.log_start_offset, log.log_end_offset)
            if rng.random() < 0.5:
                # The next writer begins where this one was given up, as after another crash.
                log.abandon()


def _reports_until_killed(root: Path, rng: random.Random) -> bytes:
    reading, writing = os.pipe()
    seed = rng.randrange(1 << 30)
    child = os.fork()
    if child == 0:
        os.close(reading)
        _write(root, seed, writing)
    os.close(writing)
    try:
        reports = os.read(reading, 1 << 16)
        end = time.monotonic() + rng.random() * LONGEST
        while (left := end - time.monotonic()) > 0 and reports:
            time.sleep(min(left, 0.002))
            os.set_blocking(reading, False)
            with suppress(BlockingIOError):
                reports += os.read(reading, 1 << 20)
    finally:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    os.set_blocking(reading, True)
    while more := os.read(reading, 1 << 20):
        reports += more
    os.close(reading)
    assert os.WIFSIGNALED(status), f"the writer ended by itself: {reports[-4000:].decode()}"
    return reports


def _replay(reports: bytes, history: History) -> None:
    for line in reports.decode().splitlines()[1:]:
        if line.startswith("{"):
            history.begin(Operation.from_json(line))
        else:
            history.done(int(line))
