"""The inspector beside somebody who appends, rolls, truncates and deletes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

import kafkalog
from kafkalog import LogConfig, Record, WritableLog
from tests.helpers.driving import Terminal, drive

pytestmark = pytest.mark.tui


CONFIG = LogConfig(segment_bytes=4_000, segment_index_bytes=1_200, file_delete_delay_ms=0)


def append(log: WritableLog, count: int) -> None:
    for _ in range(count):
        log.append([Record(b"value of %d" % log.log_end_offset, b"key", timestamp=1_700_000_000_000)])


@pytest.fixture
def log(tmp_path: Path) -> WritableLog:
    opened = kafkalog.open(tmp_path / "data" / "live-0", "a", CONFIG)
    assert isinstance(opened, WritableLog)
    append(opened, 10)
    return opened


async def headers_read(at: Terminal) -> None:
    """Wait a while: a change that comes just when headers have been read may be overlooked until the next one."""
    await at.pilot.pause(0.5)


def test_records_are_followed_through_rolls_truncation_and_deletion(log: WritableLog) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="value of 9")
        await at.press("F", sees="FOLLOW")
        append(log, 5)
        await at.sees("value of 14")
        await headers_read(at)
        append(log, 100)
        await at.sees("value of 114", f"segment {log.segments[-1].base_offset}")
        await headers_read(at)
        log.truncate_to(100)
        await at.until(lambda: "value of 114" not in at.text)
        await headers_read(at)
        append(log, 3)
        await at.sees("value of 102")
        await headers_read(at)
        log.delete_records(90)
        log.delete_old_segments()
        await at.press("2", sees="E 103 end")
        await at.sees(f"S {log.log_start_offset} start")

    with log:
        drive(log.directory, steps)


def test_scrolling_up_pauses_and_the_end_goes_on(log: WritableLog) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", "F", sees="FOLLOW")
        await at.press("up", sees="following paused")
        await at.until(lambda: "FOLLOW" not in at.lines[0])
        append(log, 3)
        await at.sees("value of 12")
        assert "FOLLOW" not in at.lines[0]
        await at.press("end", sees="FOLLOW")
        append(log, 1)
        await at.sees("value of 13")
        await at.press("F")
        await at.until(lambda: "FOLLOW" not in at.lines[0])

    with log:
        drive(log.directory, steps)


def test_watermarks_are_updated_without_a_key_press(log: WritableLog) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("E 10 end")
        append(log, 7)
        await at.sees("E 17 end")

    with log:
        drive(log.directory, steps)


def test_a_deleted_segment_is_replaced_by_the_first_that_is_left(log: WritableLog) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0  position 0")
        append(log, 100)
        log.delete_records(90)
        log.delete_old_segments()
        await at.sees("segment 0 was deleted")
        await at.sees(f"segment {log.segments[0].base_offset}")

    with log:
        drive(log.directory, steps)


def test_a_directory_may_vanish_and_come_back(log: WritableLog) -> None:
    log.close()
    away = log.directory.with_name("away")

    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0  position 0")
        log.directory.rename(away)
        await at.sees("! ")
        for key in ("2", "3", "4", "5", "r", "t", "e", "F", "enter"):
            await at.press(key)
        away.rename(log.directory)
        await at.press("2", sees="[2 Segm")

        # The keys before may notify of something now, and cover it.
        def is_back() -> bool:
            at.app.clear_notifications()
            return "E 10 end" in at.text

        await at.until(is_back)

    drive(log.directory, steps)


def test_the_list_shows_new_partitions_and_drops_deleted_ones(
    log: WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.inspector.screens.topics.PAUSE_SECONDS", 0.1)
    log.close()

    async def steps(at: Terminal) -> None:
        await at.sees("live-0", "1 partition")
        shutil.copytree(log.directory, log.directory.with_name("live-1"))
        await at.sees("live-1")
        shutil.rmtree(log.directory)
        await at.until(lambda: "live-0" not in at.text)

    drive(log.directory.parent, steps)
