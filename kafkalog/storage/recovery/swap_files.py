"""Completes or reverts an interrupted replacement of segments in a partition directory.

Segments are replaced (by compaction, or by splitting) in several steps, between which a crash may occur:

    00000000000000000000.log.cleaned    being written; the data is still in the old segments
    00000000000000000000.log.swap       complete; it will replace the old segments from its base offset on
    00000000000000000100.log.deleted    an old segment, marked for deletion

All new files are renamed from `.cleaned` to `.swap`, the highest base offset first, before the first old one is
deleted. So a `.swap` with a `.cleaned` at or below its offset belongs to a replacement whose new files are incomplete:
it is deleted, and the old segments stay. Any other `.swap` is completed: the segments in its range of offsets are
deleted, and it is renamed.

Source: storage/.../internals/log/{LogLoader,LocalLog}.java.
"""

import errno
import logging
import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path

from kafkalog.errors import CorruptRecordError
from kafkalog.record.framing import EndKind
from kafkalog.storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, file_names
from kafkalog.storage.files.durable import sync_directory
from kafkalog.storage.segment.file_message_set import FileMessageSet

_log = logging.getLogger(__name__)
_NUMBER = re.compile(r"([0-9]+)\.")
# A metadata snapshot of KRaft, which only KRaft deletes.
_NOT_OURS = ".checkpoint.deleted"


def settle_leftovers(directory: Path) -> None:
    """Complete or revert an interrupted replacement of segments, and delete files that are marked for deletion.

    Raises:
        CorruptRecordError: A `.log.swap` to complete is incomplete; no file has been changed.
        OSError: A file cannot be read, deleted or renamed.
    """
    deleted, cleaned, swaps = _leftovers(directory)
    completed = completed_swaps([path.name for path in (*cleaned, *swaps)])
    complete = [path for path in swaps if path.name in completed]
    drop = [path for path in swaps if path.name not in completed]
    replaced = _range_of(complete)
    _delete(deleted, logging.INFO, "it was marked for deletion")
    _delete(drop, logging.WARNING, "the replacement of segments was interrupted; the old segments stay")
    if drop:
        # If a crash undid these deletions but not those of the .cleaned files, the swap files would be completed.
        sync_directory(directory)
    _delete(cleaned, logging.WARNING, "it was still being written; the old segments stay")
    if complete:
        _complete(directory, complete, replaced)


def completed_swaps(names: Collection[str]) -> set[str]:
    """Return the names that end in `.swap` of a replacement whose new files are complete: they are put in place."""
    numbered = [name for name in names if _NUMBER.match(name)]
    first_cleaned = min((_offset_of(name) for name in numbered if name.endswith(CLEANED_SUFFIX)), default=1 << 63)
    return {name for name in numbered if name.endswith(SWAP_SUFFIX) and _offset_of(name) < first_cleaned}


def _leftovers(directory: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Return the files that end in `.deleted`, `.cleaned` and `.swap`."""
    deleted, cleaned, swaps = list[Path](), list[Path](), list[Path]()
    for name in file_names(directory):
        if name.endswith(LOG_SUFFIX):
            # Checked before any file is changed, as segments are opened only when they are needed.
            path = os.path.join(directory, name)  # noqa: PTH118 (thousands of Paths take long)
            if not os.access(path, os.R_OK):
                raise PermissionError(errno.EACCES, "no permission to read", path)
        elif name.endswith(DELETED_SUFFIX):
            if not name.endswith(_NOT_OURS):
                deleted.append(directory / name)
        elif name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)):
            if _NUMBER.match(name):
                (cleaned if name.endswith(CLEANED_SUFFIX) else swaps).append(directory / name)
            else:
                _log.warning("%s: ignored: not the name of a segment's file", directory / name)
    return deleted, cleaned, swaps


def _complete(directory: Path, swaps: list[Path], replaced: range) -> None:
    old = [
        directory / name
        for name in file_names(directory)
        if _NUMBER.match(name) and not name.endswith(SWAP_SUFFIX) and _offset_of(name) in replaced
    ]
    _delete(old, logging.WARNING, f"segments at {replaced.start}..{replaced.stop - 1} have been replaced")
    if old:
        # If a crash undid the deletion of an old segment after the rename, its records would be there twice.
        sync_directory(directory)
    for path in sorted(swaps):
        _log.warning("%s: completing the replacement of segments that a crash interrupted", path)
        path.rename(path.with_name(path.name.removesuffix(SWAP_SUFFIX)))
    sync_directory(directory)


def _range_of(swaps: Iterable[Path]) -> range:
    """Return the range of offsets that the swap files replace: from the smallest base offset to the last offset.

    Raises:
        CorruptRecordError: A file does not end with a batch, so its range is unknown.
    """
    logs = [path for path in swaps if path.name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    if not logs:
        return range(0)
    return range(min(_offset_of(path.name) for path in logs), max(map(_next_offset, logs)))


def _next_offset(path: Path) -> int:
    with FileMessageSet(path) as log:
        kind, position = log.end_of_data
        if kind is not EndKind.END:
            raise CorruptRecordError(
                f"a swap file ends in a {kind.value} tail",
                str(path),
                position,
                "the end of the file",
                f"{log.size_in_bytes - position} bytes more",
            )
        last = log.last_offset()
    return _offset_of(path.name) if last is None else last + 1


def _offset_of(name: str) -> int:
    number = _NUMBER.match(name)
    assert number is not None
    return int(number[1])


def _delete(paths: Iterable[Path], level: int, why: str) -> None:
    for path in paths:
        _log.log(level, "%s: deleted with its %d bytes: %s", path, path.stat().st_size, why)
        path.unlink(missing_ok=True)
