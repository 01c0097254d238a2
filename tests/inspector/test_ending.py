"""The program in a terminal of its own, told to end from outside."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


pytest.importorskip("textual")

LOG = Path(__file__).parents[1] / "data" / "v2-zstd-0"
ALTERNATE_ON, ALTERNATE_OFF, MOUSE_OFF = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1000l"
PATIENCE_SECONDS = 60


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_and_restores_the_terminal(number: signal.Signals) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalog.cli", "inspect", str(LOG)],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    os.close(theirs)
    try:
        seen = read_until(ours, b"1,200")
        assert ALTERNATE_ON in seen
        process.send_signal(number)
        seen = read_until(ours, None)
        assert ALTERNATE_OFF in seen
        assert MOUSE_OFF in seen
        assert process.wait(PATIENCE_SECONDS) == 128 + number
    finally:
        process.kill()
        process.wait()
        os.close(ours)


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
