"""Segments whose offsets are too far apart are split, and a crash on the way loses nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog import CompressionType
from kafkalog.storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from kafkalog.storage.scheduler import ScheduledTask, Task
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments
from kafkalog.storage.segment.replace_segments import SegmentHome, split_overflowed_segment
from tests.helpers.failing import refuse_fsync
from tests.helpers.partition_dirs import (
    CONFIG,
    NOW,
    batch,
    bytes_of,
    change,
    closed,
    copy_of,
    loaded,
    log_file,
    names,
    numbered,
    write_segments,
)
from tests.helpers.scheduling import ImmediateScheduler

FAR = 2**31
# Three segments' worth of offsets.
OFFSETS = [0, 1, 5, FAR, FAR + 1, 2 * FAR + 7, 2 * FAR + 8]


def overflowing(directory: Path) -> Path:
    """Write a segment whose offsets are too far apart for its indexes, and one after it."""
    write_segments(directory, {0: [batch(offset) for offset in OFFSETS], 3 * FAR: numbered(3 * FAR, 3)})
    return directory


EXPECTED = [*OFFSETS, 3 * FAR, 3 * FAR + 1, 3 * FAR + 2]
BASES = [0, FAR, 2 * FAR + 7, 3 * FAR]


class LaterScheduler(ImmediateScheduler):
    """Keeps tasks for the test to run."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Task, int]] = []

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        self.waiting.append((task, delay_ms))
        return ScheduledTask(name, task, period_ms)


def test_a_segment_whose_offsets_are_too_far_apart_is_split_where_they_are(tmp_path: Path) -> None:
    with loaded(overflowing(tmp_path)) as opened:
        assert opened.bases == BASES
        assert [offset for offset, _ in opened.records()] == EXPECTED
        assert opened.end_offset == EXPECTED[-1] + 1
    assert names(tmp_path, CLEANED_SUFFIX) == names(tmp_path, SWAP_SUFFIX) == names(tmp_path, DELETED_SUFFIX) == []


def test_splitting_moves_bytes_and_changes_none(tmp_path: Path) -> None:
    overflowing(tmp_path)
    before = log_file(tmp_path, 0).read_bytes()
    with loaded(tmp_path):
        pass
    assert b"".join(log_file(tmp_path, base).read_bytes() for base in BASES[:3]) == before


def test_the_parts_have_the_file_time_of_the_split_segment(tmp_path: Path) -> None:
    overflowing(tmp_path)
    os.utime(log_file(tmp_path, 0), (1_500_000_000, 1_500_000_000))
    with opened_alone(tmp_path) as (segment, segments, home):
        split_overflowed_segment(segment, segments, home)
    assert [log_file(tmp_path, base).stat().st_mtime for base in BASES[:3]] == [1_500_000_000] * 3


def test_a_wrapper_is_split_by_the_offset_of_its_first_message(tmp_path: Path) -> None:
    messages = [batch(0, [b"a", b"b", b"c"], magic=1, compression_type=CompressionType.GZIP)]
    messages.append(batch(FAR, [b"d", b"e"], magic=1, compression_type=CompressionType.GZIP))
    write_segments(tmp_path, {0: messages})
    with loaded(tmp_path) as opened:
        assert opened.bases == [0, FAR]
        assert [offset for offset, _ in opened.records()] == [0, 1, 2, FAR, FAR + 1]


def test_the_parts_of_a_segment_cannot_be_split_again(tmp_path: Path) -> None:
    overflowing(tmp_path)
    with opened_alone(tmp_path) as (segment, segments, home):
        assert segment.has_overflow
        assert split_overflowed_segment(segment, segments, home) == []
        assert list(segments.base_offsets) == BASES[:3]
        assert not any(part.has_overflow for part in segments)


def test_a_torn_tail_goes_into_the_last_part_and_is_cut_there(tmp_path: Path) -> None:
    overflowing(tmp_path)
    log_file(tmp_path, 3 * FAR).unlink()
    change(log_file(tmp_path, 0), lambda data: data + data[:40])
    with loaded(tmp_path) as opened:
        assert opened.bases == BASES[:3]
        assert [offset for offset, _ in opened.records()] == OFFSETS


def test_the_old_segment_is_deleted_only_after_the_delay(tmp_path: Path) -> None:
    overflowing(tmp_path)
    later = LaterScheduler()
    with loaded(tmp_path, scheduler=later):
        assert log_file(tmp_path, 0, ".log.deleted").exists()
        assert {delay for _, delay in later.waiting} == {CONFIG.file_delete_delay_ms}
        for task, _ in later.waiting:
            task()
        assert names(tmp_path, DELETED_SUFFIX) == []


