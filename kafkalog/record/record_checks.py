"""What may be wrong with a record, and the checks for it, each alone: magic, keys, timestamps.

A fault is a number for each record, 0 = none; only of the bad ones is anything said in words. `validation.py` looks
for all faults at once, by `faults_of`.
Source: storage/.../internals/log/LogValidator.java.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.arguments import EPOCH_MS, INT64_MAX, MS, member, whole
from kafkalog.attributes import TimestampType
from kafkalog.errors import InvalidRecordError, InvalidTimestampError, RecordError, RecordValidationError
from kafkalog.record.content import Content, contents_of, numbers_at
from kafkalog.record.format_conversion import ensure_checksums, ensure_readable
from kafkalog.record.layout import MESSAGE_KEY_AT
from kafkalog.record.message_set import ByteBufferMessageSet

NO_TIMESTAMP = -1
# Of so many refused records is said what is wrong with each; of the others only how many they are. Kafka says it of
# all, however many a small batch decompresses to.
MOST_ERRORS = 1000

OTHER_MAGIC, NO_KEY, OUT_OF_RANGE, LOG_APPEND_TYPE, TOO_SHORT = 1, 2, 3, 4, 5
TIMESTAMP_FAULTS = (OUT_OF_RANGE, LOG_APPEND_TYPE)


class TimestampRange(NamedTuple):
    """What timestamps a topic takes: those at most so much before and after now. All in ms."""

    now: int
    before_max_ms: int
    after_max_ms: int

    def __str__(self) -> str:
        return f"{self.now} ms (at most {self.before_max_ms} ms before and {self.after_max_ms} ms after it is taken)"


def _timestamp_faults(
    content: Content, rows: NDArray[np.void], timestamp_type: TimestampType, taken: TimestampRange
) -> NDArray[np.uint8]:
    """OUT_OF_RANGE or LOG_APPEND_TYPE for each record, else 0. Differences wrap around like Kafka's."""
    appended = rows["timestamp_type"][content.batch] == TimestampType.LOG_APPEND_TIME
    ranged = np.zeros(len(content), np.bool_)
    if timestamp_type is TimestampType.CREATE_TIME:
        ranged = content.timestamp != NO_TIMESTAMP
    age = taken.now - content.timestamp
    far = (age > taken.before_max_ms) | (-age > taken.after_max_ms)
    return np.where(ranged, OUT_OF_RANGE * far, LOG_APPEND_TYPE * appended).astype(np.uint8)


def _key_faults(content: Content) -> NDArray[np.uint8]:
    """NO_KEY where the key is null, TOO_SHORT where a message ends before it says so; else 0."""
    if content.columns is not None:
        return (NO_KEY * (content.columns.key_length < 0)).astype(np.uint8)
    assert content.messages is not None
    rows, view, _ = content.messages
    at = np.where(rows["magic"] == 0, MESSAGE_KEY_AT[0], MESSAGE_KEY_AT[1])
    short = at + 4 > rows["size_in_bytes"]
    lengths = numbers_at(view, rows["position"] + np.where(short, 0, at), ">i4")
    return np.where(short, TOO_SHORT, NO_KEY * (lengths < 0)).astype(np.uint8)


def faults_of(
    content: Content,
    rows: NDArray[np.void],
    timestamp_type: TimestampType,
    taken: TimestampRange,
    *,
    compacted: bool,
) -> NDArray[np.uint8]:
    """What is wrong with each record, the first thing only; 0 = nothing."""
    faults = _timestamp_faults(content, rows, timestamp_type, taken)
    if compacted:
        keys = _key_faults(content)
        faults = np.where(keys, keys, faults)
    faults[content.other_magic] = OTHER_MAGIC
    return faults


def errors_of(
    content: Content, faults: NDArray[np.uint8], bad: NDArray[np.intp], first: int, taken: TimestampRange | None = None
) -> list[RecordError]:
    """What to say about the first MOST_ERRORS of the records `bad`, counted from record `first`.

    taken: what timestamps were held against. InvalidRecordError: one is not even whole.
    """
    if (faults[bad] == TOO_SHORT).any():
        raise InvalidRecordError("a message ends before the length of its key")
    return [
        RecordError(i - first, _told(int(faults[i]), int(content.timestamp[i]), taken))
        for i in bad[:MOST_ERRORS].tolist()
    ]


def reason_of(faults: NDArray[np.uint8]) -> InvalidTimestampError | InvalidRecordError:
    if np.isin(faults, TIMESTAMP_FAULTS).any():
        return InvalidTimestampError("timestamps that cannot be taken")
    return InvalidRecordError("records that cannot be taken")


def _told(fault: int, timestamp: int, taken: TimestampRange | None) -> str:
    return {
        OTHER_MAGIC: "its format is not that of the message around it",
        NO_KEY: "it has no key, and the topic is compacted",
        OUT_OF_RANGE: f"its timestamp {timestamp} is too far from now, {taken}",
        LOG_APPEND_TYPE: "its timestamp type is LogAppendTime, which only a broker sets",
    }[fault]


# --- each check alone


def check_magic(message_set: ByteBufferMessageSet, magic: int) -> None:
    """InvalidRecordError: an entry is not of format `magic`. RecordValidationError: messages inside one are not."""
    magic = whole("magic", magic, 0, 2)
    rows = message_set.headers()
    other = rows["magic"] != magic
    if other.any():
        row = rows[other.argmax()]
        message = "the entry is of another format"
        raise InvalidRecordError(message, None, int(row["position"]), f"magic {magic}", f"magic {row['magic']}")
    if magic < 2:
        _refuse_any(message_set, rows, lambda content: OTHER_MAGIC * content.other_magic)


def check_keys(message_set: ByteBufferMessageSet) -> None:
    """RecordValidationError: records without a key."""
    _refuse_any(message_set, message_set.headers(), _key_faults)


def check_timestamps(
    message_set: ByteBufferMessageSet, timestamp_type: TimestampType, now: int, before_max_ms: int, after_max_ms: int
) -> None:
    """RecordValidationError: timestamps that a topic of `timestamp_type` does not take at `now`."""
    timestamp_type = member("timestamp_type", timestamp_type, TimestampType)
    taken = TimestampRange(
        whole("now", now, 0, INT64_MAX, EPOCH_MS),
        whole("before_max_ms", before_max_ms, 0, INT64_MAX, MS),
        whole("after_max_ms", after_max_ms, 0, INT64_MAX, MS),
    )
    rows = message_set.headers()
    _refuse_any(message_set, rows, lambda content: _timestamp_faults(content, rows, timestamp_type, taken), taken)


def _refuse_any(
    message_set: ByteBufferMessageSet,
    rows: NDArray[np.void],
    find: Callable[[Content], NDArray[np.integer[Any]]],
    taken: TimestampRange | None = None,
) -> None:
    """Refuse the set for the records in which `find` sees a fault; they are counted from the first of the set."""
    ensure_readable(rows)
    ensure_checksums(rows, message_set.buffer)
    errors: list[RecordError] = []
    seen, count, refused = np.zeros(0, np.uint8), 0, 0
    for content in contents_of(rows, message_set.buffer, message_set._reading):
        faults = find(content).astype(np.uint8)
        bad = np.flatnonzero(faults)
        errors += errors_of(content, faults, bad, -count, taken)[: MOST_ERRORS - len(errors)]
        seen = np.union1d(seen, faults[bad])
        count, refused = count + len(content), refused + len(bad)
    if errors:
        raise RecordValidationError.of(reason_of(seen), errors, refused)
