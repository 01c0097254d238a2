"""Any script finds `format("kafkalog")` once kafkalog is installed: nothing is registered, no PYTHONPATH is set."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from kafkalog.spark.java import missing_java
from tests.helpers import golden
from tests.spark.sessions import SMALL

pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)

pytestmark = [pytest.mark.spark]

SECONDS = 300
# As in docs/spark.md.
SCRIPT = f"""
import os
import sys

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[1]")
for name, value in {SMALL!r}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print("records:", spark.read.format("kafkalog").load(sys.argv[1]).count())
spark.stop()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    wrong = missing_java()
    if wrong is not None:
        pytest.skip(wrong)
    path = tmp_path / "elsewhere" / "job.py"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


def records_found(python: Path | str, script: Path) -> str:
    """The last line that the script prints, with this interpreter."""
    hidden = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [python, script, golden.ARCHIVES / "v2-zstd-0"],
        cwd=script.parent,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()[-1]


def test_a_script_in_another_directory_finds_the_source_as_the_tests_have_it_installed(script: Path) -> None:
    """In a clone this is an editable install."""
    assert records_found(sys.executable, script) == "records: 1200"


def test_a_script_finds_the_source_that_a_wheel_has_put_into_site_packages(script: Path, tmp_path: Path) -> None:
    directory = tmp_path / "environment"
    venv.create(directory, with_pip=False)
    places = {"base": str(directory), "platbase": str(directory)}
    site_packages = Path(sysconfig.get_path("purelib", vars=places))
    for package in ("kafkalog", "pyspark_kafkalog"):
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        shutil.copytree(
            Path(found.origin).parent,
            site_packages / package,
            ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.pyx"),
        )
    # What kafkalog needs is that of this environment, whose own .pth files do not count there.
    (site_packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert records_found(directory / "bin" / "python", script) == "records: 1200"
