"""`kafkalog tail`: the last records, and those that come."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeAlias

import pytest

import kafkalog
from kafkalog import ByteBufferMessageSet, LogConfig, Record
from kafkalog.cli.json_lines import JsonLines
from tests.helpers.running import COMMAND, Kafkalog, Ran

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
def following(log: kafkalog.WritableLog, *options: str) -> Iterator[IO[str]]:
    process = subprocess.Popen(
        [*COMMAND, "tail", "-f", "-o", "jsonl", str(log.directory), *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()
    assert process.returncode == 130


Followed: TypeAlias = Callable[..., Ran]


@pytest.fixture
def followed(kafkalog: Kafkalog, log: kafkalog.WritableLog, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """`tail -f` of the log, in this process: each time it waits the next of the steps is taken, then Ctrl-C."""

    def run(count: int, *steps: Callable[[], object]) -> Ran:
        coming = iter(steps)

        def wait(_: float) -> None:
            step = next(coming, None)
            if step is None:
                raise KeyboardInterrupt
            step()

        monkeypatch.setattr("kafkalog.cli.tail.wait_for_reader", wait)
        ran = kafkalog("tail", "-f", "-n", count, "-o", "jsonl", log.directory)
        assert ran.code == 130
        return ran

    return run


def next_offset(out: IO[str]) -> int:
    offset: int = json.loads(out.readline())["offset"]
    return offset


@pytest.mark.parametrize(("count", "expected"), [(3, [17, 18, 19]), (0, []), (100, list(range(20)))])
def test_the_last_records_are_shown(
    kafkalog: Kafkalog, log: kafkalog.WritableLog, count: int, expected: list[int]
) -> None:
    ran = kafkalog("tail", log.directory, "-n", count, "-o", "jsonl")

    assert (ran.code, offsets(ran.out)) == (0, expected)


def test_gaps_between_offsets_do_not_count_as_records(kafkalog: Kafkalog, log: kafkalog.WritableLog) -> None:
    far = ByteBufferMessageSet.from_records([Record(b"far")], base_offset=1_000_000, partition_leader_epoch=0)
    log.append_as_follower(far)

    ran = kafkalog("tail", log.directory, "-n", 3, "-o", "jsonl")

    assert offsets(ran.out) == [18, 19, 1_000_000]


def test_text_is_what_dump_prints(kafkalog: Kafkalog, log: kafkalog.WritableLog) -> None:
    assert kafkalog("tail", log.directory, "-n", 4).out == kafkalog("dump", log.directory, "--from", "end-4").out


def many(log: kafkalog.WritableLog) -> None:
    for _ in range(30):
        log.append([Record(b"new" * 20)])


@pytest.mark.slow
def test_following_in_a_process_shows_appended_records_through_rolls(log: kafkalog.WritableLog) -> None:
    with following(log, "-n", "1") as out:
        seen = [next_offset(out)]
        many(log)
        seen += [next_offset(out) for _ in range(30)]

    assert seen == list(range(19, 50))


def test_following_shows_appended_records_through_rolls(log: kafkalog.WritableLog, followed: Followed) -> None:
    segments = len(log.segments)
    ran = followed(1, lambda: many(log), lambda: None, lambda: log.append([Record(b"last")]))

    assert len(log.segments) > segments
    assert (offsets(ran.out), ran.err) == (list(range(19, 51)), "kafkalog: interrupted\n")


def test_following_reports_truncated_records_and_shows_the_next_ones(
    log: kafkalog.WritableLog, followed: Followed
) -> None:
    ran = followed(1, lambda: log.truncate_to(15), lambda: log.append([Record(b"other")]))

    assert offsets(ran.out) == [19, 15]
    assert "truncated to offset 15;" in ran.err


@pytest.mark.parametrize("shown", [1, 3])
def test_following_shows_all_records_that_replace_truncated_ones(
    log: kafkalog.WritableLog, followed: Followed, shown: int
) -> None:
    def replace() -> None:
        log.truncate_to(10)
        log.append([Record(b"other%d" % i) for i in range(3)])

    ran = followed(shown, replace)

    assert offsets(ran.out) == [*range(20 - shown, 20), 10, 11, 12]
    assert "truncated to offset 10;" in ran.err


def test_batches_that_are_read_in_parts_are_remembered_once(
    log: kafkalog.WritableLog, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalog.cli.tail.BATCHES_REMEMBERED", 6)
    monkeypatch.setattr("kafkalog.record.decoding.WEIGHT_A_PIECE", 1)

    def replace() -> None:
        log.truncate_to(15)
        log.append([Record(b"other") for _ in range(2)])

    assert offsets(followed(20, replace).out) == [*range(20), 15, 16]


def truncate_when_shown(log: kafkalog.WritableLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the first records are shown, truncate the log below them, and append others."""
    records, left = JsonLines.records, [1]

    def late(self: JsonLines, part: kafkalog.RecordColumns) -> object:
        if left:
            left.clear()
            log.truncate_to(int(part.offset[0]))
            log.append([Record(b"other%d" % i) for i in range(30)])
        return records(self, part)

    monkeypatch.setattr(JsonLines, "records", late)


