"""Records and batches as lines of JSON: version, topic and partition, then the fields of `json_shapes`.

A file whose name and directory do not give topic and partition has `path` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from kafkalog._speedups.json_lines import json_lines
from kafkalog.attributes import TimestampType
from kafkalog.cli.json_shapes import JSON_VERSION, of_batch, of_control, of_place, of_record
from kafkalog.record.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from os import PathLike

    from kafkalog import Record, RecordColumns, TopicPartition
    from kafkalog.cli.log_source import BatchFacts, Located

# So few that their objects stay in the CPU cache and freed memory is used again.
LINES_AT_ONCE = 512

_encoder = msgspec.json.Encoder()


class JsonLines:
    """Encodes the records and batches of one log as lines."""

    def __init__(self, partition: TopicPartition | None, path: str | PathLike[str]) -> None:
        """Prepare the fields that all lines share.

        Args:
            partition: The partition; None if it is not known.
            path: The path, which names the log if the partition is not known.
        """
        place = of_place(path, partition)
        names = ("path",) if partition is None else ("topic", "partition")
        self._place = {"version": JSON_VERSION, **{name: place[name] for name in names}}
        self._head = _encoder.encode(self._place)[:-1] + b","

    def records(self, part: RecordColumns) -> Iterator[bytes]:
        """Yield chunks of whole lines.

        There are two implementations with the same result. The fast one is for UTF-8 and timestamps of one type.
        """
        label = _common_label(part)
        for start in range(0, len(part), LINES_AT_ONCE):
            some = part[start : start + LINES_AT_ONCE]
            lines = self._by_kernel(some, label)
            yield from self.record_list(list(some), control=False) if lines is None else (lines,)

    def _by_kernel(self, part: RecordColumns, label: str | None) -> bytes | None:
        """Encode records in the kernel; return None if it does not support one of them."""
        if label is None:
            return None
        return json_lines(
            part.buffer,
            part.offset,
            part.timestamp,
            part.key_start,
            part.key_length,
            part.value_start,
            part.value_length,
            part.headers_start,
            part.headers_length,
            self._head,
            label.encode(),
        )

    def record_list(self, records: list[Record], *, control: bool) -> Iterator[bytes]:
        """Yield at most one chunk of lines for `Record` objects.

        Args:
            records: The records.
            control: Whether all of them, or none, are control records.
        """
        if records:
            documents = [{**self._place, **of_record(record)} for record in records]
            for record, document in zip(records, documents, strict=True) if control else ():
                document["control"] = of_control(record)
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
