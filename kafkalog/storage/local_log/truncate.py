"""`Truncation`: cuts off the end of a log, as a follower does whose leader has something else there.

    segment | segment | active segment ........      before
    segment | segm........ cut off ............      truncate_to
              ........ all cut off ............ |    truncate_fully_and_start_at: an empty segment, perhaps later

First the checkpoints, then the records, then what was known of them: producers, epochs, watermarks. Source:
`truncateTo` and `truncateFullyAndStartAt` in storage/.../internals/log/UnifiedLog.java.
"""

import logging
from collections.abc import Callable

from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.producer.rebuild_producer_state import rebuild_producer_state
from kafkalog.storage.segment.replace_segments import delete_producer_snapshots

_log = logging.getLogger(__name__)


class Truncation:
    """Truncates a log. at_truncation: see `Opening`."""

    def __init__(self, state: LogState, marks: Watermarks, at_truncation: Callable[[], None]) -> None:
        self._state = state
        self._local = state.local
        self._marks = marks
        self._at_truncation = at_truncation

    def truncate_to(self, offset: int) -> bool:
        """What `WritableLog.truncate_to` says."""
        state, local, marks = self._state, self._local, self._marks
        with state.lock, local.whole():
            state.check_usable()
            state.check_alone()
            if offset >= local.log_end_offset:
                state.epochs.truncate_from_end(local.log_end_offset)
                return False
            if offset < local.segments.base_offsets[0]:
                self.truncate_fully_and_start_at(offset, offset)
                return True
            if offset < marks.placed_at:
                _log.warning("%s is truncated to %d, below the high watermark", state.directory, offset)
            self._prepare(offset)
            delete_producer_snapshots(local.truncate_to(offset), state.producers, local.home)
            state.epochs.truncate_from_end(offset)
            marks.log_start_offset = min(offset, marks.log_start_offset)
            self._rebuild_producers(offset)
            if marks.placed_at >= local.log_end_offset:
                marks.update(local.log_end)
            return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int) -> None:
        """What `WritableLog.truncate_fully_and_start_at` says."""
        state, local = self._state, self._local
        with state.lock, local.whole():
            state.check_usable()
            state.check_alone()
            self._prepare(offset)
            local.truncate_fully_and_start_at(offset)
            state.epochs.clear_and_flush()
            state.producers.truncate_fully_and_start_at(offset)
            self._marks.log_start_offset = log_start_offset
            self._rebuild_producers(offset)
            self._marks.update(local.log_end)

    def _prepare(self, end: int) -> None:
        self._lower_checkpoints(end)
        self._marks.lower_to(end)

    def _lower_checkpoints(self, end: int) -> None:
        """Let log start and recovery point be `end` at most, in the checkpoints too, before the log is cut there.

        After a crash what is appended then would not be recovered, were it before a recovery point from earlier, and
        would be dropped, were it before a log start from earlier.
        """
        local, marks = self._local, self._marks
        start = marks.log_start_offset
        if end >= max(start, local.recovery_point):
            return
        local.recovery_point = min(end, local.recovery_point)
        marks.log_start_offset = min(end, start)
        try:
            self._at_truncation()
        except BaseException:
            marks.log_start_offset = start
            raise

    def _rebuild_producers(self, end: int) -> None:
        state, start = self._state, self._marks.log_start_offset
        rebuild_producer_state(state.producers, self._local.segments, start, end, state.clock())
