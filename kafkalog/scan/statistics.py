"""Statistics of records: over time, by size of values, by codec with its compression ratio, and the most frequent keys.

They take bounded memory:

    times    buckets of equal length; when there are too many, the length doubles and neighbours are merged
    sizes    of values, by powers of two: 0, 1, 2-3, 4-7, 8-15, ...
    keys     some hundred counters (Misra-Gries): each count is at most `error` too small, and every key that is more
             frequent than `error` has a counter
"""

import hashlib
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT, codec_name
from kafkalog.fsck.walk import SHORTEST
from kafkalog.record.record_columns import RecordColumns
from kafkalog.scan.progress import Progress
from kafkalog.scan.record_scan import RecordScan, Unreadable, extent_of, open_place
from kafkalog.scan.transaction_states import ABORTED, TransactionStates

TIME_BUCKETS = 256
KEY_COUNTERS = 500
# A longer key is counted under its beginning and a digest.
KEY_BYTES = 256
_SIZES = 33
NO_PROGRESS = Progress(0, 0)


@dataclass(frozen=True, slots=True)
class CodecUse:
    """The use of a codec in a log.

    Attributes:
        name: The name of the codec.
        batches: The number of batches with this codec.
        stored: The size of their records in the file, bytes.
        plain: The size of their records after decompression, bytes.
    """

    name: str
    batches: int
    stored: int
    plain: int

    @property
    def ratio(self) -> float | None:
        """Stored bytes divided by plain bytes; None if there are none."""
        return self.stored / self.plain if self.plain else None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over records.

    Attributes:
        times: (Start in ms, number of records) of each bucket from the first to the last.
        bucket_ms: The length of a bucket, ms.
        sizes: (Smallest size in bytes, number of records) of each class of values that are not null.
        top_keys: (Key, lower bound for its records), the most frequent first.
        key_error: The largest number of records by which a bound may be too small.
        records: The number of data records from the log start offset on, those of aborted transactions included.
        aborted_records: The number of those that belong to aborted transactions.
        control_records: The number of control records, which are not in any other sum.
        deleted_records: The number of data records below the log start offset, which are not in any other sum.
        unreadable: The number of batches and of ranges of lost bytes that were skipped.
        problem: The first of them as text.
        first_unreadable: The first of them.
        progress: How far the scan has come.
    """

    records: int = 0
    batches: int = 0
    null_keys: int = 0
    null_values: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    header_bytes: int = 0
    largest_value: int = 0
    times: tuple[tuple[int, int], ...] = ()
    bucket_ms: int = 1
    sizes: tuple[tuple[int, int], ...] = ()
    codecs: tuple[CodecUse, ...] = ()
    top_keys: tuple[tuple[bytes, int], ...] = ()
    key_error: int = 0
    aborted_records: int = 0
    control_records: int = 0
    deleted_records: int = 0
    unreadable: int = 0
    problem: str | None = None
    first_unreadable: Unreadable | None = None
    progress: Progress = NO_PROGRESS


class RecordStatistics:
    """Sums over records that are added some thousand at a time."""

    def __init__(self) -> None:
        self._records = self._batches = self._null_keys = self._null_values = self._control_records = 0
        self._key_bytes = self._value_bytes = self._header_bytes = self._largest = 0
        self._times = _Times()
        self._sizes = np.zeros(_SIZES, np.int64)
        self._codecs: dict[int, list[int]] = {}
        self._rows: NDArray[np.void] | None = None
        self._counted = 0
        self._keys = TopKeys()

    def add(self, columns: RecordColumns) -> None:
        """Add records of batches with the same codec; of control batches, only their number."""
        if not len(columns):
            return
        # Columns that are parts of the same batches have the same rows.
        first = self._counted if columns.batches is self._rows else 0
        self._rows, self._counted = columns.batches, int(columns.batch[-1]) + 1
        rows = columns.batches[: self._counted]
        self._count_batches(columns, rows[first:])
        is_control = _control_among(rows)
        if is_control.any():
            before = len(columns)
            columns = columns.where(~is_control[columns.batch])
            self._control_records += before - len(columns)
        self._records += len(columns)
        if not len(columns):
            return
        keys, values = columns.key_length, columns.value_length
        self._null_keys += int((keys < 0).sum())
        self._null_values += int((values < 0).sum())
        self._key_bytes += int(np.maximum(keys, 0).sum())
        self._value_bytes += int(np.maximum(values, 0).sum())
        self._header_bytes += int(np.maximum(columns.headers_length, 0).sum())
        self._largest = max(self._largest, int(values.max()))
        self._count_sizes(values[values >= 0])
        self._times.add(columns.timestamp)
        self._keys.add(columns)

    def _count_batches(self, columns: RecordColumns, rows: NDArray[np.void]) -> None:
        if not len(rows):
            return
        codec, stored = int(rows["compression_type"][0]), int(_stored_bytes(rows).sum())
        use = self._codecs.setdefault(codec, [0, 0, 0])
        use[0] += len(rows)
        use[1] += stored
        # The first part counts all decompressed bytes.
        use[2] += stored if not codec else columns.buffer.nbytes if len(rows) == self._counted else 0
        self._batches += len(rows)

    def _count_sizes(self, sizes: NDArray[np.int64]) -> None:
        # 0 -> 0, 1 -> 1, 2-3 -> 2, 4-7 -> 3: the exponent that brings a number to [0.5, 1).
        exponents = np.frexp(sizes.astype(np.float64))[1]
        self._sizes += np.bincount(np.minimum(exponents, _SIZES - 1), minlength=_SIZES)

    def totals(self, top: int = 50) -> Totals:
        """Return the sums so far.

        Args:
            top: The number of keys.
        """
        sizes = [(0 if i == 0 else 1 << (i - 1), int(count)) for i, count in enumerate(self._sizes) if count]
        codecs = [CodecUse(codec_name(codec), *use) for codec, use in sorted(self._codecs.items())]
        return Totals(
            self._records, self._batches, self._null_keys, self._null_values, self._key_bytes, self._value_bytes,
            self._header_bytes, self._largest, self._times.buckets(), self._times.width, tuple(sizes), tuple(codecs),
            self._keys.top(top), self._keys.error, control_records=self._control_records,
        )  # fmt: skip


class LogStatistics:
    """The statistics of a partition or file as it is now. Call `step` until it `is_done`, from one thread.

    Records below the log start offset are read first, to count them.
    """

    def __init__(self, path: Path) -> None:
        """Note which files there are."""
        extent = extent_of(path)
        self._deleted = RecordScan(extent, stop=extent.log_start)
        self._scan = RecordScan(extent, start=extent.log_start, control=True)
        self._parts = chain(((each, False) for each in self._deleted), ((each, True) for each in self._scan))
        self._sums = RecordStatistics()
        self._aborted_records = self._deleted_records = 0
        self._log = open_place(path) if extent.problem is None else None
        self._states = None if self._log is None else TransactionStates(self._log)

    def step(self, seconds: float) -> Progress:
        """Continue the scan for about so many seconds, and return its progress."""
        until = time.monotonic() + seconds
        for columns, is_kept in self._parts:
            if is_kept:
                self._add(columns)
            else:
                self._deleted_records += len(columns)
            if time.monotonic() >= until:
                break
        return self.progress

    def _add(self, columns: RecordColumns) -> None:
        self._sums.add(columns)
        if self._states is not None and len(columns):
            aborted = (self._states.among(columns.batches) == ABORTED) & ~_control_among(columns.batches)
            self._aborted_records += int(aborted[columns.batch].sum())

    @property
    def progress(self) -> Progress:
        """The progress of the scan, in bytes of segments."""
        scans = self._deleted.progress, self._scan.progress
        return Progress(sum(each.done_bytes for each in scans), sum(each.total_bytes for each in scans))

    def totals(self, top: int = 50) -> Totals:
        """Return the sums so far.

        Args:
            top: The number of keys.
        """
        unread = self._scan.unread
        return replace(
            self._sums.totals(top), aborted_records=self._aborted_records, deleted_records=self._deleted_records,
            unreadable=unread.places, problem=unread.problem, first_unreadable=unread.first, progress=self.progress,
        )  # fmt: skip

    def close(self) -> None:
        """Close all files."""
        if self._log is not None:
            self._log.close()


def _control_among(rows: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return a mask of the rows that are control batches."""
    is_control: NDArray[np.bool_] = (rows["magic"] >= 2) & (rows["attributes"] & CONTROL_BIT != 0)
    return is_control


