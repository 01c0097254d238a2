"""Which batches of a segment are not sound, and why.

    rows      small small small | LARGE           | small small
    checked   in one piece      | a bit at a time | in one piece

So never more than some megabytes are held, however long the size field of a damaged batch says that it is.
"""

from __future__ import annotations

import numpy as np

from inspector.reading.files import SegmentFile
from inspector.reading.headers import Rows
from kafkalog import ByteBufferMessageSet
from kafkalog.errors import KafkaLogError
from kafkalog.fsck import SoundEntries

# An entry that is longer has its checksum computed piece by piece.
LARGE_BYTES = 4 << 20


class Checksums:
    """Of one segment file."""

    def __init__(self, file: SegmentFile) -> None:
        self._file = file
        self._sound: tuple[int, SoundEntries] | None = None

    def sound_entries(self, size: int) -> SoundEntries:
        """Those among the first `size` bytes, looked for in any bytes."""
        if self._sound is None or self._sound[0] != size:
            self._sound = size, SoundEntries(self._file, size)
        return self._sound[1]

    def bad_rows(self, rows: Rows, size: int) -> dict[int, str]:
        """Of rows one after the other, which are no sound batches, and why. size: of the file."""
        bad: dict[int, str] = {}
        first = 0
        sizes = rows["size_in_bytes"]
        for large in [*np.flatnonzero(sizes > LARGE_BYTES).tolist(), len(rows)]:
            self._check_run(rows, first, large, bad)
            if large < len(rows) and (problem := self._problem_of_large(rows[large], size)) is not None:
                bad[large] = problem
            first = large + 1
        return bad

    def _check_run(self, rows: Rows, first: int, stop: int, bad: dict[int, str]) -> None:
        while first < stop:
            start = int(rows["position"][first])
            ends = rows["position"][first:stop] + rows["size_in_bytes"][first:stop]
            last = first + max(1, int(np.searchsorted(ends, start + LARGE_BYTES, "right")))
            end = int(ends[last - first - 1])
            data = memoryview(self._file.read(start, end - start))
            self._check_bytes(rows[first:last], first, data, bad)
            first = last

    def _check_bytes(self, rows: Rows, number: int, data: memoryview, bad: dict[int, str]) -> None:
        start, first = int(rows["position"][0]), 0
        while first < len(rows):
            at = int(rows["position"][first]) - start
            try:
                ByteBufferMessageSet(data[at:]).ensure_valid()
            except KafkaLogError as error:
                wrong = max(
                    first, int(np.searchsorted(rows["position"], start + at + (error.position or 0), "right")) - 1
                )
                bad[number + wrong] = said(error)
                first = wrong + 1
            else:
                return

    def _problem_of_large(self, row: np.void, size: int) -> str | None:
        computed, stored = self.sound_entries(size).checksum(row), int(row["checksum"])
        if not 0 <= row["magic"] <= 2:
            return f"the magic is none of 0, 1, 2 (expected 0..2, found {int(row['magic'])})"
        if computed != stored:
            return f"the checksum does not hold (expected {stored:#010x}, found {computed:#010x})"
        return None


def said(error: KafkaLogError) -> str:
    """What is wrong, without the place."""
    details = [
        f"{name} {value}" for name, value in (("expected", error.expected), ("found", error.found)) if value is not None
    ]
    return error.message + (f" ({', '.join(details)})" if details else "")
