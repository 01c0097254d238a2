"""`LastBatch`: the batch that an iterator has read last; it shows whether the log was truncated before it.

    read           0..4 | 5..9
    log now        0..4 | 5..6 | 7..12        truncated to 5 and appended to again: 5..9 is not in it any more

Offsets and sizes may be the same again after a truncation, but not the header of a batch, which has its checksum.
Compaction and retention replace and delete whole files, and never the batches at the end of the log. So if the batch is
no longer at its position, it is compared with the batch that has its offset now: compaction keeps the offsets of a
batch, and removes records.
"""

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from struct import Struct

import numpy as np

from kafkalog.attributes import DELETE_HORIZON_BIT
from kafkalog.record.layout import LOG_OVERHEAD
from kafkalog.storage.file_names import LOG_SUFFIX, offset_file
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.segment.log_segments import LogSegments

# Offset, size, the checksum of formats 0 and 1, the format, and the checksum of format 2.
_START = Struct(">qiIbI")


class LastBatch:
    """A batch that was read.

    Attributes:
        base_offset: The base offset of its segment.
    """

    def __init__(self, directory: Path, base_offset: int, row: np.void, file: int | ByteSource) -> None:
        """Note the batch.

        Args:
            directory: The partition directory.
            base_offset: The base offset of its segment.
            row: Its row of the header table.
            file: The descriptor of the file in which it was read; it stays open. A file in a store does not change.
        """
        self.base_offset = base_offset
        self._directory = directory
        self._row = row
        self._file = file

    @property
    def position(self) -> int:
        """Its position in the file."""
        return int(self._row["position"])

    @property
    def end(self) -> int:
        """The position of the next batch."""
        return self.position + int(self._row["size_in_bytes"])

    @property
    def last_offset(self) -> int:
        """The offset of its last record."""
        return int(self._row["last_offset"])

    @cached_property
    def path(self) -> Path:
        """The path of the segment's file. A segment's own path changes when its file is renamed."""
        return offset_file(self._directory, self.base_offset, LOG_SUFFIX)

    @property
    def is_in_place(self) -> bool:
        """Whether the segment has the batch at its position."""
        return self._in_segment()[0]

    def was_cut_off(self, segments: Callable[[], LogSegments], *, is_last: bool = False) -> bool:
        """Return whether a truncation removed this batch; False if compaction or retention did.

        Args:
            segments: Returns the current segments.
            is_last: This batch was the last of its segment: a truncation also removed it if the segment goes on now.
        """
        is_in_place, size = self._in_segment()
        if is_in_place:
            return is_last and size > self.end
        # The file in which it was read tells it also if that was deleted after it was truncated.
        is_there = not isinstance(self._file, int) or self._in_file(self._file)[0]
        return not is_there or self._was_replaced(segments())

    def _in_segment(self) -> tuple[bool, int]:
        """Return whether the segment has the batch at its position, and the size of the segment."""
        if not isinstance(self._file, int):
            return True, 0
        try:
            fd = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return False, 0
        try:
            return self._in_file(fd)
        finally:
            os.close(fd)

    def _in_file(self, fd: int) -> tuple[bool, int]:
        """Return whether a file has the batch at its position, and the size of the file."""
        start, size = os.pread(fd, _START.size, self.position), os.fstat(fd).st_size
        if len(start) < _START.size:
            return False, size
        row, (offset, length, old_checksum, magic, checksum) = self._row, _START.unpack(start)
        is_old = row["magic"] < 2
        found = offset, length + LOG_OVERHEAD, magic, old_checksum if is_old else checksum
        first = self.last_offset if is_old else row["base_offset"]
        return bool(found == (first, row["size_in_bytes"], row["magic"], row["checksum"])), size

    def _was_replaced(self, segments: LogSegments) -> bool:
        before, last = self._row, self.last_offset
        segment = segments.floor(last)
        if segment is None:
            return False
        entries = segment.entries_from(last)
        rows, _ = entries._scan(entries._start, rows=1, span=-1)
        if not len(rows):
            # No batch reaches its offset. Compaction removes none at the end of the log.
            return segment is segments.last
        found = rows[0]
        if found["base_offset"] > last or (found["magic"] < 2 and found["compression_type"]):
            return False
        if (found["base_offset"], found["last_offset"]) != (before["base_offset"], last):
            return True
        is_compacted = found["records_count"] < before["records_count"] or found["attributes"] & DELETE_HORIZON_BIT
        return bool(found["checksum"] != before["checksum"] and not is_compacted)
