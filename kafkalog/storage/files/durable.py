"""Atomic writes of small files.

    leader-epoch-checkpoint.tmp   written and synced to disk
    leader-epoch-checkpoint       replaced by a rename; then the directory is synced, so that the rename is durable too

Readers, also after a crash, find either the old or the new file. A `.tmp` left by a crash is overwritten by the next
write. Source: server-common/.../CheckpointFile.java, clients/.../utils/Utils.java.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafkalog.storage.file_names import TEMPORARY_SUFFIX


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace the file at `path` by a file with these bytes. Not safe for concurrent writers.

    Args:
        path: The file to replace or create.
        data: Its new content.
        sync: Sync the file and its directory, so that the change survives a power failure.

    Raises:
        OSError: The write failed and the old file is unchanged; or the new file is in place, but its directory could
            not be synced.
    """
    unfinished = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with naming(unfinished), open(unfinished, "wb", opener=_without_waiting) as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise
    if sync:
        sync_directory(path.parent)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without blocking: a pipe without a reader gives an OSError."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, and sync them to disk.

    Raises:
        OSError: A directory cannot be created or synced.
    """
    if not directory.is_dir():
        make_directory(directory.absolute().parent)
        try:
            directory.mkdir(exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
        sync_directory(directory.absolute().parent)


@contextmanager
def naming(path: os.PathLike[str]) -> Iterator[None]:
    """Add the path to OSErrors raised by calls on a descriptor."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def sync_directory(directory: Path) -> None:
    """Sync the directory entries (files created, renamed, removed) to disk.

    Raises:
        OSError: The sync failed.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(directory):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
