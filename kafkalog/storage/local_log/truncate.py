"""Truncation: cuts off the end of the log, as a follower does when its leader has other records there.

    segment | segment | active segment ........      before
    segment | segm........ cut off ............      truncate_to
              ........ all cut off ............ |    truncate_fully_and_start_at: an empty segment, possibly later

The checkpoints change first, then the records, then producers, epochs and watermarks. Source: `truncateTo` and
`truncateFullyAndStartAt` in storage/.../internals/log/UnifiedLog.java.
"""

import logging
from collections.abc import Callable

from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.producer.rebuild_producer_state import rebuild_producer_state

_log = logging.getLogger(__name__)


def truncate_to(state: LogState, watermarks: Watermarks, offset: int, write_checkpoints: Callable[[], None]) -> bool:
    """Cut off all records from `offset` on.

    Args:
        state: The log.
        watermarks: Its watermarks.
        offset: The first offset to cut off.
        write_checkpoints: Called after log start or recovery point have decreased, before records are cut off.

    Returns:
        Whether `offset` is before the log's end.

    Raises:
        LogStateError: The log is closed, or a flush or change of it has failed.
    """
    local = state.local
    with state.lock, local.whole(OSError):
        state.check_usable()
        state.check_alone()
        if offset >= local.log_end_offset:
            state.epochs.truncate_from_end(local.log_end_offset)
            return False
        if offset < local.segments.base_offsets[0]:
            truncate_fully_and_start_at(state, watermarks, offset, offset, write_checkpoints)
            return True
        if offset < watermarks.placed_at:
            _log.warning("%s is truncated to %d, below the high watermark", state.directory, offset)
        _lower(state, watermarks, offset, write_checkpoints)
        cut = local.truncate_to(offset)
        state.producers.delete_snapshots(cut, state.scheduler, state.config.file_delete_delay_ms)
        state.epochs.truncate_from_end(offset)
        start = watermarks.log_start_offset = min(offset, watermarks.log_start_offset)
        rebuild_producer_state(state.producers, local.segments, start, offset, state.clock())
        if watermarks.placed_at >= local.log_end_offset:
            watermarks.update(local.log_end)
        return True


def truncate_fully_and_start_at(
    state: LogState, watermarks: Watermarks, offset: int, log_start_offset: int, write_checkpoints: Callable[[], None]
) -> None:
    """Delete all records.

    Args:
        state: The log.
        watermarks: Its watermarks.
        offset: The offset of the next record.
        log_start_offset: The new log start.
        write_checkpoints: Called after log start or recovery point have decreased, before records are deleted.

    Raises:
        LogStateError: The log is closed, or a flush or change of it has failed.
    """
    local = state.local
    with state.lock, local.whole(OSError):
        state.check_usable()
        state.check_alone()
        _lower(state, watermarks, offset, write_checkpoints)
        local.truncate_fully_and_start_at(offset)
        state.epochs.clear_and_flush()
        state.producers.truncate_fully_and_start_at(offset)
        watermarks.log_start_offset = log_start_offset
        rebuild_producer_state(state.producers, local.segments, log_start_offset, offset, state.clock())
        watermarks.update(local.log_end)


def _lower(state: LogState, watermarks: Watermarks, end: int, write_checkpoints: Callable[[], None]) -> None:
    """Lower log start, recovery point and watermarks to `end`, also in the checkpoints, before the log is truncated.

    Otherwise, after a crash, new records before the old recovery point would not be recovered, and new records before
    the old log start would be deleted.
    """
    local, start = state.local, watermarks.log_start_offset
    if end < max(start, local.recovery_point):
        local.recovery_point = min(end, local.recovery_point)
        watermarks.log_start_offset = min(end, start)
        try:
            write_checkpoints()
        except BaseException:
            watermarks.log_start_offset = start
            raise
    watermarks.lower_to(end)
