"""`Retention`: lets go of the oldest segments.

    log start     size: more than retention.bytes are left without it     time: nothing younger than retention.ms in it
        v
    segment | segment | segment | active segment       from the oldest on, as long as each may go

Never one that reaches beyond the high watermark, never an empty active one. Source:
storage/.../internals/log/UnifiedLog.java (`deleteOldSegments`).
"""

import logging
from collections.abc import Callable, Sequence

from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.roll import Roller
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.replace_segments import delete_producer_snapshots

_log = logging.getLogger(__name__)
# (segment, the base offset of the next one or None) -> whether it may go
MayGo = Callable[[LogSegment, int | None], bool]


class Retention:
    """Deletes segments from the front of a log."""

    def __init__(self, state: LogState, marks: Watermarks, roller: Roller) -> None:
        self._state = state
        self._local = state.local
        self._marks = marks
        self._roller = roller

    def delete_old_segments(self) -> int:
        """Delete what begins before the log's start, then what is too much, then what is too old; returns how many."""
        with self._state.lock:
            self._state.check_usable()
            count = self._delete(self._before_log_start, "it lies before the log's start")
            if self._state.config.delete:
                count += self._delete(self._beyond_size(), "the log is larger than retention.bytes")
                count += self._delete(self._beyond_time(), "it is older than retention.ms")
            return count

    def _delete(self, may_go: MayGo, reason: str) -> int:
        going = self._deletable(may_go)
        for segment in going:
            _log.info("%s is deleted: %s", segment.path, reason)
        return self.delete_segments(going) if going else 0

    def _deletable(self, may_go: MayGo) -> list[LogSegment]:
        """The oldest segments, up to the first that may not go."""
        found = []
        segments = self._local.segments.values
        for i, segment in enumerate(segments):
            following = segments[i + 1].base_offset if i + 1 < len(segments) else None
            end = self._local.log_end_offset if following is None else following
            if self._marks.high_watermark < end or not may_go(segment, following):
                break
            if following is None and segment.size == 0:
                break
            found.append(segment)
        return found

    def _before_log_start(self, _: LogSegment, following: int | None) -> bool:
        return following is not None and following <= self._marks.log_start_offset

    def _beyond_size(self) -> MayGo:
        limit = self._state.config.retention_bytes
        left = self._local.size_in_bytes - limit

        def may_go(segment: LogSegment, _: int | None) -> bool:
            nonlocal left
            if limit < 0 or left < segment.size:
                return False
            left -= segment.size
            return True

        return may_go

    def _beyond_time(self) -> MayGo:
        limit, now = self._state.config.retention_ms, self._state.clock()
        return lambda segment, _: limit >= 0 and now - segment.largest_timestamp > limit

    def delete_segments(self, going: Sequence[LogSegment]) -> int:
        """Take the oldest segments out of the log; a new one is rolled if all go. Returns how many."""
        state, local = self._state, self._local
        with state.lock, local.uninterrupted():
            state.check_usable()
            state.check_alone()
            count, leaving = len(going), list(going)
            if count == len(local.segments):
                rolled = self._roller.roll()
                if leaving[-1].base_offset == rolled.base_offset:
                    leaving.pop()
            if leaving:
                survivor = local.segments.higher(leaving[-1].base_offset)
                assert survivor is not None
                self._marks.maybe_increment_log_start_offset(survivor.base_offset)
                local.remove_and_delete(leaving)
            delete_producer_snapshots(leaving, state.producers, local.home)
            return count
