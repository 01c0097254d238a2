"""Work in several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# A task takes no time, so that a signal finds the parent at any place of its loop.
PROGRAM = """
import signal
from kafkalog.fsck.processes import each_result

def work(task, advance):
    return task

def interrupt(*_):
    raise KeyboardInterrupt

if __name__ == "__main__":
    signal.signal(signal.SIGALRM, interrupt)
    for number, _ in enumerate(each_result(work, range(2000), 2, print)):
        if number == 20:
            signal.setitimer(signal.ITIMER_REAL, {delay})
"""


@pytest.mark.parametrize("delay", [0.001, 0.02, 0.04])
def test_an_interrupt_at_any_moment_ends_all_processes(delay: float, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(delay=delay))
    ended = subprocess.run([sys.executable, program], capture_output=True, timeout=30, check=False)
    assert b"KeyboardInterrupt" in ended.stderr
