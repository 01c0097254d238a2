"""`ProducerStateManager`: what a log knows of its producers and their transactions, in memory and in snapshots.

    log        0 ......... 40 ..x....... 90 ..x..o..       x first offset of an open transaction
    snapshots              40.snapshot   90.snapshot       o the log's end: what memory knows goes up to here
                              |             |
    loading    the newest snapshot that can be read, then the batches after it

    first undecided offset    the first of the transactions that have no marker yet
    first unstable offset     the same, and of those whose marker the high watermark has not passed

Whoever calls holds the log's lock; but `first_unstable_offset`, `first_undecided_offset`, `last_entry`,
`active_producers` and `has_late_transaction` may be asked by any thread at any time.
Source: storage/.../internals/log/ProducerStateManager.java.
"""

import copy
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Self

from kafkalog.errors import CorruptSnapshotError
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.storage.clock import Clock, wall_clock_ms
from kafkalog.storage.file_names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_file
from kafkalog.storage.files.appendable_file import sync_file
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_append_info import TV_UNKNOWN, ProducerAppendInfo
from kafkalog.storage.producer.producer_snapshot import holds_the_same, read_snapshot, snapshot_files, write_snapshot
from kafkalog.storage.producer.producer_state_entry import (
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    Transactions,
    TxnMetadata,
)
from kafkalog.storage.scheduler import Scheduler
from kafkalog.storage.segment.log_segment import LogSegment

__all__ = [
    "TV_UNKNOWN",
    "BatchMetadata",
    "CompletedTxn",
    "ProducerAppendInfo",
    "ProducerStateEntry",
    "ProducerStateManager",
    "TxnMetadata",
    "read_snapshot",
    "write_snapshot",
]

MAX_TRANSACTION_TIMEOUT_MS = 900_000
PRODUCER_ID_EXPIRATION_MS = 86_400_000
LATE_TRANSACTION_BUFFER_MS = 300_000
"""What a transaction may take longer than allowed before it counts as left behind."""

_log = logging.getLogger(__name__)


