"""A segment that is a link to nothing is damage that every command names; the other segments are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kafkalog as library
from kafkalog.fsck import recover
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from tests.helpers.running import Kafkalog, batch, lines, segment


@pytest.fixture
def linked(data_dir: Path) -> Path:
    """orders-0 with segments of the offsets 0 to 2, 3 (a link to nothing), and 4."""
    directory = data_dir / "orders-0"
    segment(directory, 4, batch(b"e", offset=4))
    log = directory / f"{3:020}.log"
    log.unlink()
    log.symlink_to("nowhere")
    return directory


@pytest.mark.parametrize("command", [("dump",), ("dump", "--skip-damage"), ("tail",)])
def test_other_segments_are_shown(kafkalog: Kafkalog, linked: Path, command: tuple[str, ...]) -> None:
    ran = kafkalog(*command, linked, "-o", "jsonl")
    assert (ran.code, [each["offset"] for each in lines(ran.out)]) == (1, [0, 1, 2, 4])
    assert f"{3:020}.log: a link to nothing: the segment is missing" in ran.err


def test_a_summary_has_the_other_segments(kafkalog: Kafkalog, linked: Path) -> None:
    listed = kafkalog("ls", linked, "-o", "json")
    total = json.loads(listed.out)[0]
    assert (listed.code, total["records"], total["log_end_offset"], len(total["errors"])) == (1, 4, 5, 1)
    told = kafkalog("status", linked, "-o", "json")
    (row,) = json.loads(told.out)["partitions"]
    assert (told.code, row["segments"], row["log_end_offset"], row["health"]) == (1, 2, 5, "damaged")
    assert "a link to nothing" in row["problem"]
    pytest.importorskip("textual")
    shown = kafkalog("inspect", "--headless", "segments", "-o", "json", linked)
    state = json.loads(shown.out)
    assert (shown.code, len(state["rows"]), state["log_end_offset"]) == (1, 2, 5)
    assert "a link to nothing" in state["problem"]


def test_checks_find_the_link(kafkalog: Kafkalog, linked: Path) -> None:
    for command in ("verify", "repair"):
        ran = kafkalog(command, linked)
        assert (ran.code, "dangling-link" in ran.out) == (1, True)
    told = kafkalog("explain", linked.parent)
    assert (told.code, "dangling-link" in told.out) == (1, True)
    assert "opens 2 segments" in told.out


def test_the_other_segments_are_salvaged_and_recovered(kafkalog: Kafkalog, linked: Path, tmp_path: Path) -> None:
    ran = kafkalog("salvage", linked, tmp_path / "new" / "orders-0")
    assert ran.code == 1
    assert "dangling-link" in ran.out + ran.err
    with library.open(tmp_path / "new" / "orders-0") as log:
        assert [record.offset for record in log] == [0, 1, 2, 4]
    (linked.parent / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    recover(linked.parent, jobs=1)
    with library.open(linked) as log:
        assert [record.offset for record in log] == [0, 1, 2, 4]
