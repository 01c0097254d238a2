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

# The number of bytes that are compared in the place of an error.
_COMPARED_BYTES = 1 << 20

Found = TypeVar("Found")


def retry(read: Callable[[], Found]) -> Found:
    """Call `read`, again if it fails because files change meanwhile. Raises: as `retry_each`."""
    return next(retry_each(lambda: iter((read(),))))


def retry_each(read: Callable[[], Iterator[Found]]) -> Iterator[Found]:
    """Yield the results of `read`, which is called again if it fails because files change meanwhile.

    Args:
        read: Returns the results; each time those that have not been yielded yet.

    Raises:
        CorruptRecordError: The same bytes were found in the same place twice.
        FileNotFoundError: The same file was missing twice.
    """
    before = None
    while True:
        try:
            yield from read()
        except (CorruptRecordError, FileNotFoundError) as error:
            found = _found_in_place(error)
            if found == before:
                raise
            before = found
        else:
            return


def _found_in_place(error: CorruptRecordError | FileNotFoundError) -> tuple[object, ...]:
    """Return the place of an error, with the bytes that are there now."""
    if isinstance(error, FileNotFoundError):
        return (error.filename,)
    if error.path is not None and error.position is not None:
        with suppress(OSError, KafkaLogError), closing(open_source(error.path)) as file:
            length = max(0, min(_COMPARED_BYTES, file.size - error.position))
            return error.path, error.position, bytes(file.view(error.position, length))
    return error.path, error.position
