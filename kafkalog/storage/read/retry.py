"""Reads concurrent with truncation, deletion and rewriting: a failed read is repeated before it counts as damage.

    read      batch | batch | half of a batch being truncated, half of one written in its place
    again     batch | batch | another batch, or the end

Damage and missing files are found again, with the same bytes in the same place; effects of concurrent changes are not.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import NamedTuple, TypeVar

import numpy as np

from kafkalog.errors import ChangedWhileReading, CorruptRecordError, KafkaLogError
from kafkalog.record.decoding import Entries
from kafkalog.storage.checkpoint.checkpoint_file import SETTLED_NS
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.open_source import open_source

# The number of bytes that are compared in the place of an error.
_COMPARED_BYTES = 1 << 20
# How long, and how often, a file that is about to change is read again: a thread of this process truncates it, or has
# failed to.
_CHANGE_SECONDS = 1.0
_PAUSE_SECONDS = 0.001

Found = TypeVar("Found")


def retry(read: Callable[[], Found]) -> Found:
    """Call `read`, again if it fails because files change meanwhile. Raise errors as `retry_each`."""
    failure = None
    while True:
        try:
            return read()
        except (CorruptRecordError, FileNotFoundError) as error:
            failure = _failure(error, failure)


def retry_each(walk: Callable[[], Iterator[Found]]) -> Iterator[Found]:
    """Yield the results of `walk`, called again if it fails because files change meanwhile.

    Args:
        walk: Returns the results that it has not returned yet.

    Raises:
        CorruptRecordError: The same bytes were found in the same place twice; for a `ChangedWhileReading`, until
            `_CHANGE_SECONDS` later.
        FileNotFoundError: The same file was missing twice.
    """
    failure = None
    while True:
        try:
            yield from walk()
        except (CorruptRecordError, FileNotFoundError) as error:
            failure = _failure(error, failure)
        else:
            return


def at_one_moment(source: ByteSource, read: Callable[[], Entries | None]) -> Entries | None:
    """Return entries of a file as they were at one moment: what is read twice, if the file was modified meanwhile.

    Args:
        source: The file.
        read: Reads the entries; None at the end of the file.
    """
    began = time.time_ns()
    found = read()
    while source.modified_ns > began - SETTLED_NS:
        before, found = found, read()
        if _begins_with(found, before):
            return before
    return found


def _begins_with(found: Entries | None, before: Entries | None) -> bool:
    if found is None or before is None:
        return before is None
    rows, view = found.rows[: len(before.rows)], found.view[: len(before.view)]
    return bool(rows.tobytes() == before.rows.tobytes() and np.array_equal(view, before.view))


class _Failure(NamedTuple):
    """The cause of an error, and the time until which to wait for the end of a change (monotonic clock, seconds)."""

    found: tuple[object, ...]
    until: float


def _failure(error: CorruptRecordError | FileNotFoundError, before: _Failure | None) -> _Failure:
    """Return the failure to compare the next one with; raise the error if it was due to the same as `before`."""
    found = _found_in_place(error)
    if before is None or found != before.found:
        return _Failure(found, time.monotonic() + _CHANGE_SECONDS)
    if isinstance(error, ChangedWhileReading) and time.monotonic() < before.until:
        time.sleep(_PAUSE_SECONDS)
        return before
    raise error


def _found_in_place(error: CorruptRecordError | FileNotFoundError) -> tuple[object, ...]:
    if isinstance(error, FileNotFoundError):
        return (error.filename,)
    if error.path is not None and error.position is not None:
        with suppress(OSError, KafkaLogError), closing(open_source(error.path)) as file:
            length = max(0, min(_COMPARED_BYTES, file.size - error.position))
            modified = file.modified_ns if isinstance(error, ChangedWhileReading) else None
            return error.path, error.position, bytes(file.view(error.position, length)), modified
    # A file that is not there changed again.
    return error.path, error.position, object() if isinstance(error, ChangedWhileReading) else None
