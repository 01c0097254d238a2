"""Bytes of an open file to another file or a socket, moved by the system where it can: they then never enter Python.

    socket                      sendfile
    file opened by open()       copy_file_range (Linux): on some file systems nothing is copied at all
    anything else               read, write; or send

Only objects that are known to be no more than a descriptor are passed by: a TLS socket and a gzip file have one too,
and bytes put into it would be neither encrypted nor compressed.
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
# What the system says where it cannot do it for these two, or not now: another file system, a pipe, a file opened to
# append, an old kernel; a socket that is full.
_CANNOT = {EAGAIN, EBADF, EINVAL, ENOSYS, ENOTSOCK, EOPNOTSUPP, EPERM, EXDEV}


def transfer(source: ByteSource, target: Target, position: int, length: int) -> int:
    """Write bytes [position, position + length) of `source` to `target`, a binary file or a socket. Returns how many.

    Fewer only where `target` does not wait and takes no more now. OSError: as `target` raises it. CorruptRecordError:
    the file has become shorter. TypeError: `target` is neither.
    """
    second = by_python(source.view, target)
    first = _by_system(source, target) if isinstance(source, ReadableFile) else second
    # What the system refuses, Python tries: it waits as long as a socket may, and tells what is wrong.
    return write_all(lambda at, left: first(at, left) or second(at, left), position, length)


def _by_system(source: ReadableFile, target: Target) -> Move:
    if type(target) is socket and hasattr(os, "sendfile"):
        return lambda at, length: _refusable(os.sendfile, target.fileno(), source.fileno(), at, length)
    if _is_plain_file(target) and hasattr(os, "copy_file_range"):

        def copy(*arguments: int) -> int:
            # What Python still holds back comes first.
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
