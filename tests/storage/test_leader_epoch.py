"""The leader epoch cache: assigning, querying, truncating, and its file, which Kafka reads."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.checkpoint.leader_epoch_cache import EpochEntry, LeaderEpochCache
from kafkalog.storage.scheduler import ScheduledTask, Task
from tests.helpers.scheduling import ImmediateScheduler

NOTHING = (-1, -1)
Entries: TypeAlias = list[tuple[int, int]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "leader-epoch-checkpoint"


@pytest.fixture
def cache(path: Path) -> LeaderEpochCache:
    return LeaderEpochCache(path)


def with_entries(cache: LeaderEpochCache, *entries: tuple[int, int]) -> LeaderEpochCache:
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


class Later:
    """A scheduler whose tasks a test runs."""

    def __init__(self) -> None:
        self.tasks: list[ScheduledTask] = []

    def schedule(self, name: str, task: Task, delay_ms: int = 0, period_ms: int = -1) -> ScheduledTask:
        self.tasks.append(ScheduledTask(name, task, period_ms))
        return self.tasks[-1]

    def shutdown(self) -> None:
        self.tasks = []


# --- assigning (case 104)


def test_a_new_cache_is_empty_and_creates_an_empty_file(cache: LeaderEpochCache, path: Path) -> None:
    assert path.read_bytes() == b""
    assert cache.is_empty
    assert cache.entries == ()
    assert (cache.latest_epoch, cache.latest_entry, cache.earliest_entry) == (None, None, None)
    assert cache.epoch_for_offset(0) is None
    assert cache.end_offset_for(0, 10) == cache.end_offset_for(-1, 10) == NOTHING


def test_an_epoch_keeps_the_offset_at_which_it_began_first(cache: LeaderEpochCache) -> None:
    assert with_entries(cache, (2, 11), (2, 12)).entries == ((2, 11),)


@pytest.mark.parametrize(
    ("assigned", "left"),
    [
        ([(2, 9), (3, 9)], [(3, 9)]),
        ([(2, 6), (3, 5)], [(3, 5)]),
        ([(1, 5), (2, 6), (1, 7)], [(1, 7)]),
        ([(5, 11), (6, 12), (7, 13), (7, 12)], [(5, 11), (7, 12)]),
        ([(2, 6), (2, 5)], [(2, 5)]),
        ([(0, 0), (1, 5), (2, 10), (3, 20), (2, 7)], [(0, 0), (1, 5), (2, 7)]),
    ],
)
def test_a_new_entry_drops_those_it_contradicts(cache: LeaderEpochCache, assigned: Entries, left: Entries) -> None:
    assert list(with_entries(cache, *assigned).entries) == left


def test_dropping_an_entry_is_logged_unless_nothing_was_appended_in_its_epoch(
    cache: LeaderEpochCache, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        with_entries(cache, (2, 9), (3, 9))
        assert caplog.records == []
        with_entries(cache, (4, 5))
    assert "EpochEntry(epoch=3, start_offset=9)" in caplog.text


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_a_negative_epoch_or_offset_is_refused(cache: LeaderEpochCache, entry: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="is negative"):
        cache.assign(*entry)


# --- asking (cases 104, 105)


@pytest.mark.parametrize(
    ("requested", "answer"), [(5, (5, 12)), (6, (5, 12)), (7, (7, 99)), (8, NOTHING), (-1, NOTHING)]
)
def test_the_end_of_an_epoch_is_where_the_next_one_began_and_of_the_latest_the_log_end(
    cache: LeaderEpochCache, requested: int, answer: tuple[int, int]
) -> None:
    with_entries(cache, (5, 11), (6, 12), (7, 13), (7, 12))
    assert cache.end_offset_for(requested, 99) == answer


@pytest.mark.parametrize(
    ("requested", "answer"), [(1, (0, 13)), (2, (2, 17)), (3, (2, 17)), (4, (4, 20)), (5, NOTHING)]
)
def test_an_epoch_that_is_not_there_ends_with_the_one_before(
    cache: LeaderEpochCache, requested: int, answer: tuple[int, int]
) -> None:
    assert with_entries(cache, (0, 10), (2, 13), (4, 17)).end_offset_for(requested, 20) == answer


def test_an_epoch_before_all_that_are_known_ends_where_they_begin(cache: LeaderEpochCache) -> None:
    assert with_entries(cache, (5, 11), (6, 12)).end_offset_for(4, 20) == (4, 11)


def test_an_epoch_dropped_for_a_later_one_has_no_end_offset(cache: LeaderEpochCache) -> None:
    assert with_entries(cache, (1, 5), (2, 6), (1, 7)).end_offset_for(2, 20) == NOTHING


@pytest.mark.parametrize(("offset", "epoch"), [(25, 1), (20, 1), (30, 5), (50, 5), (5, None), (10, 0), (19, 0)])
def test_a_record_was_appended_in_the_last_epoch_that_began_by_its_offset(
    cache: LeaderEpochCache, offset: int, epoch: int | None
) -> None:
    assert with_entries(cache, (0, 10), (1, 20), (5, 30)).epoch_for_offset(offset) == epoch


def test_the_first_and_the_last_epoch_are_told(cache: LeaderEpochCache) -> None:
    with_entries(cache, (2, 6), (4, 8), (6, 10))
    assert (cache.earliest_entry, cache.latest_entry, cache.latest_epoch) == ((2, 6), (6, 10), 6)


# --- truncating (case 105)


@pytest.mark.parametrize(
    ("offset", "left"),
    [(8, [(2, 6)]), (9, [(2, 6), (3, 8)]), (-1, [(2, 6), (3, 8), (4, 11)]), (12, [(2, 6), (3, 8), (4, 11)]), (0, [])],
)
def test_truncating_the_end_drops_what_begins_there_or_later(
    cache: LeaderEpochCache, path: Path, offset: int, left: Entries
) -> None:
    with_entries(cache, (2, 6), (3, 8), (4, 11)).truncate_from_end(offset)
    assert list(cache.entries) == list(LeaderEpochCache(path).entries) == left


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (1, [(2, 6), (3, 8), (4, 11)]),
        (6, [(2, 6), (3, 8), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_truncating_the_start_lets_the_epoch_of_that_offset_begin_there(
    cache: LeaderEpochCache, path: Path, offset: int, left: Entries
) -> None:
    with_entries(cache, (2, 6), (3, 8), (4, 11)).truncate_from_start(offset)
    assert list(cache.entries) == list(LeaderEpochCache(path).entries) == left


def test_clearing_empties_the_file_too(cache: LeaderEpochCache, path: Path) -> None:
    with_entries(cache, (2, 6)).clear_and_flush()
    assert cache.is_empty
    assert path.read_bytes() == b"0\n0\n"


# --- the file


def test_an_assigned_epoch_is_in_the_file_when_the_call_returns(cache: LeaderEpochCache, path: Path) -> None:
    with_entries(cache, (0, 0), (5, 30))
    assert path.read_bytes() == b"0\n2\n0 0\n5 30\n"
    assert LeaderEpochCache(path).entries == (EpochEntry(0, 0), EpochEntry(5, 30))


def test_a_truncation_is_written_by_the_scheduler_with_all_that_came_after_it(path: Path) -> None:
    later = Later()
    cache = with_entries(LeaderEpochCache(path, scheduler=later), (0, 0), (5, 30))
    cache.truncate_from_end(30)
    cache.truncate_from_start(7)
    assert path.read_bytes() == b"0\n2\n0 0\n5 30\n"
    cache.assign(6, 40)
    for task in later.tasks:
        task.run()
    assert path.read_bytes() == b"0\n2\n0 7\n6 40\n"


def test_a_truncation_that_changes_nothing_is_not_written(path: Path) -> None:
    later = Later()
    cache = with_entries(LeaderEpochCache(path, scheduler=later), (2, 6))
    cache.truncate_from_end(7)
    cache.truncate_from_start(5)
    cache.truncate_from_start(6)
    assert later.tasks == []


def test_the_scheduler_writes_nothing_after_the_directory_was_renamed(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    cache = with_entries(LeaderEpochCache(directory / "epochs", scheduler=ImmediateScheduler()), (2, 6), (3, 9))
    directory.rename(tmp_path / "gone")
    cache.truncate_from_end(9)
    assert cache.entries == ((2, 6),)
    with pytest.raises(FileNotFoundError):
        cache.flush()


def test_a_cache_that_may_not_write_changes_in_memory_only(path: Path) -> None:
    cache = LeaderEpochCache(path, writable=False)
    with_entries(cache, (0, 0), (1, 5), (2, 8)).truncate_from_end(8)
    cache.truncate_from_start(3)
    cache.flush()
    assert cache.entries == ((0, 3), (1, 5))
    assert not path.exists()


def test_opening_a_file_does_not_touch_it(path: Path) -> None:
    path.write_bytes(b"0\n1\n3 5\n")
    os.utime(path, (1, 1))
    assert LeaderEpochCache(path).entries == ((3, 5),)
    assert path.stat().st_mtime == 1


def test_entries_of_a_file_that_contradict_each_other_are_dropped_as_if_assigned(path: Path) -> None:
    path.write_bytes(b"0\n3\n1 5\n3 9\n2 7\n")
    assert LeaderEpochCache(path).entries == ((1, 5), (2, 7))


def test_a_negative_number_in_the_file_is_damage(path: Path) -> None:
    path.write_bytes(b"0\n1\n-1 5\n")
    with pytest.raises(CorruptCheckpointError, match="negative"):
        LeaderEpochCache(path)


def test_a_failed_write_leaves_the_cache_as_the_file_is(
    cache: LeaderEpochCache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_entries(cache, (2, 6))

    def no_space(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    changes: tuple[Callable[[], object], ...] = (lambda: cache.assign(3, 9), cache.clear_and_flush)
    for change in changes:
        with pytest.raises(OSError, match="No space"):
            change()
        assert cache.entries == ((2, 6),)
        assert path.read_bytes() == b"0\n1\n2 6\n"


# --- what always holds

steps = st.lists(
    st.one_of(
        st.tuples(st.just("assign"), st.integers(0, 8), st.integers(0, 30)),
        st.tuples(st.just("end"), st.integers(-1, 31)),
        st.tuples(st.just("start"), st.integers(-1, 31)),
    ),
    max_size=12,
)


@given(steps)
def test_epochs_and_offsets_always_rise_and_the_answers_follow_from_the_entries(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    cache = LeaderEpochCache(tmp_path_factory.getbasetemp() / "nothing is here", writable=False)
    expected: list[tuple[int, int]] = []
    for step in steps:
        expected = _model(expected, *step)
        change: dict[str, Callable[..., object]]
        change = {"assign": cache.assign, "end": cache.truncate_from_end, "start": cache.truncate_from_start}
        change[step[0]](*step[1:])
        assert list(cache.entries) == expected
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(expected))
    for offset in range(32):
        assert cache.epoch_for_offset(offset) == max((e for e, start in expected if start <= offset), default=None)


def _model(entries: list[tuple[int, int]], what: str, *numbers: int) -> list[tuple[int, int]]:
    """The rules in the plainest words."""
    if what == "assign":
        epoch, offset = numbers
        if entries and entries[-1][0] == epoch and entries[-1][1] <= offset:
            return entries
        return [each for each in entries if each[0] < epoch and each[1] < offset] + [(epoch, offset)]
    if what == "end":
        return [each for each in entries if numbers[0] < 0 or each[1] < numbers[0]]
    before = [each for each in entries if each[1] <= numbers[0]]
    return [(each[0], numbers[0]) for each in before[-1:]] + [each for each in entries if each[1] > numbers[0]]


def test_closing_a_cache_writes_pending_changes_and_ends_writing(path: Path) -> None:
    scheduler = Later()
    cache = LeaderEpochCache(path, scheduler=scheduler)
    cache.assign(1, 0)
    cache.assign(2, 10)
    cache.truncate_from_end(10)
    cache.close()
    assert LeaderEpochCache(path, writable=False).entries == ((1, 0),)
    cache.assign(3, 20)
    cache.flush()
    assert LeaderEpochCache(path, writable=False).entries == ((1, 0),)
