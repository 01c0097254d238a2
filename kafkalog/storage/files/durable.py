"""A small file written whole or not at all.

    leader-epoch-checkpoint.tmp   written, its bytes on the disk
    leader-epoch-checkpoint       takes its name in one step; then the directory, so that the step is on the disk too

Whoever reads, and whoever comes after a crash, finds the old file or the new one. A `.tmp` that a crash leaves behind
is written over by the next one. Source: server-common/.../CheckpointFile.java, clients/.../utils/Utils.java.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kafkalog.storage.file_names import TEMPORARY_SUFFIX


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Put a file of these bytes in the place of `path`. `sync`: it outlasts a power cut once this returns.

    OSError: it could not be written, and the old file is as it was; or, it being in place, the directory could not be
    synced. One writer at a time.
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
    """Opening a pipe would wait for somebody to read it: an OSError instead."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def make_directory(directory: Path) -> None:
    """Make a directory, and those above it that are missing; what is made outlasts a power cut. OSError: not so."""
    if not directory.is_dir():
        make_directory(directory.absolute().parent)
        try:
            directory.mkdir(exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
        sync_directory(directory.absolute().parent)


@contextmanager
def naming(path: os.PathLike[str]) -> Iterator[None]:
    """Have OSErrors, which know a descriptor only, say which file it was."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def sync_directory(directory: Path) -> None:
    """Names made, changed or removed in a directory outlast a power cut once this returns. OSError: not so."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with naming(directory):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
