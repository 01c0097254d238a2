"""A window: some batches of a segment, one after the other, or bytes in their place among which there is none.

    file      batch batch batch ... | batch batch ... | lost bytes | batch ... | torn tail
    windows   0 ................... | 1 ............. | 2          | 3 ....... | 4
    kinds     data                    aborted           corrupt      control     corrupt

What is kept of it is a sum: how many batches and records, up to which offset and time, and the worst kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# The worse the greater: places in `answers.KINDS`.
DATA, TRANSACTIONAL, CONTROL, ABORTED, CORRUPT = range(5)


@dataclass(slots=True, eq=False)
class Window:
    """Some batches one after the other. previous, last_offset: the largest offset before them, and up to their end.

    worst: the worst kind seen in it. producers: the first offset of each producer's transactional batches in it, by
    producer id. checked: its checksums have been computed. lost: the problem of bytes in which no batch can be read.
    time: the largest timestamp; -1: none.
    tail: they reach to the end of the file, and may become a batch yet.
    """

    position: int
    end: int
    first_row: int
    rows: int
    first_record: int
    records: int
    previous: int
    last_offset: int
    worst: int = DATA
    producers: dict[int, int] = field(default_factory=dict)
    checked: bool = False
    lost: str | None = None
    tail: bool = False
    zeroed: bool = False
    time: int = -1

    def worsen(self, kind: int) -> None:
        """Note that a batch of that kind is in it."""
        self.worst = max(self.worst, kind)
