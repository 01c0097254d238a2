"""A record with a value of many lines, or of many bytes: no key waits for all of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from inspector import highlighting, text
from inspector.rows import Row
from tests.helpers.driving import Terminal, drive
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

LINES = 100_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    values = b"needle\n" + b"\n" * LINES + b"needle", b"x" * 20_000_000, b"the last"
    data = b"".join(V2Batch(records(value, offset=i)).encoded() for i, value in enumerate(values))
    return segment_file(tmp_path / "t-0", data).parent


async def opened(at: Terminal) -> None:
    await at.press("5", sees="OFFSET  TIME")
    await at.press("enter", sees="[value")


def test_no_more_lines_are_laid_out_than_are_seen_around(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counted(*args: object, **named: object) -> Row:
        nonlocal made
        made += 1
        return Row(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(highlighting, "Row", counted)

    async def steps(at: Terminal) -> None:
        await opened(at)
        for keys in ("jjj", "G", "k", "v", "vvvv", "g"):
            await at.press(*keys)
        await at.sees(">   needle")
        assert 0 < made < LINES / 50

    drive(log, steps)


def test_what_takes_as_long_as_a_value_is_done_in_another_thread(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, threads = threading.get_ident(), set()
    shown, lines = text.shown, highlighting.Lines.__init__

    def heard_shown(*args: object) -> list[str]:
        threads.add(threading.get_ident())
        return shown(*args)  # type: ignore[arg-type]

    def heard_lines(self: highlighting.Lines, *args: object) -> None:
        threads.add(threading.get_ident())
        lines(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(text, "shown", heard_shown)
    monkeypatch.setattr(highlighting.Lines, "__init__", heard_lines)

    async def steps(at: Terminal) -> None:
        await opened(at)
        await at.press("J", sees="[value 19.1 MiB]")
        await at.press("v", "J", sees="the last")
        assert threads
        assert here not in threads

    drive(log, steps)


def test_the_match_is_gone_to_in_a_value_of_many_lines(log: Path) -> None:
    async def steps(at: Terminal) -> None:
        await at.sees("leader epochs")
        await at.press("slash", *"needle", "enter", sees="1 match of 'needle'")
        await at.press("enter", sees="match value at 0")
        await at.press("enter", sees=">   needle")

    drive(log, steps)
