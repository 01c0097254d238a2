"""Where the records of each entry lie: in the file's own bytes, or decompressed behind them.

`decode_batches` reads regions and knows nothing of codecs; this is the step between `scan_headers` and it, for tests
that start from a file's bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference.codes import DamageError
from tests.reference.compression import decompressed
from tests.reference.cursor import Cursor
from tests.reference.framing import OVERHEAD, V2_HEADER_BYTES, Headers


class Regions(NamedTuple):
    """The arguments of `decode_batches`."""

    buffer: bytes
    rows: Headers
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def regions(data: bytes, rows: Headers) -> Regions:
    """The regions of `rows`, scanned from `data` at position 0, up to the first one that no codec can open."""
    buffer = bytearray(data)
    bounds: list[tuple[int, int]] = []
    for row in rows:
        start, end = _raw_region(data, row)
        if row["compression_type"]:
            try:
                plain = decompressed(data[start:end], int(row["compression_type"]), int(row["magic"]))
            except Exception:  # noqa: BLE001 - whatever the codec's library has to say, this entry has no region
                break
            start, end = len(buffer), len(buffer) + len(plain)
            buffer += plain
        bounds.append((start, end))
    array = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return Regions(
        bytes(buffer), rows[: len(bounds)], np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1])
    )


def _raw_region(data: bytes, row: Any) -> tuple[int, int]:
    position, end = int(row["position"]), int(row["position"]) + int(row["size_in_bytes"])
    if row["magic"] >= 2:
        # An entry too short for its header has no records, and none of its fields are there.
        return min(position + V2_HEADER_BYTES, end), end
    if row["compression_type"]:
        return _wrapped_value(data, position, end, int(row["magic"]))
    return position, end


def _wrapped_value(data: bytes, position: int, end: int, magic: int) -> tuple[int, int]:
    cursor = Cursor(data, position + OVERHEAD + (14 if magic == 1 else 6), end)
    try:
        cursor.skip(max(cursor.int32(), 0))
        length = max(cursor.int32(), 0)
        return cursor.skip(length), cursor.at
    except DamageError:
        return end, end
