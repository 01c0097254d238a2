"""The compiled kernels beside their plain twins: the same arrays, and the same end or the same fault at the same place.

The compiled side always gets its bytes laid against an inaccessible page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kafkalog._speedups import decode as compiled_columns
from kafkalog._speedups import framing as compiled_framing
from tests.helpers.guard import guarded
from tests.reference import framing, message_set
from tests.reference.codes import Fault
from tests.reference.regions import Regions, regions

some_or_all_bits = pytest.mark.parametrize(
    "step", [pytest.param(7, id="every 7th bit"), pytest.param(1, marks=pytest.mark.slow, id="every bit")]
)


def with_each_bit_flipped(data: bytes, step: int) -> Iterator[bytes]:
    """Yield copies of the bytes, in each of which one bit is flipped: every bit, or every `step`-th one."""
    for bit in range(0, 8 * len(data), step):
        copy = bytearray(data)
        copy[bit // 8] ^= 1 << bit % 8
        yield bytes(copy)


def assert_same_scan(data: bytes, **arguments: Any) -> framing.Scan:
    """Assert that both scans of `data` agree, and return theirs."""
    rows, *end = compiled_framing.scan_headers(guarded(data), **arguments)
    expected_rows, *expected_end = framing.scan_headers(data, **arguments)
    assert end == [int(number) for number in expected_end]
    assert rows.dtype == expected_rows.dtype
    assert rows.tolist() == expected_rows.tolist()
    return rows, end[0], end[1], end[2], end[3]


def assert_same_records(arguments: Regions) -> Fault | None:
    """Assert that both decoders agree on these regions, and return the fault."""
    # Reading the last region must not need a byte behind it: so there is none.
    end = int(arguments.ends.max(initial=0))
    compiled = compiled_columns.decode_batches(guarded(arguments.buffer[:end]), *arguments[1:])
    block, batch, count, fault = compiled
    expected_block, expected_batch, expected_count, expected_fault = message_set.decode_batches(*arguments)
    assert fault == expected_fault
    assert count == expected_count
    assert block.dtype == np.dtype(np.int64)
    assert batch.dtype == np.dtype(np.int32)
    assert block[:, :count].tolist() == expected_block.tolist()
    assert batch[:count].tolist() == expected_batch.tolist()
    for part in (1, 2**62), (3, 2**62), (2**62, 1), (2**62, 150):
        assert_same_in_parts(arguments, end, part, compiled)
    for figures in _figures(block[:2, :count]):
        found = compiled_columns.find_record(guarded(arguments.buffer[:end]), *arguments[1:], 0, *figures)
        assert found == message_set.find_record(*arguments, 0, *figures)
        assert found == compiled_columns.find_record(arguments.buffer[:end], *arguments[1:], 0, *figures, (2, 300))
    return fault


def assert_same_in_parts(arguments: Regions, end: int, part: tuple[int, int], whole: Any) -> None:
    """Assert that records decoded in parts are those that are decoded together, with the same fault."""
    block, batch, count, fault = whole
    data, found, stop, more = arguments.buffer[:end], 0, None, True
    while more:
        some, owners, length, stop = compiled_columns.decode_batches(data, *arguments[1:], 0, part, stop)
        more = stop is not None and stop[0] == compiled_columns.NO_FAULT
        assert length <= part[0]
        assert length <= 1 or part[1] > 1
        assert some[:, :length].tolist() == block[:, found : found + length].tolist()
        assert owners[:length].tolist() == batch[found : found + length].tolist()
        found += length
    assert (found, stop) == (count, fault)


def _figures(fields: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return offsets and timestamps to search for: below all records, above all, and near those of one record."""
    least, most = -(2**63), 2**63 - 1
    some = fields[:, fields.shape[1] // 2].tolist() if fields.shape[1] else (0, 0)
    return [(least, least), (most, most), (some[0], least), (least, some[1]), (some[0], min(most, some[1] + 1))]


def assert_same_reading(data: bytes) -> Fault | None:
    """Assert that both scans and both decoders agree on a file's bytes; return the decoder's fault."""
    rows, *_ = assert_same_scan(data)
    return assert_same_records(regions(data, rows))
