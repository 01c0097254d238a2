"""One thread truncates, closes or deletes a log while others flush and read it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import Record, RecordColumns, WritableLog
from kafkalog.errors import LogStateError, LogTruncatedError
from kafkalog.storage.local_log.local_log import LocalLog
from kafkalog.storage.local_log.log_state import LogState
from kafkalog.storage.segment.log_segment import LogSegment
from kafkalog.storage.segment.replace_segments import SegmentHome
from tests.helpers.making import SMALL, segment


@pytest.fixture
def log(tmp_path: Path) -> Any:
    """Nine records, three a segment."""
    log = kafkalog.open(tmp_path / "t-0", "a")
    for number in range(9):
        if number in (3, 6):
            log.roll()
        log.append([Record(b"%d" % number)])
    yield log
    log.abandon()


def elsewhere(work: Callable[[], object]) -> None:
    """Done in another thread, to its end."""
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


def before(method: Callable[..., Any], work: Callable[[], object]) -> Callable[..., Any]:
    """The method, before which `work` is done once, in another thread: when the test, not its log, first calls it."""
    left = [work]

    def late(*arguments: Any, **named: Any) -> Any:
        if left and threading.current_thread() is threading.main_thread():
            elsewhere(left.pop())
        return method(*arguments, **named)

    return late


# --- the list of segments


def ask_all(log: WritableLog) -> None:
    assert [record.value for record in log] in ([b"6", b"7", b"8"], [])
    assert log.count() in (3, 0)
    assert (log.high_watermark, log.last_stable_offset) in ((6, 6), (2, 2), (9, 9))
    assert len(log.segments) == 1, "neither none nor both the old one and the new one"


@pytest.mark.parametrize("offset", [2, 6, 20])
def test_other_threads_flush_and_read_one_segment_while_a_full_truncation_replaces_it(
    log: WritableLog, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = list[Future[None]]()

        def ask() -> None:
            # At its end a flush waits for the truncation's.
            asked.append(pool.submit(log.flush, force_active=True))
            asked.append(pool.submit(ask_all, log))
            wait(asked[1:])

        monkeypatch.setattr(SegmentHome, "segment", before(SegmentHome.segment, ask))
        log.truncate_fully_and_start_at(offset)
        for each in asked:
            each.result()
    assert asked
    log.append([Record(b"new")])
    assert [(record.offset, record.value) for record in log] == [(offset, b"new")]


def test_two_truncations_during_a_read_are_not_reported_as_damage(
    log: WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_and_go_on() -> None:
        log.truncate_to(1)
        for number in range(1, 6):
            log.append([Record(b"b%d" % number)])

    def begin_anew() -> None:
        log.truncate_fully_and_start_at(0)
        for number in range(3):
            log.append([Record(b"c%d" % number)])
        log.roll()
        log.append([Record(b"c3")])

    # It takes the first segment, behind which offset 3 follows, for one of three records; and finds six in it.
    monkeypatch.setattr(LogSegment, "opened", before(LogSegment.opened, cut_and_go_on))
    monkeypatch.setattr(RecordColumns, "narrowed", before(RecordColumns.narrowed, begin_anew))
    found: list[bytes | None] = []
    with pytest.raises(LogTruncatedError):
        found.extend(record.value for record in log)
    assert found == [b"0", b"b1", b"b2"]


# --- a segment whose files get another name


@pytest.mark.parametrize(
    "ask", [lambda made: made.flush(), lambda made: made.opened().close()], ids=["flushed", "opened"]
)
def test_a_segment_is_flushed_and_opened_while_its_files_are_renamed(
    tmp_path: Path, ask: Callable[[LogSegment], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = segment(tmp_path)
    made.flush()
    made.seal()
    made.flush()
    replace, asked = Path.replace, list[Future[None]]()
    with ThreadPoolExecutor(1) as pool:

        def late(path: Path, target: Path) -> Path:
            moved = replace(path, target)
            if not asked:
                asked.append(pool.submit(ask, made))
                # It waits until the segment knows its new name; otherwise it would fail now, and be done.
                wait(asked, timeout=0.05)
            return moved

        monkeypatch.setattr(Path, "replace", late)
        made.change_file_suffixes("", ".deleted")
        asked[0].result()
    made.release()


def test_a_retired_segment_gets_no_indexes(tmp_path: Path) -> None:
    made = segment(tmp_path, config=SMALL)
    made.change_file_suffixes("", ".deleted")
    made.retire()
    made.flush()
    assert [each.name for each in tmp_path.iterdir()] == [f"{40:020}.log.deleted"]
    made.release()


# --- a log that is closed or deleted


def test_a_flush_that_ends_after_the_log_was_deleted_raises_nothing(
    log: WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = LocalLog.flush

    def then_gone(self: LocalLog, offset: int) -> None:
        flush(self, offset)
        before(lambda: None, log.delete)()

    monkeypatch.setattr(LocalLog, "flush", then_gone)
    log.flush()
    assert not log.directory.exists()


def test_a_log_that_is_deleted_while_it_is_flushed_has_no_directory_to_flush(
    log: WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogSegment, "flush", before(LogSegment.flush, log.delete))
    log.flush()
    assert not log.directory.exists()


def test_a_flush_while_another_thread_closes_the_log_raises_that_it_is_closed(
    log: WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogState, "check_alone", before(LogState.check_alone, log.close))
    with pytest.raises(LogStateError, match="has been closed"):
        log.flush()


ASKED: dict[str, Callable[[WritableLog], object]] = {
    "segments": lambda log: log.segments,
    "read": lambda log: log.read(0, 1000),
    "records": list,
    "batches": lambda log: list(log.batches()),
    "count": lambda log: log.count(),
    "time": lambda log: log.offset_for_timestamp(0),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_log_that_was_deleted_is_closed(log: WritableLog, asked: str) -> None:
    log.delete()
    with pytest.raises(LogStateError, match="has been closed"):
        ASKED[asked](log)


@pytest.mark.parametrize("asked", ASKED)
def test_a_log_that_is_being_deleted_is_closed(log: WritableLog, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = []

    def ask() -> None:
        with pytest.raises(LogStateError, match="has been closed") as error:
            ASKED[asked](log)
        wrong.append(error.value)

    monkeypatch.setattr(Path, "rmdir", before(Path.rmdir, ask))
    log.delete()
    assert len(wrong) == 1
