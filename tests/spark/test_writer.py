"""What rows become: records in partition directories, all of a job or none, whatever befalls tasks and driver."""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import CompressionType, LogConfig, LogManager, Record
from kafkalog.errors import (
    CorruptRecordError,
    InconsistentTopicIdError,
    LogLockedError,
    LogStateError,
    RecordBatchTooLargeError,
)
from kafkalog.fsck.verifying import Options, verify_path
from kafkalog.spark.write import commit
from kafkalog.spark.write import job as writer
from kafkalog.spark.write.job import WriteJob, recover
from kafkalog.storage.checkpoint.clean_shutdown_file import was_clean_shutdown
from kafkalog.storage.checkpoint.partition_metadata_file import random_topic_id, read_partition_metadata
from kafkalog.storage.data_dir.session import Session
from tests.helpers.locking import lock_data_dir
from tests.helpers.spark_writing import (
    NOW,
    ended_in_a_process,
    killed_at,
    killed_in_the_middle,
    partitions_in,
    records_in,
    rows,
    started,
    state_of,
    task_in_a_process,
    values,
    values_in,
    without_exchange,
    written,
)
from tests.reference.murmur2 import partition_of_key


def topic_id(path: Path, partition: str = "t-0") -> str:
    metadata = read_partition_metadata(path / partition / "partition.metadata")
    assert metadata is not None
    return metadata.topic_id


# --- rows to records


def test_a_row_becomes_a_record_with_all_its_columns(tmp_path: Path) -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    row = {"key": b"k", "value": b"v", "topic": "t", "partition": 2, "timestamp": NOW, "headers": headers}
    bare = {"topic": "t", "partition": 2, "timestamp": NOW + 1, "headers": []}
    written(tmp_path, [rows(row, bare)])
    expected = [
        Record(b"v", b"k", (("a", b"1"), ("a", None)), NOW, offset=0),
        Record(None, None, (), NOW + 1, offset=1),
    ]
    assert records_in(tmp_path, "t-2") == expected


def test_text_is_written_as_utf_8_and_columns_of_other_names_are_left_alone(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"Value": pa.array(["ä", None]), "KEY": pa.array(["k", ""], pa.large_string()), "offset": pa.array([7, 8])}
    )
    written(tmp_path, [batch], topic="t")
    assert [(record.key, record.value) for record in records_in(tmp_path)] == [(b"k", "ä".encode()), (b"", None)]


def test_slices_of_batches_are_written_as_they_are_seen(tmp_path: Path) -> None:
    headers = [{"key": "h", "value": b"x"}]
    batch = rows(
        *({"value": b"%d" % i, "key": b"k", "headers": headers if i % 2 else None, "timestamp": i} for i in range(9))
    )
    written(tmp_path, [batch.slice(2, 3)], topic="t")
    found = [(record.value, len(record.headers), record.timestamp) for record in records_in(tmp_path)]
    assert found == [(b"2", 0, 2), (b"3", 1, 3), (b"4", 0, 4)]


def test_more_rows_than_are_looked_at_together_keep_their_order(tmp_path: Path) -> None:
    expected = [b"%d" % i for i in range(20_000)]
    written(tmp_path, [values(*expected)])
    assert values_in(tmp_path) == expected


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_of_any_unit_become_milliseconds(tmp_path: Path, unit: str, factor: int) -> None:
    times = pa.array([5 * factor, None], pa.timestamp(unit, tz="UTC"))
    written(tmp_path, [pa.RecordBatch.from_pydict({"value": pa.array([b"", b""]), "timestamp": times})], topic="t")
    first, second = records_in(tmp_path)
    assert first.timestamp == 5000
    assert second.timestamp > NOW


def test_a_record_without_a_timestamp_stays_without_one(tmp_path: Path) -> None:
    written(tmp_path, [values(b"v", timestamp=-1)])
    assert [record.timestamp for record in records_in(tmp_path)] == [-1]


def test_keys_go_to_the_partitions_that_kafkas_producer_sends_them_to(tmp_path: Path) -> None:
    keys = [b"key %d" % i for i in range(50)]
    written(tmp_path, [rows(*({"key": key, "value": b""} for key in keys))], topic="t", partitions=4)
    for number in range(4):
        found = [record.key for record in records_in(tmp_path, f"t-{number}")]
        assert found == [key for key in keys if partition_of_key(key, 4) == number]


