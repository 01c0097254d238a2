"""Functions that write the bytes of a message set in chunks to a binary file or a socket."""

from collections.abc import Callable
from socket import socket
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from kafkalog._speedups.output_stream import count_taken

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, SupportsWrite

FILE_PIECE_BYTES = 1 << 20
# About the size of a socket's buffer: bytes that it does not accept have been read in vain.
SOCKET_PIECE_BYTES = 1 << 16


class SupportsSend(Protocol):
    """A socket, or an object that behaves like one."""

    def send(self, data: "ReadableBuffer", /) -> int:
        """Send the beginning of `data`; return the number of bytes sent."""


Target: TypeAlias = "SupportsWrite[memoryview] | SupportsSend"
# (position, length) -> the number of bytes written, at most `length`; 0: the target accepts no more.
Move: TypeAlias = Callable[[int, int], int]
# (position, length) -> these bytes.
View: TypeAlias = Callable[[int, int], memoryview]


def write_all(move: Move, position: int, length: int) -> int:
    """Call `move` for the bytes [position, position + length) until it accepts no more; return the number written."""
    done = 0
    while done < length:
        moved = move(position + done, length - done)
        if not moved:
            break
        done += moved
    return done


def by_python(view: View, target: Target) -> Move:
    """Return a function that writes viewed bytes to `target` by its `write` or `send`.

    Raises:
        TypeError: `target` has neither method.
    """
    if isinstance(target, socket) or not hasattr(target, "write"):
        if not hasattr(target, "send"):
            raise TypeError(f"neither a file nor a socket to write to: {type(target).__name__}")
        return lambda at, length: _accepted(target, target.send, view(at, min(length, SOCKET_PIECE_BYTES)))
    return lambda at, length: _accepted(target, target.write, view(at, min(length, FILE_PIECE_BYTES)))


def _accepted(target: Target, write: Callable[[memoryview], object], piece: memoryview) -> int:
    """Write a chunk and return how many bytes the target accepted; 0 if it is non-blocking and full."""
    try:
        return count_taken(target, cast("int | None", write(piece)), len(piece))
    except BlockingIOError as error:
        return getattr(error, "characters_written", 0)
    except OSError as error:
        # A TLS socket raises these instead. They are compared by name, as importing ssl takes long.
        if type(error).__name__ not in {"SSLWantReadError", "SSLWantWriteError"}:
            raise
        return 0
