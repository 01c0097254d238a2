"""Locks on data directories and partitions: one writer at a time, in this process and in others."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import subprocess
import threading
from pathlib import Path

import pytest

from kafkalog.errors import LogLockedError
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from tests.helpers.locking import can_be_locked, lock_data_dir, lock_partition, other, python, started


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-1").mkdir()
    return tmp_path


def open_files(directory: Path) -> int:
    """Return how many descriptors this process has for the directory and the files below it."""
    return sum(os.path.realpath(each).startswith(str(directory.resolve())) for each in Path("/proc/self/fd").iterdir())


# --- processes


@pytest.mark.slow
def test_a_locked_data_directory_is_refused_to_another_process_naming_the_owner(data: Path) -> None:
    with lock_data_dir(data), other("data_dir", data) as refused:
        assert refused.answer.startswith("refused")
        assert str(data / ".lock") in refused.answer
        assert f"process {os.getpid()}" in refused.answer


@pytest.mark.slow
def test_a_lock_of_another_process_is_refused_here_naming_that_process(data: Path) -> None:
    before = open_files(data)
    with other("data_dir", data) as holder:
        for take, directory in ((lock_data_dir, data), (lock_partition, data / "t-0")):
            with pytest.raises(LogLockedError, match="another process") as error:
                take(directory)
            assert error.value.path == str(data / ".lock")
            assert error.value.found == f"process {holder.pid}"
    assert open_files(data) == before
    lock_data_dir(data).release()


@pytest.mark.slow
def test_two_processes_may_lock_different_partitions_but_not_the_same(data: Path) -> None:
    with lock_partition(data / "t-0"), other("partition", data / "t-1") as second:
        assert second.has_it
        assert not can_be_locked("partition", data / "t-0")
        assert not can_be_locked("partition", data / "t-1")
        with pytest.raises(LogLockedError):
            lock_partition(data / "t-1")


@pytest.mark.slow
def test_a_locked_partition_excludes_a_broker_and_a_broker_excludes_all_partitions(data: Path) -> None:
    with lock_partition(data / "t-0"):
        assert not can_be_locked("data_dir", data)
    with lock_data_dir(data):
        assert not can_be_locked("partition", data / "t-0")
        assert not can_be_locked("partition", data / "not there yet")


def test_a_released_lock_is_free_for_others_and_the_file_stays(data: Path) -> None:
    lock = lock_data_dir(data)
    assert (lock.is_held, lock.directory, lock.path) == (True, data, data / ".lock")
    lock.release()
    lock.release()
    assert not lock.is_held
    assert (data / ".lock").exists()
    lock_data_dir(data).release()


@pytest.mark.slow
def test_a_killed_process_releases_its_lock(data: Path) -> None:
    with other("data_dir", data) as holder:
        holder.kill()
        lock_data_dir(data).release()


@pytest.mark.slow
def test_the_byte_of_a_partition_follows_from_its_name_as_every_version_must_agree(data: Path) -> None:
    place = int.from_bytes(hashlib.sha256(b"t-0").digest()[:8], "big") >> 2
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(sys.argv[2]))"
    with lock_partition(data / "t-0"):
        for start, status in ((place, 1), (place - 1, 0), (place + 1, 0)):
            done = subprocess.run(python(code, data / ".lock", start), capture_output=True, check=False)
            assert done.returncode == status


# --- this process


def test_the_same_process_gets_each_lock_once(data: Path) -> None:
    with lock_partition(data / "t-0"):
        for take, directory in ((lock_partition, data / "t-0"), (lock_data_dir, data)):
            with pytest.raises(LogLockedError, match="this process"):
                take(directory)
        with lock_partition(data / "t-1") as second:
            assert second.is_held
    with lock_data_dir(data), pytest.raises(LogLockedError, match="this process"):
        lock_partition(data / "t-1")


@pytest.mark.slow
def test_refused_and_released_locks_leave_the_process_its_other_locks(data: Path, tmp_path: Path) -> None:
    (data / "alias").symlink_to(data)
    first, second = lock_partition(data / "t-0"), lock_partition(data / "alias" / "t-1")
    with pytest.raises(LogLockedError):
        lock_partition(data / "alias" / "t-0")
    with pytest.raises(LogLockedError):
        lock_data_dir(data / "alias")
    first.release()
    assert second.is_held
    assert can_be_locked("partition", data / "t-0")
    assert not can_be_locked("partition", data / "t-1")
    second.release()
    assert can_be_locked("data_dir", data)


def test_one_of_many_threads_gets_the_lock(data: Path) -> None:
    start, locks, refusals = threading.Barrier(8), [], []

    def take() -> None:
        start.wait()
        try:
            locks.append(lock_partition(data / "t-0"))
        except LogLockedError as error:
            refusals.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(locks), len(refusals)) == (1, 7)
    locks[0].ensure_held()
    locks[0].release()


@pytest.mark.slow
def test_a_child_process_neither_has_nor_releases_its_parents_lock(data: Path) -> None:
    with lock_data_dir(data):
        subprocess.run(python("pass"), check=True)
        assert not can_be_locked("data_dir", data)


FORK = """
import fcntl, os, sys, threading
from pathlib import Path
from kafkalog.errors import LogLockedError
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
data = Path(sys.argv[1])
lock = DirectoryLock(data).acquire()
# The child is forked while another thread is locking a file.
lockf, locking, forked = fcntl.lockf, threading.Event(), threading.Event()
def late(*arguments):
    locking.set()
    forked.wait(30)
    lockf(*arguments)
