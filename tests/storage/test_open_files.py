"""More files to write than a process may have open: they give up their descriptors and open their files again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkalog import FileMessageSet, LogConfig, LogManager, Record
from kafkalog.errors import CorruptRecordError, LogLockedError, LogStateError
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from kafkalog.storage.files.open_file_limit import OPEN_FILES
from kafkalog.storage.index.offset_index import OffsetIndex
from tests.helpers.failing import refuse_open
from tests.helpers.locking import python
from tests.helpers.written_files import batch, offsets, sized_batch

# Every change of many logs under a limit on descriptors; argv: the limit, the number of logs, the data directory.
MANY_LOGS = """
import logging, os, resource, sys
logging.disable(logging.WARNING)
limit, count = map(int, sys.argv[1:3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
from kafkalog import LogConfig, LogManager, Record
config = LogConfig(index_interval_bytes=1, segment_index_bytes=120)
names = [f"many-{number}" for number in range(count)]
expected = []

def append(manager, value):
    expected.append(value)
    for name in names:
        manager[name].append([Record(value)])

def check(manager):
    for name in names:
        assert [record.value for record in manager[name]] == expected, name

with LogManager(sys.argv[3], "a", config) as manager:
    for name in names:
        manager.create(name)
    for value in (b"one", b"two", b"three"):
        append(manager, value)
    check(manager)
    for name in names:
        manager[name].flush()
    for name in names:
        manager[name].roll()
    for name in names:
        manager[name].truncate_to(2)
    expected.pop()
    manager.checkpoint()
    append(manager, b"four")
    check(manager)
assert len(os.listdir("/proc/self/fd")) < 16 if os.path.isdir("/proc/self/fd") else True
with LogManager(sys.argv[3], "a", config) as manager:
    append(manager, b"five")
    check(manager)
print("done")
"""


@pytest.mark.parametrize(("limit", "count"), [(64, 80), pytest.param(1024, 1500, marks=pytest.mark.slow)])
def test_a_data_directory_has_more_logs_than_a_process_may_have_files(limit: int, count: int) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # In memory where the system has such, because thousands of files are synced.
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        command = python(MANY_LOGS, limit, count, directory)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert (ran.stdout, ran.stderr) == ("done\n", "")
        assert (Path(directory) / CLEAN_SHUTDOWN_FILE).exists()


@contextmanager
def crowded() -> Iterator[None]:
    """Let every file give up its descriptor as soon as it has opened it."""
    before, OPEN_FILES.limit = OPEN_FILES.limit, 0
    try:
        yield
    finally:
        OPEN_FILES.limit = before


@pytest.fixture
def given_up(path: Path) -> Iterator[FileMessageSet]:
    """A file of three batches that has no descriptor; it gets one again at the next use, and keeps it."""
    with crowded():
        messages = FileMessageSet(path, read_only=False, preallocate_bytes=4096)
        for offset in range(3):
            messages.append(sized_batch(offset))
    assert open_descriptors(path) == 0
    yield messages
    messages.release()


def open_descriptors(path: Path) -> int:
    return sum(os.path.realpath(each) == str(path) for each in Path("/proc/self/fd").iterdir())


def test_a_file_without_a_descriptor_is_read_and_appended_to(given_up: FileMessageSet, path: Path) -> None:
    part = given_up.read(0, given_up.size_in_bytes)
    assert (offsets(part), open_descriptors(path)) == ([0, 1, 2], 1)
    given_up.append(sized_batch(3))
    assert offsets(given_up) == [0, 1, 2, 3]
    assert path.stat().st_size == 4096
    given_up.close()
    assert path.stat().st_size == 4 * sized_batch(0).size_in_bytes
    for use in (lambda: offsets(part), lambda: given_up.append(sized_batch(4))):
        with pytest.raises(LogStateError, match="closed"):
            use()


def test_closing_a_file_without_a_descriptor_trims_it(given_up: FileMessageSet, path: Path) -> None:
    given_up.close()
    assert given_up.closed
    assert path.stat().st_size == 3 * sized_batch(0).size_in_bytes


def test_a_file_without_a_descriptor_that_is_not_closed_is_reported(path: Path) -> None:
    with crowded():
        messages = FileMessageSet(path, read_only=False)
    with pytest.warns(ResourceWarning, match="written to and not closed"):
        del messages


def test_a_file_that_was_renamed_without_a_descriptor_is_found(given_up: FileMessageSet, path: Path) -> None:
    given_up.moved_to(path.rename(path.with_suffix(".swap")))
    assert offsets(given_up) == [0, 1, 2]


def test_readers_of_a_retired_file_go_on_when_it_is_deleted(given_up: FileMessageSet, path: Path) -> None:
    part = given_up.read(0, given_up.size_in_bytes)
    given_up.retire()
    path.unlink()
    with crowded():
        assert offsets(part) == [0, 1, 2]


def test_no_other_file_is_mistaken_for_one_without_a_descriptor(given_up: FileMessageSet, path: Path) -> None:
    before = path.read_bytes()
    path.rename(path.with_suffix(".away"))
    with pytest.raises(FileNotFoundError, match=str(path)):
        given_up.append(sized_batch(3))
    path.write_bytes(before)
    with pytest.raises(FileNotFoundError, match="another file is at the path"):
        given_up.append(sized_batch(3))
    assert path.read_bytes() == before


def test_two_writers_of_one_file_do_not_overwrite_each_other(path: Path) -> None:
    with crowded():
        first = FileMessageSet(path, read_only=False)
        first.append(batch(0))
    second = FileMessageSet(path, read_only=False)
    with pytest.raises(LogLockedError, match="somebody else writes"):
        first.append(batch(1))
    second.append(batch(1))
    second.close()
    with pytest.raises(CorruptRecordError, match="somebody else has made the file longer"):
        first.append(batch(2))
    first.release()
    assert offsets(FileMessageSet(path)) == [0, 1]


def test_a_forked_child_reads_a_file_that_has_no_descriptor(given_up: FileMessageSet, path: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(0 if offsets(given_up) == [0, 1, 2] and open_descriptors(path) == 1 else 1)
    # The child does not lock it.
    given_up.append(sized_batch(3))
    assert os.waitpid(child, 0)[1] == 0


def test_a_writable_index_gives_up_its_descriptor_and_opens_its_file_again(path: Path) -> None:
    with closing(OffsetIndex(path.with_suffix(".index"), 0, max_size=1 << 10)) as index:
        index.append(1, 100)
        assert open_descriptors(index.path) == 1
        with crowded():
            FileMessageSet(path, read_only=False).close()
            assert open_descriptors(index.path) == 0
            index.append(2, 200)
            assert open_descriptors(index.path) == 0
        assert list(index) == [(1, 100), (2, 200)]
    assert open_descriptors(index.path) == 0


def test_a_writer_outlives_an_index_that_another_program_has_cut(tmp_path: Path) -> None:
    # An access to a map of it would end the process.
    index = OffsetIndex(tmp_path / f"{0:020}.index", 0, max_size=1 << 20)
    for offset in range(1, 2000):
        index.append(offset, offset)
    os.truncate(index.path, 8)
    assert index.lookup(1500) == (1, 1)
    index.append(2000, 2000)
    index.close()


def test_a_log_that_cannot_open_its_file_again_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogManager(tmp_path, "a") as manager:
        with crowded():
            log = manager.create("orders-0")
            log.append([Record(b"before")])
        with monkeypatch.context() as patched:
            refuse_open(patched, ".log")
            for change in (lambda: log.append([Record(b"lost")]), log.flush, log.roll):
                with pytest.raises(OSError, match=r"\.log"):
                    change()
        log.append([Record(b"after")])
        assert [record.value for record in log] == [b"before", b"after"]


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_threads_write_and_read_logs_that_share_few_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(OPEN_FILES, "limit", limit)
    config = LogConfig(segment_bytes=400, index_interval_bytes=1, segment_index_bytes=240)
    values = [b"%d" % number for number in range(60)]
    together = threading.Barrier(6)

    def work(name: str) -> list[bytes | None]:
        together.wait(60)
        if name.startswith("beside"):
            # A second thread reads what the first one of another log writes.
            for _ in values:
                found = [record.value for record in manager[name.removeprefix("beside-")]]
                assert found == values[: len(found)]
            return found
        for value in values:
            manager[name].append([Record(value)])
        return [record.value for record in manager[name]]

    with LogManager(tmp_path, "a", config) as manager, ThreadPoolExecutor(6) as pool:
        names = [f"t-{number}" for number in range(3)]
        for name in names:
            manager.create(name)
        assert list(pool.map(work, [*names, *(f"beside-{name}" for name in names)]))[:3] == [values] * 3
    with LogManager(tmp_path) as again:
        assert [[record.value for record in log] for log in again.values()] == [values] * 3
