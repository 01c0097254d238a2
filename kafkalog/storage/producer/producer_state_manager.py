"""`ProducerStateManager`: the state of a log's producers and their transactions, in memory and in snapshots.

    log        0 ......... 40 ..x....... 90 ..x..o..       x first offset of an open transaction
    snapshots              40.snapshot   90.snapshot       o the log's end, where the state in memory ends
                              |             |
    loading    the newest snapshot that can be read, then the batches after it

    first undecided offset    the first offset of the transactions that have no marker yet
    first unstable offset     the same, but including transactions whose marker is not below the high watermark

Callers hold the log's lock, except for `first_unstable_offset`, `first_undecided_offset`, `last_entry` and
`active_producers`, which any thread may call at any time.
Source: storage/.../internals/log/ProducerStateManager.java.
"""

import copy
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Self

from kafkalog.errors import CorruptSnapshotError
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.storage.file_names import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_file
from kafkalog.storage.files.appendable_file import sync_file
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_append_info import ProducerAppendInfo
from kafkalog.storage.producer.producer_snapshot import holds_the_same, read_snapshot, snapshot_files, write_snapshot
from kafkalog.storage.producer.producer_state_entry import CompletedTxn, ProducerStateEntry, Transactions, TxnMetadata
from kafkalog.storage.scheduler import Scheduler
from kafkalog.storage.segment.log_segment import LogSegment

PRODUCER_ID_EXPIRATION_MS = 86_400_000

_log = logging.getLogger(__name__)


