"""A split to Arrow batches: what one task does.

    window ─ headers ─ bounds, aborted transactions ─ checksums, decompression, kernel ─ RecordColumns ─ Arrow batches

A position out of an index is a hint: where no sound batch begins at a split's start, the segment is walked from its
start to the first batch behind it. Damage raises (onCorrupt=fail), is passed over to the next sound batch and counted
(skip), or becomes a row of its own besides (permissive).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups import framing
from kafkalog._speedups.record import Record
from kafkalog.attributes import CONTROL_BIT
from kafkalog.errors import CorruptRecordError, KafkaLogError
from kafkalog.fsck.batch_search import SoundEntries
from kafkalog.record.decoding import Entries, Reading, pieces, read_columns
from kafkalog.record.decompress import DEFAULT_LIMIT
from kafkalog.record.framing import Stop
from kafkalog.record.record_columns import RecordColumns
from kafkalog.spark.read.discover import is_remote
from kafkalog.spark.read.options import OnCorrupt, ReadOptions
from kafkalog.spark.read.planner import AnySplit, Split
from kafkalog.spark.read.window import DAMAGE, MappedWindow, ReadWindow, ShorterFileError, Window
from kafkalog.spark.schema import Column, columns_of
from kafkalog.storage.file_names import TXN_INDEX_SUFFIX, file_names
from kafkalog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from kafkalog.storage.read.aborted_transactions import AbortedBatches

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
# What one batch may decompress to, bytes: more than that and a task would outgrow its executor.
DECOMPRESSION_LIMIT = DEFAULT_LIMIT
# Of how many batches one is too few to be read by itself.
_LEFT_OVER = 4


class Damage(NamedTuple):
    """What could not be read: where, its offset as far as its header tells (None: it does not), and what is wrong."""

    path: str
    position: int
    offset: int | None
    message: str


def read_split(
    split: AnySplit | None,
    columns: "Sequence[Column | str | tuple[str, bool]] | None" = None,
    options: ReadOptions | None = None,
) -> "Iterator[pa.RecordBatch]":
    """The records of a split as Arrow batches of at most 8,192 rows and about 4 MiB.

    split: None, which Spark gives where there is nothing to read, has no records. columns: which, in which order, by
    name, by (name, nullable), or as `schema.chosen_columns` gives them; None: all that the options include. options:
    those the split was planned with.

    CorruptRecordError, InvalidRecordError: damage, with onCorrupt=fail, after the records before it. FileNotFoundError,
    ShorterFileError: the file has gone, or lost its end, with failOnDataLoss=true. ImportError: pyarrow is missing.
    ValueError: a column that does not exist, or null in one that is said to have none.
    """
    from kafkalog.spark.read.arrow_batches import BatchMaker

    options = options or _DEFAULTS
    chosen, indexes = columns_of(columns, options), TxnIndexes()
    for each in () if split is None else split.splits:
        maker = BatchMaker(chosen, each)
        for part in split_parts(each, options, indexes):
            # At once: who takes one may be long in coming for the next, and the file may be shorter by then.
            yield from list(maker.damaged(part) if isinstance(part, Damage) else maker.batches(part))


def read_records(split: AnySplit | None, options: ReadOptions | None = None) -> Iterator[Record]:
    """The same as `Record`s; permissive leaves damage out, as skip does."""
    indexes = TxnIndexes()
    for each in () if split is None else split.splits:
        for part in split_parts(each, options or _DEFAULTS, indexes):
            if isinstance(part, RecordColumns):
                for records in list(part.record_lists()):
                    yield from records


_DEFAULTS = ReadOptions.parse({"path": "-"})


def split_parts(
    split: Split, options: ReadOptions, indexes: "TxnIndexes | None" = None
) -> Iterator[RecordColumns | Damage]:
    """The records of a split as columns, some thousand at a time; with onCorrupt=permissive, damage among them."""
    try:
        window = _opened(split)
    except FileNotFoundError as error:
        _lost(split, options, error)
        return
    with closing(window):
        try:
            aborted = (indexes or TxnIndexes()).aborted(split) if options.committed else None
            yield from _SplitReader(split, options, window, aborted).parts()
        except (ShorterFileError, FileNotFoundError) as error:
            _lost(split, options, error)


def _opened(split: Split) -> Window:
    if is_remote(split.path):
        from kafkalog.spark.read.remote import RemoteWindow

        return RemoteWindow(split.path, until=split.end_pos)
    return MappedWindow(split.path) if split.sealed else ReadWindow(split.path)


def _lost(split: Split, options: ReadOptions, error: Exception) -> None:
    if options.fail_on_data_loss:
        error.add_note(f"{split.path} was planned to be read; failOnDataLoss=false goes on without it")
        raise error
    _log.warning("%s of %s-%d is lost: %s", split.path, split.topic, split.partition, error)


class _SplitReader:
    """Walks over the batches that begin in a split."""

    def __init__(self, split: Split, options: ReadOptions, window: Window, aborted: AbortedBatches | None) -> None:
        self._split = split
        self._options = options
        self._window = window
        self._end = split.end_pos
        self._reading = Reading(
            control=options.include_control, decompression_limit=DECOMPRESSION_LIMIT, path=split.path
        )
        self._aborted = aborted
        self._search: SoundEntries | None = None
        self._damaged = 0
        self._is_cut = False

    def parts(self) -> Iterator[RecordColumns | Damage]:
        self._ensure_as_planned()
        position = self._first_batch()
        while position < self._end:
            entries, stop = self._window.scan(position, self._end)
            position = stop.position
            try:
                yield from self._columns(entries)
                if not stop.more and position < self._end:
                    if self._is_cut and stop.status not in DAMAGE:
                        return
                    raise self._early_end(stop)
            except ShorterFileError:
                raise
            except KafkaLogError as error:
                damage, position = self._passed_over(error, entries.rows, stop.position)
                if self._options.on_corrupt is OnCorrupt.PERMISSIVE and not self._is_told_of(damage):
                    yield damage
        if self._damaged:
            places = "1 damaged place was" if self._damaged == 1 else f"{self._damaged} damaged places were"
            _log.warning("%s: %s passed over", self._split.path, places)

    def _is_told_of(self, damage: Damage) -> bool:
        """Whether another split tells of it, which has the records before of the same batch."""
        return self._split.shared and damage.position == self._split.start_pos

    def _ensure_as_planned(self) -> None:
        """ShorterFileError: the file is not the one that was planned."""
        split, size = self._split, self._window.size
        if size < split.end_pos or (split.sealed and size != split.file_size):
            what = "the file is not as long as it was when the read was planned"
            error = ShorterFileError(what, split.path, None, f"{split.file_size} bytes", size)
            if self._options.fail_on_data_loss:
                raise error
            _log.warning("%s", error)
            self._end, self._is_cut = min(self._end, size), True

    # --- walking

    def _first_batch(self) -> int:
        """Where the first batch of the split begins, be it damaged."""
        start = self._split.start_pos
        if start == 0 or start >= self._end or self._is_sound(start):
            return start
        passed, reached = 0, 0
        for rows, stop in self._window.walk(0, start):
            passed = int(rows["position"][-1]) if len(rows) else passed
            reached = stop.position
            if not stop.more and reached < start:
                return self._unreached(start, self._early_end(stop))
        if reached == start:
            return start
        _log.warning("%s: no batch begins at %d, as the index has it", self._split.path, start)
        if self._options.on_corrupt is OnCorrupt.FAIL or self._is_sound(passed):
            return reached
        # It is damaged, and its size may lead anywhere: whose split it is in tells of it.
        return self._sound_from(start)

    def _unreached(self, start: int, error: KafkaLogError) -> int:
        """Damage lies between the segment's start and the split's: no walk tells where batches begin behind it."""
        if self._options.on_corrupt is OnCorrupt.FAIL:
            raise error
        return self._sound_from(start)

    def _sound_from(self, start: int) -> int:
        found = self._next_sound(start)
        if found > start:
            _log.warning("%s: no sound batch begins in [%d, %d)", self._split.path, start, found)
        return found

    def _is_sound(self, position: int) -> bool:
        """Whether a batch of this segment begins there whose checksum holds."""
        row = self._window.sound_entry(position)
        if row is None:
            return False
        base, last = int(row["base_offset"]), int(row["last_offset"])
        # The base offset of a wrapper is not in its header.
        return self._split.base_offset <= (last if base < 0 else base) <= last < self._split.next_base

    def _early_end(self, stop: Stop) -> KafkaLogError:
        """What it means that a walk stopped before the split's end."""
        if stop.status in DAMAGE:
            return stop.damage(self._split.path)
        kind = stop.end(self._split.path).kind.value
        what = f"the segment ends in a {kind} tail where there were batches when the read was planned"
        if self._split.sealed:
            what = f"a segment that has a successor ends in a {kind} tail"
            what += ", or a length in it is damaged" if stop.status == framing.TORN else ""
        left = f"{self._window.size - stop.position} bytes more"
        return CorruptRecordError(what, self._split.path, stop.position, "a batch", left)

    # --- records

    def _columns(self, entries: Entries) -> Iterator[RecordColumns]:
        first, end = self._split.first_offset, self._split.last_offset + 1
        sound = self._first_foreign(entries.rows)
        for rows in _evened(self._wanted(entries.rows[:sound])):
            self._ensure_there(rows)
            for columns in read_columns(entries._replace(rows=rows), self._reading):
                own = self._own(columns)
                wanted = columns[:own].between(first, end)
                if len(wanted):
                    yield wanted
                if own < len(columns):
                    position = columns.batches["position"][columns.batch[own]]
                    raise self._foreign(int(position), int(columns.offset[own]))
        if sound < len(entries.rows):
            row = entries.rows[sound]
            offset = max(int(row["base_offset"]), int(row["last_offset"]))
            raise self._foreign(int(row["position"]), offset)

    def _ensure_there(self, rows: NDArray[np.void]) -> None:
        """ShorterFileError: the file has been cut since they were found: touching them would end the process."""
        start = int(rows["position"][0])
        self._window.ensure_there(start, int(rows["position"][-1]) + int(rows["size_in_bytes"][-1]) - start)

    def _wanted(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """The rows whose batches may hold records that are asked for."""
        split = self._split
        if not len(rows):
            return rows
        if rows["last_offset"].min() < split.first_offset or rows["base_offset"].max() > split.last_offset:
            after = (rows["magic"] >= 2) & (rows["base_offset"] > split.last_offset)
            rows = rows[(rows["last_offset"] >= split.first_offset) & ~after]
        if self._aborted is not None:
            # The marker that ends a transaction is none of its records.
            aborted = self._aborted.among(rows) & (rows["attributes"] & CONTROL_BIT == 0)
            rows = rows[~aborted] if aborted.any() else rows
        return rows

    def _first_foreign(self, rows: NDArray[np.void]) -> int:
        """The first row whose offsets cannot be in the segment, or their number: no checksum covers offsets."""
        base, following = self._split.base_offset, self._split.next_base
        # The base offset of a wrapper is not in its header.
        foreign = (rows["last_offset"] >= following) | (rows["last_offset"] < base)
        foreign |= (rows["base_offset"] < base) & (rows["magic"] >= 2)
        return int(foreign.argmax()) if foreign.any() else len(rows)

    def _own(self, columns: RecordColumns) -> int:
        """How many records come before the first whose offset cannot be in the segment."""
        base, following = self._split.base_offset, self._split.next_base
        if base <= int(columns.offset.min()) and int(columns.offset.max()) < following:
            return len(columns)
        return int(((columns.offset < base) | (columns.offset >= following)).argmax())

    def _foreign(self, position: int, offset: int) -> CorruptRecordError:
        expected = f"{self._split.base_offset}..{self._split.next_base - 1}"
        what = "an offset that is not of this segment"
        return CorruptRecordError(what, self._split.path, position, expected, offset)

    # --- damage

    def _passed_over(self, error: KafkaLogError, rows: NDArray[np.void], stopped: int) -> tuple[Damage, int]:
        """What is damaged, and where to go on. The error itself, with onCorrupt=fail."""
        if self._options.on_corrupt is OnCorrupt.FAIL:
            raise error
        at = stopped if error.position is None else error.position
        self._damaged += 1
        row = int(np.searchsorted(rows["position"], at, "right")) - 1
        if at >= stopped or row < 0:
            position, following, offset = stopped, None, None
        else:
            position = int(rows["position"][row])
            following = position + int(rows["size_in_bytes"][row])
            found = int(rows["base_offset"][row])
            offset = found if found >= 0 else int(rows["last_offset"][row])
        damage = Damage(self._split.path, position, offset, str(error.at(self._split.path)))
        _log.warning("passed over: %s", damage.message)
        return damage, self._behind(position, following)

    def _behind(self, position: int, following: int | None) -> int:
        """Where to go on behind damage: where its size leads, if to a batch; else at the next batch that is found."""
        if following is not None and self._is_sound(following):
            return following
        return self._next_sound(position + 1)

    def _next_sound(self, position: int) -> int:
        if self._search is None:
            self._search = SoundEntries(self._window, self._window.size)
        found = self._search.first(position, self._end)
        return self._end if found is None else found


def _evened(rows: NDArray[np.void]) -> list[NDArray[np.void]]:
    """The pieces of a run; a few batches that are left over go with those before them, as each piece has a price."""
    found = list(pieces(rows))
    if len(found) > 1 and _LEFT_OVER * len(found[-1]) < len(found[-2]):
        both = len(found[-2]) + len(found[-1])
        found[-2:] = [rows[-both:]]
    return found


class TxnIndexes:
    """The transaction indexes beside the segments of some splits: each directory is listed once."""

    def __init__(self) -> None:
        self._listed: dict[str, list[tuple[int, str]]] = {}

    def aborted(self, split: Split) -> AbortedBatches:
        """The batches of transactions that were aborted. FileNotFoundError: the directory has gone."""
        return AbortedBatches(self._aborted_txns(split))

    def _aborted_txns(self, split: Split) -> Iterator[AbortedTxn]:
        """What has records in the split: from its segment's index on, until no later one can tell of any."""
        first = max(split.first_offset, split.base_offset)
        end = min(split.last_offset + 1, split.next_base)
        for base, path in self._indexes(split.path.rpartition("/")[0]):
            if base >= split.base_offset:
                for txn in _entries(path, base):
                    if txn.last_offset >= first and txn.first_offset < end:
                        yield txn
                    if txn.last_stable_offset >= end:
                        return

    def _indexes(self, directory: str) -> list[tuple[int, str]]:
        if directory not in self._listed:
            names = _names(directory)
            found = [(_base_of(name), f"{directory}/{name}") for name in names if name.endswith(TXN_INDEX_SUFFIX)]
            self._listed[directory] = sorted(found)
        return self._listed[directory]


def _names(directory: str) -> list[str]:
    if is_remote(directory):
        from kafkalog.spark.read.remote import remote_file_names

        return remote_file_names(directory)
    return file_names(Path(directory))


def _entries(path: str, base: int) -> Iterable[AbortedTxn]:
    if is_remote(path):
        from kafkalog.spark.read.remote import read_aborted_txns

        return read_aborted_txns(path)
    return TransactionIndex(path, base, writable=False)


def _base_of(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else -1
