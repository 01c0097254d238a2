"""The check that the screen starts: the findings of `kafkalog verify`, with progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.model import Progress
from inspector.reading.verifying import Verification
from kafkalog.fsck import Finding, Options, verify_path
from tests.helpers.damage import flipped, log, start_of
from tests.helpers.golden import unpacked
from tests.helpers.inspected import segment_file


@pytest.mark.parametrize("deep", [False, True])
def test_logs_of_brokers_are_sound_and_read_to_their_end(deep: bool) -> None:
    verification = Verification(unpacked() / "kafka-3.9" / "data", deep=deep)
    events = list(verification)
    assert [each for each in events if isinstance(each, Finding)] == []
    assert verification.progress.is_done
    assert verification.progress.total_bytes == verification.summary.bytes > 0
    assert (verification.summary.records > 0) == deep
    assert verification.finished


def test_findings_are_those_of_verify(tmp_path: Path) -> None:
    batches = log()
    data = b"".join(batches)
    for place in range(1, 7, 2):
        data = flipped(data, start_of(batches, place) + 300, 0)
    path = segment_file(tmp_path / "t-0", data)
    events = list(Verification(path.parent))
    assert [each for each in events if isinstance(each, Finding)] == list(verify_path(path.parent, Options()))
    assert isinstance(events[-1], Progress)


def test_more_findings_than_the_queue_holds_all_come(tmp_path: Path) -> None:
    batches = log(size=10) * 200
    data = b"".join(flipped(each, 90, 0) for each in batches)
    segment_file(tmp_path / "t-0", data)
    found = [each for each in Verification(tmp_path / "t-0") if isinstance(each, Finding)]
    assert len(found) == len(list(verify_path(tmp_path / "t-0", Options()))) > 300


def test_a_path_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    verification = Verification(tmp_path / "nothing")
    found = [each for each in verification if isinstance(each, Finding)]
    assert [each.code for each in found] == ["unreadable"]
    assert verification.progress == Progress(0, 0)
