"""Full disks, limits, read-only mounts and directories, as the system itself gives them, while a file is written."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog import FileMessageSet
from kafkalog.errors import NotALogError
from tests.helpers.written_files import offsets, sized_batch

KIB = 1 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(directory)):
        pytest.skip("this process may not mount a file system")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def mount(*arguments: str) -> int:
    if sys.platform != "linux" or not shutil.which("mount"):
        return 1
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode


@pytest.mark.slow
def test_a_full_disk_leaves_whole_batches_and_the_error(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    large, small = sized_batch(0, size=10_000), sized_batch(0, size=500)
    with FileMessageSet(path, read_only=False) as messages:
        fitting = (64 * KIB) // large.size_in_bytes
        for offset in range(fitting):
            messages.append(sized_batch(offset, size=10_000))
        with pytest.raises(OSError, match="as it was") as error:
            messages.append(sized_batch(fitting, size=10_000))
        assert error.value.errno == errno.ENOSPC
        assert path.read_bytes() == b"".join(bytes(sized_batch(i, 10_000).buffer) for i in range(fitting))
        assert offsets(messages) == list(range(fitting))
        # The blocks of the failed one are free again.
        assert messages.append(sized_batch(fitting, size=500)) == small.size_in_bytes
        assert messages.truncate_to(0)
        assert messages.append(sized_batch(0, size=10_000)) == large.size_in_bytes


@pytest.mark.slow
def test_a_file_that_the_disk_cannot_hold_is_not_preallocated_and_not_left(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    with pytest.raises(OSError, match=str(path)) as error:
        FileMessageSet(path, read_only=False, preallocate_bytes=1 << 20)
    assert error.value.errno == errno.ENOSPC
    assert list(small_disk.iterdir()) == []


@pytest.mark.slow
def test_preallocated_bytes_can_be_written_on_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    with FileMessageSet(path, read_only=False, preallocate_bytes=32 * KIB) as messages:
        with pytest.raises(OSError, match="No space"):
            (small_disk / "other").write_bytes(bytes(64 * KIB))
        for offset in range(3):
            messages.append(sized_batch(offset, size=10_000))
        assert offsets(messages) == [0, 1, 2]
        before = path.read_bytes()
        with pytest.raises(OSError, match=r"as it was|could not"):
            messages.append(sized_batch(3, size=20_000))
        assert path.read_bytes() == before
        assert offsets(messages) == [0, 1, 2]


@pytest.mark.slow
def test_a_read_only_file_system_is_an_error_that_names_the_file(small_disk: Path) -> None:
    path = small_disk / "00000000000000000000.log"
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(sized_batch(0))
    assert mount("-o", "remount,ro", str(small_disk)) == 0
    with pytest.raises(OSError, match=str(path)) as error:
        FileMessageSet(path, read_only=False)
    assert error.value.errno == errno.EROFS
    assert offsets(FileMessageSet(path)) == [0]


def test_a_limit_on_file_sizes_leaves_whole_batches_and_the_error(path: Path) -> None:
    """Python ignores SIGXFSZ, so that the system takes a part, and then fails."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with FileMessageSet(path, read_only=False) as messages:
        messages.append(sized_batch(0, size=600 * KIB))
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        try:
            with pytest.raises(OSError, match="as it was") as error:
                messages.append(sized_batch(1, size=600 * KIB))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert error.value.errno == errno.EFBIG
        assert path.read_bytes() == before
        messages.append(sized_batch(1))
        assert offsets(messages) == [0, 1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("path", ["/dev/full", "/dev/null", "a directory", "a pipe"])
def test_devices_pipes_and_directories_are_neither_written_nor_deleted(tmp_path: Path, path: str) -> None:
    (tmp_path / "a directory").mkdir()
    os.mkfifo(tmp_path / "a pipe")
    with pytest.raises(NotALogError, match=path):
        FileMessageSet(tmp_path / path, read_only=False)
    assert (tmp_path / path).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to any directory")
def test_a_read_only_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    directory = tmp_path / "closed"
    directory.mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="closed"):
        FileMessageSet(directory / "00000000000000000000.log", read_only=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root deletes from any directory")
def test_a_file_in_a_read_only_directory_is_not_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "closed"
    directory.mkdir()
    messages = FileMessageSet(directory / "00000000000000000000.log", read_only=False)
    directory.chmod(0o500)
    assert not messages.delete()
    assert "Permission denied" in caplog.text
    directory.chmod(0o700)


def test_a_missing_directory_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FileMessageSet(tmp_path / "no" / "such.log", read_only=False)
