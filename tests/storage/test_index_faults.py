"""Indexes that are damaged, cut while they are read, or on a disk that fails."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kafkalog.errors import CorruptIndexError, LogStateError
from kafkalog.storage.index.offset_index import OffsetEntry, OffsetIndex
from tests.helpers.indexes import fill, no_space, small_disk
from tests.helpers.indexes import offset_slots as slots

BASE = 45
SLOTS = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000045.index"


@pytest.fixture
def index(path: Path) -> OffsetIndex:
    return OffsetIndex(path, BASE, max_size=SLOTS * 8)


def reader(path: Path) -> OffsetIndex:
    return OffsetIndex(path, BASE, writable=False)


# --- damage


def test_a_partial_entry_at_the_end_is_ignored(path: Path) -> None:
    path.write_bytes(slots((1, 1)) + b"\0\0\0")
    for index in (OffsetIndex(path, BASE), reader(path)):
        assert list(index) == [(BASE + 1, 1)]


@pytest.mark.parametrize(
    "after", [(0, 0), (2, 50), (1, 50), (7, 19), (-5, 50), (9, -1)], ids=lambda after: f"{after[0]},{after[1]}"
)
def test_reading_ends_where_entries_stop_rising(path: Path, after: tuple[int, int]) -> None:
    path.write_bytes(slots((1, 10), (2, 20), after, (8, 80)))
    index = reader(path)
    assert list(index) == [(BASE + 1, 10), (BASE + 2, 20)]
    assert index.lookup(BASE + 100) == index.last_entry == (BASE + 2, 20)
    assert index.fetch_upper_bound_offset(OffsetEntry(BASE + 2, 20), 1) is None


def test_a_zeroed_index_has_no_entries_for_a_reader(path: Path) -> None:
    path.write_bytes(bytes(10 << 20))
    index = reader(path)
    assert (index.entries, index.last_entry, index.lookup(50)) == (0, (BASE, 0), (BASE, 0))


def test_reading_a_missing_index_creates_nothing(path: Path) -> None:
    index = reader(path)
    index.flush()
    assert (index.entries, index.is_full, list(index), index.lookup(50)) == (0, True, [], (BASE, 0))
    index.close()
    assert not path.exists()


def test_a_reader_changes_nothing(index: OffsetIndex, path: Path) -> None:
    index.append(51, 1)
    looking = reader(path)
    before, written = path.read_bytes(), path.stat().st_mtime_ns
    changes: list[Callable[[], object]]
    changes = [looking.reset, lambda: looking.rename_to(path / "x")]
    changes += [lambda: looking.append(60, 60), lambda: looking.truncate_to(45), lambda: looking.resize(8)]
    for change in changes:
        with pytest.raises(io.UnsupportedOperation, match=str(path)):
            change()
    looking.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, written)


def test_a_reader_follows_the_writer(index: OffsetIndex, path: Path) -> None:
    looking = reader(path)
    assert looking.lookup(1000) == (BASE, 0)
    for n in range(1, SLOTS + 1):
        index.append(BASE + n, n * 100)
        assert looking.lookup(1000) == (BASE + n, n * 100)
    assert list(looking) == list(index)


def test_a_reader_finds_an_index_that_is_created_later(path: Path) -> None:
    looking = reader(path)
    with closing(OffsetIndex(path, BASE, max_size=80)) as index:
        assert looking.lookup(1000) == (BASE, 0)
        index.append(BASE + 3, 300)
        assert looking.lookup(1000) == (BASE + 3, 300)
        assert (looking.entries, looking.max_entries) == (1, 10)


@pytest.mark.parametrize("left", [0, 5, 8 * 700 + 3, 8 * 4000])
def test_an_index_cut_while_it_is_read_gives_what_is_left(path: Path, left: int) -> None:
    entries = [(n, n * 10) for n in range(1, 5001)]
    path.write_bytes(slots(*entries))
    index = reader(path)
    assert index.entries == 5000
    walk = iter(index)
    assert next(walk) == (BASE + 1, 10)
    os.truncate(path, left)
    last = (BASE + left // 8, left // 8 * 10) if left >= 8 else (BASE, 0)
    for target in (BASE + 5000, BASE + 4999, BASE + max(left // 8, 1)):
        assert index.lookup(target) == last
    assert index.fetch_upper_bound_offset(OffsetEntry(BASE, 0), 49_999) is None
    assert len(list(index)) == left // 8
    path.unlink()
    assert (index.lookup(BASE + 100), list(index)) == ((BASE, 0), [])


def test_neither_a_directory_nor_a_pipe_is_an_index(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(CorruptIndexError, match="regular"):
            OffsetIndex(tmp_path / name, BASE, writable=False)


# --- a disk that fails


def test_a_disk_that_becomes_full_fails_an_append_and_leaves_the_entries(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        index = OffsetIndex(disk / "0.index", 0, max_size=10 << 20)
        index.append(1, 1)
        other = fill(disk)

        def append_many() -> None:
            for n in range(2, 100_000):
                index.append(n, n)

        with pytest.raises(OSError, match="No space") as error:
            append_many()
        assert error.value.filename == str(disk / "0.index")
        last = index.entries
        assert (index.last_offset, index.lookup(2**31)) == (last, (last, last))
        other.unlink()
        index.append(last + 1, last + 1)
        index.close()
        assert (disk / "0.index").stat().st_size == (last + 1) * 8


def test_a_resize_that_fails_leaves_the_index_as_it_was(index: OffsetIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.append(51, 1)
    monkeypatch.setattr(os, "ftruncate", no_space)
    for resize in (lambda: index.resize(1 << 20), index.trim_to_valid_size):
        with pytest.raises(OSError, match=str(index.path)):
            resize()
    monkeypatch.undo()
    assert (index.entries, index.max_entries, index.length) == (1, SLOTS, SLOTS * 8)
    index.append(52, 2)
    assert list(index) == [(51, 1), (52, 2)]


def test_an_index_that_cannot_be_trimmed_is_closed_all_the_same(
    index: OffsetIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.append(51, 1)
    monkeypatch.setattr(os, "ftruncate", no_space)
    with pytest.raises(OSError, match="No space"):
        index.close()
    index.close()
    with pytest.raises(LogStateError, match="closed"):
        index.lookup(51)


def test_a_failed_flush_raises(index: OffsetIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    index.append(51, 1)
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        index.flush()
