"""One thread writes a log while others read it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog import IsolationLevel, Record, WritableLog
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.segment.file_message_set import FileMessageSet
from tests.helpers.logs import NOW, append, bases, epochs, fill, opened, replicated, values
from tests.helpers.making import ABORT, COMMIT, marker

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=100, segment_index_bytes=1200, retention_ms=-1)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


@contextmanager
def meanwhile(*work: Callable[[random.Random], None]) -> Iterator[None]:
    """Repeat each of `work` in a thread of its own; raise at the end what one of them raised."""
    done = threading.Event()

    def again(task: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        while not done.is_set():
            task(chance)

    with ThreadPoolExecutor(len(work)) as pool:
        running = [pool.submit(again, task, seed) for seed, task in enumerate(work)]
        try:
            yield
        finally:
            done.set()
        for each in running:
            each.result()


def one_turn(log: WritableLog, turn: int) -> None:
    """A transaction that is committed or aborted, and a plain batch; every value says its offset."""
    producer = {"producer_id": turn % 3, "producer_epoch": 0, "base_sequence": turn // 3}
    append(log, b"%d" % log.log_end_offset, is_transactional=True, **producer)
    fill(log, 1)
    ending = marker(log.log_end_offset, ABORT if turn % 2 else COMMIT, turn % 3, timestamp=NOW)
    log.append_as_follower(ending.with_offsets(log.log_end_offset, partition_leader_epoch=0))
    if turn % 4 == 3:
        replicated(log)
    if turn % 40 == 39:
        log.delete_records(log.high_watermark // 2)
        log.delete_old_segments()


def read_once(log: Log, chance: random.Random) -> None:
    start = chance.randint(log.log_start_offset, log.log_end_offset)
    isolation = chance.choice(list(IsolationLevel))
    try:
        found = log.read(start, chance.choice([1, 300, 5000]), isolation, chance.random() < 0.5)
    except OffsetOutOfRangeError:
        assert start < log.log_start_offset
        return
    records = list(found.message_set)
    assert [record.value for record in records] == [b"%d" % record.offset for record in records]
    assert all(record.offset < log.log_end_offset for record in records)


def list_once(log: Log, chance: random.Random) -> None:
    isolation = chance.choice(list(IsolationLevel))
    try:
        records = list(log.records(isolation=isolation))
    except (OffsetOutOfRangeError, FileNotFoundError):
        return  # deleted before they were reached
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert [record.value for record in records] == [b"%d" % offset for offset in offsets]


def watermarks_once(log: Log, _: random.Random) -> None:
    start = log.log_start_offset
    stable = log.last_stable_offset
    mark = log.high_watermark
    end = log.log_end_offset
    assert start >= 0
    assert stable <= mark <= end, "each was asked for before the one that it is at most"
    metadata = log.high_watermark_metadata
    assert metadata.message_offset >= mark


@pytest.mark.parametrize("turns", [50, pytest.param(150, marks=pytest.mark.slow)])
def test_readers_in_other_threads_see_whole_records_in_order(directory: Path, turns: int) -> None:
    with opened(directory, CONFIG, scheduler=None) as log:
        fill(log, 1)
        work = [lambda chance, task=task: task(log, chance) for task in (read_once, list_once, watermarks_once)]
        with meanwhile(*work, work[0]):
            for turn in range(turns):
                one_turn(log, turn)
        assert len(bases(log)) > 3
        assert log.log_start_offset > 0
        log.close()


def test_readers_of_their_own_log_follow_the_writer(directory: Path) -> None:
    with opened(directory, CONFIG, scheduler=None) as log, ReadOnlyLog(directory) as reader:
        fill(log, 1)
        with meanwhile(lambda chance: list_once(reader, chance), lambda chance: read_once(reader, chance)):
            for turn in range(60):
                one_turn(log, turn)
        start = log.log_start_offset  # which is in no checkpoint that the reader could read
        assert [record.value for record in reader.records(start)] == values(log)
        log.close()


def test_several_threads_may_append(directory: Path) -> None:
    def write(thread: int) -> None:
        for number in range(50):
            log.append([Record(b"%d %d" % (thread, number))] * 2)

    with opened(directory, CONFIG, scheduler=None) as log:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        found = values(log)
        assert len(found) == log.log_end_offset == 400
        assert [record.offset for record in log] == list(range(400))
        for thread in range(4):
            own = [value for value in found if value and value.startswith(b"%d " % thread)]
            assert own == [b"%d %d" % (thread, number) for number in range(50) for _ in range(2)]
        assert found[::2] == found[1::2], "a batch is whole"
        log.close()


def test_a_full_disk_refuses_an_append_and_the_next_one_goes_on(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with opened(directory) as log:
        sent = {"producer_id": 1, "producer_epoch": 0}
        append(log, b"0", base_sequence=0, **sent)
        with monkeypatch.context() as patched:
            patched.setattr(FileMessageSet, "append_pieces", full)
            with pytest.raises(OSError, match="No space"):
                append(log, b"1", base_sequence=1, epoch=3, **sent)
        assert (values(log), log.log_end_offset) == ([b"0"], 1)
        assert append(log, b"1", base_sequence=1, epoch=3, **sent) == 1
        assert (values(log), epochs(log)) == ([b"0", b"1"], [(0, 0), (3, 1)])
