"""Records decoded where they are stored, and which of them are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups import decode
from kafkalog._speedups.header_table import first_unreadable
from tests.helpers.guard import guarded
from tests.helpers.strategies import damaged, message_sets
from tests.reference.encode import (
    PlainRecord,
    V2Batch,
    records,
)
from tests.reference.framing import scan_headers
from tests.reference.message_set import decode_batches

ONE = records(b"one")


# --- where records are stored; which of them are asked for


@given(damaged(message_sets()), st.integers(-5, 2**40))
def test_without_regions_records_are_read_where_they_are_stored(data: bytes, position: int) -> None:
    rows, *_ = scan_headers(data, position=position)
    rows = rows[: first_unreadable(rows)]
    rows = rows[: int((rows["compression_type"] != 0).argmax())] if rows["compression_type"].any() else rows
    starts = rows["position"] - position + np.where(rows["magic"] >= 2, 61, 0)
    ends = rows["position"] - position + rows["size_in_bytes"]
    block, batch, count, fault = decode.decode_batches(guarded(data), rows, starts, ends)
    found, rows_of, as_many, same = decode.decode_batches(guarded(data), rows, position=position)
    assert (as_many, same) == (count, fault)
    assert found[:, :count].tolist() == block[:, :count].tolist()
    assert rows_of[:count].tolist() == batch[:count].tolist()
    expected = decode_batches(data, rows, position=position)
    assert (expected[0].tolist(), expected[2], expected[3]) == (block[:, :count].tolist(), count, fault)


def test_records_that_are_not_stored_in_the_buffer_are_refused() -> None:
    data = V2Batch(ONE).encoded()
    rows, *_ = scan_headers(data)
    for position in (62, -1, 2**62, -(2**62)):
        with pytest.raises(ValueError, match="outside the buffer"):
            decode.decode_batches(guarded(data), rows, position=position)
    for starts, ends in [(None, np.array([1])), (np.array([1]), None)]:
        with pytest.raises(ValueError, match="or neither"):
            decode.decode_batches(data, rows, starts, ends)


OFFSETS = st.one_of(st.integers(-9, 9), st.sampled_from([-(2**63), 2**63 - 1]))


@given(st.lists(OFFSETS, min_size=1, max_size=9), st.booleans(), OFFSETS, OFFSETS, st.sampled_from([1, 2, -1]))
def test_the_span_of_offsets_is_theirs(values: list[int], is_sorted: bool, start: int, end: int, step: int) -> None:
    offsets = np.array(sorted(values) if is_sorted else values)[::step]
    smallest, largest, first, stop = decode.span_of(offsets, start, end)
    assert (smallest, largest) == (offsets.min(), offsets.max())
    if stop >= 0:
        assert 0 <= first <= stop <= len(offsets)
        assert offsets[first:stop].tolist() == [each for each in offsets.tolist() if start <= each < end]
    else:
        assert sorted(offsets.tolist()) != offsets.tolist()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.integers(-1, 10), st.integers(-1, 12))
def test_the_first_record_that_reaches_both_is_found(times: list[int], offset: int, time: int) -> None:
    data = V2Batch([PlainRecord(offset=i, timestamp=each) for i, each in enumerate(times)]).encoded()
    rows, *_ = scan_headers(data)
    found = decode.find_record(guarded(data), rows, None, None, 0, offset, time)
    places = [(i, each, 0) for i, each in enumerate(times) if i >= offset and each >= time]
    assert found == (places[0] if places else None, None)


def test_offsets_are_needed_for_their_span() -> None:
    with pytest.raises(ValueError, match="no offsets"):
        decode.span_of(np.empty(0, np.int64), 0, 1)
