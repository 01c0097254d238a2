"""Records and batches as lines of JSON: version, topic and partition, then the fields of `json_shapes`.

A file whose name and directory do not give topic and partition has `path` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kafkalog._speedups.json_lines import json_lines
from kafkalog.attributes import TimestampType
from kafkalog.cli.json_shapes import JSON_VERSION, of_batch, of_control, of_record
from kafkalog.record.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from kafkalog import Record, RecordColumns
    from kafkalog.cli.batch_facts import BatchFacts
    from kafkalog.cli.log_source import Located

# The number of lines encoded at once: so few that their objects stay in the CPU cache and freed memory is used again.
LINES_AT_ONCE = 128
LINES_BY_KERNEL = 512

_encoder = msgspec.json.Encoder()


class _Header(msgspec.Struct, gc=False):
    key: str
    value: str | None


def _row_type(place: dict[str, Any]) -> Callable[..., msgspec.Struct]:
    """Return the type from which records are encoded. The fields of `place` are defaults: they cost no argument."""
    fields: list[str | tuple[str, Any] | tuple[str, Any, Any]] = [
        *[(name, type(value), value) for name, value in place.items()],
        ("offset", int),
        ("timestamp", int),
        ("timestamp_type", str),
        ("key", str | None),
        ("value", str | None),
        ("headers", Sequence[_Header]),
    ]
    return msgspec.defstruct("_Row", fields, kw_only=True, gc=False)


class JsonLines:
    """Encodes the records and batches of one log as lines."""

    def __init__(self, place: dict[str, Any]) -> None:
        """Prepare the parts that all lines share.

        Args:
            place: The fields that name the log, for each line.
        """
        self._place = {"version": JSON_VERSION, **place}
        self._head = _encoder.encode(self._place)[:-1] + b","
        self._row = _row_type(self._place)

    def records(self, part: RecordColumns) -> Iterator[bytes]:
        """Yield chunks of whole lines.

        There are three implementations with the same result. The fast ones are for records that all have a timestamp
        of the same type.
        """
        label = _common_label(part)
        if label is None:
            yield from map(self._careful, part.record_lists(LINES_AT_ONCE))
        elif part.headers_length.any():
            yield from (self._with_headers(records, label) for records in part.record_lists(LINES_AT_ONCE))
        else:
            for start in range(0, len(part), LINES_BY_KERNEL):
                yield from self._without_headers(part[start : start + LINES_BY_KERNEL], label)

    def _without_headers(self, part: RecordColumns, label: str) -> Iterator[bytes]:
        lines = json_lines(
            part.buffer,
            part.offset,
            part.timestamp,
            part.key_start,
            part.key_length,
            part.value_start,
            part.value_length,
            self._head,
            label.encode(),
        )
        yield from map(self._careful, part.record_lists(LINES_AT_ONCE)) if lines is None else (lines,)

    def _with_headers(self, records: list[Record], label: str) -> bytes:
        """Encode records that have timestamps and, as is usual, only UTF-8; others go to `_careful`."""
        row = self._row
        try:
            rows = [
                row(
                    offset=record.offset,
                    timestamp=record.timestamp,
                    timestamp_type=label,
                    key=None if (key := record.key) is None else key.decode(),
                    value=None if (value := record.value) is None else value.decode(),
                    headers=[_Header(name, None if text is None else text.decode()) for name, text in headers]
                    if (headers := record.headers)
                    else (),
                )
                for record in records
            ]
        except UnicodeDecodeError:
            return self._careful(records)
        return _encoder.encode_lines(rows)

    def _careful(self, records: Iterable[Record]) -> bytes:
        return _encoder.encode_lines([{**self._place, **of_record(record)} for record in records])

    def record_list(self, records: list[Record], *, control: bool) -> Iterator[bytes]:
        """Yield at most one chunk of lines for `Record` objects.

        Args:
            records: The records.
            control: Whether all of them, or none, are control records.
        """
        if records:
            more = [{"control": of_control(record)} if control else {} for record in records]
            documents = [
                {**self._place, **of_record(record), **each} for record, each in zip(records, more, strict=True)
            ]
            yield _encoder.encode_lines(documents)

    def batch(self, located: Located, facts: BatchFacts) -> bytes:
        """Encode a batch as a line."""
        return _encoder.encode_lines([{**self._place, **of_batch(located, facts)}])


def _common_label(part: RecordColumns) -> str | None:
    """Return the label of the timestamp type, if all records have a timestamp and the same type; else None."""
    types = part.batches["timestamp_type"][part.batch]
    low, high = int(types.min()), int(types.max())
    if low != high or (part.timestamp == NO_TIMESTAMP).any():
        return None
    return TimestampType(low).label


class Array:
    """Joins chunks of whole lines to one JSON array. Strings have no line breaks, because these are escaped."""

    def __init__(self) -> None:
        self._begun = False

    def take(self, piece: bytes) -> bytes:
        """Return the next chunk of the array."""
        before, self._begun = b",\n" if self._begun else b"[\n", True
        return before + piece[:-1].replace(b"\n", b",\n")

    def end(self) -> bytes:
        """Return the last chunk of the array."""
        return b"\n]\n" if self._begun else b"[]\n"


def for_terminal(piece: bytes) -> bytes:
    """Escape characters that could control a terminal. The JSON keeps its meaning: it allows any character escaped."""
    text = piece.decode("utf-8")
    if text.replace("\n", "").isprintable():
        return piece
    return "".join(c if c == "\n" or c.isprintable() else _escaped(c) for c in text).encode("utf-8")


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
