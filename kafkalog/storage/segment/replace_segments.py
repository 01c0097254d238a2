"""Segments taken out of a log and put in its place, so that a crash at any moment leaves either the old or the new.

An index holds offsets as 31 bits relative to its segment's base. A segment whose offsets outgrow that, as brokers
before 2.0 could write them, is split into as many as it takes, each based at its first batch:

    00000000000000000000.log                offsets 0 .. 9, 3_000_000_000 .. 3_000_000_009
    00000000000000000000.log.cleaned        offsets 0 .. 9                            written and flushed
    00000000003000000000.log.cleaned        offsets 3_000_000_000 .. 3_000_000_009
    ... .log.swap                           highest base first; once all are, the new ones count (see `swap_files`)
    00000000000000000000.log.deleted        the old one, deleted after file.delete.delay.ms
    ... .log                                in place

Source: `splitOverflowedSegment`, `replaceSegments`, `deleteSegmentFiles` in storage/.../internals/log/LocalLog.java.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkalog.errors import CorruptRecordError
from kafkalog.record.decompress import DEFAULT_LIMIT
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
from kafkalog.storage.segment.log_segment import LogSegment, spans_of
from kafkalog.storage.segment.log_segments import LogSegments

_log = logging.getLogger(__name__)
_LARGEST_RELATIVE_OFFSET = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SegmentHome:
    """Where the segments of a partition lie, how they are made, and who deletes their files. clock: ms.

    decompression_limit: bytes that one batch may decompress to.
    """

    directory: Path
    config: LogConfig
    scheduler: Scheduler
    clock: Callable[[], int]
    decompression_limit: int = DEFAULT_LIMIT

    def segment(
        self, base_offset: int, *, file_already_exists: bool = False, sealed: bool = False, suffix: str = ""
    ) -> LogSegment:
        """As `LogSegment.open`."""
        return LogSegment.open(
            self.directory,
            base_offset,
            self.config,
            clock=self.clock,
            sealed=sealed,
            file_already_exists=file_already_exists,
            suffix=suffix,
            decompression_limit=self.decompression_limit,
        )


class SplitSegment(NamedTuple):
    """What came of splitting: the segments in place of the old one; and that one, unless one has its base offset."""

    deleted: list[LogSegment]
    segments: list[LogSegment]


def delete_segment_files(segments: Collection[LogSegment], home: SegmentHome) -> None:
    """Rename the segments' files to `.deleted` now, and have the scheduler delete them after file.delete.delay.ms.

    Whoever still reads them may go on until then. OSError: a file cannot be renamed.
    """
    for segment in segments:
        if not segment.has_suffix(DELETED_SUFFIX):
            segment.change_file_suffixes("", DELETED_SUFFIX)
        segment.retire()

    def delete() -> None:
        for segment in segments:
            segment.delete_if_exists()

    home.scheduler.schedule("delete segment files", delete, home.config.file_delete_delay_ms)


def split_overflowed_segment(segment: LogSegment, segments: LogSegments, home: SegmentHome) -> SplitSegment:
    """Put in the place of `segment` as many as it takes for every offset to fit, with the same bytes in all.

    ValueError: its offsets fit. CorruptRecordError: a batch ends before it begins. OSError: a file cannot be written;
    the segment is as it was.
    """
    if not segment.has_overflow:
        raise ValueError(f"the offsets of {segment.path} fit: there is nothing to split")
    _log.warning("%s: its offsets are too far apart for one segment; it is split", segment.path)
    pieces: list[LogSegment] = []
    try:
        _copy_into_pieces(segment, pieces, home)
        _finish(pieces, segment.path.stat().st_mtime_ns)
        return SplitSegment(replace_segments(segments, pieces, [segment], home), pieces)
    except BaseException:
        for piece in pieces:
            segments.remove(piece.base_offset)
            piece.release()
            piece.delete_if_exists()
        raise


def replace_segments(
    segments: LogSegments, new: Sequence[LogSegment], old: Sequence[LogSegment], home: SegmentHome
) -> list[LogSegment]:
    """Put segments whose files are `.cleaned` in the place of old ones, whose files are deleted later.

    Returns the old ones at whose base offset there is no segment any more. OSError: a file cannot be renamed; what has
    been done by then, loading the log completes.
    """
    in_order = sorted(new, key=_base_offset)
    for segment in reversed(in_order):
        segment.change_file_suffixes(CLEANED_SUFFIX, SWAP_SUFFIX)
    bases = {segment.base_offset for segment in in_order}
    gone = [segment for segment in sorted(old, key=_base_offset) if segment.base_offset not in bases]
    for segment in gone:
        segments.remove(segment.base_offset)
    for segment in reversed(in_order):
        segments.add(segment)
    for segment in sorted(old, key=_base_offset):
        delete_segment_files([segment], home)
    for segment in in_order:
        segment.change_file_suffixes(SWAP_SUFFIX, "")
    sync_directory(home.directory)
    return gone


def _base_offset(segment: LogSegment) -> int:
    return segment.base_offset


def _copy_into_pieces(segment: LogSegment, pieces: list[LogSegment], home: SegmentHome) -> None:
    position = 0
    for run in _sound_runs(segment):
        rows = run
        while len(rows):
            count = _fitting(rows, pieces[-1].base_offset) if pieces else 0
            if not count:
                pieces.append(_new_piece(segment, position, home))
                count = _fitting(rows, pieces[-1].base_offset)
            position += _copy(segment, position, rows[:count], pieces[-1])
            rows = rows[count:]
    # A torn tail, or damage: recovery finds it in the last piece and decides.
    if position < segment.size_in_bytes:
        pieces[-1].log.append(segment.log.read(position, segment.size_in_bytes - position))


def _copy(segment: LogSegment, position: int, rows: NDArray[np.void], piece: LogSegment) -> int:
    if not len(rows):
        raise CorruptRecordError("a batch ends before it begins", str(segment.path), position)
    length = int(rows["size_in_bytes"].sum())
    piece.append(int(rows["last_offset"][-1]), segment.log.read(position, length), spans_of(rows))
    return length


def _sound_runs(segment: LogSegment) -> Iterator[NDArray[np.void]]:
    try:
        yield from segment.log.header_runs()
    except CorruptRecordError as error:
        _log.warning("%s; what follows is kept as it is", error)


def _fitting(rows: NDArray[np.void], base_offset: int) -> int:
    """How many of the first rows have offsets that a segment of this base may hold."""
    relative = rows["last_offset"] - base_offset
    too_far = (relative < 0) | (relative > _LARGEST_RELATIVE_OFFSET)
    return int(too_far.argmax()) if too_far.any() else len(rows)


def _new_piece(segment: LogSegment, position: int, home: SegmentHome) -> LogSegment:
    base_offset = next(segment.log.batches(position)).base_offset
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
        offset_file(home.directory, base_offset, suffix + CLEANED_SUFFIX).unlink(missing_ok=True)
    return home.segment(base_offset, suffix=CLEANED_SUFFIX)


def _finish(pieces: Sequence[LogSegment], mtime_ns: int) -> None:
    for piece in pieces:
        piece.on_become_inactive_segment()
        piece.flush()
        for path in (piece.path, piece.index_path(INDEX_SUFFIX), piece.index_path(TIME_INDEX_SUFFIX)):
            os.utime(path, ns=(mtime_ns, mtime_ns))
