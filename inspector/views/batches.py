"""The batches of a segment, header by header; Enter opens the records of one."""

from __future__ import annotations

from collections.abc import Sequence

from .. import columns, messages, text
from ..model.types import BatchRow, Place
from ..tables import Shown
from ..widgets.facts import Pairs
from .rows_view import RowsView


class BatchesView(RowsView[BatchRow]):
    """The batches of a segment."""

    NOUN = "batches"
    ONE = "batch"

    def columns(self) -> list[Shown[BatchRow]]:
        return columns.batches(self.session.times)

    def read(self, first: int, count: int) -> Sequence[BatchRow]:
        segment = self.browsing.segment
        return [] if segment is None else segment.batch_rows(first, count)

    def total(self) -> int:
        return self.browsing.batches

    async def row_at_place(self) -> int | None:
        return await self.browsing.batch_at_place()

    async def place_of(self, item: BatchRow) -> Place | None:
        place, base_offset = self.browsing.place_here, self.browsing.base_offset
        if base_offset is None or (place is not None and place.position == item.position):
            # A record of this batch may be what all agree on.
            return place
        return Place(base_offset, item.position)

    def facts(self, item: BatchRow) -> Pairs:
        return [
            ("batch", f"{item.row:,}"),
            ("position", f"{item.position:,}"),
            ("size", f"{item.size:,} B"),
            ("offsets", "" if item.base_offset is None else f"{item.base_offset:,}..{text.number(item.last_offset)}"),
            ("records", text.number(item.records)),
            ("format", "" if item.magic is None else f"v{item.magic}"),
            ("codec", item.codec or ""),
            (
                "kind",
                columns.kind(item)
                + (" transactional" if item.is_transactional and item.kind == "control" else "")
                + (", below the log start" if item.is_deleted else ""),
            ),
            ("first time", self.session.times.full(item.first_timestamp)),
            ("max time", self.session.times.full(item.max_timestamp)),
            ("time type", item.timestamp_type or ""),
            ("producer", columns.known(item.producer_id)),
            ("producer epoch", columns.known(item.producer_epoch)),
            ("sequence", columns.known(item.base_sequence)),
            ("leader epoch", columns.known(item.leader_epoch)),
            ("checksum", "" if item.checksum is None else f"0x{item.checksum:08x}"),
            ("offsets missing before", f"{item.gap_before:,}" if item.gap_before else ""),
        ]

    def on_paged_view_chosen(self) -> None:
        self.post_message(messages.OpenView("records"))
