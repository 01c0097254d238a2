"""The benchmarks of the inspector run, on little data: what they call and look for is still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

ROOT = Path(__file__).parents[2]


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_benchmarks_of_the_inspector_measure_each_part_and_each_job(tmp_path: Path) -> None:
    # The parts for large batches differ from these only in their data.
    parts = ["start", "topics", "single", "screens1", "through1"]
    small = ("--dir", str(tmp_path), "--records", "32000", "--partitions", "4", "--starts", "1")
    measured = run("asv_bench/inspector.py", *small, *(f"--only={part}" for part in parts))
    assert "was not seen" not in measured
    assert {line.split()[0] for line in measured.splitlines()[1:]} == set(parts)
    keys = run("-m", "asv_bench.inspector_keys", str(tmp_path / "single-0"), "--seconds", "0.2")
    jobs = [line for line in keys.splitlines() if "; loop late" in line]
    assert [line.split("  ")[0].strip() for line in jobs] == [
        "nothing", "verify", "search", "search, all match", "statistics",
    ]  # fmt: skip
    # Each of them has found the job that it measures beside.
    assert all("MiB" in line for line in jobs[1:]), keys
