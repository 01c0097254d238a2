"""A file being written that another program truncates, locks, inherits or reads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import CorruptRecordError, LogLockedError
from tests.helpers.written_files import offsets, sized_batch

WRITES: list[Callable[[FileMessageSet], object]] = [
    lambda messages: messages.append(sized_batch(3)),
    lambda messages: messages.truncate_to(0),
]


def descriptor_of(path: Path) -> int:
    """Return the number of the descriptor that this process has for a file."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux lists them")
    wanted = str(path.resolve())
    (found,) = (each for each in Path("/proc/self/fd").iterdir() if os.path.realpath(each) == wanted)
    return int(found.name)


def test_appends_ignore_the_position_of_a_shared_descriptor(path: Path, filled: FileMessageSet) -> None:
    os.lseek(descriptor_of(path), 5, os.SEEK_SET)
    filled.append(sized_batch(3))
    assert offsets(filled) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_nothing_is_appended_to_a_file_that_another_has_cut_or_grown(
    path: Path, filled: FileMessageSet, size: int
) -> None:
    """The next append would leave a hole or overwrite another writer's batch."""
    length = path.stat().st_size
    os.truncate(path, size)
    for write in WRITES:
        with pytest.raises(CorruptRecordError, match="somebody else") as error:
            write(filled)
        assert (error.value.path, error.value.expected, error.value.found) == (str(path), f"{length} bytes", size)
    assert path.stat().st_size == size
    os.truncate(path, length)


def test_a_second_writer_is_refused(path: Path) -> None:
    with FileMessageSet(path, read_only=False) as first:
        first.append(sized_batch(0))
        with pytest.raises(LogLockedError, match="somebody else") as error:
            FileMessageSet(path, read_only=False)
        assert error.value.path == str(path)
        first.append(sized_batch(1))
    with FileMessageSet(path, read_only=False) as second:
        assert offsets(second) == [0, 1]


def test_a_closed_file_can_be_written_to_while_a_child_has_it_open(path: Path) -> None:
    first = FileMessageSet(path, read_only=False)
    with open(os.dup(descriptor_of(path)), "rb"):
        first.close()
        with FileMessageSet(path, read_only=False) as second:
            second.append(sized_batch(0))


@pytest.mark.slow
def test_another_process_cannot_append_to_a_file_that_is_being_written_to(path: Path) -> None:
    program = f"import kafkalog; kafkalog.FileMessageSet({str(path)!r}, read_only=False)"
    with FileMessageSet(path, read_only=False):
        outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "LogLockedError" in outcome.stderr
