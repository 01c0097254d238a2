"""Readers beside a writer that appends, rolls, truncates and deletes: in other threads, and in another process."""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import pytest

import kafkalog
from kafkalog import IsolationLevel, Log, Record, WritableLog
from tests.crash.follow import GONE, follow, value
from tests.crash.workload import CONFIG


def _append(log: WritableLog, count: int) -> None:
    end = log.log_end_offset
    log.append([Record(value(offset)) for offset in range(end, end + count)])


def _read(log: Log, isolation: IsolationLevel, start: int) -> None:
    """Whole records, each with the value of its offset, none twice, none before those before it."""
    last = start - 1
    for record in log.records(start, isolation=isolation):
        assert record.offset > last
        assert record.value == value(record.offset)
        last = record.offset


class _Readers:
    """Threads that read again and again until the writer has ended. problems: what stopped one of them."""

    def __init__(self, log: WritableLog) -> None:
        self.log = log
        self.ended = threading.Event()
        self.problems: list[BaseException] = []
        reads = [partial(self._read_all, each) for each in IsolationLevel]
        self.threads = [threading.Thread(target=self._repeat, args=(read,)) for read in (*reads, self._fetch)]

    def _read_all(self, isolation: IsolationLevel) -> None:
        _read(self.log, isolation, self.log.log_start_offset)

    def _fetch(self) -> None:
        found = self.log.read(self.log.log_start_offset, 500, IsolationLevel.TXN_COMMITTED, min_one_message=True)
        for record in found.message_set:
            assert record.value == value(record.offset)

    def _repeat(self, read: Callable[[], None]) -> None:
        while not self.ended.is_set():
            try:
                with suppress(*GONE):
                    read()
            except BaseException as error:  # noqa: BLE001 - the test reports it
                self.problems.append(error)
                return

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        for thread in self.threads:
            thread.join()


def _change(log: WritableLog, rng: random.Random, truncates: bool) -> None:
    _append(log, rng.randint(1, 4))
    if rng.random() < 0.1:
        log.delete_records(rng.randint(log.log_start_offset, log.high_watermark))
    if rng.random() < 0.05:
        log.delete_old_segments()
    if rng.random() < 0.05:
        log.roll()
    if truncates and rng.random() < 0.1:
        log.truncate_to(max(log.log_start_offset, log.log_end_offset - rng.randint(1, 10)))


@pytest.mark.parametrize("steps", [60, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("truncates", [False, True])
def test_threads_read_whole_records_while_the_log_is_changed(tmp_path: Path, truncates: bool, steps: int) -> None:
    rng = random.Random(1)
    with kafkalog.open(tmp_path / "orders-0", "a", CONFIG) as log, _Readers(log) as readers:
        for _ in range(steps):
            _change(log, rng, truncates)
    # A batch that is cut off while it is read may be reported as damage; it is never a wrong record.
    assert [each for each in readers.problems if not truncates or isinstance(each, AssertionError)] == []


@pytest.mark.slow
def test_a_reader_in_another_process_follows_a_log_through_rolls_and_retention(tmp_path: Path) -> None:
    directory, end = tmp_path / "orders-0", 1500
    with kafkalog.open(directory, "a", CONFIG) as log:
        _append(log, 1)
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        other = context.Process(target=follow, args=(directory, end, there))
        other.start()
        there.close()
        try:
            assert here.poll(300), "the reader does not open the log"
            assert here.recv() == "open"
            while log.log_end_offset < end:
                _append(log, min(5, end - log.log_end_offset))
                if log.log_end_offset % 200 == 1:
                    log.delete_old_segments()
            assert here.poll(300), "the reader does not come to the end"
            seen, wrong = here.recv()
        finally:
            other.join(60)
            other.kill()
            other.join()
        assert log.log_start_offset > 0
    assert wrong == 0
    assert seen >= end - log.log_start_offset
