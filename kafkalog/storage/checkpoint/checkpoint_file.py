r"""Kafka's text checkpoints.

    0                               version
    2                               number of lines
    <topic> <partition> <offset>    one line per entry: recovery points, log starts, high watermarks of a data directory
    <epoch> <start offset>          or, in a partition's leader-epoch-checkpoint, its leader epochs

An empty file has no entries; neither has `0\n0\n`, which is written for an empty list.

Source: server-common/.../CheckpointFile.java, storage/.../checkpoint/{OffsetCheckpointFile,
LeaderEpochCheckpointFile}.java.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.files.durable import write_atomically
from kafkalog.storage.files.small_file import read_small_file, read_small_text
from kafkalog.storage.remote_path import BELIEVED_SECONDS, RemotePath

Entry = TypeVar("Entry")

# Enough for the leader epochs, or the partitions with names of 100 characters, that 2 million lines hold.
MAX_BYTES = 256 << 20
# A file that was modified less than this before it is looked at may change again without a new mtime.
SETTLED_NS = 50_000_000
A_NUMBER = "a number"
"""`expected` of an error about a word in an entry that is not a number."""
_VERSION = 0
_HEADER_LINES = 2
# The replacement for a byte that is not UTF-8.
_REPLACED = "\ufffd"
_WHITESPACE = re.compile(r"[ \t\n\x0b\f\r]+")
# Characters that no line can have: whitespace, and the bytes of a file name that are not UTF-8.
_UNFIT = re.compile(r"[ \t\n\x0b\f\r\ud800-\udfff]")
_INT32, _INT64 = range(-INT32_MAX - 1, INT32_MAX + 1), range(-INT64_MAX - 1, INT64_MAX + 1)


class _NotANumber(ValueError):  # it is caught where it becomes an error
    """A word that is not a number."""


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record that was appended in it."""

    epoch: int
    start_offset: int


def read_offset_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Read the offset per partition; return an empty dict if the file is missing or empty.

    A line without a topic's name is passed over: it is of no partition, and a broker drops it when it writes the file.

    Raises:
        CorruptCheckpointError: The file does not follow the format.
    """
    entries = _parse_entries(path, read_small_text(path, MAX_BYTES), _offset_entry)
    return {partition: offset for partition, offset in entries if partition.topic}


def read_damaged_offset_checkpoint(path: Path) -> tuple[dict[TopicPartition, int], list[str]]:
    """Read what can be read of a file that does not follow the format.

    Returns:
        The offset per partition, of the first line of each; and the lines passed over, but for the first two, which
        should be version and number of lines.
    """
    offsets: dict[TopicPartition, int] = {}
    passed_over = []
    try:
        lines = read_small_file(path, MAX_BYTES).decode(errors="replace").split("\n")
    except FileNotFoundError:
        lines = []
    for number, line in enumerate(lines):
        with suppress(ValueError):
            partition, offset = _offset_entry(line)
            if partition.topic and partition not in offsets and _REPLACED not in line:
                offsets[partition] = offset
                continue
        if number >= _HEADER_LINES and line.strip():
            passed_over.append(line)
    return offsets, passed_over


class OffsetCheckpointFile:
    """The offset checkpoint at a path, which another process may replace; `read` parses it again if it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # Inode, size and mtime (ns) of the file that was read, and its content.
        self._known: tuple[tuple[int, int, int] | None, dict[TopicPartition, int]] = None, {}
        # A file in a store is not read again before this time.
        self._believed_until = 0.0

    def read(self) -> Mapping[TopicPartition, int]:
        """Return the entries as `read_offset_checkpoint` does, from the cache if the file is unchanged."""
        if isinstance(self.path, RemotePath):
            if time.monotonic() >= self._believed_until:
                self._known = None, read_offset_checkpoint(self.path)
                self._believed_until = time.monotonic() + BELIEVED_SECONDS
            return self._known[1]
        try:
            looked_at, status = time.time_ns(), self.path.stat()
        except FileNotFoundError:
            return {}
        found = status.st_ino, status.st_size, status.st_mtime_ns
        known, offsets = self._known
        if found == known:
            return offsets
        offsets = read_offset_checkpoint(self.path)
        # A recently modified file may be replaced without a new mtime, which has a limited resolution.
        settled = looked_at - status.st_mtime_ns > SETTLED_NS
        self._known = found if settled else None, offsets
        return offsets


def fits_checkpoint(partition: TopicPartition) -> bool:
    """Return whether a checkpoint can have a line for a partition: the topic's name is text without whitespace."""
    return bool(partition.topic) and not _UNFIT.search(partition.topic)


