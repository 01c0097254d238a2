"""Log entries one after the other: how the walk over them ends, and what to say where it must not.

    entry entry entry ... | END     the data ends where an entry does
                          | TORN    fewer bytes are left than the next entry needs: a write cut short, or under way
                          | ZEROED  nothing but zero bytes is left: preallocated, or a page that was never written back

The end is a value. Damage (a size too small, in memory also a magic that does not exist) is an error.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog.errors import CorruptRecordError, KafkaLogError

# Statuses that no kernel gives: whoever looks at more than headers tells of it so.
WRONG_CHECKSUM = -1
TOO_SHORT = -2


class EndKind(Enum):
    """How a run of log entries ends."""

    END = "end"
    TORN = "torn"
    ZEROED = "zeroed"


class EndOfData(NamedTuple):
    """Where the whole entries end (`position`, bytes) and in what way."""

    kind: EndKind
    position: int


class Stop(NamedTuple):
    """Why a scan stopped, mostly as the kernel tells it; `position` counts from the start of the file or buffer."""

    status: int
    position: int
    expected: int
    found: int

    @property
    def more(self) -> bool:
        """Whether the scan stopped only because it had been asked for so much."""
        return self.status == framing.LIMIT

    def end(self, path: str | None = None) -> EndOfData:
        """The end of the data. CorruptRecordError: it was damage."""
        kind = _END_KINDS.get(self.status)
        if kind is None:
            raise self.damage(path)
        return EndOfData(kind, self.position)

    def damage(self, path: str | None) -> KafkaLogError:
        """The error to raise for a status that is neither LIMIT nor an end."""
        what, figures = _DAMAGE[self.status], (self.expected, self.found)
        if self.status == WRONG_CHECKSUM:
            return CorruptRecordError(what, path, self.position, *(f"{each:#010x}" for each in figures))
        return CorruptRecordError(what, path, self.position, *figures)


class Header(NamedTuple):
    """A row of the header table as Python's own numbers."""

    position: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    size_in_bytes: int
    partition_leader_epoch: int
    base_sequence: int
    records_count: int
    checksum: int
    attributes: int
    producer_epoch: int
    magic: int
    compression_type: int
    timestamp_type: int
    reserved: int


assert Header._fields == framing.HEADER_DTYPE.names


def headers_of(rows: NDArray[np.void]) -> list[Header]:
    """Rows of the header table, shape (n,), as Python's own numbers: for code that looks at them one by one."""
    return [Header._make(row) for row in rows.tolist()]


_END_KINDS = {framing.END: EndKind.END, framing.TORN: EndKind.TORN, framing.ZEROED: EndKind.ZEROED}
_DAMAGE = {
    framing.SIZE_TOO_SMALL: "the size field is less than the smallest record's",
    framing.BAD_MAGIC: "the magic is none of 0, 1, 2",
    WRONG_CHECKSUM: "the checksum of a batch does not hold",
    TOO_SHORT: "the batch is shorter than its header",
    framing.SIZE_TOO_LARGE: "the size field is larger than the largest message allowed",
}
