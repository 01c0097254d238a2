"""Rows of the header table, as kernels take them: any array of that type, and nothing else."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from kafkalog._speedups.framing import scan_headers
from kafkalog._speedups.rows import HEADER_DTYPE, first_unreadable
from tests.reference.encode import V2Batch, records

ROWS = scan_headers(V2Batch(records(b"a")).encoded() * 4)[0]


def unreadable_at(*places: int) -> np.ndarray:
    rows = ROWS.copy()
    for each in places:
        rows["magic"][each] = 3
    return rows


def test_rows_may_be_a_slice_a_copy_unpickled_or_read_only() -> None:
    rows = unreadable_at(3)
    assert first_unreadable(rows[1:]) == 2
    assert first_unreadable(pickle.loads(pickle.dumps(rows))) == 3
    rows.setflags(write=False)
    assert first_unreadable(rows) == 3


def test_rows_may_lie_apart_or_backwards() -> None:
    assert first_unreadable(unreadable_at(1, 2)[::2]) == 1
    assert first_unreadable(unreadable_at(1)[::2]) == 2
    assert first_unreadable(unreadable_at(3)[::-1]) == 0
    assert first_unreadable(unreadable_at(0)[::-1]) == 3


def test_an_empty_table_of_rows_is_taken() -> None:
    assert first_unreadable(ROWS[:0]) == 0
    assert first_unreadable(np.empty(0, HEADER_DTYPE)) == 0


@pytest.mark.parametrize(
    "rows",
    [
        ROWS.reshape(2, 2),
        ROWS[0],
        ROWS.tobytes(),
        ROWS.tolist(),
        ROWS["position"],
        ROWS.view(np.uint8),
        ROWS.astype(HEADER_DTYPE.newbyteorder()),
        np.zeros(4, np.dtype(list(HEADER_DTYPE.descr)[:-1])),
    ],
)
def test_an_array_of_another_kind_is_refused(rows: np.ndarray) -> None:
    with pytest.raises(ValueError, match="rows are"):
        first_unreadable(rows)
