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
from pathlib import Path
from typing import NamedTuple, TypeVar

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.file_names import TopicPartition
from kafkalog.storage.files.durable import write_atomically
from kafkalog.storage.remote_path import BELIEVED_SECONDS, RemotePath

Entry = TypeVar("Entry")

# A file modified less than this ago may change again without a new mtime.
SETTLED_NS = 50_000_000
_VERSION = 0
_WHITESPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_INT32, _INT64 = range(-INT32_MAX - 1, INT32_MAX + 1), range(-INT64_MAX - 1, INT64_MAX + 1)


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record that was appended in it."""

    epoch: int
    start_offset: int


def read_offset_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Read the offset per partition; return an empty dict if the file is missing or empty.

    Raises:
        CorruptCheckpointError: The file does not follow the format.
    """
    return dict(_read_entries(path, _offset_entry))


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
            status = self.path.stat()
        except FileNotFoundError:
            return {}
        found = status.st_ino, status.st_size, status.st_mtime_ns
        known, offsets = self._known
        if found == known:
            return offsets
        offsets = read_offset_checkpoint(self.path)
        # A recently modified file may be replaced without a new mtime, which has a limited resolution.
        settled = time.time_ns() - status.st_mtime_ns > SETTLED_NS
        self._known = found if settled else None, offsets
        return offsets


def write_offset_checkpoint(path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    """Replace the file atomically by one with the offset per partition.

    Raises:
        OSError: The write failed.
        ValueError: A topic name is empty or contains whitespace; nothing was written.
    """
    nameless = [topic for topic, _ in offsets if not topic or _WHITESPACE.search(topic)]
    if nameless:
        raise ValueError(f"{nameless[0]!r} is no topic's name")
    _write_lines(path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()], sync)


def read_leader_epoch_checkpoint(path: Path) -> list[EpochEntry]:
    """Read the leader epochs in file order; return an empty list if the file is missing or empty.

    Raises:
        CorruptCheckpointError: The file does not follow the format.
    """
    return _read_entries(path, _epoch_entry)


def write_leader_epoch_checkpoint(path: Path, entries: Iterable[EpochEntry], *, sync: bool = True) -> None:
    """Replace the file atomically by one with these leader epochs.

    Raises:
        OSError: The write failed.
    """
    _write_lines(path, [f"{epoch} {start_offset}" for epoch, start_offset in entries], sync)


def _write_lines(path: Path, lines: list[str], sync: bool) -> None:
    text = "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines))
    write_atomically(path, text.encode(), sync=sync)


def _read_entries(path: Path, parse: Callable[[list[str]], Entry]) -> list[Entry]:
    lines = _lines(path)
    try:
        version = _number(lines[0], _INT32) if lines else _VERSION
        count = _number(lines[1], _INT32) if len(lines) > 1 else 0
        entries = [parse(_words(line)) for line in lines[2:]]
    except ValueError as error:
        raise CorruptCheckpointError(f"a line does not follow the format: {error}", str(path)) from None
    if version != _VERSION:
        raise CorruptCheckpointError("the version is unknown", str(path), None, _VERSION, version)
    if len(entries) != count:
        raise CorruptCheckpointError(
            "the number of lines is not the one declared", str(path), None, count, len(entries)
        )
    return entries


def _lines(path: Path) -> list[str]:
    check_regular(path)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return []
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError("not a text file", str(path), error.start) from None
    return text.removesuffix("\n").split("\n") if text else []


def check_regular(path: Path) -> None:
    """Raise CorruptCheckpointError if the path is not a regular file: reading a pipe, for example, would block."""
    # In a store, reading fails for anything but a file.
    if not isinstance(path, RemotePath) and not path.is_file() and path.exists():
        raise CorruptCheckpointError("not a regular file", str(path))


def _words(line: str) -> list[str]:
    return _WHITESPACE.split(line.rstrip(" \t\x0b\f"))


def _offset_entry(words: list[str]) -> tuple[TopicPartition, int]:
    topic, partition, offset = words
    return TopicPartition(topic, _number(partition, _INT32)), _number(offset, _INT64)


def _epoch_entry(words: list[str]) -> EpochEntry:
    epoch, start_offset = words
    return EpochEntry(_number(epoch, _INT32), _number(start_offset, _INT64))


def _number(word: str, allowed: range) -> int:
    """Parse a number as Java does; `int` also accepts underscores and other scripts, and has no upper limit.

    Raises:
        ValueError: `word` is not a number, or is outside `allowed`.
    """
    if not _WHOLE_NUMBER.fullmatch(word) or int(word) not in allowed:
        raise ValueError(f"{word!r} is not a number of {allowed.stop.bit_length()} bits")
    return int(word)
