"""What a header scan stopped at, and what a decoder found wrong.

The compiled modules expose the same names as plain integers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias


class Status(IntEnum):
    """Why `scan_headers` stopped."""

    LIMIT = 0
    END = 1
    ZEROED = 2
    TORN = 3
    SIZE_TOO_SMALL = 4
    BAD_MAGIC = 5
    SIZE_TOO_LARGE = 6


class FaultCode(IntEnum):
    """Why `decode_batches` stopped."""

    UNDERRUN = 1
    VARINT_TOO_LONG = 2
    NEGATIVE_LENGTH = 3
    RECORD_LENGTH = 4
    HEADER_COUNT = 5
    HEADER_KEY_LENGTH = 6
    RECORDS_COUNT = 7
    MESSAGE_SIZE = 8
    NESTED_WRAPPER = 9
    MESSAGE_MAGIC = 10
    EMPTY_WRAPPER = 11
    WRAPPER_OFFSET = 12
    TRAILING_BYTES = 13
    TOO_MANY_HEADERS = 14


Fault: TypeAlias = tuple[int, int, int, int, int]
"""`(code, row, at, expected, found)`; `at` is an index in the buffer."""


class DamageError(Exception):
    """Bytes that cannot be what they claim to be. Never leaves this package: `decode_batches` turns it into a fault."""

    def __init__(self, code: FaultCode, at: int, expected: int, found: int) -> None:
        super().__init__(code, at, expected, found)
        self.code, self.at, self.expected, self.found = code, at, expected, found
