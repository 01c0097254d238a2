"""Files that an interrupted replacement of segments has left in a partition directory, completed or dropped.

Segments are replaced (by compaction, or by splitting) in steps that a crash may fall between:

    00000000000000000000.log.cleaned    being written; the data is still in the old segments
    00000000000000000000.log.swap       whole, and to take the place of the old segments from its base offset on
    00000000000000000100.log.deleted    an old segment on its way out

All new files are renamed from `.cleaned` to `.swap` before the first old one goes, the highest base offset first. So a
`.swap` with a `.cleaned` at or below it belongs to a replacement whose new files are not all there: it is dropped, and
the old segments stay. Any other `.swap` is completed: segments in its range of offsets go, and it takes their place.

Source: storage/.../internals/log/{LogLoader,LocalLog}.java.
"""

import errno
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kafkalog.errors import CorruptRecordError
from kafkalog.record.framing import EndKind
from kafkalog.storage.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, file_names
from kafkalog.storage.files.durable import sync_directory
from kafkalog.storage.segment.file_message_set import FileMessageSet

_log = logging.getLogger(__name__)
_NUMBER = re.compile(r"([0-9]+)\.")
# A metadata snapshot of KRaft: whoever keeps that log decides about it.
_NOT_OURS = ".checkpoint.deleted"


@dataclass
class _Leftovers:
    deleted: list[Path] = field(default_factory=list)
    cleaned: list[Path] = field(default_factory=list)
    swaps: list[Path] = field(default_factory=list)

    def split_swaps(self) -> tuple[list[Path], list[Path]]:
        """The swap files to complete, and those to drop."""
        first_cleaned = min((_offset_of(path.name) for path in self.cleaned), default=None)
        if first_cleaned is None:
            return self.swaps, []
        complete = [path for path in self.swaps if _offset_of(path.name) < first_cleaned]
        return complete, [path for path in self.swaps if _offset_of(path.name) >= first_cleaned]


def settle_leftovers(directory: Path) -> None:
    """Complete or drop whatever an interrupted replacement left; delete what was marked for deletion.

    CorruptRecordError: a `.log.swap` to complete is not whole; nothing has been changed then. OSError: a file cannot
    be read, deleted or renamed.
    """
    leftovers = _leftovers(directory)
    complete, drop = leftovers.split_swaps()
    replaced = _range_of(complete)
    _delete(leftovers.deleted, logging.INFO, "had been marked for deletion")
    _delete(drop, logging.WARNING, "its replacement of segments had not come so far; the old segments stay")
    if drop:
        # Were the .cleaned files gone and these not, they would count as whole.
        sync_directory(directory)
    _delete(leftovers.cleaned, logging.WARNING, "was still being written; the old segments stay")
    if complete:
        _complete(directory, complete, replaced)


def _leftovers(directory: Path) -> _Leftovers:
    found = _Leftovers()
    for name in file_names(directory):
        if name.endswith(LOG_SUFFIX):
            # Before anything is changed: a segment is opened only when it is needed, and that may be long after.
            _check_readable(os.path.join(directory, name))  # noqa: PTH118 (a Path for each of thousands takes its time)
        elif name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)):
            _sort_in(found, directory / name)
    return found


def _check_readable(path: str) -> None:
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, "cannot be read", path)


def _sort_in(found: _Leftovers, path: Path) -> None:
    if path.name.endswith(DELETED_SUFFIX):
        if not path.name.endswith(_NOT_OURS):
            found.deleted.append(path)
    elif _NUMBER.match(path.name) is None:
        _log.warning("%s: no segment's file; left alone", path)
    elif path.name.endswith(CLEANED_SUFFIX):
        found.cleaned.append(path)
    else:
        found.swaps.append(path)


def _complete(directory: Path, swaps: list[Path], replaced: range) -> None:
    old = [
        directory / name
        for name in file_names(directory)
        if _NUMBER.match(name) and not name.endswith(SWAP_SUFFIX) and _offset_of(name) in replaced
    ]
    _delete(old, logging.WARNING, f"segments at {replaced.start}..{replaced.stop - 1} have been replaced")
    if old:
        # An old segment that came back behind its successor would give its records twice.
        sync_directory(directory)
    for path in sorted(swaps):
        _log.warning("%s: takes its place, as the replacement that a crash cut off would have had it", path)
        path.rename(path.with_name(path.name.removesuffix(SWAP_SUFFIX)))
    sync_directory(directory)


def _range_of(swaps: Iterable[Path]) -> range:
    """The offsets that the swapped segments stand for: from the least base offset to the last offset.

    CorruptRecordError: a file does not end with a batch, so that its range is not known.
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
                f"a segment that is to replace others ends in a {kind.value} tail",
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
