r"""Lines of input to records, for `kafkalog append`.

lines   key<separator>value\n        or a value alone
jsonl   {"key":..,"value":..,"headers":[{"key":..,"value":..}],"timestamp":..}     as `dump -o jsonl` prints it
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from kafkalog._speedups.arguments import EPOCH_MS, INT64_MAX, whole
from kafkalog._speedups.record import Record

# A longer line than the largest record is not read to its end.
LONGEST_LINE = 1 << 28


class LineError(Exception):
    """A line is not a valid record."""


class Given(NamedTuple):
    """Records, one for each line, the number of the first line, and the offsets in the lines (jsonl)."""

    first_line: int
    records: list[Record]
    offsets: list[int | None]


class _Header(msgspec.Struct):
    key: str
    value: Any = None
    value_encoding: str | None = None


class _Line(msgspec.Struct):
    value: Any
    key: Any = None
    headers: list[_Header] = []
    timestamp: int | None = None
    key_encoding: str | None = None
    value_encoding: str | None = None
    offset: Any = None


class Lines:
    """A converter of pieces of input, of any length, to records.

    Args:
        form: "lines" or "jsonl".
        key_separator: The text between key and value in "lines"; None: there are no keys.
    """

    def __init__(self, form: str, key_separator: bytes | None) -> None:
        self._number = 0
        self._offsets: list[int | None] = []
        self._separator = key_separator
        self._record: Callable[[bytes], Record] = self._of_line if form == "lines" else self._of_json
        self._decoder = msgspec.json.Decoder(_Line)

    def of_pieces(self, pieces: Iterable[bytes]) -> Iterator[Given]:
        """Yield the records that each piece completes.

        Raises:
            LineError: A line is not a valid record, after the records of the lines before it.
        """
        begun: list[bytes] = []
        size = 0
        for piece in pieces:
            whole, newline, rest = piece.rpartition(b"\n")
            if newline:
                yield from self._records(b"".join([*begun, whole]).split(b"\n"))
                begun, size = [], 0
            begun.append(rest)
            size += len(rest)
            if size > LONGEST_LINE:
                raise LineError(f"line {self._number + 1} is longer than {LONGEST_LINE} bytes")
        last = b"".join(begun)
        if last:
            yield from self._records([last])

    def _records(self, lines: list[bytes]) -> Iterator[Given]:
        """Yield the records of complete lines.

        Raises:
            LineError: A line is not a valid record, after the records of the lines before it.
        """
        first, records = self._number + 1, list[Record]()
        self._offsets = []
        for line in lines:
            self._number += 1
            try:
                records.append(self._record(line))
            except (ValueError, TypeError) as error:
                yield Given(first, records, self._offsets)
                raise LineError(f"line {self._number} is not a record: {error}") from error
        yield Given(first, records, self._offsets)

    def _of_line(self, line: bytes) -> Record:
        line = line.removesuffix(b"\r")
        if self._separator is None or self._separator not in line:
            return Record(line)
        key, _, value = line.partition(self._separator)
        return Record(value, key)

    def _of_json(self, line: bytes) -> Record:
        if not line.strip():
            raise ValueError("the line is empty")
        given = self._decoder.decode(line)
        headers = [(each.key, _payload(each.value, each.value_encoding)) for each in given.headers]
        record = Record(
            _payload(given.value, given.value_encoding),
            _payload(given.key, given.key_encoding),
            headers,
            -1 if given.timestamp is None else whole("its timestamp", given.timestamp, -1, INT64_MAX, EPOCH_MS),
        )
        self._offsets.append(given.offset if isinstance(given.offset, int) else None)
        return record


def _payload(meant: Any, encoding: str | None) -> bytes | None:
    """Return the bytes of a JSON value.

    Raises:
        ValueError: The encoding is unknown, or the value is not in its encoding.
        TypeError: A value in base64 is not a string.
    """
    if encoding not in (None, "base64"):
        raise ValueError(f"unknown encoding {encoding!r}: expected base64")
    if meant is None:
        return None
    if encoding is None:
        return meant.encode() if isinstance(meant, str) else msgspec.json.encode(meant)
    if not isinstance(meant, str):
        raise TypeError("a base64 value must be a string")
    try:
        return b64decode(meant, validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error
