"""Records and batches as lines of JSON: version, topic and partition, then the fields of `json_shapes`.

A file whose name and directory do not give topic and partition has `path` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.json_lines import json_lines
from kafkalog.attributes import TimestampType
from kafkalog.cli.chunks import chunks
from kafkalog.cli.json_shapes import JSON_VERSION, of_batch, of_control, of_place, of_producer, of_record, pieces_of
from kafkalog.record.layout import NO_TIMESTAMP
from kafkalog.scan.transaction_states import STATES

if TYPE_CHECKING:
    from os import PathLike

    from kafkalog import RecordColumns, TopicPartition
    from kafkalog.cli.log_source import BatchFacts, Located

# So few that their objects stay in the CPU cache and freed memory is used again.
LINES_AT_ONCE = 512

_NO_NUMBERS = np.empty(0, np.int64)
_NO_PRODUCERS: list[NDArray[Any]] = [_NO_NUMBERS, _NO_NUMBERS, _NO_NUMBERS, np.empty(0, np.uint8)]
_encoder = msgspec.json.Encoder()


class JsonLines:
    """An encoder of the records and batches of one log as lines."""

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

    def records(self, part: RecordColumns, states: NDArray[np.uint8] | None = None) -> Iterator[bytes]:
        """Yield chunks of whole lines, or the pieces of one that is large.

        There are two implementations with the same result. The fast one is for UTF-8 and timestamps of one type.

        Args:
            part: The records.
            states: The index in STATES of each record; None: not known, and not encoded.
        """
        label = _common_label(part)
        states = np.zeros(len(part), np.uint8) if states is None else states
        producers = _producers_of(part, states)
        for chosen, is_large in chunks(part, LINES_AT_ONCE):
            some, theirs = part[chosen], [each[chosen] for each in producers]
            lines = None if label is None or is_large else self._by_kernel(some, label, theirs)
            yield from self.record_list(some, states[chosen]) if lines is None else (lines,)

    def _by_kernel(self, part: RecordColumns, label: str, producers: list[NDArray[Any]]) -> bytes | None:
        """Encode records in the kernel; return None if it does not support one."""
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
            *producers,
        )

    def record_list(self, part: RecordColumns, states: NDArray[np.uint8], *, control: bool = False) -> Iterator[bytes]:
        """Yield lines as `records` does, by way of `Record` objects.

        Args:
            part: The records.
            states: As `records`.
            control: Whether all of them, or none, are control records.
        """
        for chosen, is_large in chunks(part, LINES_AT_ONCE):
            documents = self._documents(part[chosen], states[chosen], control)
            if is_large:
                for document in documents:
                    yield from pieces_of(document)
                    yield b"\n"
            else:
                yield _encoder.encode_lines(list(documents))

    def _documents(self, part: RecordColumns, states: NDArray[np.uint8], control: bool) -> Iterator[dict[str, Any]]:
        producers = (part.batches[name][part.batch].tolist() for name in ("producer_id", "producer_epoch"))
        for record, producer_id, epoch, state in zip(part, *producers, states.tolist(), strict=True):
            producer = of_producer(producer_id, epoch, record.sequence, STATES[state])
            document = {**self._place, **of_record(record), **producer}
            if control:
                document["control"] = of_control(record)
            yield document

    def batch(self, located: Located, facts: BatchFacts) -> bytes:
        """Encode a batch as a line."""
        return _encoder.encode_lines([{**self._place, **of_batch(located, facts)}])


def _common_label(part: RecordColumns) -> str | None:
    """Return the label of the timestamp type, if all records have a timestamp and the same type; else None."""
    if not len(part):
        return None
    types = part.batches["timestamp_type"][part.batch]
    low, high = int(types.min()), int(types.max())
    if low != high or (part.timestamp == NO_TIMESTAMP).any():
        return None
    return TimestampType(low).label


def _producers_of(part: RecordColumns, states: NDArray[np.uint8]) -> list[NDArray[Any]]:
    """Return producer id, producer epoch (-1: none), sequence (-1: none) and state of each record.

    The arrays are empty if no batch has a producer.
    """
    rows, batch = part.batches, part.batch
    if not (rows["producer_id"] >= 0).any():
        return _NO_PRODUCERS
    return [rows["producer_id"][batch], rows["producer_epoch"].astype(np.int64)[batch], part.sequence, states]


class Array:
    """One JSON array, joined from lines or pieces of them. Strings have no line breaks, because these are escaped."""

    def __init__(self) -> None:
        self._begun = False
        self._before = b"[\n"

    def take(self, piece: bytes) -> bytes:
        """Return the next chunk of the array."""
        before, self._begun = self._before, True
        self._before = b",\n" if piece.endswith(b"\n") else b""
        return before + piece.removesuffix(b"\n").replace(b"\n", b",\n")

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
