"""Statistics of records: over time, by size, by codec and what it saves, and the keys that come most often.

All of it takes bounded memory:

    times    buckets of equal length; when there are too many the length doubles and neighbours become one
    sizes    of values, by powers of two: 0, 1, 2-3, 4-7, 8-15, ...
    keys     some hundred counters (Misra-Gries): each count is at most `error` too small, and every key that comes more
             often than `error` is among them
"""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import codec_name
from kafkalog.record.record_columns import RecordColumns

TIME_BUCKETS = 256
KEY_COUNTERS = 500
# A longer key is known by its beginning and a digest.
KEY_BYTES = 256
_SIZES = 33


@dataclass(frozen=True, slots=True)
class CodecUse:
    """What a codec does in a log.

    Attributes:
        name: Of the codec.
        batches: How many have it.
        stored: Bytes of their records in the file.
        plain: The same, decompressed.
    """

    name: str
    batches: int
    stored: int
    plain: int

    @property
    def ratio(self) -> float | None:
        """Stored to plain bytes: 0.25 is a quarter; None where there are none."""
        return self.stored / self.plain if self.plain else None


@dataclass(frozen=True, slots=True)
class Totals:
    """What some records amount to.

    Attributes:
        times: (Start of a bucket, ms; records) of each bucket from the first to the last.
        bucket_ms: Length of a bucket.
        sizes: (Smallest size, records) of values that are not null.
        top_keys: (Key, records at least), the most first.
        key_error: How many records more each key may have.
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


class RecordStatistics:
    """Sums over records that are added some thousand at a time."""

    def __init__(self) -> None:
        self._records = self._batches = self._null_keys = self._null_values = 0
        self._key_bytes = self._value_bytes = self._header_bytes = self._largest = 0
        self._times = _Times()
        self._sizes = np.zeros(_SIZES, np.int64)
        self._codecs: dict[int, list[int]] = {}
        self._keys = TopKeys()

    def add(self, columns: RecordColumns, codec: int, stored: int, batches: int) -> None:
        """Add records.

        Args:
            columns: The records, of batches with the same codec.
            codec: Its number in the attributes.
            stored: Bytes of these batches' records in the file.
            batches: How many batches.
        """
        use = self._codecs.setdefault(codec, [0, 0, 0])
        use[0] += batches
        use[1] += stored
        use[2] += columns.buffer.nbytes if codec else stored
        self._batches += batches
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

    def _count_sizes(self, sizes: NDArray[np.int64]) -> None:
        # 0 -> 0, 1 -> 1, 2-3 -> 2, 4-7 -> 3: the exponent that brings a number to [0.5, 1).
        exponents = np.frexp(sizes.astype(np.float64))[1]
        self._sizes += np.bincount(np.minimum(exponents, _SIZES - 1), minlength=_SIZES)

    def totals(self, top: int = 50) -> Totals:
        """Return the sums so far.

        Args:
            top: How many keys.
        """
        sizes = [(0 if i == 0 else 1 << (i - 1), int(count)) for i, count in enumerate(self._sizes) if count]
        codecs = [CodecUse(codec_name(codec), *use) for codec, use in sorted(self._codecs.items())]
        return Totals(
            self._records, self._batches, self._null_keys, self._null_values, self._key_bytes, self._value_bytes,
            self._header_bytes, self._largest, self._times.buckets(), self._times.width, tuple(sizes), tuple(codecs),
            self._keys.top(top), self._keys.error,
        )  # fmt: skip


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
        """Return start (ms) and records of each bucket from the first to the last."""
        if not self._counts:
            return ()
        first, last = min(self._counts), max(self._counts)
        return tuple((bucket * self.width, self._counts[bucket]) for bucket in range(first, last + 1))


class TopKeys:
    """The keys that come most often, in bounded memory.

    error: no key comes more often than its count and this together, nor any that has no count more often than this.
    """

    def __init__(self, counters: int = KEY_COUNTERS) -> None:
        self._counters = counters
        self._counts: Counter[bytes] = Counter()
        self.error = 0

    def add(self, columns: RecordColumns) -> None:
        """Count the keys of records; null is none."""
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
        # The count of the first one that has no counter any more is taken from all.
        ordered = self._counts.most_common(self._counters + 1)
        less = ordered[-1][1]
        self.error += less
        self._counts = Counter({key: count - less for key, count in ordered[:-1] if count > less})

    def top(self, count: int) -> tuple[tuple[bytes, int], ...]:
        """Return the most frequent keys, and how often they came at least."""
        return tuple(self._counts.most_common(count))


def _counted(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> dict[bytes, int]:
    """Count keys of one size: sorted as an array, several times as fast as one by one."""
    # numpy cuts zeros at the end of a string, unless another byte follows.
    keys = np.ones((len(starts), size + 1), np.uint8)
    keys[:, :size] = data[starts[:, None] + np.arange(size)]
    found, counts = np.unique(keys.view(f"S{size + 1}").ravel(), return_counts=True)
    return {key[:-1]: count for key, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _short(key: memoryview) -> bytes:
    if key.nbytes <= KEY_BYTES:
        return bytes(key)
    return bytes(key[: KEY_BYTES - 20]) + b"..." + hashlib.blake2b(key, digest_size=8).hexdigest().encode()
