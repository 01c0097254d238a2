"""The kernel and its twin compute the same sums over headers, also over damaged ones."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.framing import HEADER_DTYPE, scan_headers
from kafkalog._speedups.row_counts import count_rows
from tests.helpers.strategies import damaged, message_sets, numbers_64
from tests.reference.row_counts import count_rows as plain


@given(damaged(message_sets()), numbers_64, st.booleans())
def test_the_sums_of_headers_are_those_of_the_twin(data: bytes, before: int, known: bool) -> None:
    rows, *_ = scan_headers(data)
    counts = np.arange(len(rows)) if known else None
    assert count_rows(rows, counts, before) == plain(rows, counts.tolist() if counts is not None else None, before)


@given(st.integers(0, 5), st.randoms(use_true_random=False), numbers_64)
def test_the_sums_of_any_rows_are_those_of_the_twin(size: int, draw: random.Random, before: int) -> None:
    rows = np.frombuffer(draw.randbytes(size * HEADER_DTYPE.itemsize), HEADER_DTYPE)
    assert count_rows(rows, None, before) == plain(rows, None, before)


def test_there_is_one_count_for_each_row() -> None:
    rows = np.zeros(2, HEADER_DTYPE)
    with pytest.raises(ValueError, match="1 counts of 2 rows"):
        count_rows(rows, np.zeros(1, np.int64))
