"""Which batches get an index entry when a segment is recovered, as Kafka goes about it: one batch at a time.

Source: storage/.../internals/log/LogSegment.java, `recover`.
"""

from __future__ import annotations

from tests.reference.framing import Headers


def index_entries(
    rows: Headers, first_offset: int, last_offset: int, interval: int, indexed: int, timestamp: int, offset: int
) -> tuple[int, list[tuple[int, int, int]], int, int, int]:
    """How many rows fit; (row, largest timestamp, its offset) of each entry; the last three as they are then."""
    entries: list[tuple[int, int, int]] = []
    for i, row in enumerate(rows):
        if not first_offset <= row["last_offset"] <= last_offset:
            return i, entries, indexed, timestamp, offset
        if row["max_timestamp"] > timestamp:
            timestamp, offset = int(row["max_timestamp"]), int(row["last_offset"])
        if int(row["position"]) - indexed > interval:
            entries.append((i, timestamp, offset))
            indexed = int(row["position"])
    return len(rows), entries, indexed, timestamp, offset