def test_the_option_topic_wins_over_the_column_and_a_rows_partition_over_its_key(tmp_path: Path) -> None:
    written(tmp_path, [rows({"value": b"v", "key": b"k", "topic": "u", "partition": 3})], topic="t")
    assert partitions_in(tmp_path) == ["t-0", "t-3"]
    assert values_in(tmp_path, "t-3") == [b"v"]


def test_a_partition_number_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    """The topic would be taken to have all those before it, too."""
    with pytest.raises(ValueError, match="a row's partition is 2147483647: expected 0 to 999998"):
        written(tmp_path, [values(b"1", partition=2**31 - 1)])
    (tmp_path / "t-2147483647").mkdir()
    written(tmp_path, [values(b"1", partition=None)])
    assert values_in(tmp_path) == [b"1"]
    assert partitions_in(tmp_path) == ["_kafkalog_tmp", "t-0", "t-2147483647"]


def test_a_topic_that_is_there_keeps_its_number_of_partitions(tmp_path: Path) -> None:
    written(tmp_path, [values(b"v")], topic="t", partitions=3)
    keys = [b"key %d" % i for i in range(20)]
    written(tmp_path, [rows(*({"key": key, "value": key, "topic": "t"} for key in keys))])
    for number in range(3):
        found = [value for value in values_in(tmp_path, f"t-{number}") if value != b"v"]
        assert found == [key for key in keys if partition_of_key(key, 3) == number]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({}, {}, "rows have no topic"),
        ({"topic": "a/b"}, {}, "'a/b' is not a topic name"),
        ({"partition": -1}, {"topic": "t"}, "partition is -1"),
        ({"partition": 2}, {"topic": "t", "partitions": 2}, "partition is 2: expected 0 to 1"),
        ({"timestamp": -2}, {"topic": "t"}, "timestamp is -2 ms"),
    ],
)
def test_a_row_that_cannot_be_written_is_refused_and_leaves_nothing(
    tmp_path: Path, row: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    job = started(tmp_path, **options)
    with pytest.raises(ValueError, match=message):
        job.write([rows({"value": b"v"} | row)])
    assert list((job.directory / "tasks").iterdir()) == []


def test_a_header_without_a_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a header's key is null"):
        started(tmp_path).write([values(b"v", headers=[{"key": None, "value": b""}])])


# --- batches and segments


@pytest.mark.parametrize("codec", CompressionType)
def test_every_codec_is_written_and_batches_are_about_as_large_as_asked_for(
    tmp_path: Path, codec: CompressionType
) -> None:
    expected = [os.urandom(10) + b"x" * 90 for _ in range(3000)]
    written(tmp_path, [values(*expected)], compression=codec.name.lower(), batchBytes="4k")
    assert values_in(tmp_path) == expected
    with kafkalog.open(tmp_path / "t-0") as log:
        batches = list(log.batches())
    assert {batch.compression_type for batch in batches} == {codec}
    assert all(batch.size_in_bytes <= 4096 * 1.3 for batch in batches)
    assert sum(batch.size_in_bytes for batch in batches[:-1]) > 0.6 * 4096 * (len(batches) - 1)


def test_data_that_compresses_well_and_then_badly_stays_within_a_segment(tmp_path: Path) -> None:
    expected = [b"x" * 100] * 5000 + [os.urandom(100) for _ in range(500)]
    written(tmp_path, [values(*expected)], compression="zstd", batchBytes="4k", segmentBytes="20k")
    assert values_in(tmp_path) == expected
    assert all(path.stat().st_size <= 20_480 for path in (tmp_path / "t-0").glob("*.log"))


def test_segments_are_filled_and_not_larger_than_asked_for(tmp_path: Path) -> None:
    expected = [b"%07d" % i * 20 for i in range(1000)]
    written(tmp_path, [values(*expected[:300])], [values(*expected[300:])], batchBytes=1000, segmentBytes="20k")
    sizes = [path.stat().st_size for path in sorted((tmp_path / "t-0").glob("*.log"))]
    assert max(sizes) <= 20_480
    assert min(sizes[:-1]) > 16_000
    assert values_in(tmp_path) == expected


def test_records_far_apart_in_time_share_a_segment(tmp_path: Path) -> None:
    week = 7 * 86_400_000
    written(tmp_path, [rows(*({"value": b"", "timestamp": i * week} for i in range(9)))], topic="t", batchBytes=100)
    assert len(list((tmp_path / "t-0").glob("*.log"))) == 1


def test_a_record_larger_than_a_segment_is_refused_by_the_task(tmp_path: Path) -> None:
    with pytest.raises(RecordBatchTooLargeError, match="larger than segmentBytes"):
        started(tmp_path, segmentBytes=1000, batchBytes=1000).write([values(b"x" * 2000)])


# --- the directory


def test_the_directory_is_as_after_a_brokers_clean_stop(tmp_path: Path) -> None:
    written(tmp_path, [values(*[b"x" * 200] * 400)], topic="t", partitions=2, segmentBytes="16k", batchBytes="1k")
    assert was_clean_shutdown(tmp_path)
    assert topic_id(tmp_path, "t-0") == topic_id(tmp_path, "t-1")
    names = {path.name for path in (tmp_path / "t-0").iterdir()}
    assert {"leader-epoch-checkpoint", "partition.metadata", "00000000000000000400.snapshot"} <= names
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\nt 0 400\nt 1 0\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n2\nt 0 400\nt 1 0\n"
    assert not (tmp_path / "_kafkalog_tmp").exists()
    assert list(verify_path(tmp_path, Options(deep=True))) == []
    with LogManager(tmp_path, "a") as manager:
        assert manager["t-0"].high_watermark == 400
        manager["t-0"].append([Record(b"more")])


def test_the_topics_id_is_the_one_given_else_the_one_it_has(tmp_path: Path) -> None:
    given, other = random_topic_id(), random_topic_id()
    written(tmp_path, [values(b"1")], topic="t", topicId=given)
    written(tmp_path, [values(b"2", partition=1)])
    written(tmp_path, [values(b"3")], overwrite=True)
    assert [topic_id(tmp_path, name) for name in partitions_in(tmp_path)] == [given, given]
    with pytest.raises(InconsistentTopicIdError):
        started(tmp_path, topic="t", topicId=other)
    written(tmp_path, [values(b"4")], overwrite=True, topic="t", topicId=other)
    assert topic_id(tmp_path) == other


def test_appending_goes_on_behind_what_is_there_in_its_leader_epoch(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=300)
    with kafkalog.open(tmp_path / "t-0", "a", config) as log:
        for i in range(10):
            batch = kafkalog.ByteBufferMessageSet.from_records([Record(b"%d" % i, timestamp=NOW)])
            log.append_as_leader(batch, 7)
    before = {path.name: path.read_bytes() for path in sorted((tmp_path / "t-0").glob("*.log"))[:-1]}
    written(tmp_path, [values(b"10", b"11")], [values(b"12")])
    assert values_in(tmp_path) == [b"%d" % i for i in range(13)]
    with kafkalog.open(tmp_path / "t-0") as log:
        assert {batch.partition_leader_epoch for batch in log.batches()} == {7}
        assert log.high_watermark == 13
    assert before == {name: (tmp_path / "t-0" / name).read_bytes() for name in before}


def test_a_log_that_was_not_closed_is_recovered_before_it_is_appended_to(tmp_path: Path) -> None:
    written(tmp_path, [values(b"0", b"1")])
    (segment,) = (tmp_path / "t-0").glob("*.log")
    segment.write_bytes(segment.read_bytes() + b"torn")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    written(tmp_path, [values(b"2")])
    assert values_in(tmp_path) == [b"0", b"1", b"2"]
    assert was_clean_shutdown(tmp_path)


def test_the_directory_is_not_marked_clean_where_another_partition_was_not_closed(tmp_path: Path) -> None:
    written(tmp_path, [values(b"0", topic="other")])
    (tmp_path / ".kafka_cleanshutdown").unlink()
    written(tmp_path, [values(b"0")])
    assert not was_clean_shutdown(tmp_path)


def test_overwriting_replaces_the_topics_that_are_written_and_leaves_others(tmp_path: Path) -> None:
    written(tmp_path, [rows(*({"value": b"old", "topic": topic, "partition": n} for topic in "tu" for n in range(3)))])
    written(tmp_path, [values(b"new", partition=1)], overwrite=True, topic="t", partitions=2)
    assert partitions_in(tmp_path) == ["t-0", "t-1", "u-0", "u-1", "u-2"]
    assert [values_in(tmp_path, name) for name in ("t-0", "t-1", "u-0")] == [[], [b"new"], [b"old"]]
    assert "t 2 " not in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert was_clean_shutdown(tmp_path)


def test_overwriting_a_topic_with_no_rows_empties_it(tmp_path: Path) -> None:
    written(tmp_path, [values(b"old", b"older")])
    written(tmp_path, [], overwrite=True, topic="t")
    assert values_in(tmp_path) == []


def test_appending_no_rows_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path, [values(b"0")])
    before = state_of(tmp_path)
    written(tmp_path, [], topic="t")
    assert state_of(tmp_path) == before


