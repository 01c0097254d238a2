"""Ownership of writable logs: garbage collection of those that were not closed, and fork."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import LogManager, Record
from kafkalog.errors import LogLockedError
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from kafkalog.storage.log_config import LogConfig
from tests.helpers.locking import can_be_locked, lock_partition
from tests.helpers.logs import values

SECONDS = 120
ROLLS = LogConfig(segment_bytes=300, index_interval_bytes=10, segment_index_bytes=240)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(scope="module", autouse=True)
def short_collections() -> Iterator[None]:
    """Leave out of each collection what exists already, so that it takes milliseconds."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@contextmanager
def expect_warnings(*paths: Path) -> Iterator[None]:
    """Expect a ResourceWarning for each of these paths, which the block opens and does not close."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
        collect_until(lambda: len(caught) == len(paths), f"{len(paths)} warnings")
    assert {each.category for each in caught} == {ResourceWarning}
    assert sorted(str(each.message).partition(" was ")[0] for each in caught) == sorted(map(str, paths))


def collect_until(done: Callable[[], bool], awaited: str) -> None:
    """Collect garbage until `done`: tasks in the background may hold references to a log for some time."""
    give_up = time.monotonic() + SECONDS
    gc.collect()
    while not done():
        assert time.monotonic() < give_up, f"waited {SECONDS} s for {awaited}"
        time.sleep(0.01)
        gc.collect()


def write(directory: Path, *given: bytes, config: LogConfig | None = None) -> None:
    """Append to a log that is not closed."""
    log = kafkalog.open(directory, "a", config)
    for value in given:
        log.append([Record(value)])


# --- not closed


@pytest.mark.parametrize("config", [None, ROLLS], ids=["one segment", "rolled"])
def test_an_unclosed_log_raises_a_resource_warning_and_can_be_opened_again(
    data_dir: Path, config: LogConfig | None
) -> None:
    given = [b"%d" % number * 50 for number in range(9)]
    with expect_warnings(data_dir / "a-0"):
        write(data_dir / "a-0", *given, config=config)
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with kafkalog.open(data_dir / "a-0", "a") as log:
        assert values(log) == given
    with LogManager(data_dir, "a") as manager:
        assert values(manager["a-0"]) == given


def test_an_unclosed_log_is_recovered_when_opened_again_in_the_same_session(data_dir: Path) -> None:
    kafkalog.open(data_dir / "a-0", "a").close()
    assert (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    with kafkalog.open(data_dir / "b-0", "a"):
        with expect_warnings(data_dir / "a-0"):
            write(data_dir / "a-0", b"v")
        segment = data_dir / "a-0" / f"{0:020d}.log"
        segment.write_bytes(segment.read_bytes() + b"torn")
        with kafkalog.open(data_dir / "a-0", "a") as log:
            assert values(log) == [b"v"]
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()


def test_an_abandoned_log_is_recovered_when_opened_again_in_the_same_session(data_dir: Path) -> None:
    kafkalog.open(data_dir / "a-0", "a").close()
    with kafkalog.open(data_dir / "b-0", "a"):
        log = kafkalog.open(data_dir / "a-0", "a")
        log.append([Record(b"v")])
        log.abandon()
        segment = data_dir / "a-0" / f"{0:020d}.log"
        segment.write_bytes(segment.read_bytes() + b"torn")
        with kafkalog.open(data_dir / "a-0", "a") as log:
            assert values(log) == [b"v"]


def test_an_unclosed_manager_raises_resource_warnings_for_itself_and_its_logs(data_dir: Path) -> None:
    with expect_warnings(data_dir, data_dir / "a-0", data_dir / "a-1"):
        manager = LogManager(data_dir, "a")
        for name in ("a-0", "a-1"):
            manager.create(name).append([Record(name.encode())])
        del manager
    with LogManager(data_dir, "a") as manager:
        assert [values(manager[name]) for name in manager] == [[b"a-0"], [b"a-1"]]


@pytest.mark.slow
def test_unclosed_logs_and_managers_release_their_locks(data_dir: Path) -> None:
    with expect_warnings(data_dir / "a-0"):
        write(data_dir / "a-0", b"v")
    assert can_be_locked("partition", data_dir / "a-0")
    with expect_warnings(data_dir, data_dir / "a-0"):
        log = LogManager(data_dir, "a")["a-0"]
        gc.collect()
        assert not can_be_locked("data_dir", data_dir)
        del log
    assert can_be_locked("data_dir", data_dir)


def test_a_log_keeps_its_unreferenced_manager_open(data_dir: Path) -> None:
    with expect_warnings(data_dir, data_dir / "a-0"):
        log = LogManager(data_dir, "a").create("a-0")
        gc.collect()
        log.append([Record(b"v")])
        with pytest.raises(LogLockedError, match="open in this process already"):
            LogManager(data_dir, "a")
        del log


def test_closed_logs_raise_no_resource_warning(data_dir: Path) -> None:
    for end in ("close", "abandon", "delete"):
        getattr(kafkalog.open(data_dir / "a-0", "a"), end)()
        getattr(kafkalog.open(data_dir / "a-0", "a"), end)()
    LogManager(data_dir, "a").close()
    gc.collect()


def test_a_log_collected_while_another_thread_opens_one_waits_for_that_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    utime, opening, go_on = os.utime, threading.Event(), threading.Event()

    def slow_utime(*arguments: Any, **settings: Any) -> None:
        opening.set()
        assert go_on.wait(SECONDS)
        utime(*arguments, **settings)

    logs = [kafkalog.open(tmp_path / "mine" / "a-0", "a")]
    # A data directory is touched when its first partition is opened.
    monkeypatch.setattr(os, "utime", slow_utime)
    with ThreadPoolExecutor(2) as threads:
        other = threads.submit(kafkalog.open, tmp_path / "other" / "b-0", "a")
        assert opening.wait(SECONDS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lost = threads.submit(logs.clear)
            go_on.set()
            lost.result(SECONDS)
        other.result(SECONDS).close()
    with kafkalog.open(tmp_path / "mine" / "a-0", "a") as again:
        assert values(again) == []


def test_the_lock_error_names_the_directory_that_is_open_already(data_dir: Path) -> None:
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
locked = threading.Event()
def keep_locked():
    with log._state.lock:
        locked.set()
        time.sleep(1)
threading.Thread(target=keep_locked).start()
assert locked.wait(60)

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


@pytest.mark.slow
@pytest.mark.parametrize("how", ["log", "manager"])
def test_a_forked_child_can_read_and_changes_nothing(data_dir: Path, how: str) -> None:
    # Python 3.12 warns of forking with threads.
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", IN_CHILD, str(data_dir), how]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=SECONDS, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")