class ProducerStateManager:
    """The producers of one log. Times are in ms."""

    def __init__(
        self,
        directory: Path,
        topic_partition: object,
        *,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        clock: Clock = wall_clock_ms,
        writable: bool = True,
    ) -> None:
        """Lists the directory's snapshots and loads none of them; that is `truncate_and_reload`.

        writable: False writes and deletes nothing, ever. clock: ms, for whoever gives no time. OSError: the directory
        cannot be listed.
        """
        self._directory = directory
        self._partition = topic_partition
        self._max_transaction_timeout_ms = max_transaction_timeout_ms
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._clock = clock
        self._writable = writable
        self._producers: dict[int, ProducerStateEntry] = {}
        self._ongoing = Transactions()
        self._unreplicated = Transactions()
        self._first_unstable: LogOffsetMetadata | None = None
        self._first_undecided: int | None = None
        self._oldest_txn_timestamp = -1
        self._map_end_offset = 0
        self._last_snapshot_offset = 0
        self._snapshots = snapshot_files(directory)
        # What is deleted only by `delete_unwanted_snapshots`; None: all is deleted at once.
        self._unwanted: dict[int, Path] | None = None

    def empty_copy(self) -> Self:
        """Another that knows nothing yet but the same snapshots, which are not listed again.

        What it deletes stays on the disk until `delete_unwanted_snapshots`, of it or of a copy of it: recovery deletes
        every snapshot behind the segment that it reads first, and mostly writes the same ones again.
        """
        other = copy.copy(self)
        other._unwanted = {} if self._unwanted is None else self._unwanted
        other._snapshots = self._snapshots.copy()
        other._forget_everything()
        other._map_end_offset = other._last_snapshot_offset = 0
        return other

    def __repr__(self) -> str:
        return (
            f"<ProducerStateManager of {self._partition}: {len(self._producers)} producers at {self._map_end_offset}>"
        )

    # --- what is known

    @property
    def map_end_offset(self) -> int:
        """The offset up to which, itself not counted, the log's batches are known."""
        return self._map_end_offset

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """Every producer by its id, as they are now: a copy."""
        return self._producers.copy()

    @property
    def is_empty(self) -> bool:
        """Whether neither a producer is known nor a transaction that waits for the high watermark."""
        return not self._producers and not self._unreplicated

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """The first offset of a transaction that is open, or whose marker the high watermark has not passed."""
        return self._first_unstable

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of a transaction that is open."""
        return self._first_undecided

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """What is known of a producer."""
        return self._producers.get(producer_id)

    def has_late_transaction(self, now: int) -> bool:
        """Whether the oldest open transaction has had no batch for longer than any transaction may take."""
        last = self._oldest_txn_timestamp
        return last > 0 and now - last > self._max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    # --- appending

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """What takes a producer's batches of one append and checks them; `update` then remembers them."""
        current = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        return ProducerAppendInfo(self._partition, current, origin)

    def update(self, info: ProducerAppendInfo) -> None:
        """Remember what has been appended. ValueError: batches without a producer id."""
        producer_id = info.producer_id
        if producer_id == -1:
            raise ValueError(f"batches without a producer id for {self._partition}")
        entry, known = info.to_entry(), self._producers.get(producer_id)
        self._producers[producer_id] = entry if known is None else known.updated(entry)
        for started in info.started_transactions:
            self._ongoing.put(started)
        if self._ongoing:
            self._look_at_transactions()

    def update_map_end_offset(self, offset: int) -> None:
        """The log's batches before `offset` are known."""
        self._map_end_offset = offset

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """What the last stable offset will be at best once the transaction is complete.

        The first offset of another producer's open transaction, else the offset after the marker.
        """
        for ongoing in self._ongoing:
            if ongoing.producer_id != completed.producer_id:
                return ongoing.first_offset.message_offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """A marker has ended the transaction; it stays unstable until the high watermark passes the marker.

        ValueError: no transaction is open there.
        """
        ongoing = self._ongoing.remove(completed.first_offset)
        if ongoing is None:
            raise ValueError(f"no transaction of {self._partition} is open at offset {completed.first_offset}")
        self._unreplicated.put(ongoing._replace(last_offset=completed.last_offset))
        self._look_at_transactions()

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Transactions whose marker lies before the high watermark are stable."""
        if self._unreplicated:
            self._forget_replicated(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """What the log's new start has left behind is of no more concern; the producers stay known."""
        self._forget_replicated(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now: int) -> None:
        """Forget the producers without an open transaction that were not heard of for long enough."""
        for entry in list(self._producers.values()):
            if self._is_expired(entry, now):
                del self._producers[entry.producer_id]

    # --- truncating and loading

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now: int | None = None) -> None:
        """Know what a log from log_start_offset to log_end_offset has, as far as a snapshot tells.

        Where memory does not end at log_end_offset, the newest snapshot that can be read replaces it, and
        `map_end_offset` tells from where on the log must be read. Snapshots outside of the log are deleted, those that
        cannot be read, too. OSError: a file cannot be read or deleted.
        """
        for offset in list(self._snapshots):
            if not log_start_offset < offset <= log_end_offset:
                self.remove_and_delete_snapshot(offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget_everything()
        self._load_newest(log_start_offset, self._clock() if now is None else now)
        self._look_at_transactions()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Know nothing, of a log that begins at `offset`. Deletes all snapshots. OSError: one cannot be deleted."""
        self._forget_everything()
        for each in list(self._snapshots):
            self.remove_and_delete_snapshot(each)
        self._last_snapshot_offset = 0
        self._map_end_offset = offset

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        """Know a producer from a snapshot's entry."""
        self._producers[entry.producer_id] = entry
        began = entry.current_txn_first_offset
        if began is not None:
            self._ongoing.put(TxnMetadata(entry.producer_id, LogOffsetMetadata(began)))

    # --- snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the newest snapshot."""
        return max(self._snapshots, default=None)

    @property
    def oldest_snapshot_offset(self) -> int | None:
        """The offset of the oldest snapshot."""
        return min(self._snapshots, default=None)

    def take_snapshot(self, *, sync: bool = True) -> Path | None:
        """Write a snapshot at `map_end_offset`, unless there is one as new; its path.

        sync: it is on the disk on return. None: none was needed, or nothing may be written. OSError: it cannot be
        written.
        """
        if not self._writable or self._map_end_offset <= self._last_snapshot_offset:
            return None
        path = offset_file(self._directory, self._map_end_offset, SNAPSHOT_SUFFIX)
        unwanted = None if self._unwanted is None else self._unwanted.pop(self._map_end_offset, None)
        if unwanted is None or not holds_the_same(unwanted, self._producers.values()):
            write_snapshot(path, self._producers.values(), sync=sync)
        elif sync:
            sync_file(unwanted)
        self._snapshots[self._map_end_offset] = path
        self._last_snapshot_offset = self._map_end_offset
        return path

    def delete_snapshots_before(self, offset: int) -> None:
        """Delete the snapshots older than `offset`. OSError: one cannot be deleted."""
        for each in list(self._snapshots):
            if each < offset:
                self.remove_and_delete_snapshot(each)

    def remove_and_delete_snapshot(self, offset: int) -> None:
        """Forget the snapshot at `offset`, if there is one, and delete it. OSError: it cannot be deleted."""
        path = self._snapshots.pop(offset, None)
        if path is None or not self._writable:
            return
        if self._unwanted is None:
            path.unlink(missing_ok=True)
        else:
            self._unwanted[offset] = path

    def delete_unwanted_snapshots(self) -> None:
        """Delete what was to be deleted, see `empty_copy`. OSError: one cannot be."""
        while self._unwanted:
            _, path = self._unwanted.popitem()
            path.unlink(missing_ok=True)

    def delete_snapshots(self, segments: Iterable[LogSegment], scheduler: Scheduler, delay_ms: int) -> None:
        """Rename the snapshots at the base offsets of segments to `.deleted`, and have them deleted after a delay.

        Raises:
            OSError: a snapshot could not be renamed.
        """
        renamed = [self.remove_and_mark_for_deletion(segment.base_offset) for segment in segments]

        def delete() -> None:
            for path in renamed:
                if path is not None:
                    path.unlink(missing_ok=True)

        if any(renamed):
            scheduler.schedule("delete producer snapshots", delete, delay_ms)

    def remove_and_mark_for_deletion(self, offset: int) -> Path | None:
        """Forget the snapshot at `offset` and rename it for deletion later; its new path.

        None: there is none, or no more. OSError: it cannot be renamed.
        """
        path = self._snapshots.pop(offset, None)
        if path is None or not self._writable:
            return None
        try:
            return path.rename(path.with_name(path.name + DELETED_SUFFIX))
        except FileNotFoundError:
            return None  # recovery goes through the directory with a manager of its own, which may have deleted it

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """List the directory anew and delete the snapshots that belong to no segment.

        The newest of these stays where it is newer than every segment: a log that is closed leaves one at its end.
        OSError: a file cannot be deleted.
        """
        self.reload_snapshots()
        strays = sorted(self._snapshots.keys() - set(segment_base_offsets))
        if strays and strays[-1] > max(segment_base_offsets, default=-1):
            strays.pop()
        for offset in strays:
            self.remove_and_delete_snapshot(offset)

    def reload_snapshots(self) -> None:
        """List the directory's snapshots anew. OSError: it cannot be listed."""
        self._snapshots = snapshot_files(self._directory)

    def update_parent_dir(self, directory: Path) -> None:
        """The log's directory, snapshots and all, has been renamed."""
        self._directory = directory
        self._snapshots = {offset: directory / path.name for offset, path in self._snapshots.items()}

    # --- parts of the above

    def _load_newest(self, log_start_offset: int, now: int) -> None:
        while (offset := self.latest_snapshot_offset) is not None:
            entries = self._readable(offset)
            if entries is not None:
                self._load(entries, now)
                break
        self._last_snapshot_offset = self._map_end_offset = log_start_offset if offset is None else offset

    def _readable(self, offset: int) -> list[ProducerStateEntry] | None:
        try:
            return read_snapshot(self._snapshots[offset])
        except (CorruptSnapshotError, FileNotFoundError) as error:
            _log.warning("%s: the snapshot at offset %d is passed over: %s", self._partition, offset, error)
            self.remove_and_delete_snapshot(offset)
            return None

    def _load(self, entries: Iterable[ProducerStateEntry], now: int) -> None:
        for entry in entries:
            if not self._is_expired(entry, now):
                self.load_producer_entry(entry)

    def _is_expired(self, entry: ProducerStateEntry, now: int) -> bool:
        idle = now - entry.last_timestamp
        return entry.current_txn_first_offset is None and idle >= self._producer_id_expiration_ms

    def _forget_everything(self) -> None:
        # Another, not emptied: a thread that reads the old one reads on.
        self._producers = {}
        self._ongoing = Transactions()
        self._unreplicated = Transactions()
        self._look_at_transactions()

    def _forget_replicated(self, offset: int) -> None:
        passed = [each for each in self._unreplicated if each.last_offset is not None and each.last_offset < offset]
        for each in passed:
            self._unreplicated.remove(each.first_offset.message_offset)
        if passed:
            self._look_at_transactions()

    def _look_at_transactions(self) -> None:
        """Settle the answers that other threads ask for."""
        undecided, unreplicated = self._ongoing.first, self._unreplicated.first
        firsts = [each.first_offset for each in (unreplicated, undecided) if each is not None]
        self._first_unstable = min(firsts, key=lambda offset: offset.message_offset, default=None)
        self._first_undecided = None if undecided is None else undecided.first_offset.message_offset
        owner = None if undecided is None else self._producers.get(undecided.producer_id)
        self._oldest_txn_timestamp = -1 if owner is None else owner.last_timestamp
