r"""`LogState`: the state that all changes of a log share (segments, producers, epochs, the lock), and flushing.

    append (append/)   roll   retention   truncate      each changes the log under the lock, while the log is usable
                           \    |       /
                  LogState: segments, producers, epochs -> watermarks

    recovery point: all before it is on the disk  log end
                          v                          v
    segment | segment | segment | active segment .....

Flushing takes long, so it runs without the lock. After a failed flush the content of the disk is unknown, even if a
later flush succeeds, so the log accepts no more records. Source: the fields and `flush` of
storage/.../internals/log/UnifiedLog.java.
"""

import os
import threading
from collections.abc import Callable

from kafkalog.errors import LogLockedError, LogStateError
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager


class LogState:
    """The state of a log that is open for writing. All changes are made under `lock`.

    Attributes:
        local: The segments and the log end.
        producers: The producer state.
        epochs: The leader epochs.
        directory: The directory of `local`.
        config: The settings of `local`.
        clock: The clock of `local`; returns the time, ms.
        scheduler: The scheduler of `local`.
        lock: Held for every change; reentrant.
        closed: Whether the log was closed, abandoned or deleted.
        forked: Whether this is the copy in a forked child, which may only be read.
    """

    def __init__(
        self,
        local: LocalLog,
        producers: ProducerStateManager,
        epochs: LeaderEpochCache,
        ensure_alone: Callable[[], None],
    ) -> None:
        self.local = local
        self.producers = producers
        self.epochs = epochs
        self.directory = local.directory
        self.config = local.home.config
        self.clock = local.home.clock
        self.scheduler = local.home.scheduler
        self.lock = threading.RLock()
        self.closed = self.forked = False
        self._ensure_alone = ensure_alone

    def check_usable(self) -> None:
        """Check that the log may be changed.

        Raises:
            LogStateError: The log is closed, or a flush or change of it has failed.
        """
        if self.closed:
            self.check_open()
        if self.local.failure is not None:
            message = "the log could not be flushed or changed; open it again before appending to it"
            raise LogStateError(message, str(self.directory), found=self.local.failure)

    def check_open(self) -> None:
        """Check that the log is open in this process.

        Raises:
            LogStateError: The log was closed, abandoned or deleted, or it belongs to another process.
        """
        if self.forked:
            message = "the log belongs to the process that opened it; a forked child may open it after it was closed"
            raise LogStateError(message, str(self.directory))
        if self.closed:
            raise LogStateError("the log has been closed", str(self.directory))

    def check_alone(self) -> None:
        """Check in the file system that the lock file is still there.

        Raises:
            LogStateError: It was removed, so another process may be writing to the log.
        """
        try:
            self._ensure_alone()
        except LogLockedError as error:
            # Another thread may have closed the log, which removes the lock file too.
            self.check_open()
            self.local.failure = error
            self.check_usable()

    # --- flushing

    def flush(self, *, force_active: bool = False) -> None:
        """Flush the log up to its end; with `force_active`, also the files of an empty active segment."""
        end = self.local.log_end_offset
        self.flush_until(end + 1 if force_active else end, end)

    def flush_if_due(self) -> None:
        """Flush if the number of messages appended since the last flush has reached flush.messages."""
        if self.local.log_end.message_offset - self.local.recovery_point >= self.config.flush_messages:
            self.flush()

    def flush_until(self, offset: int, recovery_point: int) -> None:
        """Flush the segments that begin before `offset`, and set the recovery point.

        Args:
            offset: Segments with a smaller base offset are flushed.
            recovery_point: The new recovery point; every record before it is on the disk afterwards.

        Raises:
            OSError: The flush failed.
            LogStateError: The log is closed, an earlier flush or change has failed, or the lock file was removed.
        """
        local = self.local
        if offset <= local.recovery_point:
            return
        self.check_usable()
        self.check_alone()
        truncations = local.truncations
        local.flush(offset)
        with self.lock:
            # After a truncation during the flush, records that replaced the truncated ones may not be on the disk.
            if local.truncations == truncations and not self.closed:
                # A new segment that begins after a gap is flushed up to its base offset while it is still empty.
                last = max(local.log_end_offset, local.active_segment.base_offset)
                local.mark_flushed(min(recovery_point, last))


# The states of the logs that this process has open for writing.
owned: set[LogState] = set()


def _stop_in_child() -> None:
    """Stop writing in a forked child, where no thread exists that may hold a lock."""
    while owned:
        state = owned.pop()
        state.closed = state.forked = True
        state.lock = threading.RLock()


os.register_at_fork(after_in_child=_stop_in_child)
