"""`make demo` on the bundled archives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import golden


@pytest.mark.slow
def test_the_demo_lists_verifies_and_prints_and_leaves_nothing(tmp_path: Path) -> None:
    command = ["make", "--silent", "--old-file", ".venv/compiled", "demo", f"BIN={Path(sys.executable).parent}"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        command, cwd=golden.ARCHIVES.parents[1], env=environment, capture_output=True, text=True, check=True
    )
    shown = [line.removeprefix("+ ") for line in run.stderr.splitlines() if line.startswith("+ kafkalog ")]
    assert [line.split()[1] for line in shown] == ["ls", "verify", *["dump"] * 5]
    assert "0 errors, 0 warnings" in run.stdout
    assert list(tmp_path.iterdir()) == []
