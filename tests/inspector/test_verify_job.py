"""The check that the screen starts: the findings of `kafkalog verify`, with progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.fsck import Finding, verify_path
from kafkalog.inspector.jobs.jobs import VerifyJob
from kafkalog.scan.progress import Progress
from tests.helpers.damage import flipped, log, start_of
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file


def events_of(path: Path, *, deep: bool = False) -> list[object]:
    events: list[object] = []
    VerifyJob(path, deep).run(events.append)
    return events


@pytest.mark.parametrize("deep", [False, True])
def test_a_check_of_sound_logs_reports_its_progress_up_to_their_size(deep: bool) -> None:
    path = unpacked() / "kafka-3.9" / "data" / "v2-txn-0"
    events = events_of(path, deep=deep)
    assert all(isinstance(each, Progress) for each in events)
    size = sum(each.stat().st_size for each in path.glob("*.log"))
    assert events[-1] == Progress(size, size)
    assert len(events) > 2


def test_findings_are_those_of_verify(tmp_path: Path) -> None:
    batches = log()
    data = b"".join(batches)
    for place in range(1, 7, 2):
        data = flipped(data, start_of(batches, place) + 300, 0)
    path = segment_file(tmp_path / "t-0", data)
    assert [each for each in events_of(path.parent) if isinstance(each, Finding)] == list(verify_path(path.parent))


def test_a_path_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    finding, progress = events_of(tmp_path / "nothing")
    assert isinstance(finding, Finding)
    assert (finding.code, progress) == ("unreadable", Progress(0, 0))
