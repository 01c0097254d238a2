"""Each view opens on a log that a broker wrote, answers a key, and shows what Kafka has written: a test a view."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from tests.helpers.driving import Terminal, drive, logs


@pytest.fixture
def log(golden_logs: Path) -> Path:
    """Transactions, aborted and hanging, in segments of plain and of compressed batches."""
    return logs(golden_logs) / "v2-txn-0"


def test_topics(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("read-only", "17 partitions, 3 internal hidden", "v2-zstd-0", "≤1,200")
        await at.press("i", sees="__consumer_offsets-0")

    drive(logs(golden_logs), steps)


def test_segments(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm", "L 1,411 stable", "E 1,451 end", "leader epochs: 0 from 0, 6 from 1,411")
        await at.press("right_square_bracket", sees="| segment 20")

    drive(log, steps)


def test_map(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("3", sees="cell 1 of")
        await at.sees("1 batch, from offset 0")
        await at.press("right", sees="cell 2 of")

    drive(log, steps)


def test_batches(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("4", sees="batch 0  position 0")
        await at.sees("producer 2", "producer epoch 0  sequence 0  leader epoch 0")
        await at.press("down", sees="batch 1  position")

    drive(log, steps)


def test_records(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0")
        await at.press("down", sees="offset 1 ")
        await at.sees("key-244", "key 0 B  (empty)", "value 207 B  v1 behhb")

    drive(log, steps)


def test_record(golden_logs: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("5", sees="offset 0")
        await at.press("down", sees="offset 1")
        await at.press("enter", sees="auto: UTF-8")
        await at.press("v", sees="utf8: UTF-8")

    drive(logs(golden_logs) / "v2-none-0", steps)


def test_hex(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("6", sees="base offset = 0")
        await at.press("tab", sees="bytes of the batch after this field")

    drive(log, steps)


def test_transactions(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("7", sees="! hanging 1  open 0  aborted 18  committed 33  stable 1,411")
        await at.press("down", sees="aborted: offsets 1,365..1,410, in 2 batches")

    drive(log, steps)


def test_search(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.press("slash", sees="search:")
        await at.pastes("key-16")
        await at.press("enter", sees="12 matches of 'key-16' in key value headers")
        await at.sees("reached offset 1,451 of 1,451, complete", "key-163")

    drive(log, steps)


def test_statistics(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("0", sees="segment 0  20 records in 2 batches  done in")
        await at.press("w", sees="the whole partition  1,400 records in 210 batches")

    drive(log, steps)


def test_verify(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.press("8", sees="not checked so far; r begins")
        await at.press("r", sees="sound: nothing found")
        await at.sees("! errors 0, ? warnings 0")

    drive(log, steps)


def test_without_colours_those_of_the_terminal_are_left(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(at: Terminal) -> None:
        await at.press("5", sees="key  (null)")
        strips = at.app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
        colours = [colour for style in styles for colour in (style.color, style.bgcolor)]
        assert all(colour is None or colour.is_default for colour in colours)
        assert any(style.reverse for style in styles)

    drive(log, steps)


def test_help(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("[2 Segm")
        await at.press("question_mark", sees="kafkalog inspect: keys")
        await at.press("escape", sees="[2 Segm")

    drive(log, steps)
