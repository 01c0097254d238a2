"""The offset index: Kafka's rules, its file, and files that real brokers made."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkalog.errors import InvalidOffsetError, LogStateError, SegmentOffsetOverflowError
from kafkalog.storage.index.offset_index import OffsetEntry, OffsetIndex
from tests.helpers import golden
from tests.helpers.indexes import Rows, base_offset, dumped_by_partition
from tests.helpers.indexes import offset_slots as slots

BASE = 45
SLOTS = 30
GOLDEN = dumped_by_partition(".index")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000045.index"


@pytest.fixture
def index(path: Path) -> OffsetIndex:
    return OffsetIndex(path, BASE, max_size=SLOTS * 8)


# --- Kafka's rules


def test_an_empty_index_finds_the_start_of_the_segment(index: OffsetIndex) -> None:
    assert index.lookup(92) == (BASE, 0)
    assert (index.last_offset, index.last_entry, index.entries, index.is_full) == (BASE, (BASE, 0), 0, False)


def test_a_lookup_finds_the_last_entry_at_or_before_the_offset(index: OffsetIndex) -> None:
    entries = [OffsetEntry(BASE + 2 * n + 1, n * 10) for n in range(SLOTS)]
    for entry in entries:
        index.append(*entry)
    assert index.lookup(BASE) == (BASE, 0)
    for entry in entries:
        assert index.lookup(entry.offset) == index.lookup(entry.offset + 1) == entry
    assert list(index) == entries
    assert index.size_in_bytes == index.length == SLOTS * 8


def test_a_full_index_takes_no_more(index: OffsetIndex) -> None:
    for n in range(index.max_entries):
        index.append(BASE + n + 1, n)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.append(BASE + index.max_entries + 1, index.max_entries)
    assert index.entries == SLOTS


@pytest.mark.parametrize("offset", [51, 50])
def test_an_offset_that_does_not_rise_is_refused(index: OffsetIndex, offset: int) -> None:
    index.append(51, 0)
    with pytest.raises(InvalidOffsetError) as error:
        index.append(offset, 1)
    assert (error.value.path, error.value.position, error.value.found) == (str(index.path), 8, offset)
    assert list(index) == [(51, 0)]


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31, -(2**31)])
def test_an_offset_too_far_from_the_base_is_refused(index: OffsetIndex, offset: int) -> None:
    with pytest.raises(SegmentOffsetOverflowError):
        index.append(offset, 0)
    assert index.entries == 0
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert index.last_entry == (BASE + 2**31 - 1, 2**31 - 1)


@pytest.mark.parametrize("position", [-1, 2**31])
def test_a_position_that_no_segment_has_is_refused(index: OffsetIndex, position: int) -> None:
    with pytest.raises(ValueError, match="position"):
        index.append(BASE + 1, position)


def test_a_reopened_index_keeps_its_entries_and_is_full_because_it_was_trimmed(index: OffsetIndex, path: Path) -> None:
    index.append(51, 0)
    index.append(52, 1)
    index.close()
    with closing(OffsetIndex(path, BASE, max_size=SLOTS * 8)) as again:
        assert again.last_offset == 52
        assert again.lookup(52) == (52, 1)
        assert again.is_full
        with pytest.raises(ValueError, match="full"):
            again.append(53, 2)


def test_the_upper_bound_of_a_read_is_the_first_entry_at_or_behind_its_end(index: OffsetIndex) -> None:
    first, second, third, fourth = (OffsetEntry(BASE + n, p) for n, p in enumerate((0, 10, 23, 37)))
    assert index.fetch_upper_bound_offset(OffsetEntry(BASE, 0), 5) is None
    for entry in (first, second, third, fourth):
        index.append(*entry)
    assert index.fetch_upper_bound_offset(first, 5) == second
    assert index.fetch_upper_bound_offset(first, 10) == second
    assert index.fetch_upper_bound_offset(first, 22) == index.fetch_upper_bound_offset(first, 23) == third
    assert index.fetch_upper_bound_offset(second, 24) == fourth
    assert index.fetch_upper_bound_offset(fourth, 1) is None
    assert index.fetch_upper_bound_offset(first, 2**31) is None


def test_an_exact_match_with_the_first_entry_gives_the_second_as_upper_bound(index: OffsetIndex) -> None:
    index.append(BASE + 1, 10)
    assert index.fetch_upper_bound_offset(OffsetEntry(BASE, 0), 9) == (BASE + 1, 10)
    assert index.fetch_upper_bound_offset(OffsetEntry(BASE, 0), 10) is None
    index.append(BASE + 2, 20)
    assert index.fetch_upper_bound_offset(OffsetEntry(BASE, 0), 10) == (BASE + 2, 20)


def test_truncating_keeps_the_entries_before_the_offset(index: OffsetIndex) -> None:
    for n in range(1, 10):
        index.append(BASE + n, n)
    index.truncate_to(BASE + 12)
    assert index.lookup(BASE + 100) == (BASE + 9, 9)
    index.append(BASE + 10, 10)
    index.truncate_to(BASE + 10)
    assert index.last_entry == (BASE + 9, 9)
    index.append(BASE + 10, 10)
    for offset, last in ((10, 9), (9, 8), (5, 4)):
        index.truncate_to(BASE + offset)
        assert index.last_offset == BASE + last
    index.truncate_to(BASE)
    assert (index.entries, index.last_offset, index.lookup(BASE + 5)) == (0, BASE, (BASE, 0))
    index.append(BASE + 1, 1)
    assert list(index) == [(BASE + 1, 1)]


def test_a_last_offset_may_be_equal_to_the_base(index: OffsetIndex) -> None:
    index.append(BASE, 0)
    assert (list(index), index.last_offset) == ([(BASE, 0)], BASE)


def test_an_untrimmed_index_counts_every_slot_as_an_entry_until_it_is_reset(index: OffsetIndex, path: Path) -> None:
    index.append(BASE + 7, 4096)
    index.flush()
    index.release()
    assert path.stat().st_size == SLOTS * 8
    with closing(OffsetIndex(path, BASE, max_size=SLOTS * 8)) as again:
        assert (again.entries, again.last_offset, again.is_full) == (SLOTS, BASE, True)
        again.reset()
        again.append(BASE + 8, 1)
        assert list(again) == [(BASE + 8, 1)]
    assert path.read_bytes() == slots((8, 1))


def test_resizing_keeps_the_entries_and_returns_whether_the_size_changed(index: OffsetIndex, path: Path) -> None:
    index.append(51, 1)
    assert not index.resize(SLOTS * 8 + 7)
    assert index.resize(16)
    assert (index.max_entries, path.stat().st_size) == (2, 16)
    with pytest.raises(ValueError, match="cannot have 0 bytes"):
        index.resize(7)
    index.append(52, 2)
    assert index.is_full
    assert index.resize(800)
    index.append(53, 3)
    assert list(index) == [(51, 1), (52, 2), (53, 3)]
    assert path.read_bytes()[24:] == bytes(776)


def test_an_index_shrunk_to_nothing_grows_again(index: OffsetIndex, path: Path) -> None:
    assert index.resize(0)
    assert (index.is_full, path.stat().st_size, list(index), index.lookup(50)) == (True, 0, [], (BASE, 0))
    assert index.resize(index.max_size)
    index.append(51, 1)
    assert index.lookup(60) == (51, 1)


def test_a_renamed_index_is_used_under_its_new_name(index: OffsetIndex, path: Path) -> None:
    index.append(51, 1)
    renamed = path.with_suffix(".index.deleted")
    index.rename_to(renamed)
    index.append(52, 2)
    assert (index.path, path.exists()) == (renamed, False)
    index.close()
    assert renamed.read_bytes() == slots((6, 1), (7, 2))
    index.rename_to(path)
    assert (index.path, path.exists(), renamed.exists()) == (path, True, False)


@pytest.mark.parametrize("max_size", [-1, 0, 7])
def test_a_size_that_holds_no_entry_creates_nothing(path: Path, max_size: int) -> None:
    with pytest.raises(ValueError, match="holds no entry"):
        OffsetIndex(path, BASE, max_size=max_size)
    assert not path.exists()


def test_a_closed_index_refuses_reads_and_writes(index: OffsetIndex) -> None:
    index.append(51, 1)
    index.close()
    uses: list[Callable[[], object]] = [
        lambda: index.lookup(51),
        lambda: list(index),
        lambda: index.append(52, 1),
        lambda: index.truncate_to(BASE),
    ]
    for ask in uses:
        with pytest.raises((LogStateError, ValueError), match=r"closed|full"):
            ask()
    index.flush()
    assert index.entries == 1


def test_a_writable_index_keeps_one_descriptor_and_a_read_only_one_none(index: OffsetIndex, path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists them")
    index.append(51, 1)
    index.trim_to_valid_size()
    assert index.lookup(60) == (51, 1)
    reader = OffsetIndex(path, BASE, writable=False)
    assert reader.lookup(60) == (51, 1)
    assert _open_to(path) == 1
    index.close()
    assert _open_to(path) == 0


def _open_to(path: Path) -> int:
    """Return how many descriptors this process has for the file."""
    return [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()].count(str(path.resolve()))


def sealed(path: Path, entries: int = 3) -> OffsetIndex:
    """Return an index that was closed and opened again, and not appended to since."""
    with closing(OffsetIndex(path, BASE, max_size=8 * entries)) as index:
        for n in range(entries):
            index.append(BASE + 10 * n + 1, n)
    return OffsetIndex(path, BASE, max_size=800)


def test_a_lookup_follows_each_change_of_the_index(path: Path) -> None:
    with closing(sealed(path)) as index:
        assert index.lookup(BASE + 20) == (BASE + 11, 1)
        assert index.lookup(BASE + 21) == (BASE + 21, 2)
        index.truncate_to(BASE + 21)
        assert index.lookup(BASE + 99) == (BASE + 11, 1)
        index.resize(800)
        assert index.lookup(BASE + 99) == (BASE + 11, 1)
        index.append(BASE + 50, 7)
        assert index.lookup(BASE + 99) == (BASE + 50, 7)
        index.resize(3 * 8)
        assert index.lookup(BASE + 99) == (BASE + 50, 7)
    with pytest.raises(LogStateError, match="closed"):
        index.lookup(BASE + 99)


def test_a_read_only_index_is_opened_at_each_lookup(path: Path) -> None:
    sealed(path, 3000).close()
    reader = OffsetIndex(path, BASE, writable=False)
    assert reader.lookup(BASE + 20) == (BASE + 11, 1)
    path.unlink()
    assert reader.lookup(BASE + 20) == (BASE, 0)


# --- files of real brokers


@pytest.mark.parametrize("files", GOLDEN.values(), ids=GOLDEN)
def test_a_brokers_indexes_read_as_kafka_lists_them(files: dict[Path, Rows]) -> None:
    for path, expected in files.items():
        index = OffsetIndex(path, base_offset(path), writable=False)
        assert list(index) == expected
        for n, entry in enumerate(expected):
            assert index.lookup(entry[0]) == entry
            before = expected[n - 1] if n else (index.base_offset, 0)
            assert index.lookup(entry[0] - 1) == before
            # One byte less: an exact match with the first entry finds the second.
            assert index.fetch_upper_bound_offset(OffsetEntry(*before), entry[1] - before[1] - 1) == entry


@pytest.mark.parametrize("archive", ["kafka-3.9-crash", "kafka-0.10.2-crash"])
def test_a_crashed_brokers_index_is_read_up_to_its_empty_slots(golden_logs: Path, archive: str) -> None:
    untrimmed = 0
    for partition in golden.partitions():
        if partition.archive != archive:
            continue
        for segment in partition.segments:
            path = segment.log.with_suffix(".index")
            index = OffsetIndex(path, base_offset(path), writable=False)
            used = slots(*((entry.offset - index.base_offset, entry.position) for entry in index))
            assert path.read_bytes() == used + bytes(path.stat().st_size - len(used))
            untrimmed += index.length > index.size_in_bytes
    assert untrimmed


@pytest.mark.parametrize("files", GOLDEN.values(), ids=GOLDEN)
def test_rewritten_indexes_have_the_bytes_of_the_broker(tmp_path: Path, files: dict[Path, Rows]) -> None:
    for path in (path for path, rows in files.items() if rows):
        with closing(OffsetIndex(tmp_path / path.name, base_offset(path), max_size=10 << 20)) as index:
            for offset, position in files[path]:
                index.append(offset, position)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


# --- against a plain list


@given(
    gaps=st.lists(st.integers(1, 2000), max_size=2000),
    targets=st.lists(st.integers(-10, 2_100_000), min_size=1, max_size=20),
    trimmed=st.booleans(),
)
def test_lookups_agree_with_a_list_mapped_and_not(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[int], targets: list[int], trimmed: bool
) -> None:
    path = tmp_path_factory.mktemp("index") / "0.index"
    offsets = np.cumsum(gaps, dtype=np.int64).tolist()
    entries = [OffsetEntry(offset, n * 3 + 1) for n, offset in enumerate(offsets)]
    with closing(OffsetIndex(path, 0, max_size=2001 * 8)) as index:
        for entry in entries:
            index.append(*entry)
        mapped = [(index.lookup(t), index.fetch_upper_bound_offset(OffsetEntry(0, 0), t)) for t in targets]
        if trimmed:
            index.trim_to_valid_size()
        looking = OffsetIndex(path, 0, writable=False)
        read = [(looking.lookup(t), looking.fetch_upper_bound_offset(OffsetEntry(0, 0), t)) for t in targets]
        assert list(index) == list(looking) == entries
    floors = [max((e for e in entries if e.offset <= t), default=OffsetEntry(0, 0)) for t in targets]
    bounds = [min((e for e in entries if e.position >= t + (t == 1)), default=None) for t in targets]
    assert mapped == read == list(zip(floors, bounds, strict=True))


class OffsetIndexMachine(RuleBasedStateMachine):
    """An index, the list of its entries, and all operations on it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "45.index"
        self.index = OffsetIndex(self.path, BASE, max_size=SLOTS * 8)
        self.entries: list[OffsetEntry] = []
        self.room = SLOTS

    @rule(gap=st.integers(0, 3), position=st.integers(0, 2**31 - 1))
    def append(self, gap: int, position: int) -> None:
        last = self.entries[-1].offset if self.entries else BASE
        entry = OffsetEntry(last + gap, position)
        if len(self.entries) >= self.room:
            with pytest.raises(ValueError, match="full"):
                self.index.append(*entry)
        elif self.entries and not gap:
            with pytest.raises(InvalidOffsetError):
                self.index.append(*entry)
        else:
            self.index.append(*entry)
            self.entries.append(entry)

    @rule(back=st.integers(-2, 20))
    def truncate_to(self, back: int) -> None:
        offset = (self.entries[-1].offset if self.entries else BASE) - back
        self.index.truncate_to(offset)
        self.entries = [entry for entry in self.entries if entry.offset < offset]

    @rule(more=st.integers(0, 100))
    def resize(self, more: int) -> None:
        size = len(self.entries) * 8 + more
        assert self.index.resize(size) == (size // 8 != self.room)
        self.room = size // 8

    @rule()
    def reset(self) -> None:
        self.index.reset()
        self.entries, self.room = [], SLOTS

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = OffsetIndex(self.path, BASE, max_size=SLOTS * 8)
        self.room = len(self.entries)

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @invariant()
    def equals_the_list(self) -> None:
        assert list(self.index) == self.entries
        assert (self.index.entries, self.index.max_entries) == (len(self.entries), self.room)
        assert self.index.last_entry == (self.entries[-1] if self.entries else (BASE, 0))
        assert self.path.stat().st_size == self.room * 8
        for target in range(BASE - 1, self.index.last_offset + 2):
            floor = [entry for entry in self.entries if entry.offset <= target]
            assert self.index.lookup(target) == (floor[-1] if floor else (BASE, 0))

    def teardown(self) -> None:
        self.index.close()
        self.directory.cleanup()


TestOffsetIndexAgainstAList = OffsetIndexMachine.TestCase


def test_threads_look_up_while_one_appends_truncates_and_trims(index: OffsetIndex) -> None:
    done, wrong = threading.Event(), list[object]()

    def look() -> None:
        while not done.is_set():
            try:
                found = index.lookup(BASE + 20)
                if found.offset > BASE + 20 or found.position != (found.offset - BASE) * 10:
                    wrong.append(found)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must be seen
                wrong.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            for n in range(1, SLOTS):
                index.append(BASE + n, n * 10)
            index.trim_to_valid_size()
            index.reset()
    finally:
        done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
