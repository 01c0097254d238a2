from collections.abc import Iterable
from datetime import datetime
from typing import final

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

from kafkalog.attributes import TimestampType

@final
class Record:
    """One record of a log. Immutable, hashable, picklable.

    A record of a damaged log may have any numbers. Appending a record checks them; creating one does not.

    Attributes:
        value: The value as bytes; None = null.
        key: The key as bytes; None = null.
        headers: A tuple of pairs: the key as text, the value as bytes or None.
        timestamp: Milliseconds since the epoch; -1 = none. A `datetime` with a time zone is accepted.
        offset: The offset in the partition; -1 = not yet in a log.
        sequence: The sequence of an idempotent producer; -1 = none.

    Raises:
        TypeError: A field has another type.
        ValueError: A number does not fit in its field, or a header key cannot be encoded as UTF-8.
    """

    def __init__(
        self,
        value: ReadableBuffer | None = None,
        key: ReadableBuffer | None = None,
        headers: Iterable[tuple[str, ReadableBuffer | None]] = (),
        timestamp: int | datetime = -1,
        *,
        offset: int = -1,
        timestamp_type: TimestampType | int = ...,
        sequence: int = -1,
    ) -> None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker has set the timestamp."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def build_records(
    buffer: ReadableBuffer,
    block: NDArray[np.int64],
    batch: NDArray[np.int32],
    rows: NDArray[np.void],
) -> list[Record]:
    """Build one `Record` per column of `block`, copying keys, values and headers.

    Args:
        buffer: The bytes that starts refer to.
        block: The columns of the records, int64, shape (8, n), see `decode_batches`.
        batch: The index in `rows` of the entry of each record, int32, shape (n,).
        rows: The rows of the entries, `HEADER_DTYPE`, shape (k,).

    Raises:
        ValueError: A key, value or header is outside the buffer; an index is outside `rows`; the shapes do not match;
            or the bytes of headers have changed since they were decoded.
    """
