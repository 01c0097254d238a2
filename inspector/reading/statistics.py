"""Statistics of a partition: records over time, sizes, codecs and what they save, the keys that come most often.

All of it in bounded memory, a step at a time, so that a screen may show it while it grows:

    times    buckets of equal length; when there are too many the length doubles and neighbours become one
    sizes    of values, by powers of two: 0, 1, 2-3, 4-7, 8-15, ...
    keys     a summary of some hundred counters (Misra-Gries): each count is at most `error` too small, and every key
             that comes more often than `error` is among them
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from inspector.reading.batches import STEP_SECONDS
from inspector.reading.through import Part, Step, Unread, Unreadable, places_of, steps
from kafkalog import RecordColumns
from kafkalog.attributes import codec_name
from kafkalog.scan.progress import Progress

if TYPE_CHECKING:
    from inspector.reading.partition import PartitionReader

TIME_BUCKETS = 256
KEY_COUNTERS = 500
# A longer key is known by its beginning and a digest.
KEY_BYTES = 256
_SIZES = 33


@dataclass(frozen=True, slots=True)
class CodecUse:
    """What a codec does here. stored, plain: bytes of records as they lie in the file, and decompressed."""

    name: str
    batches: int
    stored: int
    plain: int

    @property
    def ratio(self) -> float | None:
        """Stored to plain bytes: 0.25 is a quarter; None where there are none."""
        return self.stored / self.plain if self.plain else None


@dataclass(frozen=True, slots=True)
class StatisticsState:
    """What is known so far. times: (start of the bucket, records), bucket_ms long each, none left out between.

    sizes: (smallest size, records) of values that are not null. top_keys: (key, records at least), the most first;
    key_error: how many more each may have. unreadable: batches stepped over; first_unreadable: the first of them, which
    `problem` tells of.
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
    unreadable: int = 0
    problem: str | None = None
    first_unreadable: Unreadable | None = None
    progress: Progress = field(default_factory=lambda: Progress(0, 0))


class Statistics:
    """The statistics of a partition as it was when this was made. Call `step` until it `is_done`, from one thread."""

    def __init__(self, partition: PartitionReader) -> None:
        self._unread = Unread()
        self._places = places_of(partition.refresh_quietly(), self._unread)
        self._total = sum(place.bytes for place in self._places)
        self._steps = self._all_steps()
        self._done = 0
        self._records = self._batches = self._null_keys = self._null_values = 0
        self._key_bytes = self._value_bytes = self._header_bytes = self._largest = 0
        self._times = _Times()
        self._sizes = np.zeros(_SIZES, np.int64)
        self._codecs: dict[int, list[int]] = {}
        self._keys = TopKeys()

    def _all_steps(self) -> Iterator[Step]:
        before = 0
        for place in self._places:
            for step in steps(place, self._unread):
                yield step._replace(done_bytes=before + min(step.done_bytes, place.bytes))
            before += place.bytes

    def step(self, seconds: float = STEP_SECONDS) -> Progress:
        """Go on for about so long."""
        until = monotonic() + seconds
        while monotonic() < until:
            step = next(self._steps, None)
            if step is None:
                self._done = self._total
                break
            self._done = step.done_bytes
            for part in step.parts:
                self._take(part)
        return self.progress

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress(self._done, self._total)

    def state(self, top: int = 50) -> StatisticsState:
        """What is known so far. top: how many keys."""
        sizes = [(0 if i == 0 else 1 << (i - 1), int(count)) for i, count in enumerate(self._sizes) if count]
        codecs = [CodecUse(codec_name(codec), *use) for codec, use in sorted(self._codecs.items())]
        return StatisticsState(
            self._records, self._batches, self._null_keys, self._null_values, self._key_bytes, self._value_bytes,
            self._header_bytes, self._largest, self._times.buckets(), self._times.width, tuple(sizes), tuple(codecs),
            self._keys.top(top), self._keys.error, self._unread.batches, self._unread.problem, self._unread.first,
            self.progress,
        )  # fmt: skip

    def _take(self, part: Part) -> None:
        columns = part.columns
        use = self._codecs.setdefault(part.codec, [0, 0, 0])
        use[0] += part.batches
        use[1] += part.stored
        use[2] += columns.buffer.nbytes if part.codec else part.stored
        self._batches += part.batches
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


class _Times:
    """Records by time, in at most `TIME_BUCKETS` buckets of equal length."""

    def __init__(self) -> None:
        self.width = 1
        self._counts: Counter[int] = Counter()

    def add(self, timestamps: NDArray[np.int64]) -> None:
        """Count records; those without a timestamp are not."""
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
        """Start (ms) and records of each bucket from the first to the last."""
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
        """Count the keys of some records; null is none."""
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
        """Count keys that were counted elsewhere."""
        self._counts.update(counts)
        if len(self._counts) <= self._counters:
            return
        # What the first one that has to go had is taken from all.
        ordered = self._counts.most_common(self._counters + 1)
        less = ordered[-1][1]
        self.error += less
        self._counts = Counter({key: count - less for key, count in ordered[:-1] if count > less})

    def top(self, count: int) -> tuple[tuple[bytes, int], ...]:
        """The most frequent keys, and how often they came at least."""
        return tuple(self._counts.most_common(count))


def _counted(data: NDArray[np.uint8], starts: NDArray[np.int64], size: int) -> dict[bytes, int]:
    """The keys of one size, and how often each comes: sorted as an array, several times as fast as one by one."""
    # What ends in zeros would lose them, but for a byte behind.
    keys = np.ones((len(starts), size + 1), np.uint8)
    keys[:, :size] = data[starts[:, None] + np.arange(size)]
    found, counts = np.unique(keys.view(f"S{size + 1}").ravel(), return_counts=True)
    return {key[:-1]: count for key, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _short(key: memoryview) -> bytes:
    if key.nbytes <= KEY_BYTES:
        return bytes(key)
    return bytes(key[: KEY_BYTES - 20]) + b"..." + hashlib.blake2b(key, digest_size=8).hexdigest().encode()
