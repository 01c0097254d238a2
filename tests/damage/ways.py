"""Ways to damage a data directory, of which `kinds.py` makes kinds: functions that return a `Damage`.

A damage takes the data directory and the name of a partition in it, and changes files in place, always in the same way.
It raises CannotDamage where the partition has not got what it damages.
"""

from __future__ import annotations

import random
import re
import shutil
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from kafkalog.storage.file_names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from tests.helpers.damage_kinds import places_of

Damage: TypeAlias = Callable[[Path, str], None]
# Takes the bytes of a segment and the positions of its batches, the end of the last one included.
LogChange: TypeAlias = Callable[[bytes, list[int]], bytes]
Change: TypeAlias = Callable[[bytes], bytes]
TextChange: TypeAlias = Callable[[str], str]

FIRST, MIDDLE, ACTIVE = "first", "middle", "active"
"""Segments: the oldest one, one between others, the one that is appended to."""
BEYOND = 99_999
"""An offset beyond the end of every log."""
TEXT = b"The quick brown fox jumps over the lazy dog.\n"
LOG_AND_INDEXES = (".log", ".index", ".timeindex", ".txnindex")
HEX = "0123456789abcdef0123456789abcdef"


class CannotDamage(Exception):
    """The partition has not got what is to be damaged; the text says what."""


# --- segments


def segments(directory: Path) -> list[Path]:
    """Return the `.log` files of a partition in the order of their offsets."""
    return sorted(directory.glob("*.log"))


