"""Replacement of segments, such that a crash at any moment leaves either the old or the new ones.

An index stores offsets in 31 bits, relative to the segment's base offset. Brokers before 2.0 could write segments whose
offsets exceed that. Such a segment is split into several, each with the base offset of its first batch:

    00000000000000000000.log                offsets 0 .. 9, 3_000_000_000 .. 3_000_000_009
    00000000000000000000.log.cleaned        offsets 0 .. 9                            written and flushed
    00000000003000000000.log.cleaned        offsets 3_000_000_000 .. 3_000_000_009
    ... .log.swap                           highest base first; once all are renamed, they are valid (see `swap_files`)
    00000000000000000000.log.deleted        the old segment, deleted after file.delete.delay.ms
    ... .log                                in place

Source: `splitOverflowedSegment`, `replaceSegments`, `deleteSegmentFiles` in storage/.../internals/log/LocalLog.java.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kafkalog._speedups.decompress import DEFAULT_LIMIT
from kafkalog.errors import CorruptRecordError
from kafkalog.record.framing import headers_of
from kafkalog.storage.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file,
)
from kafkalog.storage.files.durable import sync_directory
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.scheduler import Scheduler
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.log_segments import LogSegments

_log = logging.getLogger(__name__)
_LARGEST_RELATIVE_OFFSET = 2**31 - 1
_BASE_OFFSET = attrgetter("base_offset")


@dataclass(frozen=True, kw_only=True)
class SegmentHome:
    """The context of a partition's segments: where they are, and how they are created and deleted.

    Attributes:
        directory: The partition directory.
        config: The settings of the topic.
        scheduler: Deletes files later.
        clock: Returns the current time, ms.
        decompression_limit: The most bytes that one batch may decompress to.
    """

    directory: Path
    config: LogConfig
    scheduler: Scheduler
    clock: Callable[[], int]
    decompression_limit: int = DEFAULT_LIMIT

    def segment(self, base_offset: int, *, file_already_exists: bool = False, suffix: str = "") -> LogSegment:
        """Open a segment for writing.

        Args:
            base_offset: The base offset.
            file_already_exists: False creates the `.log` file now, if it is missing; it is preallocated if the settings
                require it.
            suffix: Added to every file name, such as `.cleaned`.

        Raises:
            OSError: The file cannot be created.
        """
        segment = LogSegment(
            base_offset,
            offset_file(self.directory, base_offset, LOG_SUFFIX + suffix),
            sealed=False,
            writable=True,
            config=self.config,
            clock=self.clock,
            decompression_limit=self.decompression_limit,
        )
        if not file_already_exists:
            segment.open_writer()
        return segment


def delete_segment_files(segments: Collection[LogSegment], home: SegmentHome) -> None:
    """Rename the segments' files to `.deleted`, and schedule their deletion after file.delete.delay.ms.

    Current readers can use the files until then.

    Raises:
        OSError: A file was not renamed.
    """
    for segment in segments:
        if not segment.path.name.endswith(DELETED_SUFFIX):
            segment.change_file_suffixes("", DELETED_SUFFIX)
        segment.retire()

    def delete() -> None:
        for segment in segments:
            segment.delete_if_exists()

    home.scheduler.schedule("delete segment files", delete, home.config.file_delete_delay_ms)


def split_overflowed_segment(segment: LogSegment, segments: LogSegments, home: SegmentHome) -> list[LogSegment]:
    """Replace `segment` by several with the same bytes, such that the offsets of each fit its index.

    Returns:
        The old segment, unless a new one has its base offset.

    Raises:
        CorruptRecordError: The last offset of a batch is below its base offset.
        OSError: A file was not written or renamed. The segment is unchanged, or the next loading of the log completes
            the replacement.
    """
    _log.warning("%s: splitting the segment, because its offsets exceed the range of an index", segment.path)
    pieces: list[LogSegment] = []
    try:
        _copy_into_pieces(segment, pieces, home)
        _finish(pieces, segment.path.stat().st_mtime_ns)
    except BaseException:
        for piece in pieces:
            piece.release()
            piece.delete_if_exists()
        raise
    try:
        return replace_segments(segments, pieces, [segment], home)
    except BaseException:
        # They stay, whatever their names are by now: the old segment may be gone.
        for piece in pieces:
            piece.release()
        raise


def replace_segments(
    segments: LogSegments, new: Sequence[LogSegment], old: Sequence[LogSegment], home: SegmentHome
) -> list[LogSegment]:
    """Replace `old` segments by `new` ones, whose files are `.cleaned`. The old files are deleted later.

    Returns:
        The old segments whose base offset no segment has now.

    Raises:
        OSError: A file was not renamed. The next loading of the log completes or reverts the replacement.
    """
    in_order, old = sorted(new, key=_BASE_OFFSET), sorted(old, key=_BASE_OFFSET)
    for segment in reversed(in_order):
        segment.change_file_suffixes(CLEANED_SUFFIX, SWAP_SUFFIX)
    bases = {segment.base_offset for segment in in_order}
    gone = [segment for segment in old if segment.base_offset not in bases]
    for segment in gone:
        segments.remove(segment.base_offset)
    for segment in reversed(in_order):
        segments.add(segment)
    for segment in old:
        delete_segment_files([segment], home)
    for segment in in_order:
        segment.change_file_suffixes(SWAP_SUFFIX, "")
    sync_directory(home.directory)
    return gone


def _copy_into_pieces(segment: LogSegment, pieces: list[LogSegment], home: SegmentHome) -> None:
    """Copy all bytes of `segment` to new segments, which are added to `pieces`."""
    position = 0
    for run in _sound_runs(segment):
        rows = run
        while len(rows):
            count = _fitting(rows, pieces[-1].base_offset) if pieces else 0
            if not count:
                pieces.append(_new_piece(segment, position, home))
                count = _fitting(rows, pieces[-1].base_offset)
            if not count:
                what = "the last offset of a batch is below its base offset"
                raise CorruptRecordError(what, str(segment.path), position)
            length = int(rows["size_in_bytes"][:count].sum())
            pieces[-1].append(segment.log._view(position, length), headers_of(rows[:count]))
            position, rows = position + length, rows[count:]
    # A torn tail, or damage: recovery finds it in the last new segment and decides.
    if position < segment.size_in_bytes:
        pieces[-1].log.append(segment.log.read(position, segment.size_in_bytes - position))


def _sound_runs(segment: LogSegment) -> Iterator[NDArray[np.void]]:
    """Yield the header tables of valid batches up to damage or the end."""
    try:
        yield from segment.log.header_runs()
    except CorruptRecordError as error:
        _log.warning("%s; the bytes from there on are copied unchanged", error)


def _fitting(rows: NDArray[np.void], base_offset: int) -> int:
    """Return how many of the first rows have offsets that fit a segment with this base offset."""
    relative = rows["last_offset"] - base_offset
    too_far = (relative < 0) | (relative > _LARGEST_RELATIVE_OFFSET)
    return int(too_far.argmax()) if too_far.any() else len(rows)


def _new_piece(segment: LogSegment, position: int, home: SegmentHome) -> LogSegment:
    """Create the new segment that begins with the batch at `position`."""
    base_offset = next(segment.log.batches(position)).base_offset
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
        offset_file(home.directory, base_offset, suffix + CLEANED_SUFFIX).unlink(missing_ok=True)
    return home.segment(base_offset, suffix=CLEANED_SUFFIX)


def _finish(pieces: Sequence[LogSegment], mtime_ns: int) -> None:
    """Flush the new segments and give them the mtime of the old one."""
    for piece in pieces:
        piece.on_become_inactive_segment()
        piece.flush()
        for path in (piece.path, piece.index_path(INDEX_SUFFIX), piece.index_path(TIME_INDEX_SUFFIX)):
            os.utime(path, ns=(mtime_ns, mtime_ns))
