"""`read_rdd`: records and Arrow batches by mapPartitions, without a DataFrame."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark import read_rdd
from tests.helpers import golden
from tests.helpers.spark_rows import broker_view, expected_rows

pytestmark = [pytest.mark.spark]

SEGMENTS = golden.ARCHIVES / "v2-zstd-0"


@pytest.fixture
def context(spark_session: Any) -> Any:
    return spark_session.sparkContext


@pytest.mark.parametrize("archive", sorted({each.archive for each in golden.checked_partitions()}))
def test_the_records_of_every_partition_are_those_that_kafka_reads(archive: str, context: Any) -> None:
    partitions = [each for each in golden.checked_partitions() if each.archive == archive and expected_rows(each)]
    expected = [expected_rows(each) for each in partitions]
    each_rdd = [read_rdd(context, each.directory, splitBytes="256k") for each in partitions]
    # One job for all of them.
    found = context.union([rdd.map(lambda record, n=n: (n, _row(record))) for n, rdd in enumerate(each_rdd)]).collect()
    for n, rows in enumerate(expected):
        assert [row for number, row in found if number == n] == [(*row[:2], *row[4:]) for row in rows]


def _row(record: Any) -> tuple[Any, ...]:
    headers = tuple((key, value) for key, value in record.headers) or None
    return record.key, record.value, record.offset, record.timestamp, int(record.timestamp_type), headers


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_transactions_are_read_as_the_isolation_level_says(level: str, context: Any) -> None:
    directory = golden.unpacked() / "kafka-3.9" / "data" / "v2-txn-0"
    found = read_rdd(context, directory, splitBytes=30_000, **{"kafka.isolation.level": level})
    assert found.map(lambda record: record.offset).collect() == broker_view()["v2-txn"][level]


def test_arrow_batches_have_the_columns_of_the_data_source(context: Any) -> None:
    batches = read_rdd(context, [SEGMENTS], as_arrow=True, includeHeaders=True).collect()
    assert batches[0].schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    assert [offset for batch in batches for offset in batch.column(4).to_pylist()] == list(range(1200))


def test_a_directory_without_records_is_an_empty_rdd(context: Any, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert read_rdd(context, tmp_path / "orders-0").collect() == []


def test_a_wrong_option_and_a_missing_path_are_errors_at_once(context: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown option 'startingOffset'"):
        read_rdd(context, SEGMENTS, startingOffset="earliest")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_rdd(context, tmp_path / "nowhere")


def test_a_worker_killed_in_the_middle_of_its_task_changes_nothing(context: Any, tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def die_once(records: Iterator[Any]) -> Iterator[int]:
        for n, record in enumerate(records):
            if n == 50 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield record.offset

    found = read_rdd(context, SEGMENTS, splitBytes=8000).mapPartitions(die_once).collect()
    assert killed.exists()
    assert found == list(range(1200))


def test_a_segment_deleted_between_plan_and_read_fails_the_task_or_is_left_out(context: Any, tmp_path: Path) -> None:
    copied = shutil.copytree(SEGMENTS, tmp_path / SEGMENTS.name)
    strict, lenient = read_rdd(context, copied), read_rdd(context, copied, failOnDataLoss=False)
    (copied / "00000000000000000000.log").unlink()
    with pytest.raises(Exception, match=r"FileNotFoundError.*00000000000000000000.log"):
        strict.count()
    assert lenient.map(lambda record: record.offset).collect() == list(range(192, 1200))


def test_a_session_does_as_well_as_its_context(spark_session: Any) -> None:
    assert read_rdd(spark_session, SEGMENTS).count() == read_rdd(spark_session.sparkContext, SEGMENTS).count() > 0
