"""The work of one task: a split to Arrow batches.

    file ─ walk: headers, checksums ─ aborted transactions ─ decompression, kernel ─ RecordColumns ─ Arrow batches

A sealed segment on this machine is mapped, one window at a time. An active segment is read in chunks, because access to
a mapped page that was truncated kills the process. A segment in a store is read by ranges, up to the end of the split.

A position from an index is a hint: if no valid batch begins at the start of a split, the segment is scanned from its
beginning to the first batch after that position. Damage raises an error (onCorrupt=fail), is skipped and counted
(skip), or also becomes a row (permissive). The counts of a split are logged at its end, and written for the driver
(`corrupt_report.py`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.decompress import DEFAULT_LIMIT
from kafkalog._speedups.record import Record
from kafkalog.attributes import CONTROL_BIT
from kafkalog.errors import ChangedWhileReading
from kafkalog.fsck.file_check import Scope
from kafkalog.fsck.header_checks import Bounds
from kafkalog.fsck.walk import sound_header_at
from kafkalog.record.decoding import Entries, Reading, pieces
from kafkalog.record.framing import end_of
from kafkalog.record.record_columns import RecordColumns
from kafkalog.scan.records import Damage, LeftOut, decoded, surviving
from kafkalog.spark.read.corrupt_report import log_left_out, write_report
from kafkalog.spark.read.options import OnCorrupt, ReadOptions
from kafkalog.spark.read.split import AnySplit, Split
from kafkalog.spark.schema import Column, columns_of
from kafkalog.storage.file_names import TXN_INDEX_SUFFIX
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from kafkalog.storage.read.aborted_transactions import AbortedBatches
from kafkalog.storage.remote_path import to_path

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
# The largest size of a decompressed batch, bytes: a larger one could exceed the memory of an executor.
DECOMPRESSION_LIMIT = DEFAULT_LIMIT
# A last chunk with less than 1/4 of the batches of the one before is read together with it.
_SMALLEST_SHARE = 4

LeftOutReport: TypeAlias = Callable[[str, LeftOut], object]


def read_split(
    split: AnySplit | None,
    columns: "Sequence[Column | str | tuple[str, bool]] | None" = None,
    options: ReadOptions | None = None,
    report: LeftOutReport = log_left_out,
) -> "Iterator[pa.RecordBatch]":
    """Read the records of a split as Arrow batches of at most 8,192 rows and about 4 MiB.

    Args:
        split: The split, or a group of splits; None, which Spark passes if there is nothing to read, has no records.
        columns: The columns in order, by name, by (name, nullable), or as `schema.chosen_columns` returns them; None:
            all that the options include.
        options: The options with which the split was planned.
        report: Called with a path and the counts of what was left out of it, if onCorrupt is not fail.

    Raises:
        CorruptRecordError: Damage, with onCorrupt=fail; after the records before it.
        InvalidRecordError: Damaged content, with onCorrupt=fail; after the records before it.
        FileNotFoundError: The file was deleted, with failOnDataLoss=true.
        ChangedWhileReading: The file was truncated, with failOnDataLoss=true.
        ImportError: pyarrow is missing.
        ValueError: A column does not exist, or one declared not nullable has a null.
    """
    from kafkalog.spark.read.arrow_batches import BatchMaker

    options = options or _DEFAULTS
    chosen, indexes = columns_of(columns, options), TxnIndexes()
    for each in () if split is None else split.splits:
        maker = BatchMaker(chosen, each)
        for part in split_parts(each, options, indexes, report):
            # All at once: the caller may ask for the next batch late, when the file may be shorter.
            yield from list(maker.damaged(part) if isinstance(part, Damage) else maker.batches(part))
            del part


def read_records(
    split: AnySplit | None, options: ReadOptions | None = None, report: LeftOutReport = log_left_out
) -> Iterator[Record]:
    """Read the records of a split as `Record` objects. With onCorrupt=permissive damage is skipped, as with skip."""
    indexes = TxnIndexes()
    for each in () if split is None else split.splits:
        for part in split_parts(each, options or _DEFAULTS, indexes, report):
            if isinstance(part, RecordColumns):
                for records in list(part.record_lists()):
                    yield from records


_DEFAULTS = ReadOptions.parse({"path": "-"})


def split_parts(
    split: Split,
    options: ReadOptions,
    indexes: "TxnIndexes | None" = None,
    report: LeftOutReport = log_left_out,
) -> Iterator[RecordColumns | Damage]:
    """Read the records of a split as columns.

    Args:
        split: The split.
        options: The options with which it was planned.
        indexes: The transaction indexes, shared by several splits so that each directory is listed once.
        report: As in `read_split`.

    Yields:
        Some thousand records at a time; with onCorrupt=permissive also damage.

    Raises:
        KafkaLogError: Damage, with onCorrupt=fail.
        FileNotFoundError: The file was deleted, with failOnDataLoss=true.
        ChangedWhileReading: The file was truncated, with failOnDataLoss=true.
    """
    try:
        source = open_source(split.path, mapped=split.sealed, until=split.end_pos)
    except FileNotFoundError as error:
        _lost(split, options, error)
        return
    with closing(source):
        reader = _SplitReader(split, options, source)
        try:
            if options.committed:
                reader.aborted = (indexes or TxnIndexes()).aborted(split)
            yield from reader.parts()
        except (ChangedWhileReading, FileNotFoundError) as error:
            _lost(split, options, error)
    if reader.left_out != LeftOut():
        report(split.path, reader.left_out)
        if options.corrupt_report is not None:
            write_report(options.corrupt_report, split, reader.left_out)


def _lost(split: Split, options: ReadOptions, error: Exception) -> None:
    if options.fail_on_data_loss:
        error.add_note(f"{split.path} was planned to be read; failOnDataLoss=false goes on without it")
        raise error
    _log.warning("%s of %s-%d is lost: %s", split.path, split.topic, split.partition, error)


class _SplitReader:
    """Reads the batches that begin in a split.

    Attributes:
        aborted: The batches of aborted transactions, to leave out.
        left_out: The counts of what was left out because of damage.
    """

    def __init__(self, split: Split, options: ReadOptions, source: ByteSource) -> None:
        self._split = split
        self._options = options
        self._source = source
        self._end = split.end_pos
        self._scope = Scope(split.path, Bounds(split.base_offset, split.next_base), split.sealed)
        # `surviving` has checked the checksums.
        self._reading = Reading(
            check_crcs=False,
            control=options.include_control,
            decompression_limit=DECOMPRESSION_LIMIT,
            path=split.path,
        )
        self.aborted: AbortedBatches | None = None
        self.left_out = LeftOut()
        self._is_cut = False

    def parts(self) -> Iterator[RecordColumns | Damage]:
        """Yield the records of the split as arrays and, with onCorrupt=permissive, each damage between them."""
        self._ensure_as_planned()
        for each in self._surviving():
            if isinstance(each, Damage):
                if each.is_tail and self._is_cut:
                    return
                yield from self._skipped(each)
                continue
            for rows in _chunks_of(self._selected(each.rows)):
                self._ensure_there(rows)
                for part in decoded(each._replace(rows=rows), self._reading, self._scope.bounds):
                    yield from self._skipped(part) if isinstance(part, Damage) else self._in_range(part)
                    # The caller may ask late for the next part of the same bytes.
                    self._ensure_there(rows)
                    del part

    def _skipped(self, damage: Damage) -> Iterator[Damage]:
        """Count and log damage; yield it with onCorrupt=permissive.

        Raises:
            KafkaLogError: The error of the damage, with onCorrupt=fail.
        """
        if self._options.on_corrupt is OnCorrupt.FAIL:
            raise damage.error
        if self._split.shared and damage.position == self._split.start_pos:
            # Several splits share the batch; the one with the earlier offsets reports its damage.
            return
        self.left_out = self.left_out.plus(damage.left_out)
        _log.warning("passed over: %s", damage.message)
        if self._options.on_corrupt is OnCorrupt.PERMISSIVE:
            yield damage

    def _in_range(self, columns: RecordColumns) -> Iterator[RecordColumns]:
        wanted = columns.between(self._split.first_offset, self._split.last_offset + 1)
        if len(wanted):
            yield wanted

    def _ensure_as_planned(self) -> None:
        """Check that the file has not become shorter since the read was planned.

        Raises:
            ChangedWhileReading: It has, and failOnDataLoss is true.
        """
        split, size = self._split, self._source.size
        if size < split.end_pos or (split.sealed and size != split.file_size):
            what = "the file is not as long as it was when the read was planned"
            error = ChangedWhileReading(what, split.path, None, f"{split.file_size} bytes", size)
            if self._options.fail_on_data_loss:
                raise error
            _log.warning("%s", error)
            self._end, self._is_cut = min(self._end, size), True

    def _surviving(self) -> Iterator[Entries | Damage]:
        """Yield the batches and the damage that begin in the split.

        If no valid batch begins at its start, the segment is scanned from its beginning: so neither a wrong index nor
        damage at a cut loses or repeats a record.
        """
        start = self._split.start_pos
        if start >= self._end or start == 0 or self._is_sound(start):
            yield from surviving(self._source, self._scope, start, self._end)
            return
        own = (cut for each in surviving(self._source, self._scope, 0, self._end) if (cut := _at_or_after(each, start)))
        for i, each in enumerate(own):
            position = each.position if isinstance(each, Damage) else int(each.rows["position"][0])
            if i == 0 and position > start:
                _log.warning("%s: no batch begins at %d, as the index has it", self._split.path, start)
            yield each

    def _is_sound(self, position: int) -> bool:
        """Return whether a batch of this segment with a valid checksum begins at a position."""
        rows = sound_header_at(self._source, position)
        return bool(len(rows) and self._scope.bounds.inside(rows)[0])

    def _ensure_there(self, rows: NDArray[np.void]) -> None:
        """Check that the file still has the bytes of these batches: access to truncated ones would kill the process.

        Raises:
            ChangedWhileReading: The file was truncated.
        """
        start = int(rows["position"][0])
        self._source.ensure_there(start, end_of(rows) - start)

    def _selected(self, rows: NDArray[np.void]) -> NDArray[np.void]:
        """Select the rows of batches that may hold records of the split."""
        split = self._split
        if rows["last_offset"].min() < split.first_offset or rows["base_offset"].max() > split.last_offset:
            after = (rows["magic"] >= 2) & (rows["base_offset"] > split.last_offset)
            rows = rows[(rows["last_offset"] >= split.first_offset) & ~after]
        if self.aborted is not None:
            # The control batch that ends a transaction is not one of its records.
            aborted = self.aborted.among(rows) & (rows["attributes"] & CONTROL_BIT == 0)
            rows = rows[~aborted] if aborted.any() else rows
        return rows


def _at_or_after(part: Entries | Damage, start: int) -> Entries | Damage | None:
    """Return the part that begins at `start` or later; None if there is none."""
    if isinstance(part, Damage):
        return part if part.position >= start else None
    rows = part.rows[part.rows["position"] >= start]
    return part._replace(rows=rows) if len(rows) else None


def _chunks_of(rows: NDArray[np.void]) -> list[NDArray[np.void]]:
    """Divide rows into chunks. A small last chunk is joined to the one before, because each chunk has a fixed cost."""
    found = pieces(rows)
    if len(found) > 1 and _SMALLEST_SHARE * len(found[-1]) < len(found[-2]):
        both = len(found[-2]) + len(found[-1])
        found[-2:] = [rows[-both:]]
    return found


class TxnIndexes:
    """The transaction indexes beside the segments of some splits. Each directory is listed once."""

    def __init__(self) -> None:
        self._listed: dict[str, list[tuple[int, Path]]] = {}

    def aborted(self, split: Split) -> AbortedBatches:
        """Return the batches of the aborted transactions of a split.

        Raises:
            FileNotFoundError: The directory was deleted.
        """
        return AbortedBatches(self._aborted_txns(split))

    def _aborted_txns(self, split: Split) -> Iterator[AbortedTxn]:
        """Yield the aborted transactions with records in the split.

        Entries are in the index of the segment that holds the marker: this segment or a later one. The first entry
        whose last stable offset is after the split ends the search.
        """
        first = max(split.first_offset, split.base_offset)
        end = min(split.last_offset + 1, split.next_base)
        for base, path in self._indexes(split.path.rpartition("/")[0]):
            if base >= split.base_offset:
                found = TransactionIndex(path, base, writable=False).collect_aborted_txns(first, end)
                yield from found.aborted_txns
                if found.is_complete:
                    return

    def _indexes(self, directory: str) -> list[tuple[int, Path]]:
        if directory not in self._listed:
            paths = [path for path in to_path(directory).iterdir() if path.name.endswith(TXN_INDEX_SUFFIX)]
            self._listed[directory] = sorted((_base_of(path.name), path) for path in paths)
        return self._listed[directory]


def _base_of(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else -1
