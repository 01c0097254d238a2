"""Reads concurrent with truncation, deletion and rewriting: a failed read is repeated before it counts as damage.

    read      batch | batch | half of a batch being truncated, half of one written in its place
    again     batch | batch | another batch, or the end

Damage and missing files are found again, with the same bytes in the same place; effects of concurrent changes are not.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TypeVar

from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.segment.file_message_set import FileMessageSet

# The number of bytes that are compared in the place of an error.
_COMPARED_BYTES = 1 << 20

Found = TypeVar("Found")


def retry(read: Callable[[], Found]) -> Found:
    """Call `read`, again if it fails because files change meanwhile.

    Raises:
        CorruptRecordError: The same bytes were found in the same place twice.
        FileNotFoundError: The same file was missing twice.
    """
    before = None
    while True:
        try:
            return read()
        except (CorruptRecordError, FileNotFoundError) as error:
            before = _checked(error, before)


def retry_each(
    walk: Callable[[FileMessageSet], Iterator[Found]], entries: FileMessageSet, current: Callable[[], FileMessageSet]
) -> Iterator[Found]:
    """Yield the results of `walk`, called again if it fails because files change meanwhile. Raises: as `retry`.

    Args:
        walk: Returns the results for a set of entries.
        entries: The entries to start with.
        current: Returns the entries that have no result yet, as they are now.
    """
    before = None
    while True:
        try:
            yield from walk(entries)
        except (CorruptRecordError, FileNotFoundError) as error:
            before = _checked(error, before)
        else:
            return
        entries = retry(current)


def _checked(error: CorruptRecordError | FileNotFoundError, before: tuple[object, ...] | None) -> tuple[object, ...]:
    """Return the place of an error, with the bytes that are there now; raise the error if that is `before`."""
    found = _found_in_place(error)
    if found == before:
        raise error
    return found


def _found_in_place(error: CorruptRecordError | FileNotFoundError) -> tuple[object, ...]:
    if isinstance(error, FileNotFoundError):
        return (error.filename,)
    if error.path is not None and error.position is not None:
        with suppress(OSError, KafkaLogError), closing(open_source(error.path)) as file:
            length = max(0, min(_COMPARED_BYTES, file.size - error.position))
            return error.path, error.position, bytes(file.view(error.position, length))
    return error.path, error.position
