"""The segments of a directory that somebody else may be writing to, and where the log in it ends.

    listed    0.log | 40.log | 80.log (active)            as the directory was when it last changed
    measured                 |====================>       whole batches of the active one, as far as they were read

A broker rolls, deletes and truncates segments meanwhile: the directory is listed again when its time has changed, and
the active segment is read on from where it ended, or again if it became shorter.

A directory in a store has no such time, and a listing is one request, which tells all sizes: it is listed again when
the last listing is some seconds old. A file in it never changes; another one may take its place, of another size. So
little of it is read as can be: the end is looked for from where the offset index leads, and damage before that is for
who reads it to find.
"""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.framing import find_file_entry
from kafkalog.errors import KafkaLogError, LogStateError
from kafkalog.record import decompress
from kafkalog.record.message_set import RUN_ROWS
from kafkalog.storage.checkpoint.checkpoint_file import SETTLED_NS
from kafkalog.storage.file_names import segment_files
from kafkalog.storage.files.readable_file import ReadableFile
from kafkalog.storage.index.offset_index import OffsetEntry
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.remote_path import BELIEVED_SECONDS, RemotePath
from kafkalog.storage.segment.file_message_set import FileMessageSet
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

# Entries are passed over in pieces of so many bytes, cut wherever that is.
_PASSED_BYTES = 16 << 20

# Its size in bytes and the time of its last change, ns.
FileVersion = tuple[int, int]


class SegmentListing:
    """The segments of `directory`, read-only. Any thread may ask; copies list the directory for themselves."""

    def __init__(self, directory: Path, decompression_limit: int = decompress.DEFAULT_LIMIT) -> None:
        """OSError: the directory cannot be listed."""
        self.directory = directory
        self._decompression_limit = decompression_limit
        self._lock = threading.Lock()
        # Of one in a store, when it was listed; else when it had last changed then.
        self._listed_at = -1
        self._closed = False
        self._segments = LogSegments()
        # Where the active segment ended when it was last measured, where its last batch begins, and what the file was.
        self._end: tuple[LogSegment, LogOffsetMetadata, int, FileVersion | None] | None = None
        self._list()

    def segments(self) -> LogSegments:
        """The segments as they are now. LogStateError: the listing has been closed. OSError: the directory has gone."""
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
        """Whether it has been closed."""
        return self._closed

    def _list(self) -> None:
        is_remote = isinstance(self.directory, RemotePath)
        changed_at = time.monotonic_ns() if is_remote else self.directory.stat().st_mtime_ns
        files = segment_files(self.directory)
        kept = {self._key(each.base_offset, each.path, sealed=each.sealed): each for each in self._segments.values}
        last = len(files) - 1
        self._segments = LogSegments(
            kept.get(self._key(base, path, sealed=i < last)) or self._segment(base, path, sealed=i < last)
            for i, (base, path) in enumerate(files)
        )
        settled = is_remote or time.time_ns() - changed_at > SETTLED_NS
        self._listed_at = changed_at if settled else -1

    @staticmethod
    def _key(base: int, path: Path, *, sealed: bool) -> tuple[int, bool, int]:
        """What tells a segment from another in its place: in a store, which does not change files, the size too."""
        return base, sealed, path.stat().st_size if isinstance(path, RemotePath) else 0

    def _segment(self, base: int, path: Path, *, sealed: bool) -> LogSegment:
        return LogSegment(base, path, sealed=sealed, decompression_limit=self._decompression_limit)

    def end(self, log_start_offset: int) -> LogOffsetMetadata:
        """Where the next record will go: after the last whole batch, up to damage if there is any."""
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
        end, last = self._measured_before(active)
        more, log, offset = True, active.log, end.message_offset
        position = _near_end(log, end.relative_position_in_segment)
        while more:
            rows, stop = log._scan(position, rows=RUN_ROWS, span=-1)
            if len(rows):
                offset, last = int(rows["last_offset"][-1]) + 1, int(rows["position"][-1])
            position, more = stop.position, stop.more
        end = LogOffsetMetadata(offset, active.base_offset, position)
        self._end = active, end, last, version
        return end

    def _measured_before(self, active: LogSegment) -> tuple[LogOffsetMetadata, int]:
        """The end that is known, and where the last batch before it begins; or the start of the segment.

        A segment that was cut may have grown longer again since: the batch before the end is looked at.
        """
        start = LogOffsetMetadata(active.base_offset, active.base_offset, 0)
        if isinstance(active.path, RemotePath):
            near = _last_indexed(active)
            return LogOffsetMetadata(near.offset, active.base_offset, near.position), near.position
        if self._end is None or self._end[0] is not active or self._end[1].relative_position_in_segment > active.size:
            return start, 0
        _, end, last, _ = self._end
        try:
            found = active.log.first_entry(last) if end.relative_position_in_segment else None
        except (KafkaLogError, ValueError):
            return start, 0
        same = found is not None and (found.position + found.size, found.last_offset + 1) == (
            end.relative_position_in_segment,
            end.message_offset,
        )
        return (end, last) if same else (start, 0)

    def close(self) -> None:
        """Close the files, for good."""
        self._closed = True
        self._segments.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_lock", "_end")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__ |= state
        self._lock = threading.Lock()
        self._end = None
        # The clock is another there.
        self._listed_at = -1


def _last_indexed(segment: LogSegment) -> OffsetEntry:
    """Return the last entry of the offset index that leads to a batch of the segment, or else the segment's start."""
    entry = segment.offset_index.last_entry
    start = OffsetEntry(segment.base_offset, 0)
    try:
        found = segment.log.search(entry.offset, entry.position, hint=entry.offset) if entry.position else None
    except (KafkaLogError, ValueError):
        return start
    return start if found is None or found.position < entry.position else OffsetEntry(found.offset, found.position)


def _version_of(log: FileMessageSet) -> FileVersion | None:
    """Return the size and time of a file, which change with its bytes; None while its time is too recent to tell."""
    if not isinstance(log._file, ReadableFile):
        return log.size_in_bytes, 0
    status = os.fstat(log._file.fileno())
    settled = time.time_ns() - status.st_mtime_ns > SETTLED_NS
    return (status.st_size, status.st_mtime_ns) if settled else None


def _near_end(log: FileMessageSet, position: int) -> int:
    """Where an entry begins in front of which, from `position` on, all is whole, and behind which there are more.

    No rows are made of what is passed over, which takes half the time. What the walk ends in, the caller sees to.
    """
    before, source = position, log._file.scanned
    # OSError: it is met, and told, when rows are made from there.
    with suppress(OSError):
        while position + _PASSED_BYTES < log.size_in_bytes:
            _, _, reached, _, _ = find_file_entry(source, position, position + _PASSED_BYTES, INT64_MAX)
            if reached == position:
                break
            before, position = position, reached
    return before
