"""A writer is stopped, refused or cut off from power at one of its system calls, chosen by a seed.

Here a sample; `python -m tests.crash.run --runs 1000` makes as many runs as you like.
"""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.crash import runs
from tests.crash.disk import Fail

STEPS = 25
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 36))]


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory in memory where the system has such."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        yield Path(directory)


def _calls(directory: Path, seed: int, share: float) -> int:
    """Return the number of the call at this share of all calls of the run."""
    (directory / "counted").mkdir()
    return max(1, int(runs.calls_of(directory / "counted", seed, STEPS) * share))


def _share(seed: int) -> float:
    return (seed * 0.618 + 0.3) % 1


@pytest.mark.parametrize("seed", SEEDS)
def test_every_appended_record_is_there_once_after_the_process_stops_at_a_call(root: Path, seed: int) -> None:
    runs.stopped_at(root, seed, _calls(root, seed, _share(seed)), STEPS)


@pytest.mark.parametrize("strictly", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_flushed_record_is_there_once_after_the_power_is_lost_at_a_call(
    root: Path, seed: int, strictly: bool
) -> None:
    runs.power_lost_at(root, seed, _calls(root, seed, _share(seed)), STEPS, strictly=strictly)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("times", [1, 1000])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_appends_refused_by_the_disk_are_not_in_the_log_and_no_other_is_lost(
    root: Path, half: bool, times: int, code: int
) -> None:
    seed = 2 * times + half
    (root / "run").mkdir()
    at = _calls(root, seed, _share(seed + code))
    runs.failing_at(root / "run", seed, Fail(at, times, code, half), STEPS)


@pytest.mark.slow
def test_every_appended_record_is_there_once_after_the_process_is_killed() -> None:
    command = [sys.executable, "-m", "tests.crash.run", "--kind", "kill", "--runs", "12"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
