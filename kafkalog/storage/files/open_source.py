"""Choose the `ByteSource` for a path."""

import os

from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.readable_file import MappedFile, ReadableFile
from kafkalog.storage.files.remote_file import RemoteFile
from kafkalog.storage.remote_path import RemotePath, to_path


def open_source(path: str | os.PathLike[str], *, mapped: bool = False, until: int | None = None) -> ByteSource:
    """Open a file for reading.

    Args:
        path: A local path, or the URL of a file in a store.
        mapped: Map the file if it is local; only for files that no process truncates.
        until: As for `RemoteFile`.

    Raises:
        OSError: The file cannot be opened.
        NotALogError: The path is a directory, a pipe or a device.
        ImportError, ValueError: As `to_path`.
    """
    path = to_path(path)
    if isinstance(path, RemotePath):
        return RemoteFile(path, until)
    return MappedFile(path) if mapped else ReadableFile(path)