def test_a_log_that_is_truncated_while_its_last_records_are_shown_is_an_error(
    kafkalog: Kafkalog, log: kafkalog.WritableLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate_when_shown(log, monkeypatch)
    ran = kafkalog("tail", "-n", 20, "-o", "jsonl", log.directory)
    assert ran.code == 1
    assert "the log was truncated while it was read, up to offset" in ran.err
    assert offsets(ran.out) == list(range(len(offsets(ran.out))))


def test_following_reports_records_that_are_truncated_while_they_are_shown(
    log: kafkalog.WritableLog, followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append() -> None:
        truncate_when_shown(log, monkeypatch)
        for _ in range(30):
            log.append([Record(b"v" * 100)])

    ran = followed(0, append, lambda: None)

    shown = offsets(ran.out)
    assert "truncated to offset 20;" in ran.err
    assert shown == [*range(20, shown[-31] + 1), *range(20, 50)]


def test_following_a_log_that_was_begun_anew_shows_it_from_its_start(
    log: kafkalog.WritableLog, followed: Followed
) -> None:
    def begin_anew() -> None:
        log.truncate_fully_and_start_at(10)
        log.append([Record(b"other")])

    ran = followed(1, begin_anew)

    assert offsets(ran.out) == [19, 10]
    assert "truncated to offset 10;" in ran.err


def test_following_reports_records_deleted_before_they_were_shown(
    log: kafkalog.WritableLog, followed: Followed
) -> None:
    def append_and_delete() -> None:
        many(log)
        log.delete_records(45)
        log.delete_old_segments()

    ran = followed(1, append_and_delete)

    start = log.segments[0].base_offset
    assert 20 < start <= 45
    assert offsets(ran.out) == [19, *range(start, 50)]
    assert f"offsets 20 to {start - 1} were deleted before they were shown" in ran.err


def test_committed_records_only_are_shown_where_that_is_asked(kafkalog: Kafkalog, log: kafkalog.WritableLog) -> None:
    open_transaction = ByteBufferMessageSet.from_records(
        [Record(b"undecided")], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log.append_as_leader(open_transaction, 0)
    log.append([Record(b"after")])

    assert offsets(kafkalog("tail", log.directory, "-n", 2, "-o", "jsonl").out) == [20, 21]
    assert offsets(kafkalog("tail", log.directory, "-n", 2, "-o", "jsonl", "--committed").out) == [18, 19]


def test_a_path_that_is_no_partition_is_refused(kafkalog: Kafkalog, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert kafkalog("tail", tmp_path / "missing").code == 3
    assert kafkalog("tail", tmp_path / "empty").code == 3


@pytest.mark.slow
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


@pytest.mark.slow
def test_following_into_a_file_goes_on(log: kafkalog.WritableLog, tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen([*COMMAND, "tail", "-f", "-n", "0", str(log.directory)], stdout=out)
        log.append([Record(b"new")])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (tmp_path / "out").read_bytes():
            assert time.monotonic() < deadline, "nothing was written to the file"
            log.append([Record(b"new")])
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)

    assert process.wait(PATIENCE_SECONDS) == 130
    assert b"new" in (tmp_path / "out").read_bytes()
