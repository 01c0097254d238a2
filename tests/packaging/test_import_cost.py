"""Importing kafkalog, asking for help and opening the inspector import no module that is not needed yet.

A new interpreter tells which modules were imported, so that no test depends on the clock.
"""

import importlib.util
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

NOT_FOR_IMPORT = {"click", "lz4", "pyarrow", "pyspark", "rich", "textual", "zstandard"}


def imported_by(statement: str) -> set[str]:
    # -P: the package under test is the installed one, wherever the tests are run from.
    code = f"import sys\n{statement}\nprint('modules', *sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.rsplit("modules ", 1)[1].split())


def test_importing_kafkalog_imports_no_codec_and_no_screen() -> None:
    assert imported_by("import kafkalog").isdisjoint(NOT_FOR_IMPORT)


def test_asking_for_help_imports_no_numpy() -> None:
    statement = """
from kafkalog.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code, end.code
"""
    assert "numpy" not in imported_by(statement)


def test_a_check_imports_nothing_that_recovers_or_repairs() -> None:
    imported = imported_by("import kafkalog.fsck; from kafkalog.fsck.verifying import verify_place")
    assert imported.isdisjoint(
        {"asyncio", "kafkalog.fsck.recovering", "kafkalog.fsck.repairing", "kafkalog.storage.log", "multiprocessing"}
    )


@pytest.mark.skipif(importlib.util.find_spec("textual") is None, reason="Textual is not installed")
def test_the_inspector_shows_partitions_before_it_imports_what_reads_them() -> None:
    statement = """
import kafkalog.cli.inspect
import kafkalog.inspector.app
import kafkalog.inspector.model.model
import kafkalog.inspector.screens.topics
"""
    assert imported_by(statement).isdisjoint(
        {"numpy", "kafkalog.storage.log", "pygments", "textual.widgets._text_area"}
    )