def _stored_bytes(rows: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the size of the records of each batch in the file."""
    overhead = np.array(SHORTEST)[rows["magic"]]
    sizes: NDArray[np.int64] = rows["size_in_bytes"] - overhead
    return sizes


class _Times:
    """Counts of records by time, in at most `TIME_BUCKETS` buckets of equal length."""

    def __init__(self) -> None:
        self.width = 1
        self._counts: Counter[int] = Counter()

    def add(self, timestamps: NDArray[np.int64]) -> None:
        """Count records, except those without a timestamp."""
        known = timestamps[timestamps >= 0]
        if not len(known):
            return
        low, high = int(known.min()), int(known.max())
        if self._counts:
            low, high = min(low, min(self._counts) * self.width), max(high, max(self._counts) * self.width)
        while high // self.width - low // self.width >= TIME_BUCKETS:
            self._double()
        buckets, counts = np.unique(known // self.width, return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self._counts[bucket] += count

    def _double(self) -> None:
        self.width *= 2
        merged: Counter[int] = Counter()
        for bucket, count in self._counts.items():
            merged[bucket // 2] += count
        self._counts = merged

    def buckets(self) -> tuple[tuple[int, int], ...]:
        """Return (start in ms, number of records) of each bucket from the first to the last."""
        if not self._counts:
            return ()
        first, last = min(self._counts), max(self._counts)
        return tuple((bucket * self.width, self._counts[bucket]) for bucket in range(first, last + 1))


class TopKeys:
    """The most frequent keys, in bounded memory.

    Attributes:
        error: The largest number by which a count is too small. A key without a counter is not more frequent than this.
    """

    def __init__(self, counters: int = KEY_COUNTERS) -> None:
        self._counters = counters
        self._counts: Counter[bytes] = Counter()
        self.error = 0

    def add(self, columns: RecordColumns) -> None:
        """Count the keys of records, without null keys."""
        data = np.frombuffer(columns.buffer, np.uint8)
        sizes, counts = columns.key_length, Counter[bytes]()
        for size in np.unique(sizes[sizes >= 0]).tolist():
            starts = columns.key_start[sizes == size]
            if 0 < size <= KEY_BYTES:
                counts.update(_counted(data, starts, size))
            else:
                counts.update(_short(data[start : start + size].data) for start in starts.tolist())
        self.add_keys(counts)

    def add_keys(self, counts: Counter[bytes]) -> None:
        """Add counts of keys."""
        self._counts.update(counts)
        if len(self._counts) <= self._counters:
            return
        # The count of the most frequent key that loses its counter is subtracted from all.
        ordered = self._counts.most_common(self._counters + 1)
        less = ordered[-1][1]
        self.error += less
        self._counts = Counter({key: count - less for key, count in ordered[:-1] if count > less})

    def top(self, count: int) -> tuple[tuple[bytes, int], ...]:
        """Return (key, lower bound for its records) of the most frequent keys."""
        return tuple(self._counts.most_common(count))


def _counted(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> dict[bytes, int]:
    """Count keys of one size. Sorting them as an array is several times as fast as counting them one by one."""
    # numpy cuts zeros at the end of a string, unless another byte follows.
    keys = np.ones((len(starts), size + 1), np.uint8)
    keys[:, :size] = data[starts[:, None] + np.arange(size)]
    found, counts = np.unique(keys.view(f"S{size + 1}").ravel(), return_counts=True)
    return {key[:-1]: count for key, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _short(key: memoryview) -> bytes:
    if key.nbytes <= KEY_BYTES:
        return bytes(key)
    return bytes(key[: KEY_BYTES - 20]) + b"..." + hashlib.blake2b(key, digest_size=8).hexdigest().encode()
