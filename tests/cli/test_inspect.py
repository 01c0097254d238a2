"""`kafkalog inspect`: what it needs, and what it says where that is not there."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

import inspector
from cli.running import Kafkalog

HAS_TEXTUAL = importlib.util.find_spec("textual") is not None


def test_headless_prints_what_a_screen_shows(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", "topics", "-o", "json")
    assert ran.code == 0
    assert [row["name"] for row in json.loads(ran.out)["rows"]] == ["billing-0", "orders-0", "orders-2", "orders-10"]
    assert "orders-10" in kafkalog("inspect", data_dir, "--headless", "topics").out


def test_headless_needs_no_textual(kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert kafkalog("inspect", data_dir / "orders-0", "--headless", "records").code == 0


def test_a_screen_that_is_none_is_answered_with_all_there_are(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", "help")
    assert ran.code == 2
    assert "there are topics, segments, map, batches, records, record" in ran.err


def test_a_screen_of_a_partition_is_not_one_of_a_data_directory(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", "batches")
    assert ran.code == 2
    assert "give the directory of one" in ran.err


def test_output_goes_with_headless(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "-o", "json")
    assert (ran.code, "--headless" in ran.err) == (2, True)


@pytest.mark.parametrize("arguments", [[], ["--headless", "topics"]])
def test_a_path_that_is_not_there_is_unreadable(kafkalog: Kafkalog, tmp_path: Path, arguments: list[str]) -> None:
    ran = kafkalog("inspect", tmp_path / "none", *arguments)
    assert ran.code in {2, 3}
    assert "Traceback" not in ran.err


def test_without_textual_the_extra_is_named(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    for name in [name for name in sys.modules if name.startswith("textual.") or name == "inspector.app"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(inspector, "app", raising=False)
    ran = kafkalog("inspect", data_dir)
    assert ran.code == 3
    assert "pip install 'kafkalog[inspector]'" in ran.err


@pytest.mark.skipif(not HAS_TEXTUAL, reason="Textual is not installed")
def test_without_a_terminal_headless_is_named(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir)
    assert ran.code == 2
    assert "--headless" in ran.err
