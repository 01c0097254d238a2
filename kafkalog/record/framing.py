"""The end of a scan of log entries: the kinds of end, and the errors for damage.

    entry entry entry ... | END     the data ends at the end of an entry
                          | TORN    the next entry is incomplete: a write that was interrupted, or is in progress
                          | ZEROED  only zeros are left: preallocated, or a page that was never written back

An end is a value. Damage (a size field that is too small, in memory also an unknown magic) is an error.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog.errors import CorruptRecordError, KafkaLogError

# Statuses that no kernel returns, for checks that need more than the headers.
WRONG_CHECKSUM = -1
TOO_SHORT = -2


def chosen(rows: NDArray[np.void], flags: NDArray[np.bool_]) -> NDArray[np.void]:
    """Return the rows whose flag is set; nothing is copied if these are all, as they nearly always are."""
    return rows if flags.all() else rows[flags]


def end_of(rows: NDArray[np.void]) -> int:
    """Return the position after the last of `rows` (HEADER_DTYPE), shape (n,), n > 0."""
    return int(rows["position"][-1]) + int(rows["size_in_bytes"][-1])


class EndKind(Enum):
    """How the entries of a log end.

    Attributes:
        END: The last entry is complete, and nothing follows.
        TORN: The last entry is incomplete.
        ZEROED: Zero bytes follow the last entry, up to the end of the file.
    """

    END = "end"
    TORN = "torn"
    ZEROED = "zeroed"


class EndOfData(NamedTuple):
    """The end of the complete entries.

    Attributes:
        kind: What follows them.
        position: Their end, bytes from the start of the file or buffer.
    """

    kind: EndKind
    position: int


class Stop(NamedTuple):
    """The reason why a scan stopped.

    Attributes:
        status: A status of the kernel (`framing.END` and so on), WRONG_CHECKSUM or TOO_SHORT.
        position: The position where it stopped, in bytes from the start of the file or buffer.
        expected: The expected value; the meaning depends on `status`.
        found: The value found; the meaning depends on `status`.
    """

    status: int
    position: int
    expected: int
    found: int

    @property
    def more(self) -> bool:
        """Whether the scan stopped only because it reached the requested limit."""
        return self.status == framing.LIMIT

    def end(self, path: str | None = None) -> EndOfData:
        """Return the end of the data.

        Raises:
            CorruptRecordError: The scan stopped at damage.
        """
        kind = _END_KINDS.get(self.status)
        if kind is None:
            raise self.damage(path)
        return EndOfData(kind, self.position)

    def damage(self, path: str | None) -> KafkaLogError:
        """Return the error for a status that is neither LIMIT nor an end."""
        what, figures = _DAMAGE[self.status], (self.expected, self.found)
        if self.status == WRONG_CHECKSUM:
            return CorruptRecordError(what, path, self.position, *(f"{each:#010x}" for each in figures))
        return CorruptRecordError(what, path, self.position, *figures)


class Header(NamedTuple):
    """A row of the header table as Python integers."""

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
    """Convert rows of the header table, shape (n,), to Python integers, which are faster to read one by one."""
    return [Header._make(row) for row in rows.tolist()]


_END_KINDS = {framing.END: EndKind.END, framing.TORN: EndKind.TORN, framing.ZEROED: EndKind.ZEROED}
_DAMAGE = {
    framing.SIZE_TOO_SMALL: "the size field is less than the smallest record's",
    framing.BAD_MAGIC: "the magic is none of 0, 1, 2",
    WRONG_CHECKSUM: "the checksum of a batch does not hold",
    TOO_SHORT: "the batch is shorter than its header",
    framing.SIZE_TOO_LARGE: "the size field is larger than the largest message allowed",
}
