"""Python started in a clone that is not compiled imports the clone, and not the installed package: errors say so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TREE / "setup.py").is_file(), reason="the source tree is not here"),
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("kafkalog", "pyspark_kafkalog"):
        shutil.copytree(TREE / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    return tmp_path


def run_in(directory: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env={**environment, "PYTHONPATH": str(TREE)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_import_error_names_the_directory_and_the_remedy(clone: Path) -> None:
    run = run_in(clone, "import kafkalog; kafkalog.Record(b'value')")
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: {clone}/ holds kafkalog's source, which is not compiled")
    assert f"pip install -e {clone}/" in last
    assert "start Python in another directory" in last


def test_the_module_that_spark_imports_warns_instead_of_raising(clone: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)
    run = run_in(clone, "import pyspark_kafkalog; print(hasattr(pyspark_kafkalog, 'DefaultSource'))")
    assert (run.returncode, run.stdout) == (0, "False\n")
    assert f'Spark will not find format("kafkalog"): {clone}/ holds kafkalog\'s source' in run.stderr