def write_offset_checkpoint(path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    """Replace the file atomically by one with the offset per partition.

    Raises:
        OSError: The write failed.
        ValueError: A topic name is empty or contains whitespace; nothing was written.
    """
    wrong = [each.topic for each in offsets if not fits_checkpoint(each)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no topic's name")
    _write_lines(path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()], sync)


def read_leader_epoch_checkpoint(path: Path) -> list[EpochEntry]:
    """Read the leader epochs in file order; return an empty list if the file is missing or empty.

    Raises:
        CorruptCheckpointError: The file does not follow the format.
    """
    text = read_small_text(path, MAX_BYTES)
    entries = _epochs_as_written(text) if text else None
    return _parse_entries(path, text, _epoch_entry) if entries is None else entries


def write_leader_epoch_checkpoint(path: Path, entries: Iterable[tuple[int, int]], *, sync: bool = True) -> None:
    """Replace the file atomically by one with these leader epochs.

    Raises:
        OSError: The write failed.
    """
    _write_lines(path, [f"{epoch} {start_offset}" for epoch, start_offset in entries], sync)


def _write_lines(path: Path, lines: list[str], sync: bool) -> None:
    text = "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines))
    write_atomically(path, text.encode(), sync=sync)


def _parse_entries(path: Path, text: str | None, parse: Callable[[str], Entry]) -> list[Entry]:
    lines = text.removesuffix("\n").split("\n") if text else []
    entries = list[Entry]()
    version, count, number = _VERSION, 0, 0
    try:
        for number, line in enumerate(lines):
            if number >= _HEADER_LINES:
                entries.append(parse(line))
            elif number:
                count = _number(line, _INT32)
            else:
                version = _number(line, _INT32)
    except ValueError as error:
        # A broker behaves in another way if only a number of an entry is wrong.
        expected = A_NUMBER if number >= _HEADER_LINES and isinstance(error, _NotANumber) else None
        what = f"line {number + 1} does not follow the format: {error}"
        raise CorruptCheckpointError(what, str(path), None, expected) from None
    if version != _VERSION:
        raise CorruptCheckpointError("the version is unknown", str(path), None, _VERSION, version)
    if len(entries) != count:
        raise CorruptCheckpointError(
            "the number of lines is not the one declared", str(path), None, count, len(entries)
        )
    return entries


def _epochs_as_written(text: str) -> list[EpochEntry] | None:
    """Parse leader epochs, if every line is as Kafka and this module write it; several times faster than by line.

    Returns:
        The entries; None if any line is written differently, or is wrong.
    """
    # Not imported above: what reads offset checkpoints only starts without it.
    import numpy as np

    between = text.encode().translate(None, b"0123456789")
    count = len(between) // 2 - 1
    # As many numbers as separators, each of which ends one: no number is missing.
    if between != b"\n\n" + b" \n" * count or not text.endswith("\n"):
        return None
    # A number that is too large for 64 bits becomes INT64_MAX.
    numbers = np.fromstring(text, np.int64, sep=" ")
    epochs, start_offsets = numbers[2::2].tolist(), numbers[3::2].tolist()
    if len(numbers) != 2 + 2 * count or (numbers[0], numbers[1]) != (_VERSION, count):
        return None
    if max(epochs, default=0) > INT32_MAX or max(start_offsets, default=0) == INT64_MAX:
        return None
    return list(map(EpochEntry, epochs, start_offsets))


def _offset_entry(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = _words(line, 3)
    return TopicPartition(topic, _number(partition, _INT32)), _number(offset, _INT64)


def _epoch_entry(line: str) -> EpochEntry:
    epoch, start_offset = _words(line, 2)
    return EpochEntry(_number(epoch, _INT32), _number(start_offset, _INT64))


def _words(line: str, count: int) -> list[str]:
    words = line.split(" ")
    if len(words) != count or not line.isprintable():
        words = _WHITESPACE.split(line.rstrip(" \t\x0b\f"))
    if len(words) != count:
        raise ValueError(f"{line[:80]!r} has {len(words)} words, not {count}")
    return words


def _number(word: str, allowed: range) -> int:
    """Parse a number as Java does; `int` also accepts underscores and other scripts, and has no upper limit.

    Raises:
        _NotANumber: `word` is not a number, or is outside `allowed`.
    """
    digits = word[1:] if word.startswith(("+", "-")) else word
    if digits.isascii() and digits.isdigit() and (number := int(word)) in allowed:
        return number
    raise _NotANumber(f"{word!r} is not a number of {allowed.stop.bit_length()} bits")
