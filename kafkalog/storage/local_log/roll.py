"""`Roller`: begins a new segment where the active one is full, or too old.

    segment 0 ............ | segment 40 ........ | segment 90
                                      sealed ^    ^ rolled at the log's end: appends go here
                                                    snapshot of the producers at 90, flushed in the background

Source: `maybeRoll` and `roll` in storage/.../internals/log/UnifiedLog.java.
"""

from contextlib import suppress
from pathlib import Path

from kafkalog._speedups.arguments import whole
from kafkalog.storage.files.appendable_file import sync_file
from kafkalog.storage.local_log.flush import Flusher
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.segment.log_segment import LogSegment, RollParams


class Roller:
    """Rolls the segments of a log."""

    def __init__(self, state: LogState, marks: Watermarks, flusher: Flusher) -> None:
        self._state = state
        self._local = state.local
        self._marks = marks
        self._flusher = flusher

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """What `WritableLog.roll` says."""
        with self._state.lock:
            self._state.check_usable()
            end = self._local.log_end_offset
            return self.roll_at(whole("expected_next_offset", expected_next_offset, 0, end))

    def roll_if_needed(self, params: RollParams, first_offset: int) -> LogSegment:
        """The segment to append to: a new one from first_offset on, where the active one is full, or too old."""
        segment = self._local.active_segment
        return self.roll_at(first_offset) if segment.should_roll(params) else segment

    def roll_at(self, expected_next_offset: int) -> LogSegment:
        """A new segment at the log's end, or where a follower's next batch begins that is appended at once."""
        state = self._state
        with state.lock, self._local.uninterrupted():
            state.check_usable()
            state.check_alone()
            segment = self._local.roll(expected_next_offset)
            state.producers.update_map_end_offset(segment.base_offset)
            snapshot = state.producers.take_snapshot(sync=False)
            self._marks.follow_end()
            state.scheduler.schedule("flush-log", lambda: self._flush_rolled(snapshot, segment.base_offset))
            return segment

    def _flush_rolled(self, snapshot: Path | None, base: int) -> None:
        if self._state.closed:
            return
        if snapshot is not None:
            # Retention or a truncation may have deleted it meanwhile.
            with suppress(FileNotFoundError):
                sync_file(snapshot)
        self._flusher.flush_until(base, base)
