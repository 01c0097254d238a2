"""Which leader epoch began at which offset: kept in memory and in `leader-epoch-checkpoint`.

    0        version
    3        number of lines
    0 0      epoch 0 has the offsets 0..9
    2 10     epoch 2 those from 10 on (epoch 1 appended nothing)
    5 25     epoch 5, the latest, those from 25 to the log's end

A replica asks for the end of an epoch to find where its log and the leader's part ways. Both numbers always rise:
a new entry drops those it contradicts. Source: storage/.../epoch/LeaderEpochFileCache.java.
"""

import logging
import threading
from bisect import bisect_left, bisect_right
from operator import attrgetter
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
_epoch, _start_offset = attrgetter("epoch"), attrgetter("start_offset")


class LeaderEpochCache:
    """The leader epochs of a log. One thread at a time changes it; any number read it without waiting.

    What is assigned is on the disk when `assign` returns. What is truncated is written by the scheduler, or at once
    where there is none: a crash may leave entries too many in the file, never too few, and loading the log truncates
    again. Not `writable`: changes stay in memory.

    path: the checkpoint file; created, empty, if it is missing and the cache writable. CorruptCheckpointError: it does
    not follow its format. OSError: it cannot be read or created.
    """

    def __init__(self, path: Path, *, writable: bool = True, scheduler: Scheduler | None = None) -> None:
        self.path = path
        self.writable = writable
        self._scheduler = scheduler
        self._lock = threading.Lock()
        # Whether the scheduler is still to write what has changed.
        self._unwritten = False
        self._entries: tuple[EpochEntry, ...] = ()
        if writable and not path.exists():
            path.touch()
        for entry in read_leader_epoch_checkpoint(path):
            if min(entry) < 0:
                raise CorruptCheckpointError("an epoch or offset is negative", str(path), None, "0 or more", entry)
            self._entries = _with_entry(self._entries, entry)

    def __repr__(self) -> str:
        told = ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in self._entries)
        return f"<LeaderEpochCache {self.path}: {told or 'no epochs'}>"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return self._entries

    @property
    def is_empty(self) -> bool:
        """Whether there are no entries: no batch of format 2 was ever appended, or all is truncated."""
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
        """The last epoch in which something was appended; None if there is none."""
        latest = self.latest_entry
        return latest.epoch if latest else None

    def previous_epoch(self, epoch: int) -> int | None:
        """The largest epoch below this one; None if there is none."""
        entries = self._entries
        at = bisect_left(entries, epoch, key=_epoch)
        return entries[at - 1].epoch if at else None

    def next_epoch(self, epoch: int) -> int | None:
        """The smallest epoch above this one; None if there is none."""
        entries = self._entries
        at = bisect_right(entries, epoch, key=_epoch)
        return entries[at].epoch if at < len(entries) else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which the record of this offset was appended; None for one before all entries."""
        entries = self._entries
        at = bisect_right(entries, offset, key=_start_offset)
        return entries[at - 1].epoch if at else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch not above the requested one; (-1, -1) where nothing can be said.

        The latest epoch ends where the log does. An epoch before all entries is answered with itself and the start of
        the first: what it had is deleted, and from there on a replica can go on.
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
        """Note that the epoch begins at this offset, which drops entries that are not below it in both numbers.

        Nothing changes if it is the latest epoch and had begun before. ValueError: a negative number. OSError: the
        file could not be written; the cache is as it was.
        """
        entry = EpochEntry(epoch, start_offset)
        if min(entry) < 0:
            raise ValueError(f"a leader epoch and its start offset are 0 or more, not {entry}")
        with self._lock:
            entries = _with_entry(self._entries, entry)
            if entries is not self._entries:
                _warn_of_conflicts(self, entry, entries)
                self._write(entries)
                self._entries = entries

    def note(self, epoch: int, start_offset: int) -> None:
        """A batch of this epoch is appended at this offset. ValueError, OSError: as `assign`."""
        entries = self._entries
        latest = entries[-1] if entries else None
        # An append that was refused later may have left a later start.
        if latest is None or epoch != latest.epoch or start_offset < latest.start_offset:
            self.assign(epoch, start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the entries that begin at this offset or later. OSError: the file could not be written."""
        with self._lock:
            kept = bisect_left(self._entries, end_offset, key=_start_offset)
            if end_offset < 0 or kept == len(self._entries):
                return
            self._entries = self._entries[:kept]
        self._flush_later()

    def truncate_from_start(self, start_offset: int) -> None:
        """Let the entries begin at this offset: of those before it the last one stays, and now begins there.

        OSError: the file could not be written.
        """
        with self._lock:
            dropped = bisect_right(self._entries, start_offset, key=_start_offset)
            if not dropped or self._entries[0].start_offset == start_offset:
                return
            first = EpochEntry(self._entries[dropped - 1].epoch, start_offset)
            self._entries = (first, *self._entries[dropped:])
        self._flush_later()

    def clear_and_flush(self) -> None:
        """Drop all entries, in the file too. OSError: the file could not be written; the cache is as it was."""
        with self._lock:
            self._write(())
            self._entries = ()

    def flush(self) -> None:
        """Write the entries to the file. OSError: it could not be written."""
        with self._lock:
            self._write(self._entries)

    def close(self) -> None:
        """Write what the scheduler was to write, and no more after that. OSError: it could not be written."""
        with self._lock:
            if self._unwritten:
                self._write(self._entries)
            self.writable = False

    def retire(self) -> None:
        """Write no more."""
        with self._lock:
            self.writable = False

    def moved_to(self, path: Path) -> None:
        """The file has this path from now on: its directory was renamed."""
        with self._lock:
            self.path = path

    def _flush_later(self) -> None:
        if self._scheduler is None:
            self.flush()
        elif self.writable:
            self._unwritten = True
            self._scheduler.schedule(f"flush of {self.path}", self._flush_if_there)

    def _flush_if_there(self) -> None:
        try:
            self.flush()
        except FileNotFoundError:
            logger.debug("%s is not written: its directory has gone", self.path)

    def _write(self, entries: tuple[EpochEntry, ...]) -> None:
        if self.writable:
            write_leader_epoch_checkpoint(self.path, entries)
            self._unwritten = False


def _with_entry(entries: tuple[EpochEntry, ...], entry: EpochEntry) -> tuple[EpochEntry, ...]:
    """The entries with one more, without those it contradicts; the very same where it says nothing new."""
    if entries and entries[-1].epoch == entry.epoch and entries[-1].start_offset <= entry.start_offset:
        return entries
    kept = min(
        bisect_left(entries, entry.epoch, key=_epoch), bisect_left(entries, entry.start_offset, key=_start_offset)
    )
    return (*entries[:kept], entry)


def _warn_of_conflicts(cache: LeaderEpochCache, entry: EpochEntry, entries: tuple[EpochEntry, ...]) -> None:
    """One entry that begins at the same offset is no conflict: in its epoch nothing was appended."""
    dropped = cache.entries[len(entries) - 1 :]
    if len(dropped) > 1 or (dropped and dropped[0].start_offset != entry.start_offset):
        logger.warning("%s: the new entry %s drops %s", cache.path, entry, dropped)
