"""Bytes of a message set to a binary file or a socket, piece by piece, as many as it takes."""

from collections.abc import Callable
from socket import socket
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from kafkalog._speedups.output_stream import count_taken

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, SupportsWrite

FILE_PIECE_BYTES = 1 << 20
# About what a socket's buffer takes at once: what it does not take has been read for nothing.
SOCKET_PIECE_BYTES = 1 << 16


class SupportsSend(Protocol):
    """A socket, or what behaves as one."""

    def send(self, data: "ReadableBuffer", /) -> int:
        """Send some of `data`; how many bytes of it."""


Target: TypeAlias = "SupportsWrite[memoryview] | SupportsSend"
# Bytes from a position on, at most so many, to where they go. How many went; 0: it takes no more.
Move: TypeAlias = Callable[[int, int], int]
# The bytes from a position on, so many.
View: TypeAlias = Callable[[int, int], memoryview]


def write_all(move: Move, position: int, length: int) -> int:
    """Move bytes [position, position + length) until they are gone or no more are taken. Returns how many went."""
    done = 0
    while done < length:
        moved = move(position + done, length - done)
        if not moved:
            break
        done += moved
    return done


def by_python(view: View, target: Target) -> Move:
    """What moves viewed bytes to `target` by its own `write` or `send`. TypeError: it has neither."""
    if isinstance(target, socket) or not hasattr(target, "write"):
        if not hasattr(target, "send"):
            raise TypeError(f"neither a file nor a socket to write to: {type(target).__name__}")
        return lambda at, length: _taken(target, target.send, view(at, min(length, SOCKET_PIECE_BYTES)))
    return lambda at, length: _taken(target, target.write, view(at, min(length, FILE_PIECE_BYTES)))


def _taken(target: Target, write: Callable[[memoryview], object], piece: memoryview) -> int:
    """How many bytes of `piece` are taken; 0 where the target does not wait."""
    try:
        return count_taken(target, cast("int | None", write(piece)), len(piece))
    except BlockingIOError as error:
        return getattr(error, "characters_written", 0)
    except OSError as error:
        # What a TLS socket says instead. Its class lives in ssl, which nobody else should have to import.
        if type(error).__name__ not in {"SSLWantReadError", "SSLWantWriteError"}:
            raise
        return 0
