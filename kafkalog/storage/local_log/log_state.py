r"""`LogState`: what everything that changes a log shares: segments, producers, epochs, the lock; and flushing.

    append (append/)   roll   retention   truncate      each changes the log under the lock, while the log is usable
                           \    |       /
                  LogState: segments, producers, epochs -> watermarks

    recovery point: all before is on the disk     log end
                          v                          v
    segment | segment | segment | active segment .....

Flushing takes long, so it runs without the lock. After a flush that fails nobody knows what is on the disk, and a later
one that succeeds does not tell either: the log takes no more records. Source: the fields and `flush` of
storage/.../internals/log/UnifiedLog.java.
"""

import threading
from collections.abc import Callable

from kafkalog.errors import LogLockedError, LogStateError
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager


class LogState:
    """A log that is written to. Whoever changes it holds `lock`, which may be taken again by the thread that has it.

    Attributes: local (segments and log end); producers; epochs; directory, config, clock (gives the time, ms) and
    scheduler, which are those of `local`; closed; forked (this is a forked child's copy, which may only be read).
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
        """LogStateError: the log is closed, or a flush or change of it has failed."""
        if self.closed or self.local.failure is not None:
            self.check_open()
            self.check_whole()

    def check_open(self) -> None:
        """LogStateError: the log has been closed, given up or deleted, or belongs to another process."""
        if self.forked:
            message = "the log belongs to the process that opened it: a forked child opens its own, once it is closed"
            raise LogStateError(message, str(self.directory))
        if self.closed:
            raise LogStateError("the log has been closed", str(self.directory))

    def check_whole(self) -> None:
        """LogStateError: it is not known what is on the disk, or in the log."""
        if self.local.failure is not None:
            message = "the log could not be flushed or changed, and takes nothing more until it is opened again"
            raise LogStateError(message, str(self.directory), found=self.local.failure)

    def check_alone(self) -> None:
        """LogStateError: somebody has removed the lock file, and others may be writing. Asks the file system."""
        try:
            self._ensure_alone()
        except LogLockedError as error:
            # Another thread that has closed the log meanwhile has removed the lock file, too.
            self.check_open()
            self.local.failure = error
            self.check_whole()

    def disown(self) -> None:
        """In a forked child: as `owning.Owner`."""
        self.closed = self.forked = True
        self.lock = threading.RLock()

    # --- flushing

    def flush(self, *, force_active: bool = False) -> None:
        """Flush the log up to its end; the active segment's files too, if it is empty and `force_active` is set."""
        end = self.local.log_end_offset
        self.flush_until(end + 1 if force_active else end, end)

    def flush_if_due(self) -> None:
        """Flush once as many messages have been appended as the topic's flush.messages."""
        if self.local.unflushed_messages >= self.config.flush_messages:
            self.flush()

    def flush_until(self, offset: int, recovery_point: int) -> None:
        """Flush the segments that begin before `offset`, and move the recovery point.

        Args:
            offset: segments with a smaller base offset are flushed.
            recovery_point: every record before it is on the disk afterwards.

        Raises:
            OSError: the flush failed.
        """
        local = self.local
        if offset <= local.recovery_point:
            return
        self.check_open()
        self.check_whole()
        self.check_alone()
        truncations = local.truncations
        local.flush(offset)
        with self.lock:
            # Records that replaced truncated ones meanwhile are perhaps not on the disk.
            if local.truncations == truncations and not self.closed:
                # A segment that begins after a gap is flushed up to its base before it holds a batch.
                last = max(local.log_end_offset, local.active_segment.base_offset)
                local.mark_flushed(min(recovery_point, last))
