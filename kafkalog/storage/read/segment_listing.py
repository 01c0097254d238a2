"""The segments of a directory that another process may be writing, and the end of its log.

    listed    0.log | 40.log | 80.log (active)            the directory as of its last change
    measured                 |====================>       whole batches of the active segment, as far as it was read

A broker may roll, delete and truncate segments at any time. The directory is listed again when its mtime has changed.
The active segment is read on from its previous end, or from its start if it became shorter.

A directory in a store has no mtime, and a listing, which includes all sizes, is one request: it is repeated when the
last one is some seconds old. A file in a store never changes, but may be replaced by one of another size. As little as
possible of it is read: the search for the end starts at the last position in the offset index, so that damage before
that position is found only by reading.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from kafkalog._speedups import decompress
from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.framing import find_file_entry
from kafkalog.errors import KafkaLogError, LogStateError
from kafkalog.storage.checkpoint.checkpoint_file import SETTLED_NS
from kafkalog.storage.file_names import segment_files
from kafkalog.storage.files.readable_file import ReadableFile
from kafkalog.storage.index.offset_index import OffsetEntry
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.remote_path import BELIEVED_SECONDS, RemotePath
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# Entries are skipped in chunks of this many bytes, whose ends need not be entry boundaries.
_PASSED_BYTES = 16 << 20

# How long, and how often, a directory is listed again whose segments are all gone. A roll renames an empty active
# segment before it creates the new one.
_REPLACED_SECONDS = 1.0
_PAUSE_SECONDS = 0.001

# Size in bytes and mtime in ns.
FileVersion = tuple[int, int]


class SegmentListing:
    """The segments of `directory`, read-only. Thread-safe; copies list the directory themselves."""

    def __init__(self, directory: Path, decompression_limit: int = decompress.DEFAULT_LIMIT) -> None:
        """List the directory.

        Raises:
            OSError: The directory cannot be listed.
        """
        self.directory = directory
        self._decompression_limit = decompression_limit
        self._lock = threading.Lock()
        # The time of the listing for a store, else the mtime of the directory; ns.
        self._listed_at = -1
        self._closed = False
        self._listed: dict[tuple[int, bool, int], LogSegment] = {}
        self._segments = LogSegments()
        # The last measurement: active segment, its end, the position of its last batch, the version of its file.
        self._end: tuple[LogSegment, LogOffsetMetadata, int, FileVersion | None] | None = None
        self._list()

    def segments(self) -> LogSegments:
        """Return the current segments.

        Raises:
            LogStateError: The listing has been closed.
            OSError: The directory has been deleted.
        """
        if self._closed:
            raise LogStateError("the log has been closed", str(self.directory))
        if self._may_have_changed():
            with self._lock:
                self._list()
        return self._segments

    def _may_have_changed(self) -> bool:
        if isinstance(self.directory, RemotePath):
            return time.monotonic_ns() - self._listed_at > BELIEVED_SECONDS * 1_000_000_000
        return self.directory.stat().st_mtime_ns != self._listed_at

    @property
    def closed(self) -> bool:
        """Whether the listing has been closed."""
        return self._closed

    def _list(self) -> None:
        is_remote, until = isinstance(self.directory, RemotePath), time.monotonic() + _REPLACED_SECONDS
        while True:
            looked_at = time.time_ns()
            changed_at = time.monotonic_ns() if is_remote else self.directory.stat().st_mtime_ns
            files = segment_files(self.directory)
            if files or not self._listed or time.monotonic() > until:
                break
            time.sleep(_PAUSE_SECONDS)
        listed: dict[tuple[int, bool, int], LogSegment] = {}
        for i, (base, path) in enumerate(files, 1):
            sealed = i < len(files)
            key = self._key(base, path, sealed=sealed)
            listed[key] = self._listed.get(key) or self._segment(base, path, sealed=sealed)
        self._listed, self._segments = listed, LogSegments(listed.values())
        settled = is_remote or looked_at - changed_at > SETTLED_NS
        self._listed_at = changed_at if settled else -1

    @staticmethod
    def _key(base: int, path: Path, *, sealed: bool) -> tuple[int, bool, int]:
        """Return the identity of a segment file, which compaction may have replaced; in a store, by its size."""
        try:
            status = path.stat()
        except FileNotFoundError:
            # Deleted since the directory was listed.
            return base, sealed, 0
        return base, sealed, status.st_size if isinstance(path, RemotePath) else status.st_ino

    def _segment(self, base: int, path: Path, *, sealed: bool) -> LogSegment:
        return LogSegment(base, path, sealed=sealed, decompression_limit=self._decompression_limit)

    def end(self, log_start_offset: int) -> LogOffsetMetadata:
        """Return the position of the next record: after the last whole batch, or at the first damage."""
        active = self.segments().last
        if active is None:
            return LogOffsetMetadata(log_start_offset)
        found = self._measured(active)
        if found.message_offset < log_start_offset:
            return LogOffsetMetadata(log_start_offset, found.segment_base_offset, found.relative_position_in_segment)
        return found

    def _measured(self, active: LogSegment) -> LogOffsetMetadata:
        version = _version_of(active.log)
        if version is not None and self._end is not None and (self._end[0], self._end[3]) == (active, version):
            return self._end[1]
        end, last = _end_behind(active, *self._measured_before(active))
        self._end = active, end, last, version
        return end

    def end_by_index(self) -> LogOffsetMetadata | None:
        """Return what `end` does, without looking at what precedes the last entry of the offset index.

        None for a log in a store, where files do not change.
        """
        active = self.segments().last
        if active is None or isinstance(active.path, RemotePath):
            return None
        near = _last_indexed(active)
        end = LogOffsetMetadata(near.offset, active.base_offset, near.position)
        return _end_behind(active, end, near.position)[0]

    def _measured_before(self, active: LogSegment) -> tuple[LogOffsetMetadata, int]:
        """Return the known end and the position of the last batch before it, or the start of the segment.

        A segment may have been truncated and then grown again, so that the last batch before the end is checked.
        """
        start = LogOffsetMetadata(active.base_offset, active.base_offset, 0)
        if isinstance(active.path, RemotePath):
            near = _last_indexed(active)
            return LogOffsetMetadata(near.offset, active.base_offset, near.position), near.position
        if self._end is None or self._end[0] is not active or self._end[1].relative_position_in_segment > active.size:
            return start, 0
        _, end, last, _ = self._end
        try:
            found = active.log.found_at(last).first_entry() if end.relative_position_in_segment else None
        except KafkaLogError:
            return start, 0
        same = found is not None and (found.position + found.size, found.last_offset + 1) == (
            end.relative_position_in_segment,
            end.message_offset,
        )
        return (end, last) if same else (start, 0)

    def close(self) -> None:
        """Close the files for good."""
        self._closed = True
        self._segments.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_end")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ |= state
        self._lock = threading.Lock()
        self._end = None
        # The monotonic clock of another process is not comparable.
        self._listed_at = -1


def _end_behind(active: LogSegment, end: LogOffsetMetadata, last: int) -> tuple[LogOffsetMetadata, int]:
    """Return the end of the batches that follow an earlier end, and the position of the last one.

    Args:
        active: The segment.
        end: The earlier end, before a batch.
        last: The position of the last batch before it.
    """
    log, offset = active.log, end.message_offset
    position = _near_end(log, end.relative_position_in_segment)
    for rows, stop in log._scans(position):
        if len(rows):
            last = int(rows["position"][-1])
            # The offsets of a batch that ends before the segment begins are damaged.
            own = rows["last_offset"][rows["last_offset"] >= active.base_offset]
            offset = int(own[-1]) + 1 if len(own) else offset
        position = stop.position
    return LogOffsetMetadata(offset, active.base_offset, position), last


def _last_indexed(segment: LogSegment) -> OffsetEntry:
    """Return the last entry of the offset index if it refers to a batch, otherwise the start of the segment."""
    entry = segment.offset_index.last_entry
    start = OffsetEntry(segment.base_offset, 0)
    try:
        found = segment.log.search(entry.offset, entry.position, hint=entry.offset) if entry.position else None
    except KafkaLogError:
        return start
    return start if found is None or found.position < entry.position else OffsetEntry(found.offset, found.position)


def _version_of(log: FileMessageSet) -> FileVersion | None:
    """Return the size and mtime of a file, which change with its content; None if the mtime is too recent."""
    if not isinstance(log._file, ReadableFile):
        return log.size_in_bytes, 0
    looked_at, status = time.time_ns(), os.fstat(log._file.fileno())
    settled = looked_at - status.st_mtime_ns > SETTLED_NS
    return (status.st_size, status.st_mtime_ns) if settled else None


def _near_end(log: FileMessageSet, position: int) -> int:
    """Return the position of an entry near the end of the file; all entries from `position` to there are whole.

    No rows are built for the skipped entries, which halves the time. The caller handles the rest of the file.
    """
    before, source = position, log._file.scanned
    # An OSError occurs again, and is raised, when rows are built from there.
    with suppress(OSError):
        while position + _PASSED_BYTES < log.size_in_bytes:
            _, _, reached, _, _ = find_file_entry(source, position, position + _PASSED_BYTES, INT64_MAX)
            if reached == position:
                break
            before, position = position, reached
    return before
