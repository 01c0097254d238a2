"""Truncate the log: cut off its end, as a follower does whose leader has other records there.

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

_log = logging.getLogger(__name__)


def truncate_to(state: LogState, watermarks: Watermarks, offset: int, write_checkpoints: Callable[[], None]) -> bool:
    """Cut off every record from `offset` on.

    Args:
        state: the log.
        watermarks: its watermarks.
        offset: the first offset to go.
        write_checkpoints: called once log start or recovery point have gone back, before records are cut off.

    Returns:
        Whether there was anything to cut.
    """
    local = state.local
    with state.lock, local.whole():
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
        watermarks.log_start_offset = min(offset, watermarks.log_start_offset)
        _rebuild_producers(state, watermarks, offset)
        if watermarks.placed_at >= local.log_end_offset:
            watermarks.update(local.log_end)
        return True


def truncate_fully_and_start_at(
    state: LogState, watermarks: Watermarks, offset: int, log_start_offset: int, write_checkpoints: Callable[[], None]
) -> None:
    """Delete every record; the next one gets `offset`. `write_checkpoints`: as in `truncate_to`."""
    local = state.local
    with state.lock, local.whole():
        state.check_usable()
        state.check_alone()
        _lower(state, watermarks, offset, write_checkpoints)
        local.truncate_fully_and_start_at(offset)
        state.epochs.clear_and_flush()
        state.producers.truncate_fully_and_start_at(offset)
        watermarks.log_start_offset = log_start_offset
        _rebuild_producers(state, watermarks, offset)
        watermarks.update(local.log_end)


def _lower(state: LogState, watermarks: Watermarks, end: int, write_checkpoints: Callable[[], None]) -> None:
    """Lower log start, recovery point and watermarks to `end`, in the checkpoints too, before the log is cut there.

    After a crash, records appended at a place before an older recovery point would not be recovered, and records
    before an older log start would be dropped.
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


def _rebuild_producers(state: LogState, watermarks: Watermarks, end: int) -> None:
    rebuild_producer_state(state.producers, state.local.segments, watermarks.log_start_offset, end, state.clock())
