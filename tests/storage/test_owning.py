"""What is open to be written to, forgotten or taken along by a forked child."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kafkalog
from kafkalog import LogManager, Record
from kafkalog.errors import LogLockedError
from kafkalog.storage.data_dir import session as sessions
from kafkalog.storage.data_dir.directory_lock import lock_partition
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from kafkalog.storage.log_config import LogConfig
from tests.helpers.locking import can_be_locked
from tests.helpers.logs import values

ROLLS = LogConfig(segment_bytes=300, index_interval_bytes=10, segment_index_bytes=240)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextmanager
def forgetting(*names: Path) -> Iterator[None]:
    """What is opened in here and not closed is collected at the end, and told of by its path."""
    gc.collect()  # what others have forgotten is theirs
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
        collect(lambda: len(told) == len(names))
    assert {each.category for each in told} == {ResourceWarning}
    assert sorted(str(each.message).partition(" was ")[0] for each in told) == sorted(map(str, names))


def collect(done: Callable[[], bool]) -> None:
    """Collect garbage; what is still to be done in the background keeps its log until then."""
    give_up = time.monotonic() + 180
    gc.collect()
    while not done() and time.monotonic() < give_up:
        time.sleep(0.01)
        gc.collect()


def write(directory: Path, *given: bytes, config: LogConfig | None = None) -> None:
    """Appended, rolled perhaps, and forgotten."""
    log = kafkalog.open(directory, "a", config)
    for value in given:
        log.append([Record(value)])


# --- forgotten


@pytest.mark.parametrize("config", [None, ROLLS], ids=["one segment", "rolled"])
def test_a_log_that_was_forgotten_is_given_up_with_a_warning_and_can_be_opened_again(
    data_dir: Path, config: LogConfig | None
) -> None:
    given = [b"%d" % number * 50 for number in range(9)]
    with forgetting(data_dir / "a-0"):
        write(data_dir / "a-0", *given, config=config)
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    assert can_be_locked("partition", data_dir / "a-0")
    with kafkalog.open(data_dir / "a-0", "a") as log:
        assert values(log) == given
    with LogManager(data_dir, "a") as manager:
        assert values(manager["a-0"]) == given


def test_a_log_that_was_forgotten_is_recovered_when_it_is_opened_beside_another(data_dir: Path) -> None:
    kafkalog.open(data_dir / "a-0", "a").close()
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with kafkalog.open(data_dir / "b-0", "a"):
        with forgetting(data_dir / "a-0"):
            write(data_dir / "a-0", b"v")
        segment = data_dir / "a-0" / f"{0:020d}.log"
        segment.write_bytes(segment.read_bytes() + b"torn")
        with kafkalog.open(data_dir / "a-0", "a") as log:
            assert values(log) == [b"v"]
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def test_a_log_that_was_given_up_is_recovered_when_it_is_opened_beside_another(data_dir: Path) -> None:
    kafkalog.open(data_dir / "a-0", "a").close()
    with kafkalog.open(data_dir / "b-0", "a"):
        log = kafkalog.open(data_dir / "a-0", "a")
        log.append([Record(b"v")])
        log.abandon()
        segment = data_dir / "a-0" / f"{0:020d}.log"
        segment.write_bytes(segment.read_bytes() + b"torn")
        with kafkalog.open(data_dir / "a-0", "a") as log:
            assert values(log) == [b"v"]


def test_a_data_directory_that_was_forgotten_is_given_up_with_its_logs(data_dir: Path) -> None:
    with forgetting(data_dir, data_dir / "a-0", data_dir / "a-1"):
        manager = LogManager(data_dir, "a")
        for name in ("a-0", "a-1"):
            manager.create(name).append([Record(name.encode())])
        del manager
    assert can_be_locked("data_dir", data_dir)
    with LogManager(data_dir, "a") as manager:
        assert [values(manager[name]) for name in manager] == [[b"a-0"], [b"a-1"]]


def test_a_log_keeps_its_data_directory_open_though_that_was_forgotten(data_dir: Path) -> None:
    with forgetting(data_dir, data_dir / "a-0"):
        log = LogManager(data_dir, "a").create("a-0")
        gc.collect()
        log.append([Record(b"v")])
        assert not can_be_locked("data_dir", data_dir)
        del log


def test_what_was_closed_or_given_up_or_deleted_in_time_is_not_told_of(data_dir: Path) -> None:
    for end in ("close", "abandon", "delete"):
        getattr(kafkalog.open(data_dir / "a-0", "a"), end)()
        getattr(kafkalog.open(data_dir / "a-0", "a"), end)()
    LogManager(data_dir, "a").close()
    gc.collect()


def test_what_is_forgotten_while_the_locks_are_at_work_is_let_go_of_by_the_next_who_comes(data_dir: Path) -> None:
    with forgetting(data_dir / "a-0"):
        write(data_dir / "a-0", b"v")
        with sessions._guard:
            collect(lambda: bool(sessions._lost))
        assert not can_be_locked("partition", data_dir / "a-0")
    kafkalog.open(data_dir / "b-0", "a").close()
    assert can_be_locked("partition", data_dir / "a-0")


def test_who_has_something_open_already_is_told_what(data_dir: Path) -> None:
    with kafkalog.open(data_dir / "a-0", "a"):
        with pytest.raises(LogLockedError, match="a-0: it is open in this process already"):
            kafkalog.open(data_dir / "a-0", "a")
        with pytest.raises(LogLockedError, match=r"data: .*a-0 is open in this process already"):
            LogManager(data_dir, "a")
    with LogManager(data_dir, "a"), pytest.raises(LogLockedError, match=r"a-0: .*data is open in this process already"):
        lock_partition(data_dir / "a-0")


# --- forked

IN_CHILD = """
import gc, os, sys, threading, time
import kafkalog
from kafkalog import IsolationLevel, LogConfig, LogManager, Record
from kafkalog.errors import LogStateError

