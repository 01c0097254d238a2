from collections.abc import Iterable
from datetime import datetime
from typing import final

import numpy as np
from _typeshed import ReadableBuffer
from numpy.typing import NDArray

from kafkalog.attributes import TimestampType

@final
class Record:
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
    def timestamp_type(self) -> TimestampType: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def build_records(
    buffer: ReadableBuffer,
    block: NDArray[np.int64],
    batch: NDArray[np.int32],
    rows: NDArray[np.void],
) -> list[Record]: ...
