"""A signal whose handler raises, as Ctrl-C's does: no offset twice; a log that goes on, or says that it does not."""

import gc
import linecache
import sys
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

import kafkalog
from kafkalog import LogConfig, Record, WritableLog
from kafkalog.errors import LogStateError
from kafkalog.storage.append import append_records as embedded
from kafkalog.storage.checkpoint.clean_shutdown_file import was_clean_shutdown
from kafkalog.storage.data_dir.session import Session
from kafkalog.storage.files import appendable_file as appending
from kafkalog.storage.local_log import local_log
from kafkalog.storage.local_log import truncate as truncating
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.segment import log_segment as segment
from kafkalog.storage.segment.log_segment import LogSegment
from tests.helpers.locking import lock_data_dir

SMALL = LogConfig(index_interval_bytes=0, segment_index_bytes=240, segment_bytes=400)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def then_interrupt(method: Callable[..., object]) -> Callable[..., None]:
    """Return the method followed by an interrupt."""

    def interrupted(*arguments: Any) -> None:
        method(*arguments)
        raise KeyboardInterrupt

    return interrupted


def append(log: WritableLog, value: bytes) -> None:
    log.append([Record(value)])


@pytest.mark.parametrize("then", ["append", "roll", "close"])
def test_a_batch_whose_append_was_interrupted_once_it_was_written_is_not_in_the_log(
    directory: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    with kafkalog.open(directory, "a", SMALL) as log:
        append(log, b"0")
        with monkeypatch.context() as patch:
            patch.setattr(LogSegment, "append", then_interrupt(LogSegment.append))
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


def test_an_interrupted_truncation_closes_the_log_to_appends_until_it_is_opened_again(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kafkalog.open(directory, "a")
    for number in range(4):
        append(log, b"%d" % number)
    monkeypatch.setattr(truncating, "rebuild_producer_state", interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.truncate_to(2)
    assert log.high_watermark <= log.log_end_offset
    with pytest.raises(LogStateError, match="KeyboardInterrupt"):
        append(log, b"x")
    log.abandon()
    with kafkalog.open(directory, "a") as again:
        assert [record.value for record in again] == [b"0", b"1"]


def test_leaving_the_with_block_does_not_hide_the_interruption_of_a_change(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(truncating, "rebuild_producer_state", interrupt)
    log = kafkalog.open(directory, "a")
    append(log, b"x")
    append(log, b"y")
    with pytest.raises(KeyboardInterrupt), log:
        log.truncate_to(1)
    monkeypatch.undo()
    with kafkalog.open(directory, "a") as again:
        assert [record.value for record in again] == [b"x"]


@pytest.mark.parametrize("where", ["load", "flush", "update_checkpoints", "in the block"])
def test_an_interrupted_log_leaves_nothing_locked(directory: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    owners: dict[str, object] = {"load": WritableLog, "flush": LogState, "update_checkpoints": Session}

    def write() -> None:
        with kafkalog.open(directory, "a") as log:
            append(log, b"0")
            if where == "in the block":
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if where in owners:
            patch.setattr(owners[where], where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            write()
    assert was_clean_shutdown(directory.parent) == (where == "in the block")
    lock_data_dir(directory.parent).release()


@pytest.fixture
def _few_to_look_through() -> Iterator[None]:
    """Leave out of each garbage collection whatever there was before the test."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def source(module: ModuleType) -> str:
    assert module.__file__ is not None
    return module.__file__


def interrupted_once_more(struck: set[tuple[str, int]], action: Callable[[], object], files: Collection[str]) -> bool:
    """Call `action` and interrupt it at a line of these files that is not in `struck` yet.

    Return False if there is none.

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


def takes_appends(log: WritableLog) -> bool:
    try:
        append(log, b"v")
    except LogStateError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.usefixtures("_few_to_look_through")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_signal_at_any_line_of_an_append_leaves_the_log_and_its_end_in_agreement(directory: Path) -> None:
    files = {source(each) for each in (embedded, local_log, segment, appending)}
    struck: set[tuple[str, int]] = set()
    log = kafkalog.open(directory, "a", SMALL)
    while interrupted_once_more(struck, partial(append, log, b"v" * 20), files):
        if not takes_appends(log):
            log.abandon()
            gc.collect()
            log = kafkalog.open(directory, "a", SMALL)
        assert [record.offset for record in log] == list(range(log.log_end_offset))
    log.close()
    assert len(struck) > 30
