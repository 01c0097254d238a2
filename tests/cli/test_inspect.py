"""`kafkalog inspect`: what it needs, and what it says where that is not there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog import inspector
from kafkalog.inspector import headless
from tests.helpers.running import COMMAND, Kafkalog, batch, segment

HAS_TEXTUAL = importlib.util.find_spec("textual") is not None


def test_headless_prints_what_a_screen_shows(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", "topics", "-o", "json")
    assert ran.code == 0
    partitions = [(row["topic"], row["partition"]) for row in json.loads(ran.out)["partitions"]]
    assert partitions == [("billing", 0), ("orders", 0), ("orders", 2), ("orders", 10)]
    assert "orders-10" in kafkalog("inspect", data_dir, "--headless", "topics").out


def test_headless_prints_a_range_a_segment_and_a_number_of_rows(kafkalog: Kafkalog, data_dir: Path) -> None:
    log = data_dir / "orders-0"
    ran = kafkalog("inspect", log, "--headless", "records", "--from", "earliest+1", "--limit", "1", "-o", "jsonl")
    assert (ran.code, [json.loads(line)["offset"] for line in ran.out.splitlines()]) == (0, [1])
    ran = kafkalog("inspect", log, "--headless", "map", "--segment", "0", "--limit", "2", "-o", "jsonl")
    assert [json.loads(line)["segment"] for line in ran.out.splitlines()] == [0, 0]
    assert kafkalog("inspect", log, "--headless", "map", "--to", "3").code == 2
    ran = kafkalog("inspect", log, "--headless", "map", "--segment", "5")
    assert (ran.code, f"{log} has no segment 5; it has 0" in ran.err) == (2, True)


def test_the_options_of_a_search_are_refused_for_other_screens(kafkalog: Kafkalog, data_dir: Path) -> None:
    for options in (["--find", "x"], ["--regex"], ["--in", "key"]):
        ran = kafkalog("inspect", data_dir, "--headless", "topics", *options)
        assert (ran.code, "require --headless search" in ran.err) == (2, True)


def test_headless_needs_no_textual(kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    assert kafkalog("inspect", data_dir / "orders-0", "--headless", "records").code == 0


@pytest.mark.parametrize(
    ("screen", "command"),
    [
        ("topics", ["status"]),
        ("batches", ["dump", "--batches", "--skip-damage"]),
        ("records", ["dump", "--control", "--skip-damage"]),
        ("verify", ["verify", "-q"]),
    ],
)
def test_screens_that_commands_have_are_printed_by_them(
    kafkalog: Kafkalog, data_dir: Path, screen: str, command: list[str]
) -> None:
    name, *options = command
    shown, printed = kafkalog("inspect", data_dir, "--headless", screen), kafkalog(name, data_dir, *options)
    assert shown.code == printed.code == 0
    # A check says how long it took.
    assert screen == "verify" or shown.out == printed.out


def test_the_screens_are_listed(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", "--headless", "help")
    assert (ran.code, ran.out.split()) == (0, list(headless.NAMES))


def test_a_path_that_may_not_be_read_is_unreadable(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_, **__: False)
    monkeypatch.setattr("kafkalog.inspector.model.model.discover", _refused)
    ran = kafkalog("inspect", data_dir, "--headless", "segments")
    assert (ran.code, "Permission denied" in ran.err, "Invalid value" in ran.err) == (3, True, False)


def _refused(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_directory_too_high_is_answered_with_the_one_that_was_meant(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir.parent, "--headless", "topics")
    assert (ran.code, f"did you mean {data_dir}?" in ran.err) == (3, True)


def test_mistakes_of_the_config_file_are_reported_on_stderr(kafkalog: Kafkalog, data_dir: Path, tmp_path: Path) -> None:
    config = tmp_path / "inspector.toml"
    config.write_text('timezone = "epoch"\n[keymap]\ngo_to = "notakey"\n')
    ran = kafkalog("inspect", data_dir / "orders-0", "--headless", "segments", "--config", config)
    assert (ran.code, "keymap.go_to: expected keys" in ran.err) == (0, True)
    assert "1767225600000" in ran.out
    assert "2026-01-01 00:00:00" in kafkalog("inspect", data_dir / "orders-0", "--headless", "segments", "--utc").out


@pytest.mark.slow
def test_headless_output_is_utf8_in_every_locale(data_dir: Path) -> None:
    segment(data_dir / "words-0", 0, batch("né".encode()))
    done = subprocess.run(
        [*COMMAND, "inspect", data_dir / "words-0", "--headless", "record"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "né".encode() in done.stdout, done.stderr) == (0, True, b"")


def test_text_has_no_json_in_it(kafkalog: Kafkalog, data_dir: Path) -> None:
    for screen in ("segments", "transactions", "verify", "statistics"):
        assert not {"{", "[", "null,"} & set(kafkalog("inspect", data_dir / "orders-0", "--headless", screen).out)


def test_a_screen_that_is_none_is_answered_with_all_there_are(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", "screen")
    assert ran.code == 2
    assert "expected one of topics, segments, map, batches, records, record" in ran.err


def test_a_screen_of_a_partition_is_not_one_of_a_data_directory(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", "map")
    assert ran.code == 2
    assert "give the directory of one" in ran.err


@pytest.mark.parametrize("screen", ["topics", "segments", "records"])
def test_deep_goes_with_the_screen_verify(kafkalog: Kafkalog, data_dir: Path, screen: str) -> None:
    ran = kafkalog("inspect", data_dir, "--headless", screen, "--deep")
    assert (ran.code, "--deep requires --headless verify" in ran.err) == (2, True)


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
    for name in [name for name in sys.modules if name.startswith("textual.") or name == "kafkalog.inspector.app"]:
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
