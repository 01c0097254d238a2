"""The checks by which a topic may refuse a record: its format, its key, its timestamp.

    v0/v1 messages   message | message | ...      each is an entry of its own: the first bad one is refused
    v0/v1 wrapper    message [ message | ... ]    each inner message has a magic, a CRC and a key length
    v2 batch         header | record | ...        read into columns

`Content` has arrays with an element per record, and no objects. A fault is a number, 0 = none. Only refused records
have a message. `log_validator` finds all faults at once, by `faults_of`.

Stricter than Kafka, whose reader skips keys and values: a record inside a compressed v2 batch is refused if its own
length or its number of headers is invalid. Source: storage/.../internals/log/LogValidator.java.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import EPOCH_MS, INT64_MAX, MS, member, whole
from kafkalog.attributes import TimestampType
from kafkalog.errors import InvalidRecordError, InvalidTimestampError, RecordError, RecordValidationError
from kafkalog.record.batch_validity import ensure_readable, ensure_valid
from kafkalog.record.decoding import Entries, Reading, read_whole
from kafkalog.record.layout import MESSAGE_KEY_AT, NO_TIMESTAMP
from kafkalog.record.record_columns import RecordColumns
from kafkalog.record.wrapper import absolute_offsets, ensure_inner_valid, inner_messages

# The number of refused records with a message; the others are only counted. Kafka lists all of them, however many a
# small batch decompresses to.
MOST_ERRORS = 1000

OTHER_MAGIC, NO_KEY, OUT_OF_RANGE, LOG_APPEND_TYPE, TOO_SHORT = 1, 2, 3, 4, 5
TIMESTAMP_FAULTS = (OUT_OF_RANGE, LOG_APPEND_TYPE)


class TimestampRange(NamedTuple):
    """The range of timestamps that a topic accepts, before and after `now`. All in ms."""

    now: int
    before_max_ms: int
    after_max_ms: int

    def __str__(self) -> str:
        return f"{self.now} ms (at most {self.before_max_ms} ms before and {self.after_max_ms} ms after it is taken)"


@dataclass(frozen=True, slots=True)
class Content:
    """Some records, as arrays of shape (n,).

    Attributes:
        batch: The number of the entry of each record.
        offset: The offset of each record.
        timestamp: The timestamp of each record, ms; -1 = none.
        other_magic: Whether each record has another format than the wrapper around it.
        columns: The records of a v2 batch.
        messages: Rows and bytes of messages of formats 0 and 1, which are enough for every check.
    """

    batch: NDArray[np.intp]
    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    other_magic: NDArray[np.bool_]
    columns: RecordColumns | None
    messages: Entries | None

    def __len__(self) -> int:
        return len(self.batch)


def content_of_messages(entries: Entries, start: int = 0) -> Content:
    """Return the content of messages that are not compressed; `start` is the number of the first row."""
    rows = entries.rows
    batch = np.arange(start, start + len(rows))
    return Content(batch, rows["last_offset"], rows["max_timestamp"], np.zeros(len(rows), np.bool_), None, entries)


def content_of_entry(entry: Entries, reading: Reading, row: int = 0) -> Content:
    """Return the content of a batch or a wrapper.

    Args:
        entry: The entry; its own checksum is not checked.
        reading: How to read it.
        row: The number of the entry.

    Raises:
        CorruptRecordError: The CRC of an inner message is wrong.
        InvalidRecordError: The content of a wrapper is not valid.
    """
    if entry.rows["magic"][0] < 2:
        return _content_of_wrapper(entry, reading, row)
    columns = read_whole(entry, reading, check_crcs=False)
    none = np.zeros(len(columns), np.bool_)
    return Content(np.full(len(columns), row, np.intp), columns.offset, columns.timestamp, none, columns, None)


def _content_of_wrapper(entry: Entries, reading: Reading, row: int) -> Content:
    wrapper = entry.rows[0]
    rows, view = inner_messages(entry.rows, entry.view, reading.decompression_limit)
    offset = absolute_offsets(wrapper, rows)
    ensure_inner_valid(wrapper, rows, view)
    log_append = wrapper["timestamp_type"] == TimestampType.LOG_APPEND_TIME
    timestamp = np.full(len(rows), wrapper["max_timestamp"]) if log_append else rows["max_timestamp"]
    other = rows["magic"] != wrapper["magic"]
    return Content(np.full(len(rows), row, np.intp), offset, timestamp, other, None, Entries(rows, view, 0))


def _contents_of(entries: Entries, reading: Reading) -> Iterator[Content]:
    """Yield the content of each range of uncompressed messages, of each wrapper and of each batch."""
    rows = entries.rows
    plain = (rows["magic"] < 2) & (rows["compression_type"] == 0)
    cuts = [0, *(np.flatnonzero(~(plain[1:] & plain[:-1])) + 1).tolist(), len(rows)]
    for start, end in pairwise(cuts if len(rows) else []):
        part = entries.only(rows[start:end])
        yield content_of_messages(part, start) if plain[start] else content_of_entry(part, reading, start)


def _timestamp_faults(
    content: Content, rows: NDArray[np.void], timestamp_type: TimestampType, taken: TimestampRange
) -> NDArray[np.uint8]:
    """Return OUT_OF_RANGE, LOG_APPEND_TYPE or 0 for each record. Differences of times overflow as in Kafka."""
    appended = rows["timestamp_type"][content.batch] == TimestampType.LOG_APPEND_TIME
    ranged = np.zeros(len(content), np.bool_)
    if timestamp_type is TimestampType.CREATE_TIME:
        ranged = content.timestamp != NO_TIMESTAMP
    age = taken.now - content.timestamp
    far = (age > taken.before_max_ms) | (-age > taken.after_max_ms)
    return np.where(ranged, OUT_OF_RANGE * far, LOG_APPEND_TYPE * appended).astype(np.uint8)


def _key_faults(content: Content) -> NDArray[np.uint8]:
    """Return NO_KEY for a null key, TOO_SHORT for a message that ends before the length of its key, else 0."""
    if content.columns is not None:
        return (NO_KEY * (content.columns.key_length < 0)).astype(np.uint8)
    assert content.messages is not None
    rows, view, position = content.messages
    # A wrapper may hold messages of another magic, which are refused too.
    at = np.where(rows["magic"] == 0, *MESSAGE_KEY_AT)
    short = at + 4 > rows["size_in_bytes"]
    # The first byte of the length has its sign.
    signs = np.frombuffer(view, np.int8)[rows["position"] - position + np.where(short, 0, at)]
    return np.where(short, TOO_SHORT, NO_KEY * (signs < 0)).astype(np.uint8)


def faults_of(
    content: Content,
    rows: NDArray[np.void],
    timestamp_type: TimestampType,
    taken: TimestampRange,
    *,
    compacted: bool,
) -> NDArray[np.uint8]:
    """Return the first fault of each record; 0 = none.

    Args:
        content: The records.
        rows: The rows of their entries.
        timestamp_type: The timestamp type of the topic.
        taken: The timestamps that the topic accepts.
        compacted: Whether every record needs a key.
    """
    faults = _timestamp_faults(content, rows, timestamp_type, taken)
    if compacted:
        keys = _key_faults(content)
        faults = np.where(keys, keys, faults)
    faults[content.other_magic] = OTHER_MAGIC
    return faults


def errors_of(
    content: Content, faults: NDArray[np.uint8], bad: NDArray[np.intp], first: int, taken: TimestampRange | None = None
) -> list[RecordError]:
    """Return an error for each of the first MOST_ERRORS of the records `bad`.

    Args:
        content: The records.
        faults: The fault of each record.
        bad: The indexes of the records to return.
        first: The index of the record that is number 0 in the errors.
        taken: The timestamps that the topic accepts.

    Raises:
        InvalidRecordError: A message ends before the length of its key.
    """
    if (faults[bad] == TOO_SHORT).any():
        raise InvalidRecordError("a message ends before the length of its key")
    return [
        RecordError(i - first, _fault_text(int(faults[i]), int(content.timestamp[i]), taken))
        for i in bad[:MOST_ERRORS].tolist()
    ]


def reason_of(faults: NDArray[np.uint8]) -> InvalidTimestampError | InvalidRecordError:
    """Return the error that Kafka raises for records with these faults."""
    if np.isin(faults, TIMESTAMP_FAULTS).any():
        return InvalidTimestampError("one or more timestamps are out of range")
    return InvalidRecordError("one or more records are invalid")


def _fault_text(fault: int, timestamp: int, taken: TimestampRange | None) -> str:
    return {
        OTHER_MAGIC: "its format is not that of the message around it",
        NO_KEY: "it has no key, and the topic is compacted",
        OUT_OF_RANGE: f"its timestamp {timestamp} is too far from now, {taken}",
        LOG_APPEND_TYPE: "its timestamp type is LogAppendTime, which only a broker sets",
    }[fault]


# --- single checks


def check_magic(entries: Entries, reading: Reading, magic: int) -> None:
    """Check that all entries, and all messages inside them, have format `magic`.

    Raises:
        InvalidRecordError: An entry has another format.
        RecordValidationError: Messages inside an entry have another format.
    """
    magic = whole("magic", magic, 0, 2)
    rows = entries.rows
    other = rows["magic"] != magic
    if other.any():
        row = rows[other.argmax()]
        message = "the entry is of another format"
        raise InvalidRecordError(message, None, int(row["position"]), f"magic {magic}", f"magic {row['magic']}")
    if magic < 2:
        _check_each(entries, reading, lambda content: OTHER_MAGIC * content.other_magic)


def check_keys(entries: Entries, reading: Reading) -> None:
    """Check that every record has a key.

    Raises:
        RecordValidationError: Records have no key.
    """
    _check_each(entries, reading, _key_faults)


def check_timestamps(
    entries: Entries,
    reading: Reading,
    timestamp_type: TimestampType,
    *,
    now: int,
    before_max_ms: int,
    after_max_ms: int,
) -> None:
    """Check that a topic of `timestamp_type` accepts every timestamp at `now`.

    Raises:
        RecordValidationError: The topic refuses some of them.
    """
    timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
    taken = TimestampRange(
        whole("now", now, 0, INT64_MAX, EPOCH_MS),
        whole("before_max_ms", before_max_ms, 0, INT64_MAX, MS),
        whole("after_max_ms", after_max_ms, 0, INT64_MAX, MS),
    )
    rows = entries.rows
    _check_each(entries, reading, lambda content: _timestamp_faults(content, rows, timestamp_type, taken), taken)


def check_records(
    entry: Entries, reading: Reading, timestamp_type: TimestampType, taken: TimestampRange, *, compacted: bool
) -> None:
    """Check the key and the timestamp of each record of a valid batch.

    Args:
        entry: The batch.
        reading: How to read it.
        timestamp_type: The timestamp type of the topic.
        taken: The timestamps that the topic accepts.
        compacted: Whether every record needs a key.

    Raises:
        RecordValidationError: The topic refuses some of them.
    """
    content = content_of_entry(entry, reading)
    _raise_faults(
        [content], lambda _: faults_of(content, entry.rows, timestamp_type, taken, compacted=compacted), taken
    )


def _check_each(
    entries: Entries,
    reading: Reading,
    find: Callable[[Content], NDArray[np.integer[Any]]],
    taken: TimestampRange | None = None,
) -> None:
    """Check all records with `find`, which returns the fault of each.

    Raises:
        RecordValidationError: Records have a fault; their numbers count from the first record of all entries.
    """
    ensure_readable(entries.rows)
    ensure_valid(*entries)
    _raise_faults(_contents_of(entries, reading), find, taken)


def _raise_faults(
    contents: Iterable[Content],
    find: Callable[[Content], NDArray[np.integer[Any]]],
    taken: TimestampRange | None,
) -> None:
    errors: list[RecordError] = []
    seen, count, refused = np.zeros(0, np.uint8), 0, 0
    for content in contents:
        faults = find(content).astype(np.uint8)
        bad = np.flatnonzero(faults)
        if len(bad):
            errors += errors_of(content, faults, bad, -count, taken)[: MOST_ERRORS - len(errors)]
            seen = np.union1d(seen, faults[bad])
        count, refused = count + len(content), refused + len(bad)
    if errors:
        raise RecordValidationError.of(reason_of(seen), errors, refused)