def segment(directory: Path, which: str) -> Path:
    """Return the `.log` file meant by FIRST, MIDDLE or ACTIVE, which has at least one batch."""
    logs = segments(directory)
    if not logs or (which != ACTIVE and len(logs) < 3):
        raise CannotDamage(f"{directory.name} has {len(logs)} segments")
    found = {FIRST: logs[0], MIDDLE: logs[len(logs) // 2], ACTIVE: logs[-1]}[which]
    if not found.stat().st_size:
        raise CannotDamage(f"{found} is empty")
    return found


def files_of(directory: Path, suffix: str) -> list[Path]:
    """Return the partition's files of one kind in the order of their offsets."""
    found = sorted(directory.glob(f"*{suffix}"))
    if not found:
        raise CannotDamage(f"{directory.name} has no {suffix}")
    return found


def log_bytes(which: str, change: LogChange) -> Damage:
    """Change the bytes of a segment."""

    def damage(data: Path, partition: str) -> None:
        log = segment(data / partition, which)
        content = log.read_bytes()
        log.write_bytes(change(content, places_of(content)))

    return damage


def batch_bytes(which: str, change: Change) -> Damage:
    """Change the bytes of the batch in the middle of a segment, of the second one at least."""
    return log_bytes(which, lambda data, places: _exchanged(data, *middle_batch(places), change))


def _exchanged(data: bytes, start: int, end: int, change: Change) -> bytes:
    return data[:start] + change(data[start:end]) + data[end:]


def middle_batch(places: list[int]) -> tuple[int, int]:
    """Return start and end of the batch in the middle of a segment, which is not its first one."""
    if len(places) < 3:
        raise CannotDamage("a segment of one batch")
    i = max(1, (len(places) - 1) // 2)
    return places[i], places[i + 1]


def at(position: int, new: bytes) -> Change:
    """Overwrite bytes, from the end where the position is negative."""

    def change(data: bytes) -> bytes:
        start = position % len(data)
        return data[:start] + new + data[start + len(new) :]

    return change


def flip(position: int) -> Change:
    """Flip one bit of a byte."""
    return lambda data: at(position, bytes([data[position] ^ 0x10]))(data)


def torn(data: bytes, places: list[int]) -> bytes:
    """Cut the last batch in the middle."""
    return data[: (places[-2] + places[-1]) // 2]


def last_cut_off(data: bytes, places: list[int]) -> bytes:
    return data[: places[-2]]


def last_flipped(data: bytes, places: list[int]) -> bytes:
    return flip(-3)(data)


def swapped(data: bytes, places: list[int]) -> bytes:
    """Exchange the batch in the middle with the one before it."""
    start, end = middle_batch(places)
    before = places[places.index(start) - 1]
    return data[:before] + data[start:end] + data[before:start] + data[end:]


def repeated(data: bytes, places: list[int]) -> bytes:
    """Write the batch in the middle twice."""
    start, end = middle_batch(places)
    return data[:end] + data[start:end] + data[end:]


def without_segment(which: str, *suffixes: str) -> Damage:
    """Remove files of a segment."""

    def damage(data: Path, partition: str) -> None:
        log = segment(data / partition, which)
        for suffix in suffixes:
            log.with_suffix(suffix).unlink(missing_ok=True)

    return damage


def without_any(*suffixes: str) -> Damage:
    """Remove all files of these kinds from the partition."""

    def damage(data: Path, partition: str) -> None:
        for suffix in suffixes:
            for path in files_of(data / partition, suffix):
                path.unlink()

    return damage


def renamed_segment(by: int) -> Damage:
    """Give a segment and its indexes another base offset."""

    def damage(data: Path, partition: str) -> None:
        log = segment(data / partition, MIDDLE)
        for suffix in LOG_AND_INDEXES:
            path = log.with_suffix(suffix)
            if path.exists():
                path.rename(path.with_name(f"{int(path.stem) + by:020}{suffix}"))

    return damage


def overlapping(data: Path, partition: str) -> None:
    """Write the second half of a segment as a segment of its own, beside the whole one."""
    log = segment(data / partition, MIDDLE)
    content = log.read_bytes()
    start, _ = middle_batch(places_of(content))
    (base,) = struct.unpack_from(">q", content, start)
    log.with_name(f"{base:020}.log").write_bytes(content[start:])


def foreign_segment(data: Path, partition: str) -> None:
    """Put the bytes of another segment of the partition, a later one, in the place of a segment."""
    log = segment(data / partition, MIDDLE)
    log.write_bytes(segments(log.parent)[-2].read_bytes())


def link(target: str) -> Damage:
    """Put a link in the place of a segment; `target` is a name beside the data directory.

    An empty one: the segment's bytes are moved there first, so the link leads to them.
    """

    def damage(data: Path, partition: str) -> None:
        log = segment(data / partition, MIDDLE)
        aside = data.with_name(target or f"{data.name}-aside-{partition}.log")
        if target:
            log.unlink()
        else:
            shutil.move(log, aside)
        log.symlink_to(aside)

    return damage


def mode(bits: int, which: str | None = None) -> Damage:
    """Set the mode of a segment, or of the partition's directory."""

    def damage(data: Path, partition: str) -> None:
        (segment(data / partition, which) if which else data / partition).chmod(bits)

    return damage


def directory_in_place_of_log(data: Path, partition: str) -> None:
    log = segment(data / partition, MIDDLE)
    log.unlink()
    log.mkdir()


# --- indexes and snapshots


def index(suffix: str, which: str, change: Change) -> Damage:
    """Change the bytes of a segment's index."""

    def damage(data: Path, partition: str) -> None:
        path = index_file(data / partition, suffix, which)
        path.write_bytes(change(path.read_bytes()))

    return damage


def index_file(directory: Path, suffix: str, which: str) -> Path:
    """Return the index of a segment; of those that have a transaction index, the one in the middle."""
    if suffix == ".txnindex":
        found = files_of(directory, suffix)
        return found[len(found) // 2]
    path = segment(directory, which).with_suffix(suffix)
    if not path.exists():
        raise CannotDamage(f"{path} is not there")
    return path


def without_index(suffix: str, which: str = MIDDLE) -> Damage:
    return lambda data, partition: index_file(data / partition, suffix, which).unlink()


def index_of_another(suffix: str) -> Damage:
    """Put the index of the oldest segment that has one in the place of another one."""

    def damage(data: Path, partition: str) -> None:
        path, other = index_file(data / partition, suffix, MIDDLE), files_of(data / partition, suffix)[0]
        if path.read_bytes() == other.read_bytes():
            raise CannotDamage(f"{path} is like {other}")
        path.write_bytes(other.read_bytes())

    return damage


def noise(data: bytes) -> bytes:
    """Return other bytes of the same number, of three entries at least."""
    return random.Random(len(data)).randbytes(max(len(data), 102))


def each_number(size: int, where: int, by: int) -> Change:
    """Add to a 32-bit number of each entry of `size` bytes."""

    def change(data: bytes) -> bytes:
        changed = bytearray(data)
        for i in range(where, len(data) - 3, size):
            (number,) = struct.unpack_from(">i", data, i)
            struct.pack_into(">i", changed, i, number + by)
        return bytes(changed)

    return change


def entries_reversed(size: int) -> Change:
    def change(data: bytes) -> bytes:
        if len(data) < 2 * size:
            raise CannotDamage("an index of one entry")
        return b"".join(data[i : i + size] for i in range(len(data) // size * size - size, -1, -size))

    return change


def time_entries_later(data: bytes) -> bytes:
    """Move all times of a time index a day on."""
    day = 86_400_000
    entries = (struct.unpack_from(">qi", data, i) for i in range(0, len(data) // 12 * 12, 12))
    return b"".join(struct.pack(">qi", timestamp + day, offset) for timestamp, offset in entries)


def newest_snapshot(change: Change) -> Damage:
    """Change the newest snapshot of producers."""

    def damage(data: Path, partition: str) -> None:
        path = files_of(data / partition, ".snapshot")[-1]
        path.write_bytes(change(path.read_bytes()))

    return damage


def every_snapshot(change: Change) -> Damage:
    def damage(data: Path, partition: str) -> None:
        for path in files_of(data / partition, ".snapshot"):
            path.write_bytes(change(path.read_bytes()))

    return damage


def without_newest_snapshot(data: Path, partition: str) -> None:
    files_of(data / partition, ".snapshot")[-1].unlink()


def stale_snapshot(data: Path, partition: str) -> None:
    """Write the oldest snapshot of producers over the newest."""
    oldest, *_, newest = files_of(data / partition, ".snapshot")
    if oldest.read_bytes() == newest.read_bytes():
        raise CannotDamage(f"{oldest} is like {newest}")
    newest.write_bytes(oldest.read_bytes())


def snapshot_beyond_the_end(data: Path, partition: str) -> None:
    newest = files_of(data / partition, ".snapshot")[-1]
    shutil.copy2(newest, newest.with_name(f"{BEYOND:020}.snapshot"))


# --- small text files


def text(name: str, change: TextChange, *, of_partition: bool = False) -> Damage:
    """Change a text file of the data directory, or of the partition."""

    def damage(data: Path, partition: str) -> None:
        path = (data / partition if of_partition else data) / name
        if not path.exists():
            raise CannotDamage(f"{path} is not there")
        path.write_text(change(path.read_text()))

    return damage


def without(name: str, *, of_partition: bool = False) -> Damage:
    """Remove a file of the data directory, or of the partition."""

    def damage(data: Path, partition: str) -> None:
        path = (data / partition if of_partition else data) / name
        if not path.exists():
            raise CannotDamage(f"{path} is not there")
        path.unlink()

    return damage


def epochs(change: TextChange) -> Damage:
    return text(LEADER_EPOCH_CHECKPOINT, change, of_partition=True)


def partition_metadata(change: TextChange) -> Damage:
    return text(PARTITION_METADATA, change, of_partition=True)


def replaced(old: str, new: str) -> TextChange:
    """Exchange a part of a text that must be in it."""

    def change(content: str) -> str:
        if old not in content:
            raise CannotDamage(f"no {old!r} in {content!r}")
        return content.replace(old, new, 1)

    return change


def number_replaced(content: str, name: str, value: int) -> str:
    """Set a number in a line of JSON."""
    changed, count = re.subn(rf'("{name}":)-?\d+', rf"\g<1>{value}", content)
    if not count:
        raise CannotDamage(f"no {name} in {content!r}")
    return changed


def line_malformed(content: str) -> str:
    """Put a word in the place of the last number."""
    lines = content.splitlines()
    if len(lines) < 3:
        raise CannotDamage("a checkpoint without a line")
    return "\n".join([*lines[:-1], lines[-1].rpartition(" ")[0] + " twelve", ""])


def count_too_large(content: str) -> str:
    """Declare one line more than there is."""
    version, count, *lines = content.splitlines()
    return "\n".join([version, str(int(count) + 1), *lines, ""])


def count_too_small(content: str) -> str:
    """Declare one line fewer than there are."""
    version, count, *lines = content.splitlines()
    return "\n".join([version, str(int(count) - 1), *lines, ""])


def version_9(content: str) -> str:
    return "9" + content.partition("\n")[1] + content.partition("\n")[2]


def emptied(content: str) -> str:
    return ""


def lines_of(content: str) -> list[str]:
    """Return the lines of a checkpoint without its version and count."""
    return content.splitlines()[2:]


def checkpoint_of(lines: list[str]) -> str:
    return "\n".join(["0", str(len(lines)), *lines, ""])


def offset_in(checkpoint: str, offset: int) -> Damage:
    """Set the offset that a checkpoint of the data directory has for the partition."""

    def damage(data: Path, partition: str) -> None:
        path = data / checkpoint
        if not path.exists():
            raise CannotDamage(f"{path} is not there")
        topic, _, number = partition.rpartition("-")
        others = [line for line in lines_of(path.read_text()) if not line.startswith(f"{topic} {number} ")]
        path.write_text(checkpoint_of([*others, f"{topic} {number} {offset}"]))

    return damage


def line_added(line: str) -> TextChange:
    return lambda content: checkpoint_of([*lines_of(content), line])


def line_repeated(content: str) -> str:
    return checkpoint_of([*lines_of(content), *lines_of(content)[:1]])


def epoch_line_appended(line: str) -> Damage:
    return epochs(line_added(line))


def epoch_starts_decreasing(content: str) -> str:
    """Reverse the lines."""
    lines = lines_of(content)
    if len(lines) < 2:
        raise CannotDamage("one epoch")
    return checkpoint_of(lines[::-1])


def first_epoch_lost(content: str) -> str:
    lines = lines_of(content)
    if len(lines) < 2:
        raise CannotDamage("one epoch")
    return checkpoint_of(lines[1:])


# --- directories and leftovers


def directory(name: str, *, with_file: bool = False) -> Damage:
    """Make a directory beside the partitions."""

    def damage(data: Path, partition: str) -> None:
        (data / name).mkdir()
        if with_file:
            (data / name / "notes.txt").write_bytes(TEXT)

    return damage


def copied_as(name: str) -> Damage:
    """Copy the partition under another name, in which {0} stands for its own."""
    return lambda data, partition: _copied(data / partition, data / name.format(partition))


def _copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True)


def moved_to(name: str) -> Damage:
    """Rename the partition's directory; {0} stands for its name."""

    def damage(data: Path, partition: str) -> None:
        (data / partition).rename(data / name.format(partition))

    return damage


def without_partition(data: Path, partition: str) -> None:
    shutil.rmtree(data / partition)


def without_content(data: Path, partition: str) -> None:
    """Remove all files of the partition, but not its directory."""
    for path in (data / partition).iterdir():
        path.unlink()


def file_in_place_of_directory(data: Path, partition: str) -> None:
    shutil.rmtree(data / partition)
    (data / partition).write_bytes(TEXT)


def linked_directory(data: Path, partition: str) -> None:
    """Move the partition out of the data directory and leave a link to it."""
    aside = data.with_name(f"{data.name}-aside-{partition}")
    shutil.move(data / partition, aside)
    (data / partition).symlink_to(aside)


def file_added(name: str, content: bytes = TEXT) -> Damage:
    """Write a file into the partition."""

    def damage(data: Path, partition: str) -> None:
        (data / partition / name).write_bytes(content)

    return damage


def leftover(suffix: str, *kinds: str, which: str = MIDDLE, instead: bool = False) -> Damage:
    """Copy files of a segment with a suffix more, as an unfinished compaction or deletion leaves them.

    instead: rename them.
    """

    def damage(data: Path, partition: str) -> None:
        log = segment(data / partition, which)
        for kind in kinds:
            path = log.with_suffix(kind)
            if path.exists() and instead:
                path.rename(f"{path}{suffix}")
            elif path.exists():
                shutil.copy2(path, f"{path}{suffix}")

    return damage


def swap_of_two(data: Path, partition: str) -> None:
    """Leave a compaction of two segments into one as it is when the first name has been changed: both still there."""
    log = segment(data / partition, MIDDLE)
    logs = segments(log.parent)
    following = logs[logs.index(log) + 1]
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes() + following.read_bytes())
    log.with_name(f"{log.stem}.index.swap").touch()
    log.with_name(f"{log.stem}.timeindex.swap").touch()


def torn_swap(data: Path, partition: str) -> None:
    """Leave half of a segment as its `.log.swap`, beside the whole segment."""
    log = segment(data / partition, MIDDLE)
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes()[: log.stat().st_size // 2])


# --- batches of transactions


def batch_positions(content: bytes, chosen: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Return start and end of the v2 batches whose attributes and producer id are chosen."""
    places = places_of(content)
    return [
        (start, end)
        for start, end in pairwise(places)
        if content[start + 16] == 2
        and chosen(*struct.unpack_from(">h", content, start + 21), *struct.unpack_from(">q", content, start + 43))
    ]


def batch_lost(chosen: Callable[[int, int], bool]) -> Damage:
    """Cut a batch that is chosen, not the first of its segment, out of a segment that is not the active one."""

    def damage(data: Path, partition: str) -> None:
        for log in segments(data / partition)[:-1]:
            content = log.read_bytes()
            found = [(start, end) for start, end in batch_positions(content, chosen) if start]
            if found:
                start, end = found[len(found) // 2]
                log.write_bytes(content[:start] + content[end:])
                return
        raise CannotDamage(f"{partition} has no such batch")

    return damage


def is_marker(attributes: int, producer_id: int) -> bool:
    return bool(attributes & 0x20)


def is_data_of_producer(attributes: int, producer_id: int) -> bool:
    return producer_id >= 0 and not attributes & 0x20
