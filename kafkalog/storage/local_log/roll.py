"""Rolling: begins a new segment when the active one is full or too old.

    segment 0 ............ | segment 40 ........ | segment 90
                                    inactive ^    ^ rolled at the log's end; appends go here
                                                    snapshot of the producers at 90, flushed in the background

Source: `maybeRoll` and `roll` in storage/.../internals/log/UnifiedLog.java; `shouldRoll` in LogSegment.java.
"""

from contextlib import suppress
from pathlib import Path

from kafkalog.errors import RecordBatchTooLargeError
from kafkalog.storage.files.appendable_file import sync_file
from kafkalog.storage.index.abstract_index import MAX_INT
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.local_log.watermarks import Watermarks
from kafkalog.storage.segment.log_segment import LogSegment


def roll_if_needed(
    state: LogState, watermarks: Watermarks, *, first: int, last: int, max_timestamp: int, size: int, now: int
) -> LogSegment:
    """Return the segment to append to, which is a new one if the active segment is full or too old.

    Args:
        state: The log.
        watermarks: Those of the log.
        first: The first offset of the batches; -1 = unknown.
        last: Their last offset.
        max_timestamp: Their largest timestamp, ms; -1 = none.
        size: Their size, bytes.
        now: The current time, ms.

    Raises:
        RecordBatchTooLargeError: They are larger than a segment may be.
    """
    segment, limit = state.local.active_segment, state.config.segment_bytes
    if size > limit:
        message = "the batches of one append are larger than segment.bytes"
        raise RecordBatchTooLargeError(message, str(state.directory), None, f"at most {limit}", size)
    if segment.should_roll(size, last, max_timestamp, now):
        # The first offset of a v0/v1 wrapper is unknown here; use the lowest base offset whose index can hold the last.
        return roll(state, watermarks, first if first >= 0 else last - MAX_INT)
    return segment


def roll(state: LogState, watermarks: Watermarks, expected_next_offset: int) -> LogSegment:
    """Begin a new segment at the log's end, or at the first offset of a follower's next batch.

    Raises:
        LogStateError: The log is closed, or a flush or change of it has failed.
    """
    with state.lock, state.local.whole():
        state.check_usable()
        state.check_alone()
        segment = state.local.roll(expected_next_offset)
        state.producers.update_map_end_offset(segment.base_offset)
        snapshot = state.producers.take_snapshot(sync=False)
        watermarks.follow_end()
        state.scheduler.schedule("flush-log", lambda: _flush_rolled(state, snapshot, segment.base_offset))
        return segment


def _flush_rolled(state: LogState, snapshot: Path | None, base_offset: int) -> None:
    if state.closed:
        return
    if snapshot is not None:
        # Retention or a truncation may have deleted the snapshot.
        with suppress(FileNotFoundError):
            sync_file(snapshot)
    state.flush_until(base_offset, base_offset)