# --- tasks that fail, are killed, or run twice


@pytest.mark.slow
def test_tasks_are_joined_in_the_order_of_their_numbers_whoever_ends_first(tmp_path: Path) -> None:
    job = pickle.loads(pickle.dumps(started(tmp_path)))
    messages = [task_in_a_process(job, [values(b"%d" % task, b"and")], task) for task in (2, 0, 1)]
    assert len(pickle.dumps(messages[0])) < 500
    job.commit(pickle.loads(pickle.dumps(messages)))
    assert values_in(tmp_path) == [b"0", b"and", b"1", b"and", b"2", b"and"]


def test_only_the_named_attempt_of_a_task_that_ran_twice_counts(tmp_path: Path) -> None:
    job = started(tmp_path)
    first, second = job.write([values(b"a", b"b")], 0), job.write([values(b"a", b"b")], 0)
    assert first.name != second.name
    job.commit([second])
    assert values_in(tmp_path) == [b"a", b"b"]


@pytest.mark.slow
def test_files_of_a_killed_task_never_count(tmp_path: Path) -> None:
    job = started(tmp_path, batchBytes="1k")
    assert ended_in_a_process(killed_in_the_middle, job) == -signal.SIGKILL
    assert list(job.directory.rglob("*.log"))
    job.commit([job.write([values(b"again")], 0)])
    assert values_in(tmp_path) == [b"again"]
    assert not (tmp_path / "_kafkalog_tmp").exists()


