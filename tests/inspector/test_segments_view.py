"""The list of segments: what is told below it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textual", reason="Textual is not installed")

from tests.helpers.driving import Terminal, drive
from tests.helpers.inspected import segment_file
from tests.reference.encode import V2Batch, records

pytestmark = pytest.mark.tui


def test_gaps_between_segments_are_listed_below(tmp_path: Path) -> None:
    for base in (5, 10, 20, 40):
        segment_file(tmp_path / "t-0", V2Batch(records(b"x", offset=base)).encoded(), base)

    async def steps(at: Terminal) -> None:
        await at.sees("gap: no segment holds 6-9 (compacted, or one is missing)")
        await at.sees("gap: no segment holds 11-19 (", "and one further gap")

    drive(tmp_path / "t-0", steps)
