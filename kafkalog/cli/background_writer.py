"""Output in a background thread, so that encoding and writing overlap."""

import os
import threading
from collections.abc import Sequence
from io import UnsupportedOperation
from queue import SimpleQueue
from types import TracebackType
from typing import BinaryIO, Self

# The bytes and pieces of a portion for the thread, and the most portions that wait.
PORTION_BYTES = 1 << 21
PORTION_PIECES = 512
PORTIONS_WAITING = 4


class Sink:
    """Writes to a stream in a background thread: `with Sink(stream) as sink: sink.write(pieces)`.

    All is written at the end of the `with`.

    Raises:
        OSError: A write failed. Raised by a later call, or at the end of the `with`.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._pieces: list[bytes] = []
        self._size = 0
        self._queue: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._room = threading.Semaphore(PORTIONS_WAITING)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def write(self, pieces: Sequence[bytes]) -> None:
        """Write the pieces in order, perhaps later."""
        self._pieces += pieces
        self._size += sum(map(len, pieces))
        if self._size >= PORTION_BYTES or len(self._pieces) >= PORTION_PIECES:
            self._hand_over()

    def flush(self) -> None:
        """Wait until all pieces are written."""
        if self._pieces:
            self._hand_over()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._check()
        self._stream.flush()

    def _hand_over(self) -> None:
        """Pass the collected pieces to the thread."""
        self._check()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="kafkalog-stdout", daemon=True)
            self._thread.start()
        self._room.acquire()
        self._queue.put(self._pieces)
        self._pieces, self._size = [], 0

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        """Write portions. After an error, discard them, so that no caller waits for room forever."""
        while (pieces := self._queue.get()) is not None:
            try:
                if self._error is None:
                    _write_all(self._stream, pieces)
            except OSError as error:
                self._error = error
            finally:
                self._room.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError) or self._error is None:
            self.flush()


def _write_all(stream: BinaryIO, pieces: list[bytes]) -> None:
    """Write the pieces. A file gets them without joining, which would copy all bytes once more."""
    stream.flush()
    try:
        fd = stream.fileno()
    except UnsupportedOperation:
        stream.write(b"".join(pieces))
        return
    for start in range(0, len(pieces), PORTION_PIECES):
        some = pieces[start : start + PORTION_PIECES]
        written = os.writev(fd, some)
        rest = memoryview(b"".join(some))[written:] if written < sum(map(len, some)) else memoryview(b"")
        while rest:
            rest = rest[os.write(fd, rest) :]
