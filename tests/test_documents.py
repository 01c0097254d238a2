"""What README.md and docs/ show is run: the output of each command and program is the one that is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalog.spark.java import missing_java

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/index.md", "docs/tutorials.md", "docs/python.md", "docs/writing.md")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES = re.compile(r"in \d+\.\d s(, [\d.]+ \w+/s)?")
NOT_RUN = "$ make "
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
    "PYSPARK_PYTHON": sys.executable,
    "TZ": "UTC",
}

pytestmark = pytest.mark.slow


class Block(NamedTuple):
    """A program or commands, and the output that follows; None if none is shown."""

    page: str
    language: str
    text: str
    shown: str | None


def blocks(page: str) -> list[Block]:
    found = FENCED.findall((ROOT / page).read_text())
    following = [*found[1:], ("", "")]
    return [
        Block(page, language, text, after if kind == "text" else None)
        for (language, text), (kind, after) in zip(found, following, strict=True)
    ]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with `demo`, in which a block is run."""
    subprocess.run([sys.executable, "-m", "kafkalog.cli", "demo", "demo"], cwd=tmp_path, check=True, env=ENVIRONMENT)
    return tmp_path


def output_of(command: list[str], home: Path) -> str:
    """What a program prints; its exit code may tell of findings."""
    ran = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False, timeout=120, env=ENVIRONMENT)
    assert (ran.returncode in (0, 1), ran.stderr if "pyspark" not in command[-1] else "") == (True, "")
    return TIMES.sub("in 0.1 s", ran.stdout)


def run_program(block: Block, home: Path) -> None:
    for package in ("pyspark", "duckdb", "polars", "pyarrow"):
        if f"import {package}" in block.text or f"from {package}" in block.text:
            pytest.importorskip(package)
    if "pyspark" in block.text and (why := missing_java()):
        pytest.skip(why)
    printed = output_of([sys.executable, "-c", block.text], home)
    assert block.shown is None or printed == block.shown


def run_commands(block: Block, home: Path) -> None:
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
        if command.startswith("kafkalog demo"):
            shutil.rmtree(home / "demo")
        assert output_of(["bash", "-c", command], home) == TIMES.sub("in 0.1 s", shown)


@pytest.mark.parametrize("page", PAGES)
def test_all_blocks_of_a_page_one_after_the_other_print_what_is_shown(
    page: str, home: Path, subtests: pytest.Subtests
) -> None:
    for block in blocks(page):
        run = {"python": run_program, "console": run_commands}.get(block.language)
        if run is not None and not block.text.startswith(NOT_RUN):
            with subtests.test(block.text):
                run(block, home)


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_are_well_typed(page: str, tmp_path: Path) -> None:
    files = []
    for number, block in enumerate(blocks(page)):
        if block.language == "python":
            files.append(tmp_path / f"block_{number}.py")
            files[-1].write_text(block.text)
    pytest.importorskip("mypy")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), *map(str, files)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md", *PAGES[1:]])
def test_each_link_to_a_file_leads_to_one(page: str) -> None:
    for target in re.findall(r"\]\(([^):#]+)(?:#[\w-]*)?\)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", ["DESIGN.md", "CONTRIBUTING.md"])
def test_each_file_that_is_named_for_developers_exists(page: str) -> None:
    named = set(re.findall(r"`([\w./-]+?(?:\.(?:py|pyx|pxd|md|json)|/))(?:: \w+)?`", (ROOT / page).read_text()))
    tops = ("asv_bench", "docs", "examples", "inspector", "kafkalog", "pyspark_kafkalog", "tests")
    there = "\n".join(f"/{path.relative_to(ROOT)}" for top in tops for path in [ROOT / top, *(ROOT / top).rglob("*")])
    there += "\n" + "\n".join(f"/{path.name}" for path in ROOT.iterdir())
    assert len(named) > 10
    assert {name for name in named if f"/{name.rstrip('/')}\n" not in f"{there}\n" and "NAME" not in name} == set()
