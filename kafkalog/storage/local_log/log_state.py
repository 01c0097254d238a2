"""`LogState`: what all share who change a log: its segments, producers and epochs, the lock, and whether they may.

    WritableLog ─ Watermarks ─ Flusher ─ Roller ─ Retention ─ Truncation ─ BatchAppender ─ EmbeddedAppender
        each changes one thing, under the lock, as long as the log is open and no change of it has ended half-way

Source: the fields of storage/.../internals/log/UnifiedLog.java.
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
