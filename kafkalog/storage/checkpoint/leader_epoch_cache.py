"""The start offsets of leader epochs: cached in memory, stored in `leader-epoch-checkpoint`.

    0        version
    3        number of lines
    0 0      epoch 0 has the offsets 0..9
    2 10     epoch 2 has the offsets 10..24 (epoch 1 appended nothing)
    5 25     epoch 5, the latest, has the offsets from 25 to the log end

A replica asks for the end of an epoch to find where its log diverges from the leader's. Both numbers always increase:
a new entry removes those that it contradicts. Source: storage/.../epoch/LeaderEpochFileCache.java.
"""

import logging
import threading
from bisect import bisect_left, bisect_right
from operator import itemgetter
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.checkpoint.checkpoint_file import (
    EpochEntry,
    read_leader_epoch_checkpoint,
    write_leader_epoch_checkpoint,
)
from kafkalog.storage.scheduler import Scheduler

__all__ = ["UNDEFINED_EPOCH", "UNDEFINED_EPOCH_OFFSET", "EpochEntry", "LeaderEpochCache"]

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1

logger = logging.getLogger(__name__)
_epoch, _start_offset = itemgetter(0), itemgetter(1)


class LeaderEpochCache:
    """The leader epochs of a log. One thread at a time may change it; any thread may read it without a lock.

    `assign` writes the file before it returns. Truncation lets the scheduler write the file, or writes it at once
    without a scheduler: after a crash the file may have too many entries, never too few, and loading the log truncates
    again.

    Args:
        path: The checkpoint file. If it is missing and the cache is writable, an empty one is created.
        writable: Whether changes are written to the file.
        scheduler: Writes the file after truncation.

    Raises:
        CorruptCheckpointError: The file does not follow its format.
        OSError: The file was not read or created.
    """

    def __init__(self, path: Path, *, writable: bool = True, scheduler: Scheduler | None = None) -> None:
        self.path = path
        self.writable = writable
        self._scheduler = scheduler
        self._lock = threading.Lock()
        # Whether a scheduled write of the entries is pending.
        self._unwritten = False
        if writable and not path.exists():
            path.touch()
        entries: list[EpochEntry] = []
        for entry in read_leader_epoch_checkpoint(path):
            if min(entry) < 0:
                message = "a leader epoch or its start offset is negative"
                raise CorruptCheckpointError(message, str(path), None, "0 or more", entry)
            _add(entries, entry)
        self._entries = tuple(entries)

    def __repr__(self) -> str:
        epochs = ", ".join(f"{epoch} from {start_offset}" for epoch, start_offset in self._entries)
        return f"<LeaderEpochCache {self.path}: {epochs or 'no epochs'}>"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return self._entries

    @property
    def is_empty(self) -> bool:
        """Whether there are no entries: no batch of format 2 was appended, or all were truncated."""
        return not self._entries

    @property
    def latest_entry(self) -> EpochEntry | None:
        """The last entry; None if there is none."""
        entries = self._entries
        return entries[-1] if entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The first entry; None if there is none."""
        entries = self._entries
        return entries[0] if entries else None

    @property
    def latest_epoch(self) -> int | None:
        """The last epoch with an entry; None if there is none."""
        latest = self.latest_entry
        return latest.epoch if latest else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which a record was appended; None if its offset is before all entries."""
        entries = self._entries
        at = bisect_right(entries, offset, key=_start_offset)
        return entries[at - 1].epoch if at else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch not above the requested one; (-1, -1) if it is unknown.

        The latest epoch ends at the log end. For an epoch before all entries, the result is that epoch and the start
        offset of the first entry: the epoch's records are deleted, and a replica can continue from there.
        """
        entries = self._entries
        above = bisect_right(entries, requested_epoch, key=_epoch)
        if requested_epoch == UNDEFINED_EPOCH or not entries:
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        if entries[-1].epoch == requested_epoch:
            return requested_epoch, log_end_offset
        if above == len(entries):
            return UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
        return entries[above - 1].epoch if above else requested_epoch, entries[above].start_offset

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add the start of an epoch. Remove the entries whose epoch or start offset is not below it.

        Nothing changes if it is the latest epoch and started before `start_offset`.

        Raises:
            ValueError: A number is negative.
            OSError: The file was not written; the cache is unchanged.
        """
        entry = EpochEntry(epoch, start_offset)
        if min(entry) < 0:
            raise ValueError(f"a leader epoch or its start offset is negative: {entry}")
        with self._lock:
            entries = list(self._entries)
            dropped = _add(entries, entry)
            if dropped is not None:
                _warn_of_conflicts(self.path, entry, dropped)
                changed = tuple(entries)
                self._write(changed)
                self._entries = changed

    def note(self, epoch: int, start_offset: int) -> None:
        """Note that a batch of this epoch is appended at this offset. Raise errors as `assign`."""
        latest = self.latest_entry
        # An append that failed later may have left an entry with a larger start offset.
        if latest is None or epoch != latest.epoch or start_offset < latest.start_offset:
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the entries that start at this offset or later.

        Raises:
            OSError: The file was not written.
        """
        with self._lock:
            kept = bisect_left(self._entries, end_offset, key=_start_offset)
            if end_offset < 0 or kept == len(self._entries):
                return
            self._entries = self._entries[:kept]
        self._flush_later()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove the entries before this offset, except the last of them, which then starts there.

        Raises:
            OSError: The file was not written.
        """
        with self._lock:
            dropped = bisect_right(self._entries, start_offset, key=_start_offset)
            if not dropped or self._entries[0].start_offset == start_offset:
                return
            first = EpochEntry(self._entries[dropped - 1].epoch, start_offset)
            self._entries = (first, *self._entries[dropped:])
        self._flush_later()

    def clear_and_flush(self) -> None:
        """Remove all entries, also from the file.

        Raises:
            OSError: The file was not written; the cache is unchanged.
        """
        with self._lock:
            self._write(())
            self._entries = ()

    def flush(self) -> None:
        """Write the entries to the file.

        Raises:
            OSError: The file was not written.
        """
        with self._lock:
            self._write(self._entries)

    def close(self) -> None:
        """Write the file if a write is pending. Later changes are not written.

        Raises:
            OSError: The file was not written.
        """
        with self._lock:
            if self._unwritten:
                self._write(self._entries)
            self.writable = False

    def retire(self) -> None:
        """Stop writing to the file."""
        with self._lock:
            self.writable = False

    def _flush_later(self) -> None:
        """Schedule a write of the file, or write it now if there is no scheduler."""
        if self._scheduler is None:
            self.flush()
        elif self.writable:
            self._unwritten = True
            self._scheduler.schedule(f"flush of {self.path}", self._flush_if_there)

    def _flush_if_there(self) -> None:
        try:
            self.flush()
        except FileNotFoundError:
            logger.debug("%s is not written: its directory was deleted", self.path)

    def _write(self, entries: tuple[EpochEntry, ...]) -> None:
        if self.writable:
            write_leader_epoch_checkpoint(self.path, entries)
            self._unwritten = False


def _add(entries: list[EpochEntry], entry: EpochEntry) -> list[EpochEntry] | None:
    """Add an entry and remove those that it contradicts.

    Returns:
        The entries removed, latest first; None if nothing changes, because the epoch is the latest and started before.
    """
    epoch, start_offset = entry
    if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
        return None
    dropped = []
    while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
        dropped.append(entries.pop())
    entries.append(entry)
    return dropped


def _warn_of_conflicts(path: Path, entry: EpochEntry, dropped: list[EpochEntry]) -> None:
    """Log the entries that a new one removes. One with the same start offset is no conflict: its epoch is empty."""
    if len(dropped) > 1 or (dropped and dropped[0].start_offset != entry.start_offset):
        logger.warning("%s: the new entry %s drops %s", path, entry, tuple(reversed(dropped)))
