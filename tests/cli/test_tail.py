"""`kafkalog tail`: the last records, and those that come."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, Record
from tests.helpers.running import COMMAND, Kafkalog

PATIENCE_SECONDS = 180


@pytest.fixture
def log(tmp_path: Path) -> Iterator[kafkalog.WritableLog]:
    with kafkalog.open(tmp_path / "t-0", "a", LogConfig(segment_bytes=300, file_delete_delay_ms=0)) as log:
        for i in range(20):
            log.append([Record(b"v%d" % i, timestamp=i)])
        yield log


def offsets(out: str) -> list[int]:
    return [json.loads(line)["offset"] for line in out.splitlines()]


@contextmanager
def following(log: kafkalog.WritableLog, *options: str) -> Iterator[tuple[IO[str], IO[str]]]:
    process = subprocess.Popen(
        [*COMMAND, "tail", "-f", "-o", "jsonl", str(log.directory), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        yield process.stdout, process.stderr
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
        process.stderr.close()
    assert process.returncode == 130


def told_of_cut(err: IO[str], offset: int) -> bool:
    """A look may fall into the middle of a truncation, which goes segment by segment: it tells of a later offset."""
    return any(f"cut off at offset {offset};" in line for line in iter(err.readline, ""))


def next_offset(out: IO[str]) -> int:
    offset: int = json.loads(out.readline())["offset"]
    return offset


@pytest.mark.parametrize(("count", "expected"), [(3, [17, 18, 19]), (0, []), (100, list(range(20)))])
def test_the_last_records_are_shown(
    kafkalog: Kafkalog, log: kafkalog.WritableLog, count: int, expected: list[int]
) -> None:
    ran = kafkalog("tail", log.directory, "-n", count, "-o", "jsonl")

    assert (ran.code, offsets(ran.out)) == (0, expected)


def test_gaps_of_markers_and_deleted_records_are_counted_past(kafkalog: Kafkalog, log: kafkalog.WritableLog) -> None:
    far = ByteBufferMessageSet.from_records([Record(b"far")], base_offset=1_000_000, partition_leader_epoch=0)
    log.append_as_follower(far)

    ran = kafkalog("tail", log.directory, "-n", 3, "-o", "jsonl")

    assert offsets(ran.out) == [18, 19, 1_000_000]


def test_text_is_what_dump_prints(kafkalog: Kafkalog, log: kafkalog.WritableLog) -> None:
    assert kafkalog("tail", log.directory, "-n", 4).out == kafkalog("dump", log.directory, "--from", "end-4").out


def test_following_shows_what_is_appended_also_through_rolls(log: kafkalog.WritableLog) -> None:
    with following(log, "-n", "1") as (out, _):
        seen = [next_offset(out)]
        for _ in range(30):
            log.append([Record(b"new" * 20)])
        seen += [next_offset(out) for _ in range(30)]

    assert seen == list(range(19, 50))


def test_following_tells_of_records_that_were_cut_off_and_shows_what_comes_in_their_place(
    log: kafkalog.WritableLog,
) -> None:
    with following(log, "-n", "1") as (out, err):
        assert next_offset(out) == 19
        log.truncate_to(15)
        assert told_of_cut(err, 15)
        log.append([Record(b"other")])
        assert next_offset(out) == 15


@pytest.mark.parametrize("shown", [1, 3])
def test_following_shows_all_that_came_in_the_place_of_what_was_cut_off(log: kafkalog.WritableLog, shown: int) -> None:
    with following(log, "-n", str(shown)) as (out, err):
        assert [next_offset(out) for _ in range(shown)][-1] == 19
        # Between two looks, mostly; one that falls in between tells of the cut earlier.
        log.truncate_to(10)
        log.append([Record(b"other%d" % i) for i in range(3)])
        assert [next_offset(out) for _ in range(3)] == [10, 11, 12]
        assert told_of_cut(err, 10)


def test_following_a_log_that_was_begun_anew_shows_it_from_its_start(log: kafkalog.WritableLog) -> None:
    with following(log, "-n", "1") as (out, err):
        assert next_offset(out) == 19
        log.truncate_fully_and_start_at(10)
        log.append([Record(b"other")])
        assert next_offset(out) == 10
        assert told_of_cut(err, 10)


def test_committed_records_only_are_shown_where_that_is_asked(kafkalog: Kafkalog, log: kafkalog.WritableLog) -> None:
    open_transaction = ByteBufferMessageSet.from_records(
        [Record(b"undecided")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log.append_as_leader(open_transaction, 0)
    log.append([Record(b"after")])

    assert offsets(kafkalog("tail", log.directory, "-n", 2, "-o", "jsonl").out) == [20, 21]
    assert offsets(kafkalog("tail", log.directory, "-n", 2, "-o", "jsonl", "--committed").out) == [18, 19]


def test_what_is_no_partition_is_refused(kafkalog: Kafkalog, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert kafkalog("tail", tmp_path / "missing").code == 3
    assert kafkalog("tail", tmp_path / "empty").code == 3


def test_following_ends_when_its_reader_goes_away_though_no_record_comes(log: kafkalog.WritableLog) -> None:
    process = subprocess.Popen(
        [*COMMAND, "tail", "-f", str(log.directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()

    assert process.wait(PATIENCE_SECONDS) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_following_into_a_file_goes_on(log: kafkalog.WritableLog, tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen([*COMMAND, "tail", "-f", "-n", "0", str(log.directory)], stdout=out)
        log.append([Record(b"new")])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (tmp_path / "out").read_bytes() and time.monotonic() < deadline:
            log.append([Record(b"new")])
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)

    assert process.wait(PATIENCE_SECONDS) == 130
    assert b"new" in (tmp_path / "out").read_bytes()
