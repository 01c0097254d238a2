"""The check of the offset and the time index of a segment against its batches: `IndexCheck`.

    .log        0         4096          8192          12288          positions of batches
    .index             offset 57 -> 4096    offset 98 -> 8192        each entry leads to the beginning of a batch
    .timeindex         12:00:07 -> 57       12:00:31 -> 98           the largest time so far, and the batch that has it

Brokers before 3.9.1 wrote one entry for all batches that a follower appended together: its offset is that of the last
of them, its position that of the first. So the batch at an entry's position must not begin after the entry's offset,
and the batch at the next entry's position must begin after it.

The entries are compared with header rows while the log is walked, which reads nothing of it twice.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from kafkalog.errors import CorruptIndexError
from kafkalog.fsck.file_check import Scope
from kafkalog.fsck.findings import Finding, unreadable
from kafkalog.fsck.gathering import Batches
from kafkalog.fsck.header_checks import Flags, Longs
from kafkalog.fsck.walk import Item, Tail
from kafkalog.record.framing import EndKind
from kafkalog.storage.file_names import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkalog.storage.index.offset_index import OffsetIndex
from kafkalog.storage.index.time_index import TimeIndex

# An entry follows every 4096 bytes, unless the topic says otherwise (index.interval.bytes), or one append was larger.
_INDEXED_BYTES = 4 * 4096


class Entries:
    """The entries of one index, and the first of them that is wrong.

    Attributes:
        first: The first integer of each entry: the offset, or the timestamp.
        second: The second one: the position, or the offset.
    """

    def __init__(self, index: OffsetIndex | TimeIndex) -> None:
        """Read all slots; the entries end where they stop rising."""
        self.path = index.path
        self.entry_size = 8 if isinstance(index, OffsetIndex) else 12
        self.length = index.length
        self._status = _status(self.path)
        slots = index.slots()
        self.unused = slots[index.entries :]
        if self.unused.any():
            # Entries may have been appended since they were counted.
            recounted = type(index)(index.path, index.base_offset, writable=False).entries
            self.unused = slots[max(recounted, index.entries) :]
        entries = slots[: index.entries]
        entries[:, 0 if isinstance(index, OffsetIndex) else 1] += index.base_offset
        self.first, self.second = entries[:, 0].copy(), entries[:, 1].copy()
        self._wrong = 0
        self._worst: Finding | None = None

    def note(self, wrong: Flags, at: Longs, message: str, expected: Callable[[int], str]) -> None:
        """Note which of the entries `at` are wrong; `expected` describes what belongs in the place of one of them."""
        bad = np.flatnonzero(wrong)
        if not len(bad):
            return
        self._wrong += len(bad)
        entry = int(at[bad[0]])
        position = entry * self.entry_size
        if self._worst is None or position < (self._worst.position or 0):
            found = f"{int(self.first[entry])} -> {int(self.second[entry])}"
            code = "index-entries" if self.entry_size == 8 else "time-index-entries"
            self._worst = Finding(code, str(self.path), message, position, self.entry_size,
                                  expected=expected(int(bad[0])), found=found)  # fmt: skip

    @property
    def is_current(self) -> bool:
        """Whether the file is still the one that was read: compaction replaces it, and its segment."""
        return _status(self.path) == self._status

    def finding(self) -> Iterator[Finding]:
        """Yield the finding about the first wrong entry, with the number of all."""
        if self._worst is not None:
            worst = self._worst
            message = f"{worst.message} ({self._wrong} of {len(self.first)} entries are wrong)"
            yield Finding(worst.code, worst.path, message, worst.position, worst.length,
                          expected=worst.expected, found=worst.found)  # fmt: skip


def _status(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class IndexCheck:
    """The check of both indexes of one segment, given its batches in order."""

    def __init__(self, log: Path, base: int, scope: Scope) -> None:
        """Read the indexes. Entries appended after this call are not checked.

        Args:
            log: The segment.
            base: Its base offset.
            scope: Whether it has a successor, or was closed cleanly: then nothing may follow the entries.
        """
        self._log = log
        self._base = base
        self._scope = scope
        self._sealed = scope.sealed or scope.stopped
        self._unreadable: list[Finding] = []
        self._offsets = self._read(OffsetIndex, log.with_name(f"{base:020}{INDEX_SUFFIX}"), base)
        self._times = self._read(TimeIndex, log.with_name(f"{base:020}{TIME_INDEX_SUFFIX}"), base)
        self._end = 0
        self._batches = 0
        self._magic = 0
        self._damaged = False
        self._last_offset: int | None = base - 1
        self._largest = -1
        self._torn: Tail | None = None

    def _read(self, kind: type[OffsetIndex | TimeIndex], path: Path, base: int) -> Entries | None:
        try:
            index = kind(path, base, writable=False)
            return Entries(index) if path.exists() else None
        except CorruptIndexError as error:
            self._unreadable.append(Finding("unreadable", str(path), error.message))
        except OSError as error:
            self._unreadable.append(unreadable(path, error))
        return None

    def lose(self, item: Item) -> None:
        """Take note of damage: the entries that lead into it are right."""
        if isinstance(item, Tail) and item.kind is EndKind.TORN:
            self._torn = item
        self._damaged = True
        self._last_offset = None
        self._end = item.end

    def see(self, batches: Batches) -> None:
        """Compare the entries that lead to the next batches."""
        # Entries can be compared only with offsets that rise.
        if self._offsets is not None:
            self._compare_positions(self._offsets, batches)
        if self._times is not None and batches.rising:
            self._compare_times(self._times, batches)
        self._largest = max(self._largest, int(batches.timestamp.max()))
        self._magic = max(self._magic, batches.magic)
        self._damaged |= not batches.rising
        self._batches += len(batches.last)
        self._last_offset = int(batches.last[-1])
        self._end = batches.end

    def _compare_positions(self, index: Entries, batches: Batches) -> None:
        at = np.arange(*np.searchsorted(index.second, [batches.position[0], batches.end]))
        if not len(at):
            return
        row = np.searchsorted(batches.position, index.second[at], "right") - 1
        begins = batches.position[row]
        between = begins != index.second[at]
        index.note(between, at, "the position is between batches", lambda i: f"position {int(begins[i])}")
        if not batches.rising:
            return
        first = batches.first[row]
        late = ~between & (first > index.first[at])
        message = "the batch at the position begins after the offset"
        index.note(late, at, message, lambda i: f"offset {int(first[i])} or more")
        early = ~between & (at > 0) & (index.first[np.maximum(at - 1, 0)] >= first)
        message = "the offset is in the batch of the next entry, or after it"
        index.note(early, at - 1, message, lambda i: f"less than offset {int(first[i])}")

    def _compare_times(self, index: Entries, batches: Batches) -> None:
        start = int(batches.first[0]) if batches.before is None else batches.before + 1
        # Entries rise by timestamp, and their offsets by at least 0.
        at = np.arange(*np.searchsorted(index.second, [start, int(batches.last[-1]) + 1]))
        if not len(at):
            return
        largest = np.maximum.accumulate(np.concatenate([[self._largest], batches.timestamp]))
        row = np.searchsorted(batches.last, index.second[at])
        first, highest, before = batches.first[row], batches.timestamp[row], largest[row]
        between = first > index.second[at]
        index.note(between, at, "no batch has the offset", lambda i: f"offset {int(first[i])} or more")
        differs = ~between & (highest != index.first[at])
        index.note(differs, at, "the batch with the offset has another largest timestamp",
                   lambda i: f"timestamp {int(highest[i])}")  # fmt: skip
        late = ~between & ~differs & (before > index.first[at])
        index.note(late, at, "an earlier batch has a later timestamp", lambda i: f"timestamp {int(before[i])}")

    def findings(self, *, missing: bool) -> Iterator[Finding]:
        """Yield all findings, after the last batch.

        Args:
            missing: Whether a missing index is a finding.
        """
        yield from self._unreadable
        # A broker may have deleted the segment, and its indexes with it.
        if not self._unreadable and missing and self._sealed and self._log.exists():
            if self._offsets is None:
                yield self._missing("index-missing", INDEX_SUFFIX, self._scope.situation)
            if self._times is None and self._magic:
                # Without the offset index, a broker rebuilds all.
                situation = "unindexed" if self._offsets is None else self._scope.situation
                yield self._missing("time-index-missing", TIME_INDEX_SUFFIX, situation)
        for index, check in ((self._offsets, self._offset_findings), (self._times, self._time_findings)):
            found = [] if index is None else list(check(index))
            if found and index is not None and index.is_current:
                yield from found

    def _missing(self, code: str, suffix: str, situation: str) -> Finding:
        path = self._log.with_name(f"{self._base:020}{suffix}")
        return Finding(code, str(path), "the index is missing", situation=situation)

    def _offset_findings(self, index: Entries) -> Iterator[Finding]:
        yield from self._form(index)
        beyond = index.second >= self._end
        index.note(beyond, np.arange(len(beyond)), "the position is beyond the end of the log",
                   lambda _: f"less than position {self._end}")  # fmt: skip
        if not beyond.any() and len(index.first) and self._last_offset is not None and not self._damaged:
            last = self._last_offset
            index.note(index.first > last, np.arange(len(beyond)), "the offset is beyond that of the last batch",
                       lambda _: f"at most offset {last}")  # fmt: skip
        hiding = self._hiding(index)
        yield from index.finding() if hiding is None else [hiding]
        if self._sealed and not index.length and self._end > _INDEXED_BYTES and self._batches > 1:
            message = "the index has no entry: a lookup reads the segment from its beginning"
            yield Finding("index-empty", str(index.path), message)

    def _hiding(self, index: Entries) -> Finding | None:
        """Return the finding about a last entry that leads to no whole batch, where a broker looks for the log's end.

        Only a broker that trusts the last segment does so.
        """
        end, last = (self._end, self._last_offset)
        if self._torn is not None:
            end, last = self._torn.start, self._torn.previous_offset
        if self._scope.situation != "stopped" or not len(index.first) or last is None or last < self._base:
            return None
        if int(index.second[-1]) < end:
            return None
        position = (len(index.first) - 1) * index.entry_size
        message = "the last entry leads to no whole batch: a broker takes the segment's base offset for the log's end"
        return Finding("index-entries", str(index.path), message, position, index.entry_size, self._base, last,
                       f"less than position {end}", f"{int(index.first[-1])} -> {int(index.second[-1])}",
                       "hiding")  # fmt: skip

    def _time_findings(self, index: Entries) -> Iterator[Finding]:
        yield from self._form(index)
        if self._last_offset is not None and not self._damaged:
            last = self._last_offset
            index.note(index.second > last, np.arange(len(index.second)), "the offset is beyond that of the last batch",
                       lambda _: f"at most offset {last}")  # fmt: skip
        yield from index.finding()
        latest = int(index.first[-1]) if len(index.first) else -1
        if self._sealed and not self._damaged and latest < self._largest and not len(index.unused):
            message = "the last entry is not that of the largest timestamp: retention and searches by time go wrong"
            yield Finding("time-index-short", str(index.path), message, index.length, 0,
                          expected=self._largest, found=latest)  # fmt: skip

    def _form(self, index: Entries) -> Iterator[Finding]:
        """Yield the findings about the size of the file, and about what follows the last entry."""
        path, count = str(index.path), len(index.first)
        odd = index.length % index.entry_size
        if odd:
            message = f"the size is no multiple of {index.entry_size} bytes"
            yield Finding("index-size", path, message, index.length - odd, odd,
                          expected=index.length - odd, found=index.length)  # fmt: skip
        position, size = count * index.entry_size, len(index.unused) * index.entry_size
        if index.unused.any():
            code = "index-entries" if index.entry_size == 8 else "time-index-entries"
            yield Finding(code, path, f"the entries do not rise, from entry {count} of {count + len(index.unused)} on",
                          position, size)  # fmt: skip
        elif len(index.unused) and self._sealed:
            message = "empty slots follow the last entry, though nothing is appended any more"
            yield Finding("index-zeros", path, message, position, size)
