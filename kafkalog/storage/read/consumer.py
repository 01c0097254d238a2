"""`Consumer`: reads a log on from a position that is committed to a file.

    0                            version
    1                            number of lines
    <leader epoch> <offset>      of the last record before the position, and the position: the next offset to read

This is the format of a `leader-epoch-checkpoint`, and what a Kafka consumer commits. The epoch tells, as it tells a
Kafka consumer, that the log was truncated before the position and appended to again (`OffsetsForLeaderEpoch`); it is -1
in a log without leader epochs. Within one epoch, as in an embedded log that is truncated by its own program, this is
not noticed.
"""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog._speedups.arguments import INT64_MAX, whole
from kafkalog._speedups.record import Record
from kafkalog.errors import CorruptCheckpointError, LogTruncatedError
from kafkalog.storage.checkpoint.checkpoint_file import read_leader_epoch_checkpoint, write_leader_epoch_checkpoint
from kafkalog.storage.checkpoint.leader_epoch_cache import UNDEFINED_EPOCH
from kafkalog.storage.fetch_data_info import IsolationLevel, IsolationName

if TYPE_CHECKING:
    from kafkalog.storage.log import Log, OnOutOfRange


class Consumer:
    """A position in a log, kept in a file. Use it from one thread, and one consumer per file.

    Attributes:
        path: The file.
        position: The offset of the next record to read; None: the log start offset, as long as nothing was read or
            committed. It may be set.
    """

    def __init__(
        self,
        log: "Log",
        path: Path,
        isolation: IsolationLevel | IsolationName,
        on_out_of_range: "OnOutOfRange",
    ) -> None:
        """Read the committed position; `Log.consumer` describes arguments and errors."""
        self.path = path
        self.position: int | None = None
        self._log = log
        self._isolation = isolation
        self._on_out_of_range = on_out_of_range
        if not path.parent.is_dir():
            message = "there is no such directory for the position of a consumer"
            raise FileNotFoundError(errno.ENOENT, message, str(path.parent))
        entries = read_leader_epoch_checkpoint(path)
        if len(entries) != path.exists():
            raise CorruptCheckpointError("a position has one line", str(path), None, 1, len(entries))
        if entries:
            ((epoch, position),) = entries
            known, end = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
            was_truncated = known != UNDEFINED_EPOCH and end < position
            if was_truncated and on_out_of_range == "raise":
                raise LogTruncatedError.of(str(log.directory), position - 1, log.log_end_offset)
            self.position = end if was_truncated else position

    def records(self) -> Iterator[Record]:
        """Yield the records from the position on; each advances the position. Raise errors as `Log.records`."""
        records = self._log.records(self.position, isolation=self._isolation, on_out_of_range=self._on_out_of_range)
        return self._advancing(records)

    def follow(self, *, timeout: float | None = None) -> Iterator[Record]:
        """Yield the records from the position on, and then each new one. Each advances the position.

        Args:
            timeout: The iterator ends when no record came for this many seconds; None: never.

        Raises:
            KafkaLogError, OSError: As `Log.follow`.
        """
        records = self._log.follow(
            self.position, timeout=timeout, isolation=self._isolation, on_out_of_range=self._on_out_of_range
        )
        return self._advancing(records)

    def commit(self) -> None:
        """Write the position to the file, durably: all records that were read so far are dealt with.

        The file is replaced atomically: after a crash it has this position or the one before. The records before it are
        synced to disk first, if the log is open for writing: a power failure must not move the log's end back behind
        the position.

        Raises:
            TypeError, ValueError: The position has been set to what is no offset.
            OSError: The file was not written.
        """
        if self.position is not None:
            self.position = whole("position", self.position, 0, INT64_MAX)
            self._log._ensure_durable(self.position)
            epoch = self._log.leader_epochs.epoch_for_offset(self.position - 1)
            entry = UNDEFINED_EPOCH if epoch is None else epoch, self.position
            write_leader_epoch_checkpoint(self.path, [entry])

    def _advancing(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            self.position = record.offset + 1
            yield record
