"""Sums over the headers of entries, one entry at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tests.reference.cursor import wrap
from tests.reference.framing import Headers

Counts = tuple[int, int, int, int, int, int, list[int], set[int]]
CONTROL, DELETE_HORIZON = 0x20, 0x40


def count_rows(rows: Headers, counts: Sequence[int] | None, before: int) -> Counts:
    """(control batches, their records, other records, more, first, last timestamp, codecs, magics)."""
    control_batches = control_records = records = more = 0
    times: list[tuple[int, int]] = []
    codecs = [0] * 8
    for i, row in enumerate(rows):
        is_batch, attributes, largest = row["magic"] >= 2, int(row["attributes"]), int(row["max_timestamp"])
        count = counts[i] if counts is not None else max(int(row["records_count"]), 0) if is_batch else 1
        if is_batch and attributes & CONTROL:
            control_batches, control_records = control_batches + 1, control_records + count
        else:
            records += count
        codecs[row["compression_type"] & 7] += 1
        if not is_batch and row["compression_type"] > 0 and more >= 0:
            last_before = int(rows[i - 1]["last_offset"]) if i else before
            span = wrap(int(row["last_offset"]) - last_before, 64)
            more = -1 if last_before == -(2**63) else more + max(0, span - 1)
            more = more if more < 2**63 else -1
        is_own = is_batch and not attributes & DELETE_HORIZON and row["timestamp_type"] == 0
        times.append((int(row["base_timestamp"]) if is_own else largest, largest))
    first = min((begins for begins, largest in times if begins >= 0 and largest >= 0), default=-1)
    last = max([-1, *(largest for _, largest in times)])
    return control_batches, control_records, records, more, first, last, codecs, set(rows["magic"].tolist())
