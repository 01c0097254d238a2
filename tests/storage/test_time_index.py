"""The time index: Kafka's rules, files that real brokers made, damage, and a disk that fails."""

from __future__ import annotations

import io
import os
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkalog.errors import InvalidOffsetError, LogStateError, SegmentOffsetOverflowError
from kafkalog.storage.index.time_index import TimeIndex, TimestampEntry
from tests.helpers import golden
from tests.helpers.indexes import Rows, base_offset, dumped_by_partition, no_space

BASE = 45
SLOTS = 30
GOLDEN = dumped_by_partition(".timeindex")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000045.timeindex"


@pytest.fixture
def index(path: Path) -> TimeIndex:
    return TimeIndex(path, BASE, max_size=SLOTS * 12)


def slots(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def fill(index: TimeIndex, count: int) -> None:
    for n in range(1, count + 1):
        index.maybe_append(n * 10, n * 10 + BASE)


# --- Kafka's rules


def test_an_empty_index_knows_no_time(index: TimeIndex) -> None:
    assert index.lookup(100) == index.last_entry == (-1, BASE)
    assert (index.last_offset, index.entries, index.is_full) == (BASE, 0, False)


def test_a_lookup_finds_the_last_entry_at_or_before_the_time(index: TimeIndex) -> None:
    fill(index, SLOTS - 1)
    assert index.lookup(9) == (-1, BASE)
    assert index.lookup(10) == (10, 55)
    assert index.lookup(25) == (20, 65)
    assert index.lookup(30) == (30, 75)
    assert index.lookup(2**63 - 1) == index.last_entry == (290, 335)


def test_the_last_slot_is_reserved_for_the_entry_that_seals_the_segment(index: TimeIndex) -> None:
    fill(index, SLOTS - 2)
    assert not index.is_full
    index.maybe_append(290, 335)
    assert (index.is_full, index.entries) == (True, SLOTS - 1)
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(300, 345)
    with pytest.raises(InvalidOffsetError):
        index.maybe_append(300, 334, skip_full_check=True)
    index.maybe_append(300, 345, skip_full_check=True)
    assert index.last_entry == (300, 345)
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(301, 346, skip_full_check=True)
    assert index.entries == SLOTS


def test_a_repeated_timestamp_is_not_added(index: TimeIndex) -> None:
    fill(index, 3)
    index.maybe_append(30, 75)
    index.maybe_append(30, 99)
    assert list(index) == [(10, 55), (20, 65), (30, 75)]


def test_messages_without_a_timestamp_make_no_entry(index: TimeIndex) -> None:
    index.maybe_append(-1, BASE + 3)
    assert index.entries == 0
    index.maybe_append(0, BASE + 3)
    assert list(index) == [(0, BASE + 3)]


def test_falling_offsets_and_timestamps_are_refused(index: TimeIndex) -> None:
    fill(index, 3)
    with pytest.raises(InvalidOffsetError) as offset_error:
        index.maybe_append(40, 74)
    assert (offset_error.value.position, offset_error.value.found) == (36, 74)
    with pytest.raises(LogStateError) as time_error:
        index.maybe_append(29, 80)
    assert (time_error.value.position, time_error.value.found) == (36, 29)
    index.maybe_append(40, 75)
    assert index.last_entry == (40, 75)


def test_an_offset_too_far_from_the_base_is_refused(index: TimeIndex) -> None:
    for offset in (BASE - 1, BASE + 2**31):
        with pytest.raises(SegmentOffsetOverflowError):
            index.maybe_append(1, offset)
    assert (index.entries, index.last_entry) == (0, (-1, BASE))


def test_truncating_keeps_the_entries_before_the_offset(index: TimeIndex) -> None:
    fill(index, SLOTS - 1)
    index.truncate_to(10_000)
    assert index.entries == SLOTS - 1
    index.truncate_to(BASE + 26)
    assert index.last_entry == (20, 65)
    index.truncate_to(65)
    assert list(index) == [(10, 55)]
    index.truncate_to(BASE + 10)
    assert (index.entries, index.last_entry) == (0, (-1, BASE))
    index.maybe_append(5, 50)
    index.truncate_to(BASE)
    assert index.lookup(5) == (-1, BASE)


def test_a_reopened_index_keeps_its_entries_and_is_full_because_it_was_trimmed(index: TimeIndex, path: Path) -> None:
    fill(index, 3)
    index.close()
    assert path.read_bytes() == slots((10, 10), (20, 20), (30, 30))
    with closing(TimeIndex(path, BASE, max_size=SLOTS * 12)) as again:
        assert (again.last_entry, again.is_full, again.entries) == ((30, 75), True, 3)
        with pytest.raises(ValueError, match="full"):
            again.maybe_append(40, 85, skip_full_check=True)
        assert again.resize(SLOTS * 12)
        assert again.last_entry == (30, 75)
        again.maybe_append(40, 85)
    assert path.read_bytes() == slots((10, 10), (20, 20), (30, 30), (40, 40))


def test_the_file_is_preallocated_in_whole_entries(path: Path) -> None:
    index = TimeIndex(path, BASE, max_size=1003)
    assert (index.max_entries, path.read_bytes()) == (83, bytes(996))


# --- files of real brokers


@pytest.mark.parametrize("files", GOLDEN.values(), ids=GOLDEN)
def test_a_brokers_indexes_read_as_kafka_lists_them(files: dict[Path, Rows]) -> None:
    for path, expected in files.items():
        index = TimeIndex(path, base_offset(path), writable=False)
        assert list(index) == expected
        for n, entry in enumerate(expected):
            assert index.lookup(entry[0]) == entry
            assert index.lookup(entry[0] - 1) == (expected[n - 1] if n else (-1, index.base_offset))


@pytest.mark.parametrize("archive", ["kafka-3.9-crash", "kafka-0.10.2-crash"])
def test_a_crashed_brokers_index_is_read_up_to_its_empty_slots(golden_logs: Path, archive: str) -> None:
    untrimmed = 0
    for partition in golden.partitions():
        if partition.archive != archive:
            continue
        for segment in partition.segments:
            path = segment.log.with_suffix(".timeindex")
            index = TimeIndex(path, base_offset(path), writable=False)
            used = slots(*((entry.timestamp, entry.offset - index.base_offset) for entry in index))
            assert path.read_bytes() == used + bytes(path.stat().st_size - len(used))
            untrimmed += index.length > index.size_in_bytes
    assert untrimmed


@pytest.mark.parametrize("files", GOLDEN.values(), ids=GOLDEN)
def test_rewritten_indexes_have_the_bytes_of_the_broker(tmp_path: Path, files: dict[Path, Rows]) -> None:
    for path, expected in files.items():
        with closing(TimeIndex(tmp_path / path.name, base_offset(path), max_size=10 << 20)) as index:
            for timestamp, offset in expected:
                index.maybe_append(timestamp, offset)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


# --- damage


def test_a_partial_entry_at_the_end_is_ignored(path: Path) -> None:
    path.write_bytes(slots((10, 1)) + b" ")
    for writable in (True, False):
        assert list(TimeIndex(path, BASE, writable=writable)) == [(10, BASE + 1)]


@pytest.mark.parametrize("after", [(0, 0), (20, 50), (19, 50), (30, 1), (-5, 50), (30, -1), (-(2**63), 9)])
def test_reading_ends_where_entries_stop_rising(path: Path, after: tuple[int, int]) -> None:
    path.write_bytes(slots((10, 1), (20, 2), after, (90, 9)))
    index = TimeIndex(path, BASE, writable=False)
    assert list(index) == [(10, BASE + 1), (20, BASE + 2)]
    assert index.lookup(1000) == index.last_entry == (20, BASE + 2)


def test_a_reader_takes_zeros_for_an_entry_only_in_a_one_entry_file(path: Path) -> None:
    path.write_bytes(bytes(1200))
    empty = TimeIndex(path, BASE, writable=False)
    assert (empty.entries, empty.lookup(1000)) == (0, (-1, BASE))
    path.write_bytes(bytes(12))
    one = TimeIndex(path, BASE, writable=False)
    assert (list(one), one.lookup(1000)) == ([(0, BASE)], (0, BASE))


def test_an_index_truncated_during_reading_yields_the_remaining_entries(path: Path) -> None:
    path.write_bytes(slots(*((n * 10, n) for n in range(1, 3001))))
    index = TimeIndex(path, BASE, writable=False)
    assert index.last_entry == (30_000, BASE + 3000)
    os.truncate(path, 12 * 1500 + 5)
    assert index.lookup(30_000) == index.lookup(2**62) == (15_000, BASE + 1500)
    assert index.lookup(100) == (100, BASE + 10)
    assert len(list(index)) == 1500
    path.unlink()
    assert index.lookup(30_000) == (-1, BASE)


def test_a_reader_changes_nothing_and_follows_the_writer(index: TimeIndex, path: Path) -> None:
    looking = TimeIndex(path, BASE, writable=False)
    for n in range(1, SLOTS):
        index.maybe_append(n * 10, BASE + n)
        assert looking.lookup(10_000) == (n * 10, BASE + n)
    with pytest.raises(io.UnsupportedOperation):
        looking.maybe_append(10_000, 10_000, skip_full_check=True)
    looking.close()
    assert path.stat().st_size == SLOTS * 12


# --- a disk that fails


def test_an_append_that_fails_leaves_the_index_as_it_was(index: TimeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(index, 3)
    monkeypatch.setattr(os, "pwrite", no_space)
    with pytest.raises(OSError, match=str(index.path)):
        index.maybe_append(40, 85)
    assert (index.entries, index.last_entry, index.lookup(100)) == (3, (30, 75), (30, 75))
    monkeypatch.undo()
    index.maybe_append(40, 85)
    assert index.lookup(100) == (40, 85)


def test_a_full_disk_leaves_no_new_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "ftruncate", no_space)
    with pytest.raises(OSError, match="No space"):
        TimeIndex(path, BASE, max_size=SLOTS * 12)
    assert not path.exists()


# --- against a plain list


@given(
    gaps=st.lists(st.integers(1, 10**9), max_size=1500),
    targets=st.lists(st.integers(-2, 10**12), min_size=1, max_size=20),
)
def test_lookups_agree_with_a_list_mapped_and_not(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], targets: list[int]
) -> None:
    path = tmp_path_factory.mktemp("index") / "0.timeindex"
    entries = [TimestampEntry(t, n) for n, t in enumerate(np.cumsum(gaps, dtype=np.int64).tolist())]
    targets += [entry.timestamp for entry in entries[::100]]
    with closing(TimeIndex(path, 0, max_size=2000 * 12)) as index:
        for entry in entries:
            index.maybe_append(*entry)
        looking = TimeIndex(path, 0, writable=False)
        assert list(index) == list(looking) == entries
        for target in targets:
            floor = max((e for e in entries if e.timestamp <= target), default=TimestampEntry(-1, 0))
            assert index.lookup(target) == looking.lookup(target) == floor


