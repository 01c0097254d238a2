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
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard, cast

from kafkalog.storage.mapped import ReadableFile

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, SupportsWrite

FILE_PIECE_BYTES = 1 << 20
# About what a socket's buffer takes at once: what it does not take has been read for nothing.
SOCKET_PIECE_BYTES = 1 << 16
_BUFFERED = {io.BufferedWriter, io.BufferedRandom}
# What the system says where it cannot do it for these two, or not now: another file system, a pipe, a file opened to
# append, an old kernel; a socket that is full.
_CANNOT = {EAGAIN, EBADF, EINVAL, ENOSYS, ENOTSOCK, EOPNOTSUPP, EPERM, EXDEV}


class SupportsSend(Protocol):
    """A socket, or what behaves as one."""

    def send(self, data: "ReadableBuffer", /) -> int:
        """Send some of `data`; how many bytes of it."""


Target: TypeAlias = "SupportsWrite[memoryview] | SupportsSend"
# Bytes from a position on, at most so many, to where they go. How many went; 0: it takes no more.
Move: TypeAlias = Callable[[int, int], int]


def transfer(source: ReadableFile, target: Target, position: int, length: int) -> int:
    """Write bytes [position, position + length) of `source` to `target`, a binary file or a socket. Returns how many.

    Fewer only where `target` does not wait and takes no more now. OSError: as `target` raises it. CorruptRecordError:
    the file has become shorter. TypeError: `target` is neither.
    """
    by_system, by_python = _by_system(source, target), _by_python(source, target)
    done = 0
    while done < length:
        # What the system refuses, Python tries: it waits as long as a socket may, and tells what is wrong.
        moved = by_system(position + done, length - done) or by_python(position + done, length - done)
        if not moved:
            break
        done += moved
    return done


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


def _by_python(source: ReadableFile, target: Target) -> Move:
    if isinstance(target, socket) or not hasattr(target, "write"):
        if not hasattr(target, "send"):
            raise TypeError(f"neither a file nor a socket to write to: {type(target).__name__}")
        return lambda at, length: _taken(target.send, source.view(at, min(length, SOCKET_PIECE_BYTES)))
    return lambda at, length: _taken(target.write, source.view(at, min(length, FILE_PIECE_BYTES)))


def _taken(write: Callable[[memoryview], object], piece: memoryview) -> int:
    """How many bytes of `piece` are taken; 0 where the target does not wait."""
    try:
        return cast("int | None", write(piece)) or 0
    except BlockingIOError as error:
        return getattr(error, "characters_written", 0)
    except OSError as error:
        # What a TLS socket says instead. Its class lives in ssl, which nobody else should have to import.
        if type(error).__name__ not in {"SSLWantReadError", "SSLWantWriteError"}:
            raise
        return 0
