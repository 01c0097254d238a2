from collections.abc import Iterable, Iterator
from typing import SupportsIndex

from _typeshed import ReadableBuffer
from typing_extensions import disjoint_base

from kafkalog._speedups.record import Record

@disjoint_base
class RecordsEncoder:
    def __init__(
        self,
        magic: int,
        base_offset: int = 0,
        *,
        timestamp_type: int = 0,
        log_append_time: int = -1,
        relative: bool = False,
        base_timestamp: int | None = None,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def records_count(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def offset_of_max_timestamp(self) -> int: ...
    def append(
        self,
        value: ReadableBuffer | None = None,
        key: ReadableBuffer | None = None,
        headers: Iterable[tuple[str, ReadableBuffer | None]] = (),
        timestamp: SupportsIndex = -1,
        *,
        offset: SupportsIndex | None = None,
    ) -> None: ...
    def extend(self, records: Iterable[Record], keep_offsets: bool = False, *, default_timestamp: int = -1) -> None: ...
    def fill(
        self,
        records: Iterator[Record],
        room: int,
        *,
        first: Record | None = None,
        ratio: float = 1.0,
        taken: list[Record] | None = None,
        default_timestamp: int = -1,
    ) -> Record | None: ...
    def restart(self, base_offset: int) -> None: ...
    def size_of(
        self,
        value: ReadableBuffer | None = None,
        key: ReadableBuffer | None = None,
        headers: Iterable[tuple[str, ReadableBuffer | None]] = (),
        timestamp: SupportsIndex = -1,
    ) -> int: ...
    def take(self) -> bytearray: ...
    def to_batch(self, header: bytes, base_sequence: int = -1, payload: ReadableBuffer | None = None) -> bytearray: ...
