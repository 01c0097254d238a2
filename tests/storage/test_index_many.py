"""Adding many entries to an index at once equals adding them one by one, up to the first invalid one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kafkalog.errors import KafkaLogError
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.index.time_index import TimeIndex

BASE = 100
FAR = BASE + 2**31
NUMBERS = st.one_of(st.integers(BASE - 2, BASE + 30), st.sampled_from([FAR - 1, FAR, 2**62]))
ENTRIES = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12).flatmap(
    lambda entries: st.sampled_from([entries, sorted(entries)])
)


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
@given(before=ENTRIES, entries=ENTRIES)
def test_adding_many_entries_equals_adding_them_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    kind: type[OffsetIndex | TimeIndex],
    before: list[tuple[int, int]],
    entries: list[tuple[int, int]],
) -> None:
    directory = tmp_path_factory.mktemp("index")
    each, many = (kind(directory / name, BASE, max_size=120) for name in ("each", "many"))
    for entry in sorted(before)[:4]:
        for index in (each, many):
            error_of(partial(add, index, *entry))
    columns = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    assert error_of(lambda: add_all(many, *columns)) == error_of(lambda: add_one_by_one(each, entries))
    assert (list(many), many.last_entry, many.entries) == (list(each), each.last_entry, each.entries)
    assert many.path.read_bytes() == each.path.read_bytes()
    each.release()
    many.release()


def add(index: OffsetIndex | TimeIndex, first: int, second: int) -> None:
    index.append(first, second) if isinstance(index, OffsetIndex) else index.maybe_append(first, second)


def add_one_by_one(index: OffsetIndex | TimeIndex, entries: list[tuple[int, int]]) -> None:
    for entry in entries:
        add(index, *entry)


def add_all(index: OffsetIndex | TimeIndex, first: NDArray[np.int64], second: NDArray[np.int64]) -> None:
    index.append_all(first, second) if isinstance(index, OffsetIndex) else index.maybe_append_all(first, second)


def error_of(action: Callable[[], object]) -> type[Exception] | None:
    try:
        action()
    except (KafkaLogError, ValueError) as error:
        return type(error)
    return None
