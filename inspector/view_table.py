"""The views of a partition: `records` is `RecordsView` in `views/records.py`, and a row here: tab, key, help, palette
follow.

The numbers are keys too; a view without one is opened from another, whose tab it shares.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view: key "" = none. tab: whose tab it shares."""

    name: str
    key: str
    title: str
    short: str
    help: str
    tab: str = ""


VIEWS = (
    ViewEntry("segments", "2", "Segments", "Segm", "segments, watermarks, leader epochs, open transactions"),
    ViewEntry("map", "3", "Map", "Map", "the batches of a segment as a strip, sized by bytes"),
    ViewEntry("batches", "4", "Batches", "Batch", "the batches of a segment, header by header"),
    ViewEntry("records", "5", "Records", "Rec", "the records of a segment"),
    ViewEntry("record", "", "Record", "Rec", "one record, byte for byte", tab="records"),
    ViewEntry("hex", "6", "Hex", "Hex", "the bytes of a segment, each field named and explained"),
    ViewEntry(
        "transactions",
        "7",
        "Transactions",
        "Txn",
        "open, hanging, aborted and committed ones, and the command that aborts",
    ),
    ViewEntry("verify", "8", "Verify", "Check", "what is damaged in the partition"),
    ViewEntry("search", "9", "Search", "Find", "the matches of a search"),
    ViewEntry("statistics", "0", "Statistics", "Stat", "records over time, sizes, codecs, keys"),
)
BY_NAME = {view.name: view for view in VIEWS}
TOPICS_KEY = "1"