class TimeIndexMachine(RuleBasedStateMachine):
    """An index, the list of its entries, and all operations on it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "45.timeindex"
        self.index = TimeIndex(self.path, BASE, max_size=SLOTS * 12)
        self.entries: list[TimestampEntry] = []
        self.room = SLOTS

    @property
    def last(self) -> TimestampEntry:
        return self.entries[-1] if self.entries else TimestampEntry(-1, BASE)

    @rule(later=st.integers(0, 3), gap=st.integers(1, 3), seal=st.booleans())
    def maybe_append(self, later: int, gap: int, seal: bool) -> None:
        entry = TimestampEntry(self.last.timestamp + later, self.last.offset + gap)
        if len(self.entries) >= self.room - (not seal) and (later or not seal):
            with pytest.raises(ValueError, match="full"):
                self.index.maybe_append(*entry, skip_full_check=seal)
        else:
            self.index.maybe_append(*entry, skip_full_check=seal)
            self.entries += [entry] * (later > 0)

    @rule(back=st.integers(-2, 20))
    def truncate_to(self, back: int) -> None:
        offset = self.last.offset - back
        self.index.truncate_to(offset)
        self.entries = [entry for entry in self.entries if entry.offset < offset]

    @rule(more=st.integers(0, 100))
    def resize(self, more: int) -> None:
        size = len(self.entries) * 12 + more
        assert self.index.resize(size) == (size // 12 != self.room)
        self.room = size // 12

    @rule()
    def reset(self) -> None:
        self.index.reset()
        self.entries, self.room = [], SLOTS

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = TimeIndex(self.path, BASE, max_size=SLOTS * 12)
        self.room = len(self.entries)

    @invariant()
    def equals_the_list(self) -> None:
        assert list(self.index) == self.entries
        assert (self.index.last_entry, self.index.max_entries) == (self.last, self.room)
        assert self.index.is_full == (len(self.entries) >= self.room - 1)
        assert self.path.stat().st_size == self.room * 12
        for target in range(-2, self.last.timestamp + 2):
            floor = [entry for entry in self.entries if entry.timestamp <= target]
            assert self.index.lookup(target) == (floor[-1] if floor else (-1, BASE))

    def teardown(self) -> None:
        self.index.close()
        self.directory.cleanup()


TestTimeIndexAgainstAList = TimeIndexMachine.TestCase