def test_a_disk_that_is_full_while_splitting_leaves_the_segment_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overflowing(tmp_path)
    before = bytes_of(tmp_path, ".log")

    refuse_fsync(monkeypatch, tmp_path, "*.cleaned")
    with pytest.raises(OSError, match="No space"), loaded(tmp_path):
        pass
    assert bytes_of(tmp_path, ".log") == before
    assert names(tmp_path, CLEANED_SUFFIX) == []
    monkeypatch.undo()
    with loaded(tmp_path) as opened:
        assert [offset for offset, _ in opened.records()] == EXPECTED


# --- a crash while splitting: phases as they follow one another


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """The directory before splitting, and one with the parts in place."""
    before = overflowing(tmp_path / "before")
    after = copy_of(before, tmp_path / "after")
    with opened_alone(after) as (segment, segments, home):
        split_overflowed_segment(segment, segments, home)
        segments.close()
    return before, after


def put(after: Path, into: Path, suffixes: dict[int, str]) -> None:
    for base_offset, suffix in suffixes.items():
        for ending in (".log", ".index", ".timeindex"):
            data = log_file(after, base_offset, ending).read_bytes()
            log_file(into, base_offset, ending + suffix).write_bytes(data)


def assert_whole(directory: Path) -> None:
    for _ in range(2):
        with loaded(directory) as opened:
            assert opened.bases == BASES
            assert [offset for offset, _ in opened.records()] == EXPECTED
    assert names(directory, CLEANED_SUFFIX) == names(directory, SWAP_SUFFIX) == []
    closed(directory)


def test_a_crash_while_the_parts_are_written(both: tuple[Path, Path]) -> None:
    before, after = both
    put(after, before, dict.fromkeys(BASES[:3], CLEANED_SUFFIX))
    change(log_file(before, BASES[2], ".log.cleaned"), lambda data: data[:20])
    assert_whole(before)


@pytest.mark.parametrize("swapped", [1, 2])
def test_a_crash_while_the_parts_are_declared_whole_from_the_last_on(both: tuple[Path, Path], swapped: int) -> None:
    before, after = both
    put(after, before, {base: SWAP_SUFFIX if i >= 3 - swapped else CLEANED_SUFFIX for i, base in enumerate(BASES[:3])})
    assert_whole(before)


def test_a_crash_when_all_parts_are_whole_and_the_old_segment_still_there(both: tuple[Path, Path]) -> None:
    before, after = both
    put(after, before, dict.fromkeys(BASES[:3], SWAP_SUFFIX))
    assert_whole(before)


def test_a_crash_when_the_old_segment_is_there_and_empty(both: tuple[Path, Path]) -> None:
    before, after = both
    put(after, before, dict.fromkeys(BASES[:3], SWAP_SUFFIX))
    log_file(before, 0).write_bytes(b"")
    assert_whole(before)


def test_a_crash_when_the_old_segment_is_on_its_way_out(both: tuple[Path, Path]) -> None:
    before, after = both
    put(after, before, dict.fromkeys(BASES[:3], SWAP_SUFFIX))
    log_file(before, 0).rename(log_file(before, 0, ".log.deleted"))
    assert_whole(before)


@pytest.mark.parametrize("in_place", [1, 2])
def test_a_crash_when_some_parts_are_in_place(both: tuple[Path, Path], in_place: int) -> None:
    before, after = both
    log_file(before, 0).rename(log_file(before, 0, ".log.deleted"))
    put(after, before, {base: "" if i < in_place else SWAP_SUFFIX for i, base in enumerate(BASES[:3])})
    assert_whole(before)


class opened_alone:  # noqa: N801 (reads as a function)
    """Open one segment of a directory, to be split by the test."""

    def __init__(self, directory: Path) -> None:
        self.home = SegmentHome(directory=directory, config=CONFIG, scheduler=ImmediateScheduler(), clock=lambda: NOW)
        self.segments = LogSegments()

    def __enter__(self) -> tuple[LogSegment, LogSegments, SegmentHome]:
        segment = self.home.segment(0)
        self.segments.add(segment)
        return segment, self.segments, self.home

    def __exit__(self, *_: object) -> None:
        for segment in self.segments.values:
            segment.release()
