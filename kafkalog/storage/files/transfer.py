"""Copy bytes of an open file to another file or a socket, in the kernel where possible, without passing through Python.

    socket                      sendfile
    file opened by open()       copy_file_range (Linux): on some file systems no bytes are copied at all
    anything else               read, write; or send

The kernel path is used only for objects known to be a plain descriptor: a TLS socket and a gzip file have a descriptor
too, but bytes written to it would be neither encrypted nor compressed.
"""

import io
import os
from collections.abc import Callable
from errno import EAGAIN, EBADF, EINVAL, ENOSYS, ENOTSOCK, EOPNOTSUPP, EPERM, EXDEV
from socket import socket
from typing import TypeGuard

from kafkalog.record.write_to import Move, Target, by_python, write_all
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.readable_file import ReadableFile

_BUFFERED = {io.BufferedWriter, io.BufferedRandom}
# The errors of a kernel copy that is not possible now or between these two files: another file system, a pipe, a file
# opened to append, an old kernel; a socket that is full.
_CANNOT = {EAGAIN, EBADF, EINVAL, ENOSYS, ENOTSOCK, EOPNOTSUPP, EPERM, EXDEV}


def transfer(source: ByteSource, target: Target, position: int, length: int) -> int:
    """Write bytes [position, position + length) of `source` to `target` and return the number written.

    Fewer bytes are written only if `target` is non-blocking and accepts no more.

    Args:
        source: The file to copy from.
        target: A binary file or a socket.
        position: The first byte.
        length: The number of bytes.

    Raises:
        OSError: Writing to `target` failed.
        CorruptRecordError: The source file has become shorter.
        TypeError: `target` is neither a file nor a socket.
    """
    second = by_python(source.view, target)
    first = _by_system(source, target) if isinstance(source, ReadableFile) else second
    # Fall back to Python, which honours the timeout of a socket and raises descriptive errors.
    return write_all(lambda at, left: first(at, left) or second(at, left), position, length)


def _by_system(source: ReadableFile, target: Target) -> Move:
    if type(target) is socket and hasattr(os, "sendfile"):
        return lambda at, length: _refusable(os.sendfile, target.fileno(), source.fileno(), at, length)
    if _is_plain_file(target) and hasattr(os, "copy_file_range"):

        def copy(*arguments: int) -> int:
            # Flush Python's own buffer first.
            target.flush()
            return os.copy_file_range(*arguments)

        return lambda at, length: _refusable(copy, source.fileno(), target.fileno(), length, at)
    return lambda _at, _length: 0


def _refusable(call: Callable[..., int], *arguments: int) -> int:
    try:
        return call(*arguments)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return 0


def _is_plain_file(target: object) -> TypeGuard[io.FileIO | io.BufferedWriter | io.BufferedRandom]:
    return type(getattr(target, "raw", None) if type(target) in _BUFFERED else target) is io.FileIO
