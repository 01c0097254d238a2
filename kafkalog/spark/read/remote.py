"""Partitions in a remote store (s3://, gs://, abfs://, hdfs:// ...), read by ranges through fsspec, the extra `remote`.

    planning    a listing; of the last segment its end, of those at the bounds a few headers; indexes as a whole
    reading     ranges of some MiB, one after the other: a task holds one of them, not its split

Nothing is downloaded to a disk. How the store is reached (endpoint, credentials) is fsspec's own configuration, from
its files or the environment, on the driver and on every executor. What fsspec remembers of listings is not trusted: a
worker lives long, and logs grow.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kafkalog.attributes import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkalog.errors import NotALogError
from kafkalog.record.decoding import Reading, read_columns
from kafkalog.spark.read.cuts import SparseIndex
from kafkalog.spark.read.partition_source import (
    LogEnd,
    PartitionSource,
    Refused,
    SegmentFile,
    Wanted,
    end_of,
    ensure_not_wanted,
    segment_file_list,
)
from kafkalog.spark.read.window import ShorterFileError, Window
from kafkalog.storage.checkpoint.checkpoint_file import read_leader_epoch_checkpoint, read_offset_checkpoint
from kafkalog.storage.file_names import (
    HIGH_WATERMARK_CHECKPOINT,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TopicPartition,
    partition_of_dir,
    segment_base_offset,
)
from kafkalog.storage.index.transaction_index import ENTRY_SIZE, AbortedTxn
from kafkalog.storage.producer.producer_snapshot import read_snapshot

RANGE_BYTES = 8 << 20
_INDEXES_AT_ONCE = 32
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "adlfs"),
    "hdfs": "pyarrow",
}
_OFFSETS = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIMES = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])

Found = TypeVar("Found")


def _package(url: str) -> str:
    """The name of the package that a store needs besides fsspec, to be appended to what is to be installed."""
    package = _PACKAGES.get(url.partition("://")[0].lower())
    return "" if package is None else f" {package}"


class Store:
    """A store and a path in it. ImportError: fsspec, or what it needs for this store, is missing."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(
                f"reading {url} needs fsspec and its package for this store: pip install 'kafkalog[remote]'"
                + _package(url)
            ) from error
        try:
            self.files, self.path = fsspec.core.url_to_fs(url)
        except ValueError as error:
            raise ValueError(f"option path: {url!r}: {error}") from None
        except ImportError as error:
            raise ImportError(f"reading {url} needs another package{_package(url)}: {error}") from error

    def listing(self, path: str) -> list[dict[str, Any]]:
        """What is in a directory, as it is now. FileNotFoundError: there is no such directory. OSError."""
        with self._asked(path):
            self.files.invalidate_cache(path)
            found: list[dict[str, Any]] = self.files.ls(path, detail=True)
        return found

    def matches(self) -> list[str]:
        """The paths that this one matches as a glob, in order. OSError."""
        with self._asked(self.path):
            self.files.invalidate_cache()
            return sorted(map(str, self.files.glob(self.path)))

    def is_file(self, path: str) -> bool:
        """Whether there is a file of that name. OSError."""
        with self._asked(path):
            return bool(self.files.isfile(path))

    def size(self) -> int:
        """Bytes of the file, as it is now. FileNotFoundError: there is no such file. OSError."""
        with self._asked(self.path):
            self.files.invalidate_cache(self.path)
            return int(self.files.size(self.path))

    def url(self, path: str) -> str:
        """The URL of a path."""
        return str(self.files.unstrip_protocol(path))

    def range(self, start: int, end: int) -> bytes:
        """Bytes of the file; fewer where it ends before. FileNotFoundError: there is no such file. OSError."""
        with self._asked(self.path):
            return bytes(self.files.cat_file(self.path, start=start, end=end))

    def read(self, path: str) -> bytes:
        """All bytes of a file; none where there is no such file. OSError."""
        try:
            with self._asked(path):
                return bytes(self.files.cat_file(path))
        except FileNotFoundError:
            return b""

    def read_those_there(self, paths: list[str]) -> dict[str, bytes]:
        """All bytes of some files, fetched together; those that cannot be read are left out."""
        return dict(self.files.cat(paths, on_error="omit")) if paths else {}

    @contextmanager
    def _asked(self, path: str) -> Iterator[None]:
        """Each store has errors of its own, few of which say what was asked for: they become OSErrors that do."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(f"there is no {self.url(path)}: {error}") from error
        except PermissionError as error:
            raise PermissionError(f"{self.url(path)} may not be read: {error}") from error
        except Exception as error:
            raise OSError(f"{self.url(path)} cannot be read: {type(error).__name__}: {error}") from error

    def parsed(self, path: str, parse: Callable[[Path], Found]) -> Found:
        """What `parse` reads in a small file."""
        with tempfile.TemporaryDirectory(prefix="kafkalog-") as directory:
            copy = Path(directory, _name(path))
            data = self.read(path)
            if data:
                copy.write_bytes(data)
            return parse(copy)


class RemoteWindow(Window):
    """Of a file in a store, a range at a time."""

    def __init__(self, url: str, most: int | None = None, until: int | None = None) -> None:
        """FileNotFoundError: there is no such file. ImportError: as `Store`."""
        self.most = RANGE_BYTES if most is None else most
        self._store = Store(url)
        super().__init__(url, self._store.size(), until)

    def _load(self, position: int, length: int) -> tuple[int, memoryview]:
        data = self._store.range(position, position + length)
        if len(data) < length:
            raise ShorterFileError(
                "the file became shorter while it was read",
                self.path,
                position,
                f"{position + length} bytes",
                position + len(data),
            )
        return position, memoryview(data).toreadonly()

    def close(self) -> None:
        self._bytes = memoryview(b"")


class RemotePartition(PartitionSource):
    """A partition's directory in a store, as it was when it was listed.

    Unlike on a disk, a time index is believed where it says that a sealed segment has nothing as late as that: to make
    sure, the segment would have to be fetched.
    """

    def __init__(self, store: Store, path: str, topic_partition: TopicPartition, listing: list[dict[str, Any]]) -> None:
        self.path = store.url(path)
        self.topic_partition = topic_partition
        self._store = store
        self._directory = path.rstrip("/")
        self._indexes: dict[str, bytes] = {}
        self._sizes = {_name(each["name"]): int(each["size"] or 0) for each in listing if each["type"] == "file"}
        logs = ((segment_base_offset(name), name, size) for name, size in self._sizes.items())
        self.segments = segment_file_list(
            [(base, store.url(self._in(name)), size) for base, name, size in logs if base is not None]
        )
        self.swaps = tuple(sorted(name for name in self._sizes if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)))

    def _in(self, name: str) -> str:
        return f"{self._directory}/{name}"

    @cached_property
    def log_start_offset(self) -> int:
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self._checkpointed(LOG_START_OFFSET_CHECKPOINT, first))

    def _checkpointed(self, name: str, otherwise: int) -> int:
        path = f"{self._directory.rpartition('/')[0]}/{name}"
        return self._store.parsed(path, read_offset_checkpoint).get(self.topic_partition, otherwise)

    @cached_property
    def log_end(self) -> LogEnd:
        if not self.segments:
            return LogEnd(self.log_start_offset, 0)
        last = self.segments[-1]
        entries = self._offset_entries(last)
        position = self._checked(last, entries[-1:])
        with closing(RemoteWindow(last.path)) as window:
            runs = ((rows, stop.status, stop.position) for rows, stop in window.walk(position, last.size))
            end = end_of(window, last, runs)
        return end._replace(offset=max(end.offset, self.log_start_offset))

    @cached_property
    def leader_epoch(self) -> int:
        epochs = self._store.parsed(self._in(LEADER_EPOCH_CHECKPOINT), read_leader_epoch_checkpoint)
        return epochs[-1].epoch if epochs else -1

    @cached_property
    def last_stable_offset(self) -> int:
        """From the newest snapshot on, transactions are followed through the headers."""
        end = min(self.log_end.offset, self._checkpointed(HIGH_WATERMARK_CHECKPOINT, self.log_end.offset))
        names = [name for name in self._sizes if name.endswith(SNAPSHOT_SUFFIX) and _number(name) <= end]
        newest = max(names, key=_number, default=None)
        open_transactions: dict[int, int] = {}
        start = self.log_start_offset
        if newest is not None:
            for each in self._store.parsed(self._in(newest), read_snapshot):
                if each.current_txn_first_offset is not None:
                    open_transactions[each.producer_id] = each.current_txn_first_offset
            start = max(start, _number(newest))
        for segment in self.segments:
            if segment.next_base > start and segment.base_offset < end:
                self._follow(segment, (start, end), open_transactions)
        return max(self.log_start_offset, min([end, *open_transactions.values()]))

    def _follow(self, segment: SegmentFile, between: tuple[int, int], open_transactions: dict[int, int]) -> None:
        """Note which transactions a segment's batches with offsets in `between` begin and end."""
        start, end = between
        position = self._position_before(segment, start) if start > segment.base_offset else 0
        with closing(RemoteWindow(segment.path)) as window:
            for rows, _ in window.walk(position, self.end_position(segment)):
                in_transaction = (rows["attributes"] & TRANSACTIONAL_BIT != 0) & (rows["magic"] >= 2)
                in_transaction &= (rows["base_offset"] >= start) & (rows["base_offset"] < end)
                for row in rows[in_transaction]:
                    if row["attributes"] & CONTROL_BIT:
                        open_transactions.pop(int(row["producer_id"]), None)
                    else:
                        open_transactions.setdefault(int(row["producer_id"]), int(row["base_offset"]))

    def offset_for_timestamp(self, timestamp: int) -> int | None:
        for segment in self.segments:
            times = self._entries(segment, TIME_INDEX_SUFFIX, _TIMES)
            if segment.sealed and len(times) and times["timestamp"][-1] < timestamp:
                continue
            earlier = times[times["timestamp"] < timestamp]
            known = segment.base_offset + int(earlier["offset"][-1]) if len(earlier) else segment.base_offset
            found = self._search(segment, self._position_before(segment, known), timestamp)
            if found is not None:
                return found
        return None

    def _search(self, segment: SegmentFile, position: int, timestamp: int) -> int | None:
        """The first record from a position on that is not before the log's start and as late as `timestamp`."""
        reading, first = Reading(control=True, path=segment.path), self.log_start_offset
        end = self.end_position(segment)
        with closing(RemoteWindow(segment.path)) as window:
            while position < end:
                entries, stop = window.scan(position, end)
                rows = entries.rows
                for i in np.flatnonzero((rows["max_timestamp"] >= timestamp) & (rows["last_offset"] >= first)).tolist():
                    for columns in read_columns(entries._replace(rows=rows[i : i + 1]), reading):
                        found = (columns.timestamp >= timestamp) & (columns.offset >= first)
                        if rows["magic"][i] > 0 and found.any():
                            return int(columns.offset[found.argmax()])
                if not stop.more:
                    return None
                position = stop.position
        return None

    def span(self, segment: SegmentFile, first: int, end: int) -> tuple[int, int]:
        start, stop = 0, self.end_position(segment)
        if first > segment.base_offset:
            start = min(self._position_before(segment, first), stop)
        if end < segment.next_base and end < self.log_end.offset:
            stop = min(stop, self._position_behind(segment, end))
        return start, max(start, stop)

    def _position_before(self, segment: SegmentFile, offset: int) -> int:
        """Where a batch begins before which none reaches `offset`, as the index tells and the batch confirms."""
        entries = self._offset_entries(segment)
        return self._checked(segment, entries[entries["offset"] <= offset - segment.base_offset][-1:])

    def _position_behind(self, segment: SegmentFile, offset: int) -> int:
        """Where a batch begins from which on all are behind `offset`; the segment's size where none is known."""
        entries = self._offset_entries(segment)
        behind = int((entries["offset"] < offset - segment.base_offset).sum()) + 1
        position = self._checked(segment, entries[behind : behind + 1], offset)
        return position or segment.size

    def _checked(self, segment: SegmentFile, entry: NDArray[np.void], least: int = -1) -> int:
        """The position of an index entry, shape (0,) or (1,), if its batch is there, at `least` or later; else 0."""
        if not len(entry):
            return 0
        position, offset = int(entry["position"][0]), segment.base_offset + int(entry["offset"][0])
        with closing(RemoteWindow(segment.path, most=1 << 16)) as window:
            row = window.sound_entry(position)
        if row is None or not segment.base_offset <= row["last_offset"] < segment.next_base:
            return 0
        begins = int(row["base_offset"]) if row["base_offset"] >= 0 else int(row["last_offset"])
        return position if least <= begins <= offset else 0

    def cuts(self, segment: SegmentFile, start: int, end: int, target: int) -> list[int]:
        """As the index says: whoever reads looks at the batches, which costs a request each."""
        if end - start <= target:
            return []
        index = _sparse(self._index_ahead(segment, target), segment)
        return [each.position for each in index.cuts(start, end, target)]

    def index_entries(self, segment: SegmentFile) -> NDArray[np.int64]:
        """As they are: whoever reads looks at the batches."""
        return _sparse(self._read_index(segment, INDEX_SUFFIX), segment).rising(segment.size)

    def headers(self, segment: SegmentFile, start: int, end: int) -> Iterator[NDArray[np.void]]:
        """Fetches what lies between."""
        with closing(RemoteWindow(segment.path, until=end)) as window:
            for rows, _ in window.walk(start, end):
                yield rows

    def _index_ahead(self, segment: SegmentFile, target: int) -> bytes:
        """Its offset index, fetched with those of the next segments that are to be cut: stores answer side by side."""
        if self._index_name(segment, INDEX_SUFFIX) not in self._indexes:
            following = self.segments[self.segments.index(segment) :]
            names = [self._index_name(each, INDEX_SUFFIX) for each in following if each.size > target]
            paths = [self._in(name) for name in names[:_INDEXES_AT_ONCE] if name in self._sizes]
            found = self._store.read_those_there(paths)
            self._indexes |= {_name(path): bytes(data) for path, data in found.items()}
        # Each is asked for once, and may have megabytes.
        return self._indexes.pop(self._index_name(segment, INDEX_SUFFIX), b"")

    def _offset_entries(self, segment: SegmentFile) -> NDArray[np.void]:
        """The offset index up to where its entries stop rising."""
        return self._entries(segment, INDEX_SUFFIX, _OFFSETS)

    def _entries(self, segment: SegmentFile, suffix: str, kind: np.dtype[np.void]) -> NDArray[np.void]:
        data = self._read_index(segment, suffix)
        entries = np.frombuffer(data, kind, len(data) // kind.itemsize)
        key = np.array(entries["offset"], np.int64)
        falls = np.flatnonzero(key[1:] <= key[:-1])
        found: NDArray[np.void] = entries[: int(falls[0]) + 1] if len(falls) else entries
        if len(found) == 1 and not found[0].tobytes().strip(b"\0"):
            return found[:0]
        return found

    @staticmethod
    def _index_name(segment: SegmentFile, suffix: str) -> str:
        return _name(segment.path).removesuffix(LOG_SUFFIX) + suffix

    def _read_index(self, segment: SegmentFile, suffix: str) -> bytes:
        name = self._index_name(segment, suffix)
        if name not in self._indexes:
            self._indexes[name] = self._store.read(self._in(name)) if name in self._sizes else b""
        return self._indexes[name]

    def close(self) -> None:
        self._indexes.clear()


def _sparse(index: bytes, segment: SegmentFile) -> SparseIndex:
    return SparseIndex(lambda at, length: index[at : at + length], len(index), segment.base_offset)


def remote_partitions(url: str, wanted: Wanted) -> Iterator[PartitionSource]:
    """The partitions asked for, of those a URL, or what it matches as a glob, leads to: one, or a data directory's.

    Of what a glob matches, the logs. FileNotFoundError: there is nothing. NotALogError: there is something else.
    ImportError, OSError: as `Store`.
    """
    store = Store(url)
    if any(each in store.path for each in "*?["):
        found = _matching(store, url, wanted)
    else:
        found = [_Directory.at(store, store.path)]
    for each in found:
        yield from each.partitions(store, wanted)


class _Directory(NamedTuple):
    """A partition's directory, or a data directory (topic_partition: None), and what is in it."""

    path: str
    topic_partition: TopicPartition | None
    listing: list[dict[str, Any]]

    @classmethod
    def at(cls, store: Store, path: str) -> "_Directory":
        """NotALogError: it is neither. OSError: it cannot be listed."""
        listing = store.listing(path)
        named = partition_of_dir(_name(path))
        if named is not None and any(segment_base_offset(_name(each["name"])) is not None for each in listing):
            return cls(path, named, listing)
        found = cls(path, None, listing)
        if not found._below():
            what = "a partition directory, <topic>-<number>, or one that holds some is needed"
            raise NotALogError(what, store.url(path))
        return found

    def partitions(self, store: Store, wanted: Wanted) -> Iterator[PartitionSource]:
        """It, or those below it, as far as they are asked for."""
        if self.topic_partition is None:
            for path, partition in self._below():
                if wanted(partition):
                    yield RemotePartition(store, path, partition, store.listing(path))
        elif wanted(self.topic_partition):
            yield RemotePartition(store, self.path, self.topic_partition, self.listing)

    def _below(self) -> list[tuple[str, TopicPartition]]:
        directories = sorted(each["name"] for each in self.listing if each["type"] == "directory")
        named = ((path, partition_of_dir(_name(path))) for path in directories)
        return [(path, partition) for path, partition in named if partition is not None]


def _matching(store: Store, url: str, wanted: Wanted) -> list[_Directory]:
    paths = [path.rstrip("/") for path in store.matches()]
    if not paths:
        raise FileNotFoundError(f"option path: nothing matches {url!r}")
    found: list[_Directory] = []
    refused: list[Refused] = []
    for path in paths:
        try:
            if not store.is_file(path):
                found.append(_Directory.at(store, path))
        except NotALogError:
            continue
        except OSError as error:
            refused.append(Refused(path, partition_of_dir(_name(path)), error))
    ensure_not_wanted(refused, [each.path for each in found if each.topic_partition is not None], wanted)
    if not found:
        what = "a partition directory, <topic>-<number>, or one that holds some is needed; none of what matches is one"
        raise NotALogError(what, url)
    return found


def remote_file_names(url: str) -> list[str]:
    """What is in a directory. FileNotFoundError: there is no such directory."""
    store = Store(url)
    return [_name(each["name"]) for each in store.listing(store.path)]


def read_aborted_txns(url: str) -> Iterator[AbortedTxn]:
    """The entries of a transaction index. CorruptIndexError: one has an unknown version."""
    store = Store(url)
    data = store.read(store.path)
    for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE):
        entry = data[at : at + ENTRY_SIZE]
        # As on a disk: a system that crashed may leave a tail of zeros.
        if not any(entry):
            return
        yield AbortedTxn.from_bytes(entry)


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _number(name: str) -> int:
    """The offset that a file is named for; -1 where it is named otherwise."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdecimal() else -1
