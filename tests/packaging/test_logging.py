"""Where the library's messages go: nowhere, unless a program asks for them. The command and Spark show warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from kafkalog import Record
from tests.helpers.running import COMMAND

pytestmark = pytest.mark.slow

TORN = b"\0\0\0\0\0\0\0\x02\0\0\1\0torn"
OPEN = "import sys, kafkalog; kafkalog.open(sys.argv[1], 'a').close()"
PLAN_WITH_SPARK = """
import sys
from kafkalog.spark import ReadOptions, plan_splits
plan_splits(ReadOptions.parse({"path": sys.argv[1], "startingTimestamp": 1_700_000_000}))
"""


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """A log of two records whose writer was killed in the third."""
    directory = tmp_path / "data" / "orders-0"
    with kafkalog.open(directory, "a") as log:
        log.append([Record(b"1"), Record(b"2")])
        segment = log.segments[-1].path
    (directory.parent / ".kafka_cleanshutdown").unlink()
    with segment.open("ab") as file:
        file.write(TORN)
    return directory


def stderr_of(*command: str | Path) -> str:
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return ran.stderr


def test_the_library_prints_nothing_by_itself(torn: Path) -> None:
    assert stderr_of(sys.executable, "-c", OPEN, torn) == ""


def test_a_program_that_sets_up_logging_sees_what_a_recovery_cut_off(torn: Path) -> None:
    shown = stderr_of(sys.executable, "-c", f"import logging; logging.basicConfig(); {OPEN}", torn)
    assert "WARNING:kafkalog.storage." in shown
    assert f"{len(TORN)} bytes" in shown


def test_the_command_prints_the_warnings_of_the_library_as_lines_of_its_own(torn: Path) -> None:
    lines = stderr_of(*COMMAND, "append", torn).splitlines()
    assert f"kafkalog: {torn}" in lines[0]
    assert f"{len(TORN)} bytes" in lines[0]


def test_warnings_are_on_stderr_in_a_process_of_spark_which_sets_up_no_logging(torn: Path) -> None:
    assert "are seconds meant?\n" in stderr_of(sys.executable, "-c", PLAN_WITH_SPARK, torn)