class ProducerStateManager:
    """The state of the producers of one log. Times are in ms."""

    def __init__(
        self,
        directory: Path,
        topic_partition: object,
        *,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        writable: bool = True,
    ) -> None:
        """List the snapshots of the directory without loading one; `truncate_and_reload` loads them.

        Args:
            directory: The partition directory.
            topic_partition: The partition, as named in errors.
            producer_id_expiration_ms: The time after which a producer without an open transaction expires.
            writable: False never writes or deletes a file.

        Raises:
            OSError: The directory cannot be listed.
        """
        self._directory = directory
        self._partition = topic_partition
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._writable = writable
        self._producers: dict[int, ProducerStateEntry] = {}
        self._ongoing = Transactions()
        self._unreplicated = Transactions()
        self._first_unstable: LogOffsetMetadata | None = None
        self._first_undecided: int | None = None
        self._map_end_offset = 0
        self._last_snapshot_offset = 0
        # By offset, rising.
        self._snapshots = snapshot_files(directory)
        # Snapshots to be deleted by `delete_unwanted_snapshots`; None: snapshots are deleted at once.
        self._unwanted: dict[int, Path] | None = None

    def empty_copy(self) -> Self:
        """Return a manager without producers, but with the same snapshots, which are not listed again.

        Snapshots that it deletes stay on the disk until `delete_unwanted_snapshots` is called: recovery deletes every
        snapshot after the first segment that it reads, and mostly writes the same again.
        """
        other = copy.copy(self)
        other._unwanted = {}
        other._snapshots = self._snapshots.copy()
        other.forget_producers()
        return other

    def forget_producers(self) -> None:
        """Forget everything but the snapshots."""
        self._forget_everything()
        self._map_end_offset = self._last_snapshot_offset = 0

    def __repr__(self) -> str:
        return (
            f"<ProducerStateManager of {self._partition}: {len(self._producers)} producers at {self._map_end_offset}>"
        )

    # --- state

    @property
    def map_end_offset(self) -> int:
        """The offset before which all batches of the log are included in the state."""
        return self._map_end_offset

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        """A copy of the present state of every producer, by id."""
        return self._producers.copy()

    @property
    def is_empty(self) -> bool:
        """Whether there are no producers and no transactions that wait for the high watermark."""
        return not self._producers and not self._unreplicated

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """The first offset of the transactions that are open, or whose marker is not below the high watermark."""
        return self._first_unstable

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the open transactions."""
        return self._first_undecided

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        """Return the state of a producer; None if it is unknown."""
        return self._producers.get(producer_id)

    # --- appending

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Return an object to check a producer's batches of one append; pass it to `update` after the append."""
        current = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        return ProducerAppendInfo(self._partition, current, origin)

    def update(self, info: ProducerAppendInfo) -> None:
        """Add the batches of an append to the state.

        Raises:
            ValueError: The batches have no producer id.
        """
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
        """Record that the state includes all batches before `offset`."""
        self._map_end_offset = offset

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Return the last stable offset after a transaction is complete, if the high watermark allows it.

        It is the first offset of another producer's open transaction, or else the offset after the marker.
        """
        for ongoing in self._ongoing:
            if ongoing.producer_id != completed.producer_id:
                return ongoing.first_offset.message_offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        """Mark a transaction as ended; it stays unstable until the high watermark passes its marker.

        Raises:
            ValueError: No transaction is open at its first offset.
        """
        ongoing = self._ongoing.remove(completed.first_offset)
        if ongoing is None:
            raise ValueError(f"no transaction of {self._partition} is open at offset {completed.first_offset}")
        self._unreplicated.put(ongoing._replace(last_offset=completed.last_offset))
        self._look_at_transactions()

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget the ended transactions whose marker is below the high watermark: they are stable."""
        if self._unreplicated:
            self._forget_replicated(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget the ended transactions before the log's new start; the producers stay."""
        self._forget_replicated(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now: int) -> None:
        """Forget the producers without an open transaction whose last batch is older than the expiration time."""
        for entry in list(self._producers.values()):
            if self._is_expired(entry, now):
                del self._producers[entry.producer_id]

    # --- truncating and loading

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now: int) -> None:
        """Load the newest snapshot between the log's start and end, unless the state already ends at the log's end.

        Afterwards the log must be read from `map_end_offset` on. Snapshots outside of the log, and those that do not
        follow the format, are deleted.

        Args:
            log_start_offset: The first offset of the log.
            log_end_offset: The offset after its last.
            now: The time; producers that have expired by then are not loaded.

        Raises:
            OSError: A file cannot be read or deleted.
        """
        oldest, latest = self.oldest_snapshot_offset, self.latest_snapshot_offset
        # Looked at first, because recovery calls this for each of thousands of segments with a snapshot.
        if oldest is not None and latest is not None and not log_start_offset < oldest <= latest <= log_end_offset:
            for offset in list(self._snapshots):
                if not log_start_offset < offset <= log_end_offset:
                    self.remove_and_delete_snapshot(offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget_everything()
        self._load_newest(log_start_offset, now)
        self._look_at_transactions()

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything and delete all snapshots, for an empty log that begins at `offset`.

        Raises:
            OSError: A snapshot cannot be deleted.
        """
        self._forget_everything()
        for each in list(self._snapshots):
            self.remove_and_delete_snapshot(each)
        self._last_snapshot_offset = 0
        self._map_end_offset = offset

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        """Add a producer from the entry of a snapshot."""
        self._producers[entry.producer_id] = entry
        began = entry.current_txn_first_offset
        if began is not None:
            self._ongoing.put(TxnMetadata(entry.producer_id, LogOffsetMetadata(began)))

    # --- snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        """The offset of the newest snapshot; None if there is none."""
        return next(reversed(self._snapshots), None)

    @property
    def oldest_snapshot_offset(self) -> int | None:
        """The offset of the oldest snapshot; None if there is none."""
        return next(iter(self._snapshots), None)

    def take_snapshot(self, *, sync: bool = True) -> Path | None:
        """Write a snapshot at `map_end_offset`, unless there is one at this offset or later.

        Args:
            sync: Whether to write it to the disk before returning.

        Returns:
            Its path; None if none was needed, or if the manager is not writable.

        Raises:
            OSError: The file cannot be written.
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

    def remove_and_delete_snapshot(self, offset: int) -> None:
        """Delete the snapshot at `offset`, if there is one.

        Raises:
            OSError: The file cannot be deleted.
        """
        path = self._snapshots.pop(offset, None)
        if path is None or not self._writable:
            return
        if self._unwanted is None:
            path.unlink(missing_ok=True)
        else:
            self._unwanted[offset] = path

    def delete_unwanted_snapshots(self) -> None:
        """Delete the snapshots whose deletion was deferred; see `empty_copy`.

        Raises:
            OSError: A file cannot be deleted.
        """
        while self._unwanted:
            _, path = self._unwanted.popitem()
            path.unlink(missing_ok=True)

    def delete_snapshots(self, segments: Iterable[LogSegment], scheduler: Scheduler, delay_ms: int) -> None:
        """Rename the snapshots at the base offsets of segments to `.deleted`, and schedule their deletion.

        Args:
            segments: The segments.
            scheduler: Deletes the files.
            delay_ms: The delay of the deletion.

        Raises:
            OSError: A file cannot be renamed.
        """
        renamed = [self.remove_and_mark_for_deletion(segment.base_offset) for segment in segments]

        def delete() -> None:
            for path in renamed:
                if path is not None:
                    path.unlink(missing_ok=True)

        if any(renamed):
            scheduler.schedule("delete producer snapshots", delete, delay_ms)

    def remove_and_mark_for_deletion(self, offset: int) -> Path | None:
        """Rename the snapshot at `offset` to `.deleted`, for deletion later.

        Returns:
            Its new path; None if there is no such snapshot, or if the manager is not writable.

        Raises:
            OSError: The file cannot be renamed.
        """
        path = self._snapshots.pop(offset, None)
        if path is None or not self._writable:
            return None
        try:
            return path.rename(path.with_name(path.name + DELETED_SUFFIX))
        except FileNotFoundError:
            return None  # the separate manager of recovery may have deleted it

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """List the directory again and delete the snapshots that belong to no segment.

        A newest snapshot after the base offset of every segment is not deleted: closing a log writes one at its end.

        Raises:
            OSError: The directory cannot be listed, or a file cannot be deleted.
        """
        self.reload_snapshots()
        strays = sorted(self._snapshots.keys() - set(segment_base_offsets))
        if strays and strays[-1] > max(segment_base_offsets, default=-1):
            strays.pop()
        for offset in strays:
            self.remove_and_delete_snapshot(offset)

    def reload_snapshots(self) -> None:
        """List the snapshots of the directory again.

        Raises:
            OSError: The directory cannot be listed.
        """
        self._snapshots = snapshot_files(self._directory)

    # --- private helpers

    def _load_newest(self, log_start_offset: int, now: int) -> None:
        while (offset := self.latest_snapshot_offset) is not None:
            try:
                entries = read_snapshot(self._snapshots[offset])
            except (CorruptSnapshotError, FileNotFoundError) as error:
                _log.warning("%s: the snapshot at offset %d is ignored: %s", self._partition, offset, error)
                self.remove_and_delete_snapshot(offset)
                continue
            for entry in entries:
                if not self._is_expired(entry, now):
                    self.load_producer_entry(entry)
            break
        self._last_snapshot_offset = self._map_end_offset = log_start_offset if offset is None else offset

    def _is_expired(self, entry: ProducerStateEntry, now: int) -> bool:
        idle = now - entry.last_timestamp
        return entry.current_txn_first_offset is None and idle >= self._producer_id_expiration_ms

    def _forget_everything(self) -> None:
        # A new dict instead of clear(): another thread may be reading the old one.
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
        """Compute the values that other threads read."""
        undecided, unreplicated = self._ongoing.first, self._unreplicated.first
        firsts = [each.first_offset for each in (unreplicated, undecided) if each is not None]
        self._first_unstable = min(firsts, key=lambda offset: offset.message_offset, default=None)
        self._first_undecided = None if undecided is None else undecided.first_offset.message_offset
