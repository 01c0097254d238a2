"""Retention: deletes the oldest segments.

    segment | segment | segment | active segment       from the oldest on, up to the first that must stay

    before the log start    it has only records before the log start
    size                    without it, the log still has at least retention.bytes
    time                    its largest timestamp is older than retention.ms

Segments that reach beyond the high watermark, and an empty active segment, always stay.
Source: storage/.../internals/log/UnifiedLog.java (`deleteOldSegments`).
"""

import logging
from collections.abc import Callable

from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.roll import roll
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.segment.log_segment import LogSegment

_log = logging.getLogger(__name__)
# (segment, base offset of the next one or None) -> whether it may be deleted
MayGo = Callable[[LogSegment, int | None], bool]


def delete_old_segments(state: LogState, watermarks: Watermarks) -> int:
    """Delete segments before the log's start, then beyond retention.bytes, then older than retention.ms.

    Returns:
        The number of deleted segments.

    Raises:
        LogStateError: The log is closed, or a flush or change of it has failed.
    """
    with state.lock:
        state.check_usable()

        def before_log_start(_: LogSegment, following: int | None) -> bool:
            return following is not None and following <= watermarks.log_start_offset

        count = _delete(state, watermarks, before_log_start, "it is before the log's start")
        if state.config.delete:
            count += _delete(state, watermarks, _beyond_size(state), "the log is larger than retention.bytes")
            count += _delete(state, watermarks, _beyond_time(state), "it is older than retention.ms")
        return count


def _delete(state: LogState, watermarks: Watermarks, may_go: MayGo, reason: str) -> int:
    """Delete the oldest segments that may go, and return their number; roll a new segment first if all are deleted."""
    local, going = state.local, _deletable(state, watermarks, may_go)
    for segment in going:
        _log.info("%s is deleted: %s", segment.path, reason)
    if not going:
        return 0
    with local.whole():
        state.check_alone()
        leaving = list(going)
        if len(leaving) == len(local.segments):
            rolled = roll(state, watermarks, local.log_end_offset)
            if leaving[-1].base_offset == rolled.base_offset:
                leaving.pop()
        if leaving:
            survivor = local.segments.higher(leaving[-1].base_offset)
            assert survivor is not None
            watermarks.maybe_increment_log_start_offset(survivor.base_offset)
            local.remove_and_delete(leaving)
        state.producers.delete_snapshots(leaving, state.scheduler, state.config.file_delete_delay_ms)
        return len(going)


def _deletable(state: LogState, watermarks: Watermarks, may_go: MayGo) -> list[LogSegment]:
    """Return the oldest segments, up to the first that must stay."""
    found = []
    segments = state.local.segments.values
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        end = state.local.log_end_offset if following is None else following
        if watermarks.high_watermark < end or not may_go(segment, following):
            break
        if following is None and segment.size == 0:
            break
        found.append(segment)
    return found


def _beyond_size(state: LogState) -> MayGo:
    limit = state.config.retention_bytes
    left = state.local.segments.size_in_bytes - limit

    def may_go(segment: LogSegment, _: int | None) -> bool:
        nonlocal left
        if limit < 0 or left < segment.size:
            return False
        left -= segment.size
        return True

    return may_go


def _beyond_time(state: LogState) -> MayGo:
    limit, now = state.config.retention_ms, state.clock()
    return lambda segment, _: limit >= 0 and now - segment.largest_timestamp > limit
