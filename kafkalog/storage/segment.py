"""`LogSegment`: one segment of a partition, a run of offsets from its base offset on in a file of its own."""

from pathlib import Path

from kafkalog.record import compression
from kafkalog.storage.file_message_set import FileMessageSet


class LogSegment:
    """A segment that is read: `log` is opened when first asked for.

    base_offset: from the file's name. sealed: a later segment follows it, so that nothing is appended to it any more.
    """

    def __init__(
        self, base_offset: int, path: Path, *, sealed: bool, decompression_limit: int = compression.DEFAULT_LIMIT
    ) -> None:
        self.base_offset = base_offset
        self.path = path
        self.sealed = sealed
        self._decompression_limit = decompression_limit
        self._log: FileMessageSet | None = None
        self._closed = False

    @property
    def log(self) -> FileMessageSet:
        """The entries of the `.log` file. OSError: it cannot be opened. ValueError: the segment has been closed."""
        if self._log is None:
            self._log = self.opened()
        return self._log

    def opened(self) -> FileMessageSet:
        """The same in a file opened for the caller, who closes it. OSError, ValueError: as `log`."""
        if self._closed:
            raise ValueError(f"{self.path} has been closed")
        return FileMessageSet(self.path, sealed=self.sealed, decompression_limit=self._decompression_limit)

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the `.log` file, a torn or zeroed tail included. OSError: it is not there any more."""
        return self.path.stat().st_size

    def __getstate__(self) -> dict[str, object]:
        # A copy, perhaps in another process, opens the file for itself.
        return self.__dict__ | {"_log": None}

    def close(self) -> None:
        """Close the file, for good. What was read from it stays valid."""
        self._closed = True
        if self._log is not None:
            self._log.close()
            self._log = None

    def __repr__(self) -> str:
        return f"<LogSegment {self.base_offset} {'sealed' if self.sealed else 'active'} {self.path}>"