def test_aborting_removes_everything_and_tasks_that_still_run_fail(tmp_path: Path) -> None:
    written(tmp_path, [values(b"0")])
    before, job = state_of(tmp_path), started(tmp_path)
    job.write([values(b"1")])
    job.abort()
    assert state_of(tmp_path) == before
    assert not (tmp_path / "_kafkalog_tmp").exists()
    with pytest.raises(FileNotFoundError, match="the job has ended, or its directory is not on a file system"):
        job.write([values(b"1")])


def test_one_job_that_ends_leaves_anothers_files_alone(tmp_path: Path) -> None:
    one, other = started(tmp_path), started(tmp_path)
    messages = [one.write([values(b"1")])], [other.write([values(b"2")])]
    one.commit(messages[0])
    other.commit(messages[1])
    assert values_in(tmp_path) == [b"1", b"2"]


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:-1] + b"\xff"])
def test_a_tasks_file_that_is_not_as_the_task_left_it_fails_the_commit(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    written(tmp_path, [values(b"0")])
    before, job = state_of(tmp_path), started(tmp_path)
    message = job.write([values(b"value")])
    (file,) = job.directory.rglob("*.log")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CorruptRecordError):
        job.commit([message])
    job.abort()
    assert state_of(tmp_path) == before


# --- the commit


