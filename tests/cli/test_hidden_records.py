"""A log start offset beyond the log's end hides all records from consumers: the commands show them and say so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.storage.file_names import LOG_START_OFFSET_CHECKPOINT
from tests.helpers.running import Kafkalog, batch, lines, segment

# The log of orders-0 ends at 4.
SAID = f"orders-0: the log ends at 4, before its start, which is 99,999 in {LOG_START_OFFSET_CHECKPOINT}"


def set_start(data: Path, offset: int) -> None:
    (data / LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\norders 0 {offset}\n")


@pytest.fixture
def hidden(data_dir: Path) -> Path:
    set_start(data_dir, 99_999)
    return data_dir / "orders-0"


@pytest.mark.parametrize("options", [(), ("--skip-damage",), ("--from", "earliest"), ("--control",)])
def test_dump_shows_hidden_records(kafkalog: Kafkalog, hidden: Path, options: tuple[str, ...]) -> None:
    ran = kafkalog("dump", hidden, "-o", "jsonl", *options)
    assert ran.code == 1
    assert [each["offset"] for each in lines(ran.out)] == [0, 1, 2, 3]
    assert SAID in ran.err
    assert ran.err.count("\n") == 1


def test_dump_shows_hidden_batches(kafkalog: Kafkalog, hidden: Path) -> None:
    ran = kafkalog("dump", hidden, "--batches", "-o", "jsonl")
    assert (ran.code, len(lines(ran.out))) == (1, 3)
    assert SAID in ran.err


def test_ls_shows_the_end_of_the_log(kafkalog: Kafkalog, hidden: Path) -> None:
    ran = kafkalog("ls", hidden.parent, "-t", "orders", "-o", "json")
    row = next(each for each in json.loads(ran.out) if each["partition"] == 0)
    assert ran.code == 1
    assert (row["log_start_offset"], row["log_end_offset"], row["records"]) == (0, 4, 4)
    assert any(SAID in str(each) for each in row["errors"])
    assert SAID in ran.err
    assert ran.err.count("\n") == 1


def test_tail_shows_hidden_records(kafkalog: Kafkalog, hidden: Path) -> None:
    ran = kafkalog("tail", hidden, "-n", "2", "-o", "jsonl")
    assert ran.code == 1
    assert [each["offset"] for each in lines(ran.out)] == [2, 3]
    assert SAID in ran.err


def test_status_and_the_inspector_agree_with_verify(kafkalog: Kafkalog, hidden: Path) -> None:
    assert "log-start-beyond-end" in kafkalog("verify", hidden).out
    assert SAID.removeprefix("orders-0: ") in kafkalog("status", hidden.parent).out
    for screen in ("segments", "topics"):
        pytest.importorskip("textual")
        ran = kafkalog("inspect", "--headless", screen, hidden if screen == "segments" else hidden.parent)
        assert SAID.removeprefix("orders-0: ") in ran.out + ran.err


def test_the_inspector_shows_where_the_segments_end(kafkalog: Kafkalog, hidden: Path) -> None:
    pytest.importorskip("textual")
    log = json.loads(kafkalog("inspect", "--headless", "segments", "-o", "json", hidden).out)
    rows = json.loads(kafkalog("inspect", "--headless", "topics", "-o", "json", hidden.parent).out)["partitions"]
    (row,) = [each for each in rows if each["topic"] == "orders" and each["partition"] == 0]
    for found in (log, row):
        assert (found["log_start_offset"], found["log_end_offset"]) == (99_999, 4)
        assert found["last_stable_offset"] == 4
    assert (log["high_watermark"], row["high_watermark"]) == (4, None)


@pytest.mark.parametrize("command", [("dump",), ("dump", "--skip-damage"), ("dump", "--batches"), ("tail",)])
def test_a_damaged_checkpoint_hides_no_records(kafkalog: Kafkalog, data_dir: Path, command: tuple[str, ...]) -> None:
    (data_dir / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\norders 0 x\n")
    ran = kafkalog(*command, data_dir / "orders-0", "-o", "jsonl")
    assert ran.code == 1
    assert len(lines(ran.out)) == (3 if "--batches" in command else 4)
    assert f"{LOG_START_OFFSET_CHECKPOINT}: line 3 does not follow the format" in ran.err
    assert "the log start is not known, all records are shown" in ran.err
    assert ran.err.count("\n") == 1


def test_a_consumer_gets_none_of_them(hidden: Path) -> None:
    with library.open(hidden) as log:
        assert (log.log_start_offset, list(log)) == (99_999, [])


@pytest.mark.parametrize("offset", [3, 4])
def test_a_log_start_within_the_log_is_believed(kafkalog: Kafkalog, data_dir: Path, offset: int) -> None:
    set_start(data_dir, offset)
    ran = kafkalog("dump", data_dir / "orders-0", "-o", "jsonl")
    assert (ran.code, [each["offset"] for each in lines(ran.out)], ran.err) == (0, list(range(offset, 4)), "")
    ran = kafkalog("ls", data_dir / "orders-0", "-o", "json")
    assert (ran.code, json.loads(ran.out)[0]["log_start_offset"], ran.err) == (0, offset, "")


def test_damage_may_hide_where_the_log_ends(kafkalog: Kafkalog, data_dir: Path) -> None:
    set_start(data_dir, 6)
    path = segment(data_dir / "orders-0", 3, batch(b"d", offset=3) + b"\xff" * 500 + batch(b"g", offset=6))
    ran = kafkalog("dump", path.parent, "-o", "jsonl", "--skip-damage")
    assert [each["offset"] for each in lines(ran.out)] == [6]
    assert "before its start" not in ran.err
