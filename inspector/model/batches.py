"""A window's batches as read again: the header table, what is wrong with which row, and each row as a `BatchRow`.

    window    rows        position  base_offset ...     bad          {1: "the checksum does not hold"}
              0           4096      1040                counts       [10, 1, 12]      records that each stands for
              1           4710      1050                kinds        data, corrupt, transactional
              2           5204      1051

Where the window cannot be read it is one row, which says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog import TimestampType
from kafkalog.attributes import CONTROL_BIT, DELETE_HORIZON_BIT, TRANSACTIONAL_BIT, codec_name
from kafkalog.errors import KafkaLogError
from kafkalog.scan.records import reason_of
from kafkalog.scan.transactions import marker_types

from .headers import Rows, decoded_offsets, flags_of, record_counts, time_of
from .types import KINDS, BatchKind, BatchRow
from .window import ABORTED, CONTROL, CORRUPT, DATA, TRANSACTIONAL, Window

if TYPE_CHECKING:
    from .segment import SegmentReader
    from .segment_index import Windows


class Held(NamedTuple):
    """A window's batches as read again. bad: row in the window -> what is wrong; empty for lost bytes."""

    rows: Rows | None
    bad: dict[int, str]
    counts: NDArray[np.int64]


_NO_COUNTS = np.zeros(1, np.int64)


def read(windows: Windows, window: Window) -> Held:
    """Read a window from the file; never raises for what is there."""
    if window.lost is not None:
        return Held(None, {}, _NO_COUNTS)
    try:
        rows = windows.rows(window)
        bad = windows.bad_rows(rows)
        counts = record_counts(windows.file, rows)
    except (OSError, KafkaLogError, ValueError) as error:
        # The place is said where the row is shown.
        return Held(None, {0: reason_of(error) if isinstance(error, KafkaLogError) else str(error)}, _NO_COUNTS)
    if bad:
        window.worst = CORRUPT
    return Held(rows, bad, counts)


def ranks(reader: SegmentReader, window: Window, rows: Rows) -> list[int]:
    """Return the kind of each batch of a window as an index into `KINDS`. No further checksums are computed."""
    kinds = _kinds(reader, rows)
    if window.worst == CORRUPT:
        kinds[list(reader.held(window).bad)] = CORRUPT
    found: list[int] = kinds.tolist()
    return found


def _kinds(reader: SegmentReader, rows: Rows) -> NDArray[np.int64]:
    """Return the kinds of batches without damage as indexes into `KINDS`."""
    flags = flags_of(rows)
    kinds = np.where(flags & CONTROL_BIT, CONTROL, np.where(flags & TRANSACTIONAL_BIT, TRANSACTIONAL, DATA))
    kinds[(kinds == TRANSACTIONAL) & reader.raw.transactions.aborted_among(rows)] = ABORTED
    return kinds


def row_of(reader: SegmentReader, window: Window, held: Held, i: int) -> BatchRow:
    """Return row i of a window."""
    number = window.first_row + i
    if held.rows is not None:
        return _batch_row(reader, number, held.rows[i], _before(window, held.rows, i), held.bad.get(i))
    problem = _placed(reader, window.lost or held.bad.get(0), window.position)
    kind: BatchKind = "data" if window.zeroed else "corrupt"
    return BatchRow(number, window.position, window.end - window.position, kind, problem=problem)


def _before(window: Window, rows: Rows, i: int) -> int:
    """Return the largest offset before row i."""
    return max(window.previous, int(rows["last_offset"][:i].max())) if i else window.previous


def _batch_row(reader: SegmentReader, number: int, row: np.void, before: int, bad: str | None) -> BatchRow:
    """Return a batch as a row. before: the largest offset before it. bad: why it is no sound batch."""
    magic, base, last = int(row["magic"]), int(row["base_offset"]), int(row["last_offset"])
    is_v2, problem = magic >= 2, bad
    flags = int(row["attributes"]) if is_v2 else 0
    records: int | None = int(row["records_count"]) if is_v2 else 1
    if not is_v2 and row["compression_type"]:
        offsets = decoded_offsets(reader.raw.file, row)
        base, records = (int(offsets[0]), len(offsets)) if len(offsets) else (last, None)
    if problem is None and before >= 0 and base <= before:
        problem = f"it begins no later than the batch before (expected at least {before + 1}, found {base})"
    return BatchRow(
        number,
        int(row["position"]),
        int(row["size_in_bytes"]),
        KINDS[CORRUPT if bad is not None else _kinds(reader, np.atleast_1d(row))[0]],
        base,
        last,
        records,
        codec_name(int(row["compression_type"])),
        magic,
        _known(row["producer_id"]) if is_v2 else None,
        _known(row["producer_epoch"]) if is_v2 else None,
        _known(row["base_sequence"]) if is_v2 else None,
        _known(row["partition_leader_epoch"]) if is_v2 else None,
        time_of(int(row["base_timestamp"] if is_v2 and not flags & DELETE_HORIZON_BIT else row["max_timestamp"])),
        time_of(int(row["max_timestamp"])),
        TimestampType(int(row["timestamp_type"])).label,
        bool(flags & TRANSACTIONAL_BIT),
        _control_type(reader, row) if flags & CONTROL_BIT else None,
        int(row["checksum"]),
        max(0, base - before - 1) if before >= 0 else _gap_at_start(reader, base),
        _placed(reader, problem, int(row["position"])),
        last < reader.log_start,
    )


def _placed(reader: SegmentReader, problem: str | None, position: int) -> str | None:
    """Return a problem with the file and the place in it."""
    return None if problem is None else f"{reader.path.name}: position {position}: {problem}"


def _gap_at_start(reader: SegmentReader, base: int) -> int:
    return max(0, base - reader.base_offset) if reader.base_offset is not None else 0


def _control_type(reader: SegmentReader, row: np.void) -> str | None:
    return marker_types(reader.raw.file.entries, np.atleast_1d(row)).get(int(row["position"]))


def _known(value: np.generic) -> int | None:
    number = int(value)
    return None if number == -1 else number
