"""`LogSegments`: the segments of a log by their base offsets.

    base offsets   0 ....... 40 ....... 90 ........ 120 ....
    floor(100)                          ^
    higher(90)                                      ^
    between(50, 91)          ^          ^           the last segment is the active one: appends go there

One thread writes, any number of threads read, and no reader waits: each change replaces the tuple of segments, so a
reader continues with a snapshot of the log. Kafka: `LogSegments`.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from kafkalog.storage.segment.log_segment import LogSegment

_base_offset = attrgetter("base_offset")


class LogSegments:
    """Segments by base offset; all but the last are sealed. Iterating gives them oldest first."""

    def __init__(self, segments: Iterable[LogSegment] = ()) -> None:
        self._segments: tuple[LogSegment, ...] = ()
        self.add_all(segments)

    # --- changes: one thread at a time

    def add(self, segment: LogSegment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        self.add_all((segment,))

    def add_all(self, segments: Iterable[LogSegment]) -> None:
        """Add segments as `add`, in one step: each step copies the list of all segments."""
        self._set((*self._segments, *segments))

    def remove(self, base_offset: int) -> None:
        """Remove the segment with this base offset, if there is one. Its files are not changed."""
        self._set(each for each in self._segments if each.base_offset != base_offset)

    def replace(self, old: LogSegment, new: LogSegment) -> None:
        """Replace `old` by `new` in one step; base offsets may differ. Files are not changed."""
        self._set((*(each for each in self._segments if each is not old), new))

    def _set(self, every: Iterable[LogSegment]) -> None:
        """Replace all segments in one step, of those with the same base offset by the last. Seal all but the last."""
        by_base = {each.base_offset: each for each in every}
        segments = tuple(by_base[base] for base in sorted(by_base))
        for each in segments[:-1]:
            if not each.sealed:
                each.seal()
        if segments:
            segments[-1].unseal()
        self._segments = segments

    def close(self) -> None:
        """Close all segments, even if one fails."""
        self._each(lambda segment: segment.close())

    def release(self) -> None:
        """Close the files of all segments without flushing or trimming, as after a crash."""
        self._each(lambda segment: segment.release())

    def _each(self, action: Callable[[LogSegment], None]) -> None:
        """Call `action` for all segments, even if one call fails; raise the first error at the end."""
        first_error: BaseException | None = None
        for segment in self._segments:
            try:
                action(segment)
            except BaseException as error:  # noqa: BLE001 - the other segments must still be closed
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    # --- queries: any thread

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def values(self) -> tuple[LogSegment, ...]:
        """All segments, oldest first."""
        return self._segments

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """The base offsets of all segments."""
        return tuple(map(_base_offset, self._segments))

    @property
    def is_empty(self) -> bool:
        """Whether there are no segments."""
        return not self._segments

    @property
    def size_in_bytes(self) -> int:
        """The bytes of all `.log` files.

        Raises:
            OSError: A file has been deleted.
        """
        return sum(segment.size_in_bytes for segment in self._segments)

    @property
    def first(self) -> LogSegment | None:
        """The oldest segment; None if there is none."""
        segments = self._segments
        return segments[0] if segments else None

    @property
    def last(self) -> LogSegment | None:
        """The newest segment; None if there is none."""
        segments = self._segments
        return segments[-1] if segments else None

    @property
    def active(self) -> LogSegment:
        """The newest segment, which appends go to.

        Raises:
            IndexError: There are no segments.
        """
        return self._segments[-1]

    def get(self, base_offset: int) -> LogSegment | None:
        """Return the segment with exactly this base offset; None if there is none."""
        found = self.floor(base_offset)
        return found if found is not None and found.base_offset == base_offset else None

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment whose base offset is at most `offset`; None if there is none."""
        segments = self._segments
        at = _above(segments, offset)
        return segments[at - 1] if at else None

    def higher(self, offset: int) -> LogSegment | None:
        """Return the first segment whose base offset is above `offset`; None if there is none."""
        segments = self._segments
        at = _above(segments, offset)
        return segments[at] if at < len(segments) else None

    def floor_and_next(self, offset: int) -> tuple[LogSegment | None, LogSegment | None]:
        """Return `floor(offset)`, or else the first segment, and the segment after it, both as of one moment."""
        segments = self._segments
        following = max(1, _above(segments, offset))
        first = segments[following - 1] if segments else None
        return first, segments[following] if following < len(segments) else None

    def from_floor(self, offset: int) -> tuple[LogSegment, ...]:
        """Return `floor(offset)`, or else the first segment, and all segments after it, as of one moment."""
        segments = self._segments
        return segments[max(0, _above(segments, offset) - 1) :]

    def higher_segments(self, offset: int) -> tuple[LogSegment, ...]:
        """Return the segments whose base offset is above `offset`."""
        segments = self._segments
        return segments[_above(segments, offset) :]

    def first_as_late_as(self, timestamp: int) -> LogSegment | None:
        """Return the first segment whose largest timestamp is `timestamp` (ms) or later; None if there is none.

        Empty segments are skipped. An active segment that is only read counts as that late: a search for its largest
        timestamp takes as long as one for the record.

        Raises:
            OSError: A file has been deleted.
        """
        segments = self._segments
        for segment in segments[:-1]:
            if _latest_in(segment) >= timestamp:
                return segment
        active = segments[-1] if segments else None
        if active is not None and active.writable and active.largest_timestamp < timestamp:
            return None
        return active

    def between(self, start: int, end: int) -> tuple[LogSegment, ...]:
        """Return the segments that may contain offsets in [start, end).

        Raises:
            ValueError: `start` is above `end`.
        """
        if start > end:
            raise ValueError(f"start {start} is above end {end}")
        return tuple(each for each in self.from_floor(start) if each.base_offset < end) if start < end else ()

    def __repr__(self) -> str:
        return f"<LogSegments {list(self.base_offsets)}>"


def _above(segments: tuple[LogSegment, ...], offset: int) -> int:
    """Return the number of the first segment whose base offset is above `offset`."""
    return bisect_right(segments, offset, key=_base_offset)


def _latest_in(segment: LogSegment) -> int:
    """Return the largest timestamp of a segment, ms; -1 if compaction has emptied it.

    Kafka uses the mtime of an empty segment's file, and so its search for an earlier time ends there.
    """
    latest = segment.largest_record_timestamp
    if latest is not None:
        return latest
    return segment.largest_timestamp if segment.size else -1
