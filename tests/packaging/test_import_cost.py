"""What an import costs is what it imports: asked of a new interpreter, by name and not by the clock."""

import importlib.util
import subprocess
import sys

import pytest

NOT_FOR_IMPORT = {"click", "lz4", "pyarrow", "pyspark", "rich", "textual", "zstandard"}


def imported_by(statement: str) -> set[str]:
    # -P: the package under test is the installed one, wherever the tests are run from.
    code = f"import sys\n{statement}\nprint('modules', *sys.modules)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.rsplit("modules ", 1)[1].split())


def test_importing_kafkalog_imports_no_codec_and_no_screen() -> None:
    assert imported_by("import kafkalog").isdisjoint(NOT_FOR_IMPORT)


@pytest.mark.skipif(importlib.util.find_spec("kafkalog.cli") is None, reason="this build has no command line")
def test_asking_for_help_imports_no_numpy() -> None:
    statement = """
from kafkalog.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert not end.code, end.code
"""
    assert "numpy" not in imported_by(statement)
