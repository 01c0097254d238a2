"""A reader in a process of its own, which cannot import a test's module by the name that pytest gives it."""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from pathlib import Path

import kafkalog
from kafkalog.errors import OffsetOutOfRangeError

SECONDS = 120
# Errors of a reader whose records are deleted or cut off meanwhile.
GONE = (OffsetOutOfRangeError, FileNotFoundError)


def value(offset: int) -> bytes:
    """The value of the record with that offset."""
    return b"%d:" % offset + b"x" * (offset * 37 % 150)


def follow(directory: Path, end: int, answer: Connection) -> None:
    """Read on from where the last reading ended, until `end`; answer "open", then (records seen, wrong ones)."""
    seen, wrong = 0, 0
    deadline = time.monotonic() + SECONDS
    with kafkalog.open(directory) as log:
        answer.send("open")
        at = 0
        while at < end:
            assert time.monotonic() < deadline, f"offset {end} does not appear, read up to {at}"
            try:
                for record in log.records(at):
                    wrong += record.offset < at or record.value != value(record.offset)
                    at, seen = record.offset + 1, seen + 1
            except GONE:
                at = max(at, log.log_start_offset)
    answer.send((seen, wrong))