data, how = sys.argv[1:]
config = LogConfig(segment_bytes=300, index_interval_bytes=10, segment_index_bytes=240)
manager = LogManager(data, "a", config) if how == "manager" else None
log = manager.create("a-0") if how == "manager" else kafkalog.open(data + "/a-0", "a", config)
log.append([Record(b"parent")])

def files():
    root, found = data, {}
    for at, _, names in os.walk(root):
        # To close a lock file gives the locks away.
        for path in (os.path.join(at, name) for name in names if name != ".lock"):
            with open(path, "rb") as file:
                found[path] = file.read()
    return found

before = files()
# Another thread is busy with the log when the process is forked.
held = threading.Event()
def hold():
    with log._state.lock:
        held.set()
        time.sleep(1)
threading.Thread(target=hold).start()
held.wait()

child = os.fork()
if not child:
    refused = 0
    for change in (
        lambda: log.append([Record(b"child")]), log.roll, log.delete, lambda: log.truncate_to(0),
        lambda: log.flush(force_active=True), lambda: log.update_high_watermark(0),
        *((manager.checkpoint, lambda: manager["a-0"], lambda: manager.create("b-0")) if how == "manager" else ()),
    ):
        try:
            change()
        except LogStateError as error:
            refused += "forked" in str(error)
    assert refused == (9 if how == "manager" else 6), refused
    for isolation in IsolationLevel:
        assert [record.value for record in log.records(isolation=isolation)] == [b"parent"]
    with log:
        pass
    log.abandon()
    if how == "manager":
        manager.close()
    del log, manager
    gc.collect()
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert files() == before
for number in range(9):
    log.append([Record(b"%d" % number * 50)])
log.roll()
(manager if how == "manager" else log).close()
with kafkalog.open(data + "/a-0") as log:
    assert log.count() == 10
assert os.path.exists(data + "/.kafka_cleanshutdown")
print("well")
"""


@pytest.mark.parametrize("how", ["log", "manager"])
def test_a_forked_child_reads_and_changes_nothing_whatever_it_tries(data_dir: Path, how: str) -> None:
    # Python 3.12 warns of forking with threads.
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", IN_CHILD, str(data_dir), how]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=600, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
