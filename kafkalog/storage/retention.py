"""Which segments are old enough to go.

    log start     size: more than retention.bytes are left without it     time: nothing younger than retention.ms in it
        v
    segment | segment | segment | active segment       from the oldest on, as long as each may go

Never one that reaches beyond the high watermark, never an empty active one. Source:
storage/.../internals/log/UnifiedLog.java (`deleteOldSegments`).
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog.storage.segment import LogSegment

if TYPE_CHECKING:
    from kafkalog.storage.writable_log import WritableLog

_log = logging.getLogger(__name__)
# (segment, the base offset of the next one or None) -> whether it may go
MayGo = Callable[[LogSegment, int | None], bool]


def delete_old_segments(log: "WritableLog") -> int:
    """Delete what begins before the log's start, then what is too much, then what is too old; returns how many."""
    count = _delete(log, _before_log_start(log), "it lies before the log's start")
    if log.config.delete:
        count += _delete(log, _beyond_size(log), "the log is larger than retention.bytes")
        count += _delete(log, _beyond_time(log), "it is older than retention.ms")
    return count


def _delete(log: "WritableLog", may_go: MayGo, reason: str) -> int:
    going = deletable_segments(log, may_go)
    for segment in going:
        _log.info("%s is deleted: %s", segment.path, reason)
    return log.delete_segments(going) if going else 0


def deletable_segments(log: "WritableLog", may_go: MayGo) -> list[LogSegment]:
    """The oldest segments, up to the first that may not go."""
    found = []
    segments = log.segments
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else None
        end = log.log_end_offset if following is None else following
        if log.high_watermark < end or not may_go(segment, following):
            break
        if following is None and segment.size == 0:
            break
        found.append(segment)
    return found


def _before_log_start(log: "WritableLog") -> MayGo:
    return lambda _, following: following is not None and following <= log.log_start_offset


def _beyond_size(log: "WritableLog") -> MayGo:
    limit = log.config.retention_bytes
    left = log.size_in_bytes - limit

    def may_go(segment: LogSegment, _: int | None) -> bool:
        nonlocal left
        if limit < 0 or left < segment.size:
            return False
        left -= segment.size
        return True

    return may_go


def _beyond_time(log: "WritableLog") -> MayGo:
    limit, now = log.config.retention_ms, log.now()
    return lambda segment, _: limit >= 0 and now - segment.largest_timestamp > limit
