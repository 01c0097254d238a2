"""What each byte of a batch is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inspector.reading.answers import BatchRow, Field

if TYPE_CHECKING:
    from inspector.reading.batches import SegmentReader


def fields_of(reader: SegmentReader, row: BatchRow) -> tuple[Field, ...]:
    """See `SegmentReader.fields`."""
    raise NotImplementedError


def field_at(reader: SegmentReader, row: BatchRow, position: int) -> Field | None:
    """See `SegmentReader.field_at`."""
    raise NotImplementedError
