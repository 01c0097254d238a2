"""A log of many segments, of impossible offsets, and at the edges of what a process may have."""

from __future__ import annotations

import copy
import gzip
import logging
import os
import pickle
import resource
import struct
import time
from pathlib import Path

import pytest
import zstandard

import kafkalog
from kafkalog import FileMessageSet
from kafkalog.errors import CorruptRecordError, InvalidRecordError, LogStateError, NotALogError
from tests.reference.encode import V2Batch, records

SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"hello"


def partition(directory: Path, segments: int) -> Path:
    """One record in each segment."""
    directory.mkdir()
    for offset in range(segments):
        (directory / f"{offset:020}.log").write_bytes(V2Batch(records(b"v%d" % offset, offset=offset)).encoded())
    return directory


def test_more_segments_are_read_than_files_may_be_open(tmp_path: Path) -> None:
    directory = partition(tmp_path / "many-0", 200)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
    try:
        with kafkalog.open(directory) as log:
            assert [record.offset for record in log] == list(range(200))
            assert sum(map(len, log.columns(threads=2))) == 200
            assert [batch.base_offset for batch in log.batches()] == list(range(200))
            assert log.size_in_bytes == sum(path.stat().st_size for path in directory.iterdir())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.slow
def test_thousands_of_segments_without_indexes_are_opened_for_writing_in_linear_time(tmp_path: Path) -> None:
    logging.disable(logging.WARNING)
    seconds = []
    try:
        for segments in (1000, 4000):
            directory = partition(tmp_path / f"many-{segments}", segments)
            began = time.process_time()
            with kafkalog.open(directory, "a") as log:
                seconds.append(time.process_time() - began)
                assert (log.log_end_offset, len(log.segments)) == (segments, segments)
    finally:
        logging.disable(logging.NOTSET)
    # Sixteen times, if it were quadratic.
    assert seconds[1] < 3 * 4 * seconds[0]


@pytest.mark.parametrize("wrong", [0, 7, 2**62])
def test_an_offset_of_another_segment_is_damage_and_not_passed_over(tmp_path: Path, wrong: int) -> None:
    directory = tmp_path / "flipped-0"
    directory.mkdir()
    first, second = (V2Batch(records(b"v", offset=offset)).encoded() for offset in (5, wrong))
    (directory / f"{5:020}.log").write_bytes(first + second)
    (directory / f"{7:020}.log").write_bytes(V2Batch(records(b"v", offset=7)).encoded())
    with kafkalog.open(directory) as log:
        found: list[int] = []
        with pytest.raises(CorruptRecordError) as raised:
            found.extend(record.offset for record in log)
    assert found == [5]
    assert (raised.value.path, raised.value.position) == (str(directory / f"{5:020}.log"), len(first))
    assert (raised.value.expected, raised.value.found) == ("5..6", wrong)


def test_a_closed_log_reads_no_more(tmp_path: Path) -> None:
    log = kafkalog.open(partition(tmp_path / "closed-0", 2))
    columns = next(log.columns())
    log.close()
    assert columns.value(0) == b"v0"
    with pytest.raises(LogStateError, match="the log has been closed"):
        list(log)


def test_a_closed_log_is_not_flushed(tmp_path: Path) -> None:
    log = kafkalog.open(tmp_path / "closed-0", "a")
    log.close()
    with pytest.raises(LogStateError, match="the log has been closed"):
        log.flush()


def test_a_log_is_copied_by_opening_its_files_again(tmp_path: Path) -> None:
    with kafkalog.open(partition(tmp_path / "copied-0", 3)) as log:
        assert log.segments[0].log.size_in_bytes > 0
        for other in (pickle.loads(pickle.dumps(log)), copy.deepcopy(log)):
            with other:
                assert list(other) == list(log)
        assert list(log.segments[0].log) == list(log)[:1]


def test_opening_a_pipe_or_device_fails_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(NotALogError, match="not a regular file"):
            FileMessageSet(path)


@pytest.mark.parametrize(("left", "sealed"), [(0, False), (1000, False), (0, True), (1000, True), (1_500_000, True)])
def test_a_file_cut_while_it_is_read_is_an_error(tmp_path: Path, left: int, sealed: bool) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(V2Batch(records(bytes(1000), offset=offset)).encoded() for offset in range(5000)))
    with FileMessageSet(path, sealed=sealed) as messages:
        walk = iter(messages)
        next(walk)
        os.truncate(path, left)
        with pytest.raises(CorruptRecordError, match=r"became shorter|successor"):
            list(walk)


def test_a_position_outside_the_set_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(V2Batch(records(b"v")).encoded())
    with FileMessageSet(path) as messages:
        for wrong in (-1, messages.size_in_bytes + 1, 2**63 - 1):
            for walk in (
                messages.batches,
                lambda at: messages.search(0, at),
                lambda at: messages.search_timestamp(0, at),
            ):
                with pytest.raises(ValueError, match=f"start is {wrong} bytes"):
                    walk(wrong)


def test_a_data_directory_is_named_as_such(tmp_path: Path) -> None:
    partition(tmp_path / "orders-0", 1)
    with pytest.raises(NotALogError, match=r"a data directory, not a partition.*orders-0"):
        kafkalog.open(tmp_path)


def test_a_file_is_no_partition_directory(tmp_path: Path) -> None:
    directory = partition(tmp_path / "orders-0", 1)
    with pytest.raises(NotADirectoryError, match="FileMessageSet"):
        kafkalog.open(directory / f"{0:020}.log")


def region(value: bytes) -> bytes:
    return V2Batch(records(value)).encoded()[61:]


def compressed(data: bytes, codec: int) -> kafkalog.ByteBufferMessageSet:
    batch = bytearray(V2Batch(records(b"v")).encoded()[:61] + data)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    return kafkalog.ByteBufferMessageSet(bytes(batch))


def values(messages: kafkalog.ByteBufferMessageSet) -> list[bytes | None]:
    return [part.value(0) for part in messages.columns(check_crcs=False)]


def test_many_empty_gzip_members_are_skipped_in_linear_time() -> None:
    """If each member copied what follows it, this would copy 16 GB."""
    assert values(compressed(gzip.compress(region(b"v")) + gzip.compress(b"") * 40_000, 1)) == [b"v"]


@pytest.mark.parametrize("where", ["before", "after", "between"])
def test_skippable_zstd_frames_are_skipped(where: str) -> None:
    frame = zstandard.compress(region(b"v"))
    empty = zstandard.compress(b"")
    data = {"before": SKIPPABLE + frame, "after": frame + SKIPPABLE, "between": frame + SKIPPABLE + empty}[where]
    assert values(compressed(data, 4)) == [b"v"]


def test_a_skippable_frame_that_overruns_is_damage() -> None:
    with pytest.raises(InvalidRecordError, match="skippable"):
        values(compressed(zstandard.compress(region(b"v")) + SKIPPABLE[:-1], 4))


@pytest.mark.parametrize("kind", ["columns", "batches"])
def test_batches_and_columns_of_a_sealed_segment_outlive_its_truncation_by_another_process(
    tmp_path: Path, kind: str
) -> None:
    directory = partition(tmp_path / "t-0", 2)
    with kafkalog.open(directory) as log:
        pieces = list(getattr(log, kind)())
        first = log.segments[0].path
        os.truncate(first, 0)
        if kind == "columns":
            values = [piece.value(i) for piece in pieces for i in range(len(piece))]
        else:
            values = [record.value for batch in pieces for record in batch]

    assert len(values) == 2
