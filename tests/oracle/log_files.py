"""The files of a partition directory: what is in them, and what befalls them between two openings.

Files are the same if their bytes are; snapshots of producers if their entries are, whatever the order. Damage is a
line, `damage KIND NAME ARGUMENT`, so that two directories can be damaged alike:

    cut NAME BYTES          the end is lost
    append NAME HEX         something stands behind it
    zeros NAME BYTES        as a file system leaves a tail that never reached the disk
    flip NAME POSITION      a bit of the byte there
    empty NAME              nothing is left of it
    remove NAME | copy NAME TO | write NAME HEX
    golden NAME             what a broker wrote: `ARCHIVE/PARTITION` of `golden.py`
"""

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers import golden

SNAPSHOT_HEADER_BYTES, SNAPSHOT_ENTRY_BYTES = 10, 46

Contents = dict[str, Any]


def contents(directory: Path) -> Contents:
    """What is in each file, by its name: its size and checksum, or a snapshot's entries."""
    return {path.name: _content(path) for path in sorted(directory.iterdir())} if directory.exists() else {}


def _content(path: Path) -> Any:
    data = path.read_bytes()
    if path.suffix == ".snapshot":
        is_whole = len(data) % SNAPSHOT_ENTRY_BYTES == SNAPSHOT_HEADER_BYTES
        starts = range(SNAPSHOT_HEADER_BYTES, len(data) if is_whole else 0, SNAPSHOT_ENTRY_BYTES)
        return [len(data), sorted(data[start : start + SNAPSHOT_ENTRY_BYTES].hex() for start in starts)]
    return [len(data), zlib.crc32(data)]


def changes(before: Contents, after: Contents) -> Contents:
    """What is new or another in `after`; None for a file that has gone."""
    gone: Contents = {name: None for name in before if name not in after}
    return gone | {name: content for name, content in after.items() if before.get(name) != content}


def damage(directory: Path, line: str) -> None:
    """Does what the line says."""
    _, kind, name, *arguments = line.split(" ")
    DAMAGES[kind](directory / name, *arguments)


def _cut(path: Path, size: str) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: max(0, len(data) - int(size))])


def _append(path: Path, tail: str) -> None:
    path.write_bytes(path.read_bytes() + bytes.fromhex(tail))


def _zeros(path: Path, size: str) -> None:
    path.write_bytes(path.read_bytes() + bytes(int(size)))


def _flip(path: Path, position: str) -> None:
    data = bytearray(path.read_bytes())
    data[int(position)] ^= 0x10
    path.write_bytes(data)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _copy(path: Path, to: str) -> None:
    shutil.copyfile(path, path.with_name(to))


def _write(path: Path, data: str) -> None:
    path.write_bytes(bytes.fromhex(data))


def _golden(path: Path) -> None:
    """`path` is the partition's name behind the directory to fill; modification times are kept."""
    archive, partition = path.parts[-2:]
    shutil.copytree(golden.unpacked() / archive / "data" / partition, path.parents[1], dirs_exist_ok=True)


DAMAGES: dict[str, Callable[..., None]] = {
    "cut": _cut,
    "append": _append,
    "zeros": _zeros,
    "flip": _flip,
    "empty": _empty,
    "remove": Path.unlink,
    "copy": _copy,
    "write": _write,
    "golden": _golden,
}
