"""Many runs of one kind or of all: a process that stops, a disk that fails, power that goes, SIGKILL.

    python -m tests.crash.run --runs 1000 [--kind stop|strict|power|full|kill] [--seed 7]

Each failed run is printed with its kind, seed, steps and call; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import errno
import logging
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from tests.crash import kills, runs
from tests.crash.disk import Fail

Run = Callable[[Path, int, int, int], None]


def _full(root: Path, seed: int, at: int, steps: int) -> None:
    rng = random.Random(seed ^ at)
    times, code = rng.choice([1, 2, 5, 1000]), rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT])
    runs.failing_at(root, seed, Fail(at, times, code, half=rng.random() < 0.5), steps)


KINDS: dict[str, Run] = {
    "stop": runs.stopped_at,
    "strict": lambda *run: runs.power_lost_at(*run, strictly=True),
    "power": lambda *run: runs.power_lost_at(*run, strictly=False),
    "full": _full,
}


def one(kind: str, seed: int, steps: int) -> str | None:
    """Make one run; return a description of its failure, or None."""
    with tempfile.TemporaryDirectory(dir=_memory()) as directory:
        root = Path(directory)
        at = 0
        try:
            if kind == "kill":
                kills.killed(root, seed)
                return None
            (root / "counted").mkdir()
            (root / "run").mkdir()
            at = random.Random(seed).randint(1, runs.calls_of(root / "counted", seed, steps))
            KINDS[kind](root / "run", seed, at, steps)
        except Exception:  # noqa: BLE001 - any failure is printed, and the next run begins
            return f"kind {kind}, seed {seed}, steps {steps}, call {at}\n{traceback.format_exc()}"
    return None


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--kind", choices=[*KINDS, "kill"], action="append")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rng = random.Random(given.seed)
    kinds = given.kind or [*KINDS, "kill"]
    bad = 0
    for i in range(given.runs):
        with redirect_stderr(StringIO()):
            found = one(kinds[i % len(kinds)], rng.randrange(1 << 30), rng.choice([5, 15, 30]))
        if found is not None:
            bad += 1
            print(found)
    print(f"{given.runs} runs of {', '.join(kinds)}: {bad} failed")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
