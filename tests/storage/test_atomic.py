"""A file that is replaced is the old one or the new one, for any reader and after any failure."""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
import time
from pathlib import Path

import pytest

from kafkalog.storage.atomic import sync_directory, write_atomically
from tests.helpers.locking import python, started

OLD, NEW = b"old", b"new and longer"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    path.write_bytes(OLD)
    return path


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


def test_the_new_file_takes_the_place_of_the_old_and_nothing_is_left_beside_it(path: Path) -> None:
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    assert names(path) == ["checkpoint"]


def test_a_file_that_was_not_there_is_made_and_one_may_be_empty(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"")
    assert (tmp_path / "a").read_bytes() == b""


def test_the_bytes_are_on_the_disk_before_they_get_their_name_and_then_the_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, fsync, replace = list[object](), os.fsync, os.replace

    def sync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size)
        fsync(descriptor)

    def rename(old: Path, new: Path) -> None:
        steps.append("name")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    write_atomically(path, NEW)
    assert steps == [len(NEW), "name", "directory"]
    steps.clear()
    write_atomically(path, OLD, sync=False)
    assert steps == ["name"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def no_space(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, no_space)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, NEW)
    assert path.read_bytes() == OLD
    assert names(path) == ["checkpoint"]


LIMITED = """
import resource, sys
from pathlib import Path
from kafkalog.storage.atomic import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_atomically(Path(sys.argv[1]), bytes(1_000_000))
except OSError as error:
    print(type(error).__name__, error.errno)
"""


@pytest.mark.slow
def test_a_write_that_the_system_cuts_short_leaves_the_old_file_and_no_other(path: Path) -> None:
    with started(python(LIMITED, path)) as process:
        assert process.answer == f"OSError {errno.EFBIG}"
    assert path.read_bytes() == OLD
    assert names(path) == ["checkpoint"]


def test_a_directory_that_is_not_there_or_not_ours_is_an_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomically(path.parent / "none" / "file", NEW)
    with pytest.raises(NotADirectoryError):
        sync_directory(path)
    with pytest.raises(IsADirectoryError):
        write_atomically(path.parent, NEW)
    assert not path.parent.with_name(path.parent.name + ".tmp").exists()


def test_a_temporary_file_of_a_crash_is_overwritten(path: Path) -> None:
    path.with_name("checkpoint.tmp").write_bytes(b"x" * 10_000)
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    assert names(path) == ["checkpoint"]


def test_readers_never_see_part_of_a_file(path: Path) -> None:
    contents = [bytes([letter]) * 100_000 for letter in b"ab"]
    path.write_bytes(contents[0])
    stop = threading.Event()

    def write() -> None:
        try:
            for number in range(80):
                write_atomically(path, contents[number % 2], sync=False)
        finally:
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        assert path.read_bytes() in contents
    writer.join()


ENDLESS = """
import sys
from pathlib import Path
from kafkalog.storage.atomic import write_atomically
number = 0
while True:
    number += 1
    write_atomically(Path(sys.argv[1]), f"{number}\\n".encode() * 50_000, sync=False)
    if number == 2:
        print("writing", flush=True)
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_leaves_a_whole_file(path: Path) -> None:
    pauses = random.Random(5)
    for _ in range(12):
        with started(python(ENDLESS, path)) as process:
            time.sleep(pauses.uniform(0, 0.02))
            process.kill()
        lines = path.read_bytes().splitlines()
        assert len(lines) == 50_000
        assert len(set(lines)) == 1
        write_atomically(path, OLD)
        assert names(path) == ["checkpoint"]


def test_a_signal_in_the_middle_leaves_no_other_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, NEW)
    assert names(path) == ["checkpoint"]


def test_a_pipe_where_the_unfinished_file_would_be_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "file.tmp")
    with pytest.raises(OSError, match=r"file\.tmp"):
        write_atomically(tmp_path / "file", b"data")
    assert not (tmp_path / "file").exists()
