"""Looking in the entries of a file for the first that reaches an offset, a time, or both.

    entry 40..44 | entry 45..49 | entry 50..54 | ...      offset 47 -> the second, by headers alone
          9 ms          12 ms          11 ms              11 ms     -> the second, and then the record inside

Where to begin may be a hint out of an index, which is followed where it leads to a batch that may come before the
offset; else all is searched.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from kafkalog._speedups.arguments import INT64_MAX
from kafkalog._speedups.framing import find_file_entry, load_file_entry
from kafkalog.record.decoding import Entries, first_record
from kafkalog.record.framing import Stop
from kafkalog.storage.files.readable_file import became_shorter

if TYPE_CHECKING:
    from kafkalog.storage.segment.file_message_set import FileMessageSet

# Wanted where every offset, or every timestamp, will do.
NO_OFFSET = ANY_TIMESTAMP = -(2**63)

Found = TypeVar("Found")
# A kernel that looks for an entry: what it has found, and how the walk ended.
_Search: TypeAlias = Callable[[int, int, int, int, int, int], tuple[Found | None, int, int, int, int]]


class OffsetPosition(NamedTuple):
    """A batch in a file: its base offset, where it begins (bytes) and its size in bytes."""

    offset: int
    position: int
    size: int


class FoundEntry(NamedTuple):
    """What the header of an entry says: where it begins, its size (bytes), offsets, largest timestamp (ms), format.

    The base offset of a wrapper is -1: only its content tells.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    magic: int


class TimestampAndOffset(NamedTuple):
    """A record found by time: its timestamp (ms), its offset, and its batch's leader epoch (None where it has none)."""

    timestamp: int
    offset: int
    leader_epoch: int | None


def find_entry(entries: "FileMessageSet", start: int, offset: int, hint: int | None = None) -> FoundEntry | None:
    """The first entry that reaches the offset, its header alone; None where none does.

    start: bytes from where the set begins; hint: as `FileMessageSet.search`. CorruptRecordError: damage in the framing.
    """
    row = _reached(entries, find_file_entry, start, (offset, ANY_TIMESTAMP), hint)
    return None if row is None else FoundEntry(*row)


def load_entry(
    entries: "FileMessageSet", start: int, offset: int, timestamp: int = ANY_TIMESTAMP, hint: int | None = None
) -> Entries | None:
    """The first that reaches both, whole. CorruptRecordError: also where the file becomes shorter meanwhile."""
    entry = _reached(entries, load_file_entry, start, (offset, timestamp), hint)
    if entry is None:
        return None
    rows, view, position, size = entry
    if len(view) < size:
        raise became_shorter(entries.path, position, size, len(view))
    return Entries(rows, view, position)


def find_record(
    entries: "FileMessageSet", start: int, offset: int, timestamp: int, hint: int | None
) -> TimestampAndOffset | None:
    """The first record that reaches both; None where none does. What it raises: see `search_timestamp`."""
    offset, timestamp = max(offset, NO_OFFSET), max(timestamp, ANY_TIMESTAMP)
    entry = load_entry(entries, start, offset, timestamp, hint)
    while entry is not None:
        found = first_record(entry, entries._reading, offset, timestamp)
        # All of the batch must be sound, whoever reads the rest; format 0 has no timestamps.
        if found is not None and entry.rows["magic"][0] >= 1:
            epoch = int(entry.rows["partition_leader_epoch"][0])
            return TimestampAndOffset(found[1], found[0], epoch if epoch >= 0 else None)
        following = entry.position + len(entry.view) - entries._first
        entry = load_entry(entries, following, offset, timestamp)
    return None


def _reached(
    entries: "FileMessageSet", kernel: _Search[Found], start: int, wanted: tuple[int, int], hint: int | None
) -> Found | None:
    """What the kernel finds that reaches the offset and the timestamp; a hint that does not hold is not followed."""
    # Both are Java longs.
    if max(wanted) > INT64_MAX:
        return None
    if min(wanted) < NO_OFFSET:
        wanted = max(wanted[0], NO_OFFSET), max(wanted[1], ANY_TIMESTAMP)
    if hint is None or not start:
        found, *stop = _asked(entries, kernel, entries._place(start), wanted, -1)
    else:
        position = entries._first + start
        found, *stop = _asked(entries, kernel, position, wanted, hint)
        if found is None and stop[1] == position:
            found, *stop = _asked(entries, kernel, entries._first, wanted, -1)
    if found is None:
        entries._check_end(Stop(*stop))
    return found


def _asked(
    entries: "FileMessageSet", kernel: _Search[Found], position: int, wanted: tuple[int, int], hint: int
) -> tuple[Found | None, int, int, int, int]:
    end = max(entries._stop(), position)
    try:
        return kernel(entries._file.fileno(), position, end, *wanted, hint)
    except OSError as error:
        raise OSError(error.errno, error.strerror, entries.path) from None
