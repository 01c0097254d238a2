"""Output in a background thread, so that encoding and writing overlap.

Without it, `kafkalog dump -o jsonl > file` of 256 MiB takes about 20 % longer.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO, Self

# A portion for the thread. One is written while the next one is encoded.
PORTION_BYTES = 1 << 21


class Sink:
    """A background thread that writes to a stream: `with Sink(stream) as sink: sink.write(piece)`.

    All is written at the end of the `with`.

    Raises:
        OSError: A write failed. Raised by a later call, or at the end of the `with`.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._pieces: list[bytes] = []
        self._size = 0
        self._thread = ThreadPoolExecutor(1, "kafkalog-stdout")
        self._written: Future[None] | None = None

    def write(self, piece: bytes) -> None:
        """Write bytes, perhaps later."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size >= PORTION_BYTES:
            self._wait()
            self._written = self._thread.submit(self._stream.writelines, self._take())

    def flush(self) -> None:
        """Wait until all is written."""
        self._wait()
        self._stream.writelines(self._take())
        self._stream.flush()

    def _wait(self) -> None:
        if self._written is not None:
            self._written.result()

    def _take(self) -> list[bytes]:
        portion, self._pieces, self._size = self._pieces, [], 0
        return portion

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if not isinstance(error, OSError):
            self.flush()
