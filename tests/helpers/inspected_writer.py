"""A writer in a process of its own: appends, rolls, truncates and deletes, until it is stopped.

with writer(directory) as control:
    ...                                  # look at it meanwhile
    start, end = stopped(control)
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog import LogConfig, Record

# How long tests watch it.
SECONDS = float(os.environ.get("KAFKALOG_INSPECTOR_LIVE_SECONDS", "4"))
PATIENCE_SECONDS = 180


@contextmanager
def writer(directory: Path) -> Iterator[Connection]:
    """Start it and wait until the log is open; it must be stopped in the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=write, args=(directory, theirs), daemon=True)
    process.start()
    try:
        assert answer(ours) == "open"
        yield ours
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == 0
    finally:
        process.kill()


def stopped(control: Connection) -> tuple[int, int]:
    """Stop the writer and return where the log starts and ends."""
    control.send("stop")
    start, end = answer(control)
    return start, end


def answer(control: Connection) -> Any:
    assert control.poll(PATIENCE_SECONDS), "the writer does not answer"
    return control.recv()


def value(offset: int) -> bytes:
    """The value of the record with that offset, in whichever life of the log."""
    return b"%d:" % offset + b"x" * (offset * 37 % 150)


def write(directory: Path, control: Connection) -> None:
    """Answer "open", write until anything comes, answer (log start, log end)."""
    # That it truncates below the high watermark, it would say each time.
    logging.disable()
    chance = random.Random(7)
    config = LogConfig(segment_bytes=1 << 20, index_interval_bytes=256, file_delete_delay_ms=0)
    with kafkalog.open(directory, "a", config) as log:
        control.send("open")
        while not control.poll():
            # Else it truncates a hundred times a second, and no screen is drawn in between on a busy machine.
            time.sleep(0.002)
            end = log.log_end_offset
            log.append([Record(value(end + i), b"k%d" % (end + i)) for i in range(chance.randrange(1, 40))])
            what = chance.random()
            if what < 0.05:
                log.roll()
            elif what < 0.08:
                log.truncate_to(max(log.log_start_offset, log.log_end_offset - chance.randrange(300)))
            elif what < 0.11:
                log.delete_records(max(log.log_start_offset, log.log_end_offset - 2000))
                log.delete_old_segments()
            elif what < 0.112:
                log.truncate_fully_and_start_at(log.log_end_offset + 10)
        # Where a batch was cut in the middle the log ends behind its last batch, which no reader can tell.
        log.append([Record(value(log.log_end_offset))])
        control.send((log.log_start_offset, log.log_end_offset))
