"""A search in an index file gives what a search in all of its entries would, however long it is and wherever cut."""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.index_search import search_entries, search_index
from tests.helpers.guard import guarded

# Bytes of an entry, where its field lies, whether that has 8 bytes; and how an entry is packed.
FIELDS = [(8, 0, False, ">ii"), (8, 4, False, ">ii"), (12, 0, True, ">qi"), (12, 8, False, ">qi")]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index") / "0.index"


def packed(values: list[int], at: int, layout: str) -> bytes:
    return b"".join(struct.pack(layout, *((7, each) if at else (each, 7))) for each in values)


@given(
    st.sampled_from(FIELDS),
    st.one_of(st.integers(0, 40), st.integers(300, 1400)),
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
        assert search_index(str(path), stride, at, wide, target, count) == expected
        assert search_entries(guarded(data), stride, at, wide, target, count) == expected


@given(st.integers(0, 1300), st.integers(0, 1300 * 8), st.integers(-1, 1400))
def test_a_file_that_became_shorter_is_searched_to_its_new_end(path: Path, known: int, left: int, target: int) -> None:
    data = packed(list(range(known)), 0, ">ii")[:left]
    path.write_bytes(data)
    count, entry = search_index(str(path), 8, 0, False, target, known)
    there = len(data) // 8
    # Of a block whose beginning has gone the one before is looked at.
    assert count <= min(there, max(0, target + 1))
    assert entry == (data[8 * (count - 1) : 8 * count] if count else b"")
    if left >= 8 * known:
        assert count == min(known, max(0, target + 1))
    most = min(there, max(0, target + 1))
    assert search_entries(guarded(data), 8, 0, False, target, known) == (most, data[8 * (most - 1) : 8 * most])


def test_a_file_that_cannot_be_opened_or_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        search_index(str(tmp_path / "no.index"), 8, 0, False, 0, 1)
    assert missing.value.filename == str(tmp_path / "no.index")
    with pytest.raises(IsADirectoryError) as directory:
        search_index(str(tmp_path), 8, 0, False, 0, 1)
    assert directory.value.filename == str(tmp_path)
    with pytest.raises(ValueError, match="null byte"):
        search_index("a\0b", 8, 0, False, 0, 1)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list descriptors")
def test_no_descriptor_is_left_open(path: Path) -> None:
    path.write_bytes(bytes(80))
    for _ in range(10):
        search_index(str(path), 8, 0, False, 0, 10)
    # resolve(): others come and go meanwhile, and what has gone leads nowhere.
    assert path.resolve() not in {each.resolve() for each in Path("/proc/self/fd").iterdir()}


@pytest.mark.parametrize(
    "numbers", [(0, 0, False), (17, 0, False), (8, 5, False), (8, 1, True), (8, -1, False), (-8, 0, False)]
)
def test_a_field_outside_its_entry_is_refused(path: Path, numbers: tuple[int, int, bool]) -> None:
    with pytest.raises(ValueError, match="no field"):
        search_index(str(path), *numbers, 0, 1)
    with pytest.raises(ValueError, match="-1 entries"):
        search_index(str(path), 8, 0, False, 0, -1)
    with pytest.raises(ValueError, match="no field"):
        search_entries(b"", *numbers, 0, 1)
    with pytest.raises(TypeError, match="bytes-like"):
        search_entries(None, 8, 0, False, 0, 1)  # type: ignore[arg-type]
