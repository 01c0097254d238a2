"""`Flusher`: has the system put on the disk what was appended, and moves the recovery point behind it.

    recovery point: all before is on the disk     log end
                          v                          v
    segment | segment | segment | active segment .....

Flushing takes long, so it is done without the log's lock. After one that fails nobody knows what is on the disk, and
one that succeeds then says nothing: the log takes no more. Source: `flush` in
storage/.../internals/log/UnifiedLog.java.
"""

from kafkalog.storage.local_log.log_state import LogState


class Flusher:
    """Flushes a log; called without its lock, or with it."""

    def __init__(self, state: LogState) -> None:
        self._state = state
        self._local = state.local
        self._messages = state.config.flush_messages

    def flush(self, *, force_active: bool = False) -> None:
        """What `WritableLog.flush` says."""
        end = self._local.log_end_offset
        self.flush_until(end + 1 if force_active else end, end)

    def flush_if_due(self) -> None:
        """Flush once as many messages have been appended as the topic's flush.messages."""
        if self._local.log_end.message_offset - self._local.recovery_point >= self._messages:
            self.flush()

    def flush_until(self, offset: int, recovery_point: int) -> None:
        """Flush what begins before `offset`; all before recovery_point is on the disk then. OSError: it failed."""
        state, local = self._state, self._local
        if offset <= local.recovery_point:
            return
        state.check_open()
        state.check_whole()
        state.check_alone()
        truncations = local.truncations
        local.flush(offset)
        with state.lock:
            # What was truncated since has perhaps been replaced by records that are not on the disk; of a log that was
            # closed or deleted nothing more is to be said.
            if local.truncations == truncations and not state.closed:
                # A segment that begins after a gap is flushed up to its base before anything is in it.
                last = max(local.log_end_offset, local.active_segment.base_offset)
                local.mark_flushed(min(recovery_point, last))
