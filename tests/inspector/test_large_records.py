"""A record with a value of many lines, or of many bytes: no key waits for all of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from kafkalog.inspector import highlighting, text
from kafkalog.inspector.tables import Row
from tests.helpers.driving import PATIENCE_SECONDS, Terminal, drive
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

pytestmark = pytest.mark.tui


LINES = 100_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    values = b"needle\n" + b"\n" * LINES + b"needle", b"x" * 20_000_000, b"the last"
    data = b"".join(V2Batch(records(value, offset=i)).encoded() for i, value in enumerate(values))
    return segment_file(tmp_path / "t-0", data).parent


async def opened(at: Terminal) -> None:
    await at.press("5", sees="OFFSET  TIME")
    await at.press("enter", sees="[value")


def test_only_lines_near_the_screen_are_laid_out(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counted(*args: Any, **named: Any) -> Row:
        nonlocal made
        made += 1
        return Row(*args, **named)

    monkeypatch.setattr(highlighting, "Row", counted)

    async def steps(at: Terminal) -> None:
        await opened(at)
        for keys in ("jjj", "G", "k", "v", "vvvv", "g"):
            await at.press(*keys)
        await at.sees(">   needle")
        assert 0 < made < LINES / 50

    drive(log, steps)


def test_keys_are_answered_while_a_large_value_is_laid_out(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, shown = threading.Event(), text.shown

    def slowly(data: bytes | None, view: text.View = "auto") -> list[str]:
        assert goes_on.wait(PATIENCE_SECONDS)
        return shown(data, view)

    async def steps(at: Terminal) -> None:
        await opened(at)
        monkeypatch.setattr(text, "shown", slowly)
        await at.press("J", "question_mark", sees="kafkalog inspect: keys")
        goes_on.set()
        await at.press("escape", sees="[value 19.1 MiB]")
        await at.press("v", "J", sees="the last")

    drive(log, steps)


def test_the_line_of_a_match_is_shown_in_a_value_of_many_lines(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("leader epochs")
        await at.press("slash", *"needle", "enter", sees="1 match of 'needle'")
        await at.press("enter", sees=">   needle")

    drive(log, steps)
