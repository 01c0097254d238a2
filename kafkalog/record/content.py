"""What the checks of `checks.py` look at: `Content`, arrays with a place for each record of what was given.

    v0/v1 messages   message | message | ...      each stands for itself: what is refused is the first bad one
    v0/v1 wrapper    message [ message | ... ]    each inner message has a magic, a CRC and a key length
    v2 batch         header | record | ...        read into columns

Nothing of what is uncompressed becomes an object to be looked at.

Where this is stricter than Kafka, whose reader skips over keys and values without a look at what holds them: a record
inside a compressed v2 batch whose own length, or whose number of headers, cannot be, is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.checksum import first_invalid
from kafkalog.attributes import TimestampType
from kafkalog.errors import InvalidRecordError
from kafkalog.record.decoding import Entries, Reading, read_columns, wrong_checksum
from kafkalog.record.format_conversion import entry_of, inner_messages
from kafkalog.record.layout import CODEC_MASK, MESSAGE_ATTRIBUTES_AT
from kafkalog.record.record_columns import RecordColumns


@dataclass(frozen=True, slots=True)
class Content:
    """Some records: arrays with a place for each. `batch`: the row that it came from; `other_magic`: not its wrapper's.

    Of v2 records there are columns. Of messages there are rows and bytes, enough for every check.
    """

    batch: NDArray[np.intp]
    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    other_magic: NDArray[np.bool_]
    columns: RecordColumns | None
    messages: Entries | None

    def __len__(self) -> int:
        return len(self.batch)


def content_of_messages(rows: NDArray[np.void], view: memoryview, start: int = 0) -> Content:
    """Messages that are not compressed; they and nothing else. `start`: the number of the first row."""
    none = np.zeros(len(rows), np.bool_)
    batch = np.arange(start, start + len(rows))
    return Content(batch, rows["last_offset"], rows["max_timestamp"], none, None, Entries(rows, view, 0))


def _content_of_batch(entries: Entries, reading: Reading, row: int = 0) -> Content:
    columns = columns_of(entries, reading)
    none = np.zeros(len(columns), np.bool_)
    batch = np.full(len(columns), row, np.intp)
    return Content(batch, columns.offset, columns.timestamp, none, columns, None)


def _content_of_wrapper(entries: Entries, reading: Reading, row: int = 0) -> Content:
    """CorruptRecordError: the CRC of an inner message does not hold. InvalidRecordError: what no wrapper may hold."""
    wrapper = entries.rows[0]
    inner = inner_messages(wrapper, entries.view, reading.decompression_limit)
    rows = inner.rows
    other = rows["magic"] != wrapper["magic"]
    offset = _inner_offsets(wrapper, rows)
    _check_inner(inner, other, int(wrapper["position"]))
    log_append = wrapper["timestamp_type"] == TimestampType.LOG_APPEND_TIME
    timestamp = np.full(len(rows), wrapper["max_timestamp"]) if log_append else rows["max_timestamp"]
    return Content(np.full(len(rows), row, np.intp), offset, timestamp, other, None, inner)


def _inner_offsets(wrapper: np.void, rows: NDArray[np.void]) -> NDArray[np.int64]:
    """The offsets of a wrapper's messages; in format 1 they count back from the wrapper's, unless that is 0."""
    own: NDArray[np.int64] = np.where(rows["magic"] >= 2, rows["base_offset"], rows["last_offset"])
    if wrapper["magic"] == 0 or wrapper["last_offset"] == 0:
        return own
    last = int(own[-1])
    if wrapper["last_offset"] < last:
        message = "a compressed message's offset is less than its last inner one"
        raise InvalidRecordError(message, None, int(wrapper["position"]), last, int(wrapper["last_offset"]))
    # As arrays: what is damaged wraps around, as in Kafka, and numpy warns of single numbers that do.
    offsets: NDArray[np.int64] = own + (np.array([wrapper["last_offset"]], np.int64) - own[-1:])
    return offsets


def _check_inner(inner: Entries, other_magic: NDArray[np.bool_], position: int) -> None:
    """What no message inside a wrapper may be: compressed, or other than its CRC. Only the first one counts."""
    rows, view, _ = inner
    attributes = numbers_at(view, rows["position"] + MESSAGE_ATTRIBUTES_AT, "i1")
    compressed = np.flatnonzero(attributes & CODEC_MASK)
    checked = np.flatnonzero(~other_magic)
    bad, computed = first_invalid(view, rows[checked])
    if len(compressed) and (bad == len(checked) or compressed[0] <= checked[bad]):
        raise InvalidRecordError("a message inside a compressed message is itself compressed", None, position)
    if bad < len(checked):
        raise wrong_checksum(rows[checked[bad]], computed).at(None, position)


def content_of_entry(entries: Entries, reading: Reading, row: int = 0) -> Content:
    """What one entry holds that is a batch or a wrapper."""
    read = _content_of_batch if entries.rows["magic"][0] >= 2 else _content_of_wrapper
    return read(entries, reading, row)


def contents_of(rows: NDArray[np.void], view: memoryview, reading: Reading) -> Iterator[Content]:
    """What to look at in each run of plain messages, each wrapper and each batch."""
    plain = (rows["magic"] < 2) & (rows["compression_type"] == 0)
    cuts = [0, *(np.flatnonzero(~(plain[1:] & plain[:-1])) + 1).tolist(), len(rows)]
    for start, end in pairwise(cuts if len(rows) else []):
        part = rows[start:end]
        if plain[start]:
            yield content_of_messages(part, view, start)
        else:
            yield content_of_entry(entry_of(part, view), reading, start)


def columns_of(entries: Entries, reading: Reading) -> RecordColumns:
    """Every record, whatever the CRCs say."""
    found = list(read_columns(entries, replace(reading, check_crcs=False, control=True)))
    return found[0] if found else RecordColumns.empty()


def numbers_at(view: memoryview, places: NDArray[np.int64], dtype: str) -> NDArray[np.int64]:
    """The big-endian numbers at these places."""
    found = np.frombuffer(view, np.uint8)[places[:, None] + np.arange(np.dtype(dtype).itemsize)]
    numbers: NDArray[np.int64] = found.view(dtype).ravel().astype(np.int64)
    return numbers
