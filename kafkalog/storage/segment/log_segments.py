"""`LogSegments`: the segments of a log by their base offsets.

    base offsets   0 ....... 40 ....... 90 ........ 120 ....
    floor(100)                          ^
    lower(90)                ^
    higher(90)                                      ^
    between(50, 91)          ^          ^           the last is the active one: what is appended goes there

One writer, any number of readers, and no reader waits: each change puts a new pair of tuples in the place of the old,
so that whoever has taken the old one goes on with a log as it was. Kafka: `LogSegments`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from kafkalog.storage.segment.log_segment import LogSegment


class _Sorted(NamedTuple):
    bases: tuple[int, ...]
    segments: tuple[LogSegment, ...]


class LogSegments:
    """Segments in the order of their base offsets, each but the last sealed. Iterable, from the oldest on."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._sorted = _Sorted((), ())
        # Of some segments' first: the largest timestamp up to each. Sealed ones keep theirs.
        self._latest: tuple[_Sorted, tuple[int, ...]] = self._sorted, ()
        self._replace({each.base_offset: each for each in segments})

    # --- changing: one thread at a time

    def add(self, segment: LogSegment) -> LogSegment | None:
        """Add a segment; returns the one of the same base offset that it takes the place of, if there is one."""
        bases, segments = self._sorted
        if not bases or segment.base_offset > bases[-1]:
            if segments:
                segments[-1].seal()
            segment.unseal()
            self._sorted = _Sorted((*bases, segment.base_offset), (*segments, segment))
            return None
        replaced = self.get(segment.base_offset)
        self._replace(dict(zip(bases, segments, strict=True)) | {segment.base_offset: segment})
        return replaced

    def remove(self, base_offset: int) -> LogSegment | None:
        """Remove the segment of that base offset and return it, if there is one. Its files stay as they are."""
        by_base = dict(zip(*self._sorted, strict=True))
        removed = by_base.pop(base_offset, None)
        if removed is not None:
            self._replace(by_base)
        return removed

    def replace(self, old: LogSegment, new: LogSegment) -> None:
        """Put `new` in the place of `old`, in one step, whatever their base offsets. Files stay as they are."""
        by_base = dict(zip(*self._sorted, strict=True))
        del by_base[old.base_offset]
        self._replace(by_base | {new.base_offset: new})

    def clear(self) -> None:
        """Remove all segments. Their files stay as they are."""
        self._sorted = _Sorted((), ())

    def _replace(self, by_base: dict[int, LogSegment]) -> None:
        bases = tuple(sorted(by_base))
        segments = tuple(by_base[base] for base in bases)
        for each in segments[:-1]:
            if not each.sealed:
                each.seal()
        if segments:
            segments[-1].unseal()
        self._sorted = _Sorted(bases, segments)

    def close(self) -> None:
        """Close all segments, each also where another fails."""
        self._each(lambda segment: segment.close())

    def release(self) -> None:
        """Close the files of all segments as they are, as if the process had died."""
        self._each(lambda segment: segment.release())

    def update_parent_dir(self, directory: Path) -> None:
        """Find all files in another directory from here on: their own has been renamed."""
        self._each(lambda segment: segment.update_parent_dir(directory))

    def _each(self, action: Callable[[LogSegment], None]) -> None:
        with ExitStack() as last:
            for segment in reversed(self._sorted.segments):
                last.callback(action, segment)

    # --- asking: any thread

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._sorted.segments)

    def __len__(self) -> int:
        return len(self._sorted.bases)

    def __contains__(self, base_offset: object) -> bool:
        return self.get(base_offset) is not None if isinstance(base_offset, int) else False

    @property
    def values(self) -> tuple[LogSegment, ...]:
        """All segments, from the oldest on."""
        return self._sorted.segments

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Their base offsets."""
        return self._sorted.bases

    @property
    def is_empty(self) -> bool:
        """Whether there is no segment."""
        return not self._sorted.bases

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all `.log` files. OSError: one has gone."""
        return sum(segment.size_in_bytes for segment in self._sorted.segments)

    @property
    def first(self) -> LogSegment | None:
        """The oldest segment."""
        segments = self._sorted.segments
        return segments[0] if segments else None

    @property
    def last(self) -> LogSegment | None:
        """The newest segment."""
        segments = self._sorted.segments
        return segments[-1] if segments else None

    @property
    def active(self) -> LogSegment:
        """The newest segment, which is appended to. IndexError: there is none."""
        return self._sorted.segments[-1]

    def get(self, base_offset: int) -> LogSegment | None:
        """The segment of exactly that base offset."""
        bases, segments = self._sorted
        at = bisect_left(bases, base_offset)
        return segments[at] if at < len(bases) and bases[at] == base_offset else None

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment whose base is at most `offset`: the one that holds it, if any does."""
        bases, segments = self._sorted
        at = bisect_right(bases, offset)
        return segments[at - 1] if at else None

    def lower(self, offset: int) -> LogSegment | None:
        """The last segment whose base is below `offset`."""
        bases, segments = self._sorted
        at = bisect_left(bases, offset)
        return segments[at - 1] if at else None

    def higher(self, offset: int) -> LogSegment | None:
        """The first segment whose base is above `offset`."""
        bases, segments = self._sorted
        at = bisect_right(bases, offset)
        return segments[at] if at < len(bases) else None

    def higher_segments(self, offset: int) -> tuple[LogSegment, ...]:
        """The segments whose base is above `offset`."""
        bases, segments = self._sorted
        return segments[bisect_right(bases, offset) :]

    def first_as_late_as(self, timestamp: int) -> LogSegment | None:
        """The first segment whose largest timestamp is `timestamp` (ms) or more, empty ones passed over.

        OSError: one has gone.
        """
        current, (known, latest) = self._sorted, self._latest
        if known is not current:
            latest = ()
        if len(latest) < len(current.segments) - 1 and (not latest or latest[-1] < timestamp):
            latest = self._look_at_more(current, latest, timestamp)
        at = bisect_left(latest, timestamp)
        if at < len(latest):
            return current.segments[at]
        active = current.segments[-1:]
        return active[0] if active and active[0].largest_timestamp >= timestamp else None

    def _look_at_more(self, current: _Sorted, known: tuple[int, ...], timestamp: int) -> tuple[int, ...]:
        """The largest timestamp up to each sealed segment, as far as the first that is as late as `timestamp`."""
        latest = list(known)
        for segment in current.segments[len(known) : -1]:
            latest.append(max(_latest_in(segment), latest[-1] if latest else -1))
            if latest[-1] >= timestamp:
                break
        self._latest = current, tuple(latest)
        return self._latest[1]

    def between(self, start: int, end: int) -> tuple[LogSegment, ...]:
        """The segments that may hold offsets in [start, end): from the one that `start` falls into on.

        ValueError: start > end.
        """
        if start > end:
            raise ValueError(f"offsets {start} to {end} are no range")
        bases, segments = self._sorted
        if start == end:
            return ()
        return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, end)]

    def values_from(self, start: int) -> tuple[LogSegment, ...]:
        """The segments that may hold offsets from `start` on."""
        bases, segments = self._sorted
        return segments[max(0, bisect_right(bases, start) - 1) :]

    def __repr__(self) -> str:
        return f"<LogSegments {list(self._sorted.bases)}>"


def _latest_in(segment: LogSegment) -> int:
    """A segment's largest timestamp, ms; -1 where compaction has left nothing in it.

    Kafka takes an empty segment for as old as its file, and looks no further for any time before that.
    """
    latest = segment.largest_record_timestamp
    if latest is not None:
        return latest
    return segment.largest_timestamp if segment.size else -1