fcntl.lockf = late
(data / "other").mkdir()
thread = threading.Thread(target=lambda: DirectoryLock(data / "other").acquire().release())
thread.start()
assert locking.wait(30), "the thread does not lock"
child = os.fork()
if child == 0:
    fcntl.lockf = lockf
    found = [lock.is_held]
    lock.release()
    try:
        DirectoryLock(data, "t-0").acquire()
    except LogLockedError as error:
        found.append(f"process {os.getppid()}" in str(error))
    os._exit(0 if found == [False, True] else 1)
forked.set()
thread.join(30)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("locked" if status == 0 and lock.is_held else f"child {status}", flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_forked_child_neither_has_nor_releases_its_parents_lock(data: Path) -> None:
    with started(python(FORK, data)) as parent:
        assert parent.answer == "locked"
        assert not can_be_locked("data_dir", data)


# --- the file


def test_a_lock_file_removed_while_it_is_being_locked_is_created_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockf, before = fcntl.lockf, open_files(data)
    removed = False

    def remove_first(*arguments: int) -> None:
        nonlocal removed
        if not removed:
            (data / ".lock").unlink()
            removed = True
        lockf(*arguments)

    monkeypatch.setattr(fcntl, "lockf", remove_first)
    with lock_data_dir(data) as lock:
        assert removed
        lock.ensure_held()
        assert open_files(data) == before + 1
    assert open_files(data) == before


def test_a_directory_that_does_not_exist_is_not_locked(data: Path) -> None:
    for take, directory in ((lock_data_dir, data / "none"), (lock_partition, data / "none" / "t-0")):
        with pytest.raises(FileNotFoundError):
            take(directory)


def test_other_errors_of_locking_are_raised_and_leave_no_file_open(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_files(data)

    def no_locks(*_arguments: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "lockf", no_locks)
        with pytest.raises(OSError, match="No locks available"):
            lock_data_dir(data)
    assert open_files(data) == before


@pytest.mark.slow
def test_a_partition_is_known_by_its_name_however_its_path_is_written(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data / "t-1")
    for path in (Path("../t-0"), Path(), Path("../t-0/../t-1")):
        with lock_partition(path) as lock:
            assert isinstance(lock, DirectoryLock)
            assert not can_be_locked("partition", data / lock.directory.name)


def test_a_removed_lock_file_still_excludes_this_process_and_its_owner_notices(data: Path) -> None:
    with lock_partition(data / "t-0") as lock:
        lock.ensure_held()
        (data / ".lock").unlink()
        for take, directory in ((lock_partition, data / "t-0"), (lock_data_dir, data)):
            with pytest.raises(LogLockedError, match="this process"):
                take(directory)
        with pytest.raises(LogLockedError, match="removed"):
            lock.ensure_held()
    lock_data_dir(data).release()


@pytest.mark.slow
def test_a_linked_partition_is_locked_at_its_target_and_at_the_link(data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "t-0").symlink_to(data / "t-0")
    (elsewhere / ".lock").touch()
    with lock_partition(elsewhere / "t-0"):
        assert not can_be_locked("partition", data / "t-0")
        assert not can_be_locked("data_dir", elsewhere)
    assert can_be_locked("data_dir", elsewhere)
