"""Records of a part in chunks whose text is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kafkalog.cli.output import LARGE_BYTES

if TYPE_CHECKING:
    from kafkalog import RecordColumns


def chunks(part: RecordColumns, count: int) -> Iterator[tuple[slice, bool]]:
    """Yield slices of at most `count` records with at most LARGE_BYTES, or of one larger record; whether it is that."""
    ends = np.cumsum(sum(np.maximum(each, 0) for each in (part.key_length, part.value_length, part.headers_length)))
    start, done = 0, 0
    while start < len(part):
        stop = min(int(np.searchsorted(ends, done + LARGE_BYTES, "right")), start + count)
        is_large = stop == start
        stop += is_large
        yield slice(start, stop), is_large
        start, done = stop, int(ends[stop - 1])
