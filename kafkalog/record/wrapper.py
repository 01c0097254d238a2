"""Compressed messages of formats 0 and 1, the wrappers, and the messages inside them.

    wrapper   offset | size | crc | magic | attributes | v1: timestamp | key length, key | value length, value
    value     compressed: message | message | ...

The offset of a wrapper is that of its last message. In format 0 the inner messages have absolute offsets. In format 1
they count from 0, and are absolute only if the wrapper's offset is 0, as written by old versions of librdkafka.
Source: clients/.../common/record/AbstractLegacyRecordBatch.java.
"""

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.decompress import decompress_rows
from kafkalog._speedups.framing import scan_headers
from kafkalog.errors import InvalidRecordError
from kafkalog.record.batch_validity import check_entries, ensure_end
from kafkalog.record.layout import CODEC_MASK, MESSAGE_ATTRIBUTES_AT


def inner_messages(rows: NDArray[np.void], entry: memoryview, limit: int) -> tuple[NDArray[np.void], memoryview]:
    """Read the headers of the messages in a wrapper.

    Args:
        rows: Its row of the header table, shape (1,).
        entry: Its bytes.
        limit: The number of bytes that it may decompress to.

    Returns:
        The rows of the messages, with the offsets and timestamps stored in them, and the bytes that they describe. An
        incomplete last message is ignored.

    Raises:
        CorruptRecordError: The size field of a message is less than that of the smallest message.
        InvalidRecordError: The wrapper has no value, the value ends after the entry, its compressed data is damaged, or
            there is no message.
        DecompressedSizeError: It decompresses to more than `limit` bytes.
    """
    region, _, error = decompress_rows(entry, rows, int(rows["position"][0]), limit, limit)
    if error is not None:
        raise error
    inner, _, at, *_ = scan_headers(region)
    ensure_end(region, at)
    if not len(inner):
        raise InvalidRecordError("a compressed message holds no message", expected="at least 1 message", found=0)
    return inner, region


def absolute_offsets(wrapper: np.void, rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the absolute offsets of the messages in a wrapper.

    Args:
        wrapper: Its row of the header table.
        rows: The rows of its messages.

    Raises:
        InvalidRecordError: The wrapper's offset is less than the one stored in its last message.
    """
    own: NDArray[np.int64] = np.where(rows["magic"] >= 2, rows["base_offset"], rows["last_offset"])
    if wrapper["magic"] == 0 or wrapper["last_offset"] == 0:
        return own
    last = int(own[-1])
    if wrapper["last_offset"] < last:
        message = "a compressed message's offset is less than its last inner one"
        raise InvalidRecordError(message, None, int(wrapper["position"]), last, int(wrapper["last_offset"]))
    # Computed with arrays: damaged offsets overflow, as in Kafka, and numpy warns about overflow of scalars.
    offsets: NDArray[np.int64] = own + (np.array([wrapper["last_offset"]], np.int64) - own[-1:])
    return offsets


def ensure_inner_valid(wrapper: np.void, rows: NDArray[np.void], view: memoryview) -> None:
    """Check the messages in a wrapper; raise the error of the first invalid one.

    Args:
        wrapper: Its row of the header table.
        rows: The rows of its messages; for those of another format only the codec is checked.
        view: Their bytes.

    Raises:
        InvalidRecordError: A message is itself compressed.
        CorruptRecordError: A checksum is wrong.
    """
    attributes = np.frombuffer(view, np.int8)[rows["position"] + MESSAGE_ATTRIBUTES_AT]
    compressed = np.flatnonzero(attributes & CODEC_MASK)
    checked = np.flatnonzero(rows["magic"] == wrapper["magic"])
    bad, error, *_ = check_entries(rows[checked], view)
    if len(compressed) and (bad == len(checked) or compressed[0] <= checked[bad]):
        message = "a message inside a compressed message is itself compressed"
        raise InvalidRecordError(message, None, int(wrapper["position"]))
    if error is not None:
        raise error
