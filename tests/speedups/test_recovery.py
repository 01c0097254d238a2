"""The index entries of recovery: the same as the plain twin finds, whatever the rows say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.framing import HEADER_DTYPE, scan_headers
from kafkalog._speedups.recovery import index_entries
from tests.helpers.strategies import damaged, message_sets, numbers_64
from tests.reference.encode import V2Batch, records
from tests.reference.recovery import index_entries as plain

Largest = tuple[int, int]
intervals = st.sampled_from([0, 1, 60, 61, 200, 4096, 2**31 - 1, 2**63 - 1]) | st.integers(0, 500)
ranges = st.just((-(2**63), 2**63 - 1)) | st.tuples(numbers_64, numbers_64)


@given(damaged(message_sets()), ranges, intervals, st.integers(0, 300), st.tuples(numbers_64, numbers_64))
def test_index_entries_are_those_of_the_twin(
    data: bytes, offsets: tuple[int, int], interval: int, indexed: int, largest: Largest
) -> None:
    rows, *_ = scan_headers(data)
    count, entries, *after = index_entries(rows, *offsets, interval, indexed, *largest)
    assert (count, [*zip(*entries.tolist(), strict=True)], *after) == plain(rows, *offsets, interval, indexed, *largest)


@given(intervals, st.integers(1, 40))
def test_index_entries_do_not_depend_on_how_the_rows_are_divided(interval: int, part: int) -> None:
    batch = V2Batch(records(b"v")).encoded()
    rows, *_ = scan_headers(batch * 40)
    rows["max_timestamp"] = [(7 * i) % 23 for i in range(40)]
    found: list[int] = []
    so_far = (0, -1, 0)
    for start in range(0, 40, part):
        _, entries, *after = index_entries(rows[start : start + part], 0, 9, interval, *so_far)
        found += [start + at for at in entries[0].tolist()]
        so_far = (after[0], after[1], after[2])
    whole = index_entries(rows, 0, 9, interval, 0, -1, 0)
    assert (found, so_far) == (whole[1][0].tolist(), whole[2:])


def test_no_rows_give_no_index_entries() -> None:
    count, entries, *after = index_entries(scan_headers(b"")[0], 0, 9, 0, 5, 6, 7)
    assert (count, entries.shape, after) == (0, (3, 0), [5, 6, 7])
    assert scan_headers(b"")[0].dtype == HEADER_DTYPE


def test_a_negative_interval_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes apart"):
        index_entries(scan_headers(b"")[0], 0, 9, -1, 0, -1, 0)
