"""Offsets in no segment: reported where a segment may be missing, not where compaction has removed records."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogConfig, Record
from kafkalog.inspector import headless
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.types import Gap, PartitionState
from tests.helpers.golden import unpacked
from tests.helpers.inspected import DEADLINE_SECONDS, read_through, segment_file
from tests.reference.encode import V2Batch, records

DATA = unpacked() / "kafka-3.9" / "data"
NAMES = sorted(path.name for path in DATA.iterdir() if path.is_dir())


def state_of(path: Path, *, read: bool = False) -> PartitionState:
    model = Model(path)
    reader = model.partition()
    state, until = reader.refresh(), time.monotonic() + DEADLINE_SECONDS
    while any(row.sealed and row.bytes and row.end_offset is None for row in state.segments):
        assert time.monotonic() < until
        state = reader.refresh()
    if read:
        for row in state.segments:
            read_through(reader.segment(row.base_offset))
        state = reader.refresh()
    model.close()
    return state


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Segments of offsets 0-3, 4-7, ..., 16-19, and the active one."""
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(segment_bytes=400)) as log:
        for i in range(20):
            log.append([Record(b"x" * 30, b"%d" % i)])
    return tmp_path / "t-0"


@pytest.mark.parametrize("read", [False, True])
def test_a_removed_segment_is_a_gap_before_and_after_the_others_have_been_read(written: Path, read: bool) -> None:
    bases = [int(path.stem) for path in sorted(written.glob("*.log"))]
    assert not state_of(written, read=read).gaps
    for path in written.glob(f"{bases[2]:020d}.*"):
        path.unlink()
    state = state_of(written, read=read)
    assert state.gaps == (Gap(bases[2], bases[3] - 1),)
    assert state.problem is None
    offsets = f"{bases[2]}-{bases[3] - 1}"
    assert state.gaps[0].note == f"no segment holds {offsets} (compacted, or one is missing)"


@pytest.mark.parametrize("name", NAMES)
def test_logs_of_a_broker_have_no_gaps(name: str) -> None:
    assert state_of(DATA / name, read=True).gaps == ()


def partition(directory: Path, *segments: tuple[int, tuple[int, ...]]) -> Path:
    """Segments by base offset, with a batch of one record at each of these offsets."""
    for base, offsets in segments:
        data = b"".join(V2Batch(records(b"x", offset=offset)).encoded() for offset in offsets)
        segment_file(directory / "t-0", data, base)
    return directory / "t-0"


def test_a_gap_after_a_compacted_segment_is_not_reported(tmp_path: Path) -> None:
    path = partition(tmp_path, (0, (0, 2)), (10, ()), (20, (20, 21)), (30, (30,)))
    assert state_of(path, read=True).gaps == ()


def test_records_deleted_from_the_start_of_the_log_are_no_gap(tmp_path: Path) -> None:
    path = partition(tmp_path, (0, (0, 1)), (10, (10, 11)), (30, (30,)))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 10\n", encoding="ascii")
    assert state_of(path).gaps == (Gap(12, 29),)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 20\n", encoding="ascii")
    assert state_of(path).gaps == (Gap(20, 29),)


def test_headless_lists_gaps_and_they_are_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = partition(tmp_path, (0, (0, 1)), (1000, (1000,)))
    assert headless.show(path, "segments", "json") == 0
    found = json.loads(capsys.readouterr().out)
    note = "no segment holds 2-999 (compacted, or one is missing)"
    assert found["gaps"] == [{"first_offset": 2, "last_offset": 999, "note": note}]
    assert [row["end_offset"] for row in found["rows"]] == [2, 1001]
    assert headless.show(path, "segments", "text") == 0
    assert note in capsys.readouterr().out
