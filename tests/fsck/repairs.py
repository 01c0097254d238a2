"""What tests of repairs need: trees to compare, and a process that is killed in the middle."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from tests.damage.kinds import Kind

Tree: TypeAlias = dict[str, tuple[int, int, str]]
"""Mode, mtime (ns) and content of each entry by its path."""
CHANGES = {"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.utime", "os.symlink", "os.chmod"}
FOR_WRITING = os.O_WRONLY | os.O_RDWR
KILLED = 9


def tree(directory: Path) -> Tree:
    found = {}
    for path in (directory, *directory.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        digest = str(path.readlink()) if path.is_symlink() else sha256(content).hexdigest()
        found[str(path.relative_to(directory))] = status.st_mode, status.st_mtime_ns, digest
    return found


def contents(directory: Path) -> dict[str, str]:
    """The same without modes and times, which differ from run to run where a file is new."""
    return {name: digest for name, (_, _, digest) in tree(directory).items()}


def damaged(kind: Kind, data: Path, source: Path) -> Path:
    """A copy of a data directory, damaged. It has a lock file, as one that a broker has been in."""
    shutil.copytree(source, data, symlinks=True)
    kind.damage(data, kind.partition)
    (data / ".lock").touch()
    return data


def changes_of(action: Callable[[], object], stop_at: int = 0) -> int:
    """Run an action in a child that is killed before its change number `stop_at` to the file system; 0: not at all.

    Returns:
        The number of changes that it made; -1 if it was killed.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            made = 0

            def see(event: str, arguments: tuple[object, ...]) -> None:
                nonlocal made
                if event in CHANGES or (event == "open" and int(str(arguments[2])) & FOR_WRITING):
                    made += 1
                    if made == stop_at:
                        os._exit(KILLED)

            sys.addaudithook(see)
            action()
            os.write(writer, str(made).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, KILLED)
    return int(text) if code == 0 else -1