def two_topics(path: Path) -> WriteJob:
    """A job to replace t-0, add t-1, and remove t-2, after one that wrote t-0 and t-2."""
    written(path, [rows(*({"value": b"old", "topic": "t", "partition": n} for n in (0, 2)))])
    return started(path, overwrite=True, topic="t", partitions=2)


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before it is committed", "between two directories", "before the checkpoints"])
def test_a_driver_that_is_killed_has_committed_all_or_nothing(tmp_path: Path, point: str) -> None:
    job = two_topics(tmp_path)
    messages = [job.write([rows(*({"value": b"new", "partition": n} for n in (0, 1)))])]
    assert ended_in_a_process(killed_at, point, job, messages) == -signal.SIGKILL
    completed = recover(tmp_path)
    if point == "before it is committed":
        assert completed == []
        assert {name: values_in(tmp_path, name) for name in ("t-0", "t-2")} == {"t-0": [b"old"], "t-2": [b"old"]}
    else:
        assert completed == [job.directory]
        assert partitions_in(tmp_path) == ["t-0", "t-1"]
        assert [values_in(tmp_path, name) for name in ("t-0", "t-1")] == [[b"new"], [b"new"]]
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\nt 0 1\nt 1 1\n"


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_commit_that_the_disk_refuses_puts_all_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        without_exchange(monkeypatch)
    job = two_topics(tmp_path)
    before = {name: content for name, content in state_of(tmp_path).items() if "_kafkalog_tmp" not in name}
    messages = [job.write([rows(*({"value": b"new", "partition": n} for n in (0, 1)))])]

    def refuse(*_: object) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Session, "update_checkpoints", refuse)
        with pytest.raises(OSError, match="no space left"):
            job.commit(messages)
    assert {name: content for name, content in state_of(tmp_path).items() if "_kafkalog_tmp" not in name} == before
    job.commit(messages)
    assert [values_in(tmp_path, name) for name in partitions_in(tmp_path)] == [[b"new"], [b"new"]]
    assert not (tmp_path / "_kafkalog_tmp").exists()


@pytest.mark.slow
def test_a_log_that_was_written_to_after_a_crash_is_not_replaced_by_what_was_joined_before(tmp_path: Path) -> None:
    written(tmp_path, [rows(*({"value": b"0", "topic": "t", "partition": n} for n in (0, 1)))])
    job = started(tmp_path)
    messages = [job.write([rows(*({"value": b"1", "topic": "t", "partition": n} for n in (0, 1)))])]
    assert ended_in_a_process(killed_at, "between two directories", job, messages) == -signal.SIGKILL
    with kafkalog.open(tmp_path / "t-1", "a") as log:
        log.append([Record(b"since")])
    with pytest.raises(LogStateError, match="was written to after an unfinished job copied it"):
        recover(tmp_path)
    assert values_in(tmp_path, "t-1") == [b"0", b"since"]


def test_a_commit_waits_for_a_broker_and_then_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LOCK_WAIT_S", 0.05)
    job = started(tmp_path)
    messages = [job.write([values(b"v")])]
    with lock_data_dir(tmp_path), pytest.raises(LogLockedError):
        job.commit(messages)
    job.commit(messages)
    assert values_in(tmp_path) == [b"v"]


def test_a_job_does_not_begin_where_a_broker_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LOCK_WAIT_AT_START_S", 0.0)
    with lock_data_dir(tmp_path), pytest.raises(LogLockedError):
        started(tmp_path)
    assert not (tmp_path / "_kafkalog_tmp").exists()


def test_a_log_that_is_replaced_while_it_is_read_can_be_read_on(tmp_path: Path) -> None:
    written(tmp_path, [values(b"0", b"1")])
    with kafkalog.open(tmp_path / "t-0") as log:
        found = iter(log)
        assert next(found).value == b"0"
        written(tmp_path, [values(b"new")], overwrite=True)
        assert next(found).value == b"1"


@pytest.mark.parametrize(
    ("journal", "why"),
    [
        ("", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        ("{}", "KeyError: 'coming'"),
        ("[]", "TypeError"),
        ('{"version": 2, "coming": [], "going": []}', "version 2"),
        ('{"version": 1, "coming": [{"topic_partition": ["t", 0]}], "going": []}', "TypeError"),
        ('{"version": 1, "coming": ["t-0"], "going": []}', "AttributeError"),
        ('{"version": 1, "coming": [], "going": ["../t-0"]}', "names that are not those of partitions"),
        (None, "not a regular file"),
        ("sparse", "the file is too large"),
    ],
)
def test_a_commit_that_cannot_be_read_is_named_and_nothing_is_changed(
    tmp_path: Path, journal: str | None, why: str
) -> None:
    written(tmp_path, [values(b"0")])
    path = tmp_path / commit.TEMPORARY / "job" / commit.JOURNAL
    path.parent.mkdir(parents=True)
    if journal is None:
        os.mkfifo(path)
    else:
        path.write_text(journal)
    if journal == "sparse":
        os.truncate(path, 1 << 40)
    for act in (lambda: recover(tmp_path), lambda: written(tmp_path, [values(b"1")])):
        with pytest.raises(ValueError, match=f"{re.escape(str(path))} is damaged or not of version 1: put .*{why}"):
            act()
    assert values_in(tmp_path) == [b"0"]
