"""Gaps in offsets, and offsets that repeat or fall back: of a log that is shown, and of lines that are appended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog.cli.output import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class OffsetSteps:
    """The number of places where an offset is not followed by the next one; control records count like others."""

    def __init__(self) -> None:
        self._last: int | None = None
        # The number of times, and the first time as the offsets before and after it.
        self._gaps = self._steps_back = 0
        self._first_gap = self._first_step_back = (0, 0)

    def add(self, offset: int) -> None:
        """Add the next record."""
        if self._last is not None:
            self._step(self._last, offset)
        self._last = offset

    def add_rows(self, rows: NDArray[np.void]) -> None:
        """Add the next batches: rows of the header table, shape (n,), n > 0."""
        import numpy as np

        base, last = rows["base_offset"], rows["last_offset"]
        before = np.append(base[0] - 1 if self._last is None else self._last, last[:-1])
        # The header of a compressed message of formats 0 and 1 does not have its first offset.
        first = np.where(base < 0, np.minimum(before + 1, last), base)
        for i in np.flatnonzero(first != before + 1).tolist():
            self._step(int(before[i]), int(first[i]))
        self._last = int(last[-1])

    def _step(self, last: int, offset: int) -> None:
        if offset > last + 1:
            self._first_gap = self._first_gap if self._gaps else (last, offset)
            self._gaps += 1
        elif offset <= last:
            self._first_step_back = self._first_step_back if self._steps_back else (last, offset)
            self._steps_back += 1

    def notes(self, what: str) -> Iterator[str]:
        """Yield a line about the gaps, and one about offsets that repeat or fall back, if there are any."""
        if self._gaps:
            last, offset = self._first_gap
            gaps = counted(self._gaps, "gap")
            yield f"{what} has {gaps} in its offsets, the first from {last + 1} to {offset - 1}"
        if self._steps_back:
            last, offset = self._first_step_back
            times = counted(self._steps_back, "time")
            yield f"{what} repeats offsets or falls back {times}, first from {last} to {offset}"
