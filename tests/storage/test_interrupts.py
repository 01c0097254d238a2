"""A signal whose handler raises, as Ctrl-C's does: no offset twice; a log that goes on, or says that it does not."""

import gc
import linecache
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kafkalog
from kafkalog import LogConfig, Record, WritableLog
from kafkalog.errors import LogStateError
from kafkalog.storage.append import append_records as embedded
from kafkalog.storage.data_dir import directory_lock, session
from kafkalog.storage.data_dir.directory_lock import lock_data_dir
from kafkalog.storage.files import appendable_file as appending
from kafkalog.storage.local_log import local_log
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.local_log import truncate
from kafkalog.storage.scheduler import BackgroundScheduler
from kafkalog.storage.segment import log_segment as segment

SMALL = LogConfig(index_interval_bytes=0, segment_index_bytes=240, segment_bytes=400)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def append(log: WritableLog, value: bytes) -> None:
    log.append([Record(value)])


@pytest.mark.parametrize("then", ["append", "roll", "close"])
def test_a_batch_whose_append_was_interrupted_once_it_was_written_is_not_in_the_log(
    directory: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    with kafkalog.open(directory, "a", SMALL) as log:
        append(log, b"0")
        with monkeypatch.context() as patch:
            patch.setattr(LocalLog, "_end_at", interrupt)
            with pytest.raises(KeyboardInterrupt):
                append(log, b"x")
        assert [record.value for record in log] == [b"0"]
        if then == "roll":
            log.roll()
        if then != "close":
            append(log, b"1")
    with kafkalog.open(directory, "a") as again:
        expected = [(0, b"0")] if then == "close" else [(0, b"0"), (1, b"1")]
        assert [(record.offset, record.value) for record in again] == expected
        assert again.log_end_offset == again.high_watermark == len(expected)


def test_a_truncation_that_is_interrupted_leaves_a_log_that_takes_no_more_until_it_is_opened_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kafkalog.open(directory, "a")
    for number in range(4):
        append(log, b"%d" % number)
    monkeypatch.setattr(truncate, "_rebuild_producers", interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.truncate_to(2)
    assert log.high_watermark <= log.log_end_offset
    with pytest.raises(LogStateError, match="KeyboardInterrupt"):
        append(log, b"x")
    log.abandon()
    with kafkalog.open(directory, "a") as again:
        assert [record.value for record in again] == [b"0", b"1"]


def interrupt_a_change_of(directory: Path) -> None:
    with kafkalog.open(directory, "a") as log:
        append(log, b"x")
        with log._state.local.uninterrupted():
            raise KeyboardInterrupt


def test_leaving_the_with_block_does_not_hide_what_has_interrupted_a_change(directory: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt_a_change_of(directory)
    with kafkalog.open(directory, "a") as again:
        assert [record.value for record in again] == [b"x"]


def test_a_scheduler_whose_thread_was_kept_from_its_start_does_what_is_due_and_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    scheduler = BackgroundScheduler()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            scheduler.schedule("first", lambda: done.append("first"))
    scheduler.shutdown()
    assert done == ["first"]


@pytest.fixture
def _few_to_look_through() -> Iterator[None]:
    """To collect garbage after each signal takes no longer than what the test itself has made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


LOCKING = {directory_lock.__file__, session.__file__}


def interrupted_once_more(
    struck: set[tuple[str, int]], action: Callable[[], object], files: Collection[str] = LOCKING
) -> bool:
    """Do it, and have a signal strike at a line of these files where none has struck; False: there is none.

    The interpreter lets signals in where something is called, and not between a `with` and its lock.
    """
    before = len(struck)

    def strike(frame: FrameType, event: str, _: object) -> Any:
        callers = frame.f_code, frame.f_back.f_code if frame.f_back else frame.f_code
        if frame.f_code.co_filename not in files or any(each.co_name == "__del__" for each in callers):
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        text = linecache.getline(*place).strip()
        if event == "line" and "(" in text and not text.startswith("with ") and place not in struck:
            struck.add(place)
            sys.settrace(None)
            raise KeyboardInterrupt
        return strike

    tracing = sys.gettrace()
    sys.settrace(strike)
    try:
        action()
    except KeyboardInterrupt:
        assert len(struck) > before
    finally:
        sys.settrace(tracing)
    return len(struck) > before


@pytest.mark.usefixtures("_few_to_look_through")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("what", ["open and close", "close"])
def test_wherever_a_signal_strikes_while_a_lock_is_taken_or_released_no_byte_of_it_stays_locked(
    tmp_path: Path, what: str
) -> None:
    struck: set[tuple[str, int]] = set()
    more = True
    while more:
        if what == "open and close":
            more = interrupted_once_more(struck, lambda: kafkalog.open(tmp_path / "topic-0", "a").close())
        else:
            more = interrupted_once_more(struck, kafkalog.open(tmp_path / "topic-0", "a").close)
        gc.collect()
        lock_data_dir(tmp_path).release()
        assert not directory_lock._files
    assert len(struck) > 20


@pytest.mark.usefixtures("_few_to_look_through")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_wherever_a_signal_strikes_in_an_append_readers_find_what_the_log_says_it_holds(directory: Path) -> None:
    files = {each.__file__ for each in (embedded, local_log, segment, appending)}
    struck: set[tuple[str, int]] = set()
    log = kafkalog.open(directory, "a", SMALL)
    while interrupted_once_more(struck, partial(append, log, b"v" * 20), files):
        if log._state.local.failure is not None:
            log.abandon()
            gc.collect()
            log = kafkalog.open(directory, "a", SMALL)
        assert [record.offset for record in log] == list(range(log.log_end_offset))
    log.close()
    assert len(struck) > 30
