"""The program in a terminal of its own, told to end from outside."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from tests.helpers.inspected import segment_file
from tests.helpers.processes import PROC, descendants, is_gone
from tests.reference.encode import V2Batch, records

pytestmark = pytest.mark.slow
LOG = Path(__file__).parents[1] / "data" / "v2-zstd-0"
ALTERNATE_ON, ALTERNATE_OFF, MOUSE_OFF = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1000l"
PATIENCE_SECONDS = 60


class Inspector:
    """The program in a terminal that it has as its own; `descriptor` is the other side of the terminal."""

    def __init__(self, log: Path, before: str = "") -> None:
        self.descriptor, theirs = pty.openpty()
        command = ["sh", "-c", before + 'exec "$@" <>"$0" >&0 2>&0', os.ttyname(theirs)]
        self.process = subprocess.Popen(
            [*command, sys.executable, "-m", "kafkalog.cli", "inspect", str(log)],
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        # Open until the program has opened it too.
        self._theirs = theirs

    def is_shown(self, sees: bytes) -> bool:
        seen = self.reads(sees)
        os.close(self._theirs)
        return ALTERNATE_ON in seen

    def reads(self, wanted: bytes | None) -> bytes:
        return read_until(self.descriptor, wanted)

    def types(self, keys: bytes) -> None:
        os.write(self.descriptor, keys)

    def closes(self) -> None:
        os.close(self.descriptor)
        self.descriptor = -1

    def ended(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def opened() -> Iterator[Callable[..., Inspector]]:
    """Start the program and wait for its first screen."""
    started: list[Inspector] = []

    def start(log: Path = LOG, before: str = "", sees: bytes = b"1,200") -> Inspector:
        started.append(Inspector(log, before))
        assert started[-1].is_shown(sees)
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        if each.descriptor >= 0:
            os.close(each.descriptor)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_and_restores_the_terminal(
    opened: Callable[..., Inspector], number: signal.Signals
) -> None:
    inspector = opened()
    inspector.process.send_signal(number)
    seen = inspector.reads(None)
    assert ALTERNATE_OFF in seen
    assert MOUSE_OFF in seen
    assert inspector.ended() == 128 + number


@pytest.mark.parametrize("before", ["", "trap '' HUP; "])
def test_the_program_ends_with_its_terminal_whether_it_hears_the_signal_or_not(
    opened: Callable[..., Inspector], before: str
) -> None:
    inspector = opened(before=before)
    inspector.closes()
    assert inspector.ended() == 128 + signal.SIGHUP


def test_a_terminal_that_takes_nothing_more_does_not_keep_the_program(opened: Callable[..., Inspector]) -> None:
    inspector = opened()
    # Each key has a screen drawn, and nobody reads.
    for _ in range(40):
        inspector.types(b"12345678")
        time.sleep(0.05)
    inspector.process.terminate()
    assert inspector.ended() == 128 + signal.SIGTERM


@pytest.mark.skipif(not PROC.exists(), reason="processes are looked up in /proc")
def test_a_job_ends_with_the_terminal(opened: Callable[..., Inspector], tmp_path: Path) -> None:
    """Backtracking for ever, it does nothing else."""
    data = V2Batch(records(b"a" * 5_000 + b"!")).encoded()
    inspector = opened(segment_file(tmp_path / "endless-0", data), sees=b"leader epochs")
    inspector.types(b"/(a|a)+$\x12\r")
    inspector.reads(b"incomplete")
    jobs = descendants(inspector.process.pid)
    assert jobs
    inspector.closes()
    inspector.ended()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all(map(is_gone, jobs)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def read_until(terminal: int, wanted: bytes | None) -> bytes:
    """What is written until that is seen, or nobody is there who could write."""
    seen, until = b"", time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until and (wanted is None or wanted not in seen):
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:
                break
            if not piece:
                break
            seen += piece
    return seen
