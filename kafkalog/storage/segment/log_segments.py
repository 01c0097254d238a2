"""`LogSegments`: the segments of a log by their base offsets.

    base offsets   0 ....... 40 ....... 90 ........ 120 ....
    floor(100)                          ^
    higher(90)                                      ^
    between(50, 91)          ^          ^           the last segment is the active one: appends go there

One thread writes, any number of threads read, and no reader waits: each change replaces the pair of tuples, so a reader
continues with a snapshot of the log. Kafka: `LogSegments`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafkalog.storage.segment.log_segment import LogSegment


class _Sorted(NamedTuple):
    """The segments and their base offsets, in order."""

    bases: tuple[int, ...]
    segments: tuple[LogSegment, ...]


class LogSegments:
    """Segments by base offset; all but the last are sealed. Iterating gives them oldest first."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._sorted = _Sorted((), ())
        # The largest timestamp up to each of the first segments. Timestamps of sealed segments do not change.
        self._latest: tuple[_Sorted, tuple[int, ...]] = self._sorted, ()
        self._replace({each.base_offset: each for each in segments})

    # --- changes: one thread at a time

    def add(self, segment: LogSegment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        bases, segments = self._sorted
        if not bases or segment.base_offset > bases[-1]:
            if segments:
                segments[-1].seal()
            segment.unseal()
            self._sorted = _Sorted((*bases, segment.base_offset), (*segments, segment))
        else:
            self._replace(dict(zip(bases, segments, strict=True)) | {segment.base_offset: segment})

    def add_all(self, segments: Iterable[LogSegment]) -> None:
        """Add segments as `add`, in one step: each step copies the list of all segments."""
        self._replace({each.base_offset: each for each in (*self, *segments)})

    def remove(self, base_offset: int) -> None:
        """Remove the segment with this base offset, if there is one. Its files are not changed."""
        by_base = dict(zip(*self._sorted, strict=True))
        if by_base.pop(base_offset, None) is not None:
            self._replace(by_base)

    def replace(self, old: LogSegment, new: LogSegment) -> None:
        """Replace `old` by `new` in one step; base offsets may differ. Files are not changed."""
        by_base = dict(zip(*self._sorted, strict=True))
        del by_base[old.base_offset]
        self._replace(by_base | {new.base_offset: new})

    def _replace(self, by_base: dict[int, LogSegment]) -> None:
        """Replace all segments in one step. Seal all but the last."""
        bases = tuple(sorted(by_base))
        segments = tuple(by_base[base] for base in bases)
        for each in segments[:-1]:
            if not each.sealed:
                each.seal()
        if segments:
            segments[-1].unseal()
        self._sorted = _Sorted(bases, segments)

    def close(self) -> None:
        """Close all segments, even if one fails."""
        self._each(lambda segment: segment.close())

    def release(self) -> None:
        """Close the files of all segments without flushing or trimming, as after a crash."""
        self._each(lambda segment: segment.release())

    def _each(self, action: Callable[[LogSegment], None]) -> None:
        """Call `action` for all segments, even if one call fails; raise the first error at the end."""
        first_error: BaseException | None = None
        for segment in self._sorted.segments:
            try:
                action(segment)
            except BaseException as error:  # noqa: BLE001 - the other segments must still be closed
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    # --- queries: any thread

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._sorted.segments)

    def __len__(self) -> int:
        return len(self._sorted.bases)

    @property
    def values(self) -> tuple[LogSegment, ...]:
        """All segments, oldest first."""
        return self._sorted.segments

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of all segments."""
        return self._sorted.bases

    @property
    def is_empty(self) -> bool:
        """Whether there are no segments."""
        return not self._sorted.bases

    @property
    def size_in_bytes(self) -> int:
        """The bytes of all `.log` files.

        Raises:
            OSError: A file has been deleted.
        """
        return sum(segment.size_in_bytes for segment in self._sorted.segments)

    @property
    def first(self) -> LogSegment | None:
        """The oldest segment; None if there is none."""
        segments = self._sorted.segments
        return segments[0] if segments else None

    @property
    def last(self) -> LogSegment | None:
        """The newest segment; None if there is none."""
        segments = self._sorted.segments
        return segments[-1] if segments else None

    @property
    def active(self) -> LogSegment:
        """The newest segment, which appends go to.

        Raises:
            IndexError: There are no segments.
        """
        return self._sorted.segments[-1]

    def get(self, base_offset: int) -> LogSegment | None:
        """Return the segment with exactly this base offset; None if there is none."""
        bases, segments = self._sorted
        at = bisect_left(bases, base_offset)
        return segments[at] if at < len(bases) and bases[at] == base_offset else None

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment whose base offset is at most `offset`; None if there is none."""
        bases, segments = self._sorted
        at = bisect_right(bases, offset)
        return segments[at - 1] if at else None

    def higher(self, offset: int) -> LogSegment | None:
        """Return the first segment whose base offset is above `offset`; None if there is none."""
        bases, segments = self._sorted
        at = bisect_right(bases, offset)
        return segments[at] if at < len(bases) else None

    def floor_and_next(self, offset: int) -> tuple[LogSegment | None, LogSegment | None]:
        """Return `floor(offset)`, or else the first segment, and the segment after it, both as of one moment."""
        bases, segments = self._sorted
        following = max(1, bisect_right(bases, offset))
        return (
            segments[following - 1] if segments else None,
            segments[following] if following < len(segments) else None,
        )

    def from_floor(self, offset: int) -> tuple[LogSegment, ...]:
        """Return `floor(offset)`, or else the first segment, and all segments after it, as of one moment."""
        bases, segments = self._sorted
        return segments[max(0, bisect_right(bases, offset) - 1) :]

    def higher_segments(self, offset: int) -> tuple[LogSegment, ...]:
        """Return the segments whose base offset is above `offset`."""
        bases, segments = self._sorted
        return segments[bisect_right(bases, offset) :]

    def first_as_late_as(self, timestamp: int) -> LogSegment | None:
        """Return the first segment whose largest timestamp is `timestamp` (ms) or later; None if there is none.

        Empty segments are skipped. An active segment that is only read counts as that late: a search for its largest
        timestamp takes as long as one for the record.

        Raises:
            OSError: A file has been deleted.
        """
        current, (known, latest) = self._sorted, self._latest
        if known is not current:
            latest = ()
        if len(latest) < len(current.segments) - 1 and (not latest or latest[-1] < timestamp):
            latest = self._look_at_more(current, latest, timestamp)
        at = bisect_left(latest, timestamp)
        if at < len(latest):
            return current.segments[at]
        active = current.segments[-1] if current.segments else None
        if active is not None and active.writable and active.largest_timestamp < timestamp:
            return None
        return active

    def _look_at_more(self, current: _Sorted, known: tuple[int, ...], timestamp: int) -> tuple[int, ...]:
        """Extend the largest timestamps up to each sealed segment, until one is `timestamp` or later."""
        latest = list(known)
        for segment in current.segments[len(known) : -1]:
            latest.append(max(_latest_in(segment), latest[-1] if latest else -1))
            if latest[-1] >= timestamp:
                break
        self._latest = current, tuple(latest)
        return self._latest[1]

    def between(self, start: int, end: int) -> tuple[LogSegment, ...]:
        """Return the segments that may contain offsets in [start, end).

        Raises:
            ValueError: `start` is above `end`.
        """
        if start > end:
            raise ValueError(f"start {start} is above end {end}")
        bases, segments = self._sorted
        if start == end:
            return ()
        return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, end)]

    def __repr__(self) -> str:
        return f"<LogSegments {list(self._sorted.bases)}>"


def _latest_in(segment: LogSegment) -> int:
    """Return the largest timestamp of a segment, ms; -1 if compaction has emptied it.

    Kafka uses the mtime of an empty segment's file, and so its search for an earlier time ends there.
    """
    latest = segment.largest_record_timestamp
    if latest is not None:
        return latest
    return segment.largest_timestamp if segment.size else -1
