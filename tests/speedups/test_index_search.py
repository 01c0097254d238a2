"""A search in an index file gives what a search in all of its entries would, however long it is and wherever cut."""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.index_search import search_entries
from kafkalog.storage.index.index_file import Field, IndexFile
from tests.helpers.guard import guarded

# The entries of 8 bytes that a search reads at once.
BLOCK_ENTRIES = 512
# Bytes of an entry, where its field lies, whether that has 8 bytes; and how an entry is packed.
FIELDS = [(8, 0, False, ">ii"), (8, 4, False, ">ii"), (12, 0, True, ">qi"), (12, 8, False, ">qi")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index") / "0.index"


def packed(values: list[int], at: int, layout: str) -> bytes:
    return b"".join(struct.pack(layout, *((7, each) if at else (each, 7))) for each in values)


@given(
    st.sampled_from(FIELDS),
    st.one_of(st.integers(0, 40), st.integers(BLOCK_ENTRIES - 2, 4 * BLOCK_ENTRIES)),
    st.integers(1, 5),
    st.integers(-3, 3),
    st.data(),
)
def test_the_last_entry_of_at_most_the_target_is_found(
    path: Path, field: tuple[int, int, bool, str], count: int, step: int, shift: int, draw: st.DataObject
) -> None:
    stride, at, wide, layout = field
    values = [step * i for i in range(count)]
    data = packed(values, at, layout)
    path.write_bytes(data)
    for target in (draw.draw(st.integers(-2, step * count + 2)), step * (count // 2) + shift, step * (count - 1)):
        found = bisect_right(values, target)
        expected = found, data[(found - 1) * stride : found * stride] if found else b""
        file = IndexFile(path, writable=False)
        assert file.search(Field(at, stride, wide), target, count) == expected
        assert search_entries(guarded(data), stride, at, wide, target, count) == expected


@given(st.integers(0, 3 * BLOCK_ENTRIES), st.integers(0, 3 * BLOCK_ENTRIES * 8), st.integers(-1, 4 * BLOCK_ENTRIES))
def test_a_file_that_became_shorter_is_searched_to_its_new_end(path: Path, known: int, left: int, target: int) -> None:
    data = packed(list(range(known)), 0, ">ii")[:left]
    path.write_bytes(data)
    most = min(len(data) // 8, max(0, target + 1))
    last = data[8 * (most - 1) : 8 * most] if most else b""
    file = IndexFile(path, writable=False)
    assert file.search(Field(0, 8), target, known) == (most, last)
    assert search_entries(guarded(data), 8, 0, False, target, known) == (most, last)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list descriptors")
def test_no_descriptor_is_left_open(path: Path) -> None:
    path.write_bytes(bytes(80))
    file = IndexFile(path, writable=False)
    for _ in range(10):
        file.search(Field(0, 8), 0, 10)
    # resolve(): others come and go meanwhile, and what has gone leads nowhere.
    assert path.resolve() not in {each.resolve() for each in Path("/proc/self/fd").iterdir()}


def test_a_descriptor_that_cannot_be_read_is_an_error(path: Path) -> None:
    path.write_bytes(bytes(80))
    with path.open("wb") as writing, pytest.raises(OSError, match="Bad file descriptor"):
        search_entries(writing.fileno(), 8, 0, False, 0, 10)


@pytest.mark.parametrize("numbers", [(0, 0, False), (8, 5, False), (8, 1, True), (8, -1, False), (-8, 0, False)])
def test_a_field_outside_its_entry_is_refused(numbers: tuple[int, int, bool]) -> None:
    with pytest.raises(ValueError, match="no field"):
        search_entries(b"", *numbers, 0, 1)
    with pytest.raises(ValueError, match="-1 entries"):
        search_entries(b"", 8, 0, False, 0, -1)
    with pytest.raises(TypeError, match="bytes-like"):
        search_entries(None, 8, 0, False, 0, 1)  # type: ignore[arg-type]
