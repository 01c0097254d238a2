"""Frames between the process that works and the screen: a length (4 bytes, big-endian), then a pickled `Frame`.

    00 00 01 2c | Frame(items, offsets, latest)

What comes fast is gathered for a while, so that the screen has little to do; of what only replaces what was said before
(progress), the latest is kept.
"""

from __future__ import annotations

import pickle
import struct
import time
from array import array
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from inspector.background.jobs import Ended
from kafkalog.fsck import Finding
from kafkalog.scan.search import Match

LENGTH = struct.Struct(">I")
SECONDS = 0.1
# Unpickling so many takes a millisecond or two.
MOST = 500
MOST_OFFSETS = 50_000


@dataclass(slots=True)
class Frame:
    """items: matches or findings; offsets: of matches, all of them; latest: progress or state; ended: the last."""

    items: list[Any] = field(default_factory=list)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    latest: Any = None
    ended: Ended | None = None


class Gathering:
    """`put` events; they are written a frame at a time."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._frame = Frame()
        self._written = 0.0

    def put(self, event: Any) -> None:
        """OSError: nobody reads any more."""
        frame = self._frame
        if isinstance(event, int):
            frame.offsets.append(event)
        elif isinstance(event, (Match, Finding)):
            frame.items.append(event)
            if isinstance(event, Match):
                frame.offsets.append(event.offset)
        elif isinstance(event, Ended):
            frame.ended = event
        else:
            frame.latest = event
        self._write_if_due()

    def _write_if_due(self) -> None:
        frame = self._frame
        full = len(frame.items) >= MOST or len(frame.offsets) >= MOST_OFFSETS
        if full or frame.ended is not None or time.monotonic() - self._written >= SECONDS:
            self.write()

    def write(self) -> None:
        """What has been gathered."""
        data = pickle.dumps(self._frame, pickle.HIGHEST_PROTOCOL)
        self._out.write(LENGTH.pack(len(data)) + data)
        self._out.flush()
        self._frame = Frame()
        self._written = time.monotonic()
