"""Readers beside a writer that truncates, for a minute; by hand for longer, see `soak`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_readers_beside_a_writer_that_truncates_find_nothing_in_a_minute() -> None:
    environment = os.environ | {"PYTHONPATH": f"{Path(kafkalog.__file__).parents[1]}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.crash.soak", "--minutes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert "readers with findings: 0" in done.stderr
