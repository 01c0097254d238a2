"""The counts of what is left out because of damage: in the log of each task, and for the driver."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafkalog._speedups.framing import scan_headers
from kafkalog.errors import KafkaLogError
from kafkalog.scan.records import LeftOut
from kafkalog.spark import ReadOptions, plan_splits, read_rdd, read_records, read_split
from kafkalog.spark.schema import columns_of
from tests.helpers.spark_logs import PER_BATCH, log_of, offsets, options, rows

MODES = pytest.mark.parametrize("mode", ["skip", "permissive"])
END = 240


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A log of two segments with three damaged batches in the first one, and one in the second."""
    directory = log_of(tmp_path / "data" / "orders-0")
    for path, damaged in zip(sorted(directory.glob("*.log")), [(3, 5, 20), (7,)], strict=True):
        data = bytearray(path.read_bytes())
        for row in scan_headers(bytes(data))[0][list(damaged)]:
            data[int(row["position"]) + 80] ^= 1
        path.write_bytes(data)
    return directory


def expected(orders: Path) -> dict[str, LeftOut]:
    first, second = sorted(orders.glob("*.log"))
    sizes = [scan_headers(path.read_bytes())[0]["size_in_bytes"] for path in (first, second)]
    of_first = LeftOut(3, int(sizes[0][[3, 5, 20]].sum()), 3 * PER_BATCH)
    return {str(first): of_first, str(second): LeftOut(1, int(sizes[1][7]), PER_BATCH)}


def reported(report: Path) -> dict[str, LeftOut]:
    found: dict[str, LeftOut] = {}
    for path in report.iterdir():
        row = json.loads(path.read_text())
        assert (row.pop("topic"), row.pop("partition")) == ("orders", 0)
        file = row.pop("path")
        found[file] = found.get(file, LeftOut()).plus(LeftOut(**row))
    return found


@MODES
@pytest.mark.parametrize("more", [{}, {"splitBytes": 400}, {"maxRecordsPerPartition": 2}])
def test_each_file_is_counted_once_however_it_is_split(
    orders: Path, tmp_path: Path, mode: str, more: dict[str, Any]
) -> None:
    report = tmp_path / "a" / "report"
    for _ in range(2):  # tasks may run again
        found = rows(orders, onCorrupt=mode, corruptReport=report, **more)
        assert len([row for row in found if row.get("_corrupt") is None]) == END - 4 * PER_BATCH
        assert reported(report) == expected(orders)


def test_records_are_counted_like_rows(orders: Path, tmp_path: Path) -> None:
    parsed = options(orders, onCorrupt="skip", corruptReport=tmp_path / "report")
    assert sum(1 for split in plan_splits(parsed) for _ in read_records(split, parsed)) == END - 4 * PER_BATCH
    assert reported(tmp_path / "report") == expected(orders)


@pytest.mark.parametrize("size", [400, 1 << 20])
@pytest.mark.parametrize("length", [60, 700, 3000])
def test_lost_bytes_are_counted_once_however_the_file_is_split(tmp_path: Path, size: int, length: int) -> None:
    directory = log_of(tmp_path / "orders-0")
    path = directory / f"{0:020d}.log"
    data = path.read_bytes()
    start = int(scan_headers(data)[0]["position"][5])
    path.write_bytes(data[:start] + b"\xff" * length + data[start + length :])
    rows_lost = [row for row in scan_headers(data)[0] if start <= row["position"] < start + length]
    end = int(rows_lost[-1]["position"] + rows_lost[-1]["size_in_bytes"])
    rows(directory, onCorrupt="skip", corruptReport=tmp_path / "report", splitBytes=size)
    ((_, found),) = reported(tmp_path / "report").items()
    assert found.bytes == end - start
    assert found.offsets == len(rows_lost) * PER_BATCH


def test_a_sound_log_has_an_empty_report(tmp_path: Path) -> None:
    assert offsets(log_of(tmp_path / "orders-0"), onCorrupt="skip", corruptReport=tmp_path / "report") == [*range(END)]
    assert reported(tmp_path / "report") == {}


@MODES
def test_the_log_of_a_task_ends_with_the_counts_of_each_file(
    orders: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    parsed = options(orders, onCorrupt=mode)
    for split in plan_splits(parsed):
        list(read_split(split, None, parsed))
    found = [message for message in caplog.messages if "left out" in message]
    assert found == [f"{path}: left out because of damage: {left_out}" for path, left_out in expected(orders).items()]


def test_a_report_that_cannot_be_written_is_an_error(orders: Path, tmp_path: Path) -> None:
    parsed = options(orders, onCorrupt="skip", corruptReport=tmp_path / "report")
    (split,) = plan_splits(parsed)
    (tmp_path / "report").rmdir()
    with pytest.raises(FileNotFoundError, match="report"):
        list(read_split(split, None, parsed))
    (tmp_path / "report").touch()
    with pytest.raises(FileExistsError, match="report"):
        plan_splits(parsed)


@pytest.mark.parametrize("value", ["s3://bucket/report", ""])
def test_the_report_is_written_to_a_directory(orders: Path, value: str) -> None:
    with pytest.raises(ValueError, match=r"option corruptReport: .* is not a local or mounted directory"):
        options(orders, corruptReport=value)


def test_without_onCorrupt_damage_is_an_error_with_a_report_too(orders: Path, tmp_path: Path) -> None:  # noqa: N802
    with pytest.raises(KafkaLogError):
        offsets(orders, corruptReport=tmp_path / "report")
    assert reported(tmp_path / "report") == {}


def test_a_stream_logs_the_report_of_the_micro_batch_before(
    orders: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)
    from kafkalog.spark.stream_reader import KafkaLogStreamReader

    given = {"path": str(orders), "startingOffsets": "earliest", "onCorrupt": "skip"}
    parsed = ReadOptions.parse({**given, "corruptReport": tmp_path / "report"}, streaming=True)
    reader = KafkaLogStreamReader(parsed, columns_of(["offset"], parsed))
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    for partition in reader.partitions(start, end):
        list(reader.read(partition))
    caplog.clear()
    for _ in range(2):
        assert reader.latestOffset(end) == end
    first, second = expected(orders).values()
    assert caplog.messages == [f"{tmp_path / 'report'}: left out because of damage: {first.plus(second)}"]


# --- with Spark


@pytest.mark.spark
def test_the_driver_reads_the_report_of_a_dataframe(spark_session: Any, orders: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    reader = spark_session.read.format("kafkalog").options(onCorrupt="skip", corruptReport=report, splitBytes="1k")
    assert reader.load(str(orders)).count() == END - 4 * PER_BATCH
    frame = spark_session.read.schema(
        "path string, topic string, partition int, batches long, bytes long, offsets long"
    ).json(str(report))
    found = Counter[str]()
    for row in frame.collect():
        found[row.path] += row.offsets
    assert found == {path: left_out.offsets for path, left_out in expected(orders).items()}


@pytest.mark.spark
@pytest.mark.parametrize("as_arrow", [False, True])
def test_the_driver_logs_what_an_rdd_leaves_out(
    spark_session: Any, orders: Path, as_arrow: bool, caplog: pytest.LogCaptureFixture
) -> None:
    found = read_rdd(spark_session, orders, as_arrow=as_arrow, onCorrupt="skip")
    assert found.map(lambda each: each.num_rows if as_arrow else 1).sum() == END - 4 * PER_BATCH
    lines = {f"{path}: left out because of damage: {left_out}" for path, left_out in expected(orders).items()}
    assert set(caplog.messages) == lines


@pytest.mark.spark
def test_spark_itself_brings_the_warnings_of_tasks_to_the_driver(spark_session: Any, orders: Path) -> None:
    logs = getattr(getattr(spark_session, "tvf", None), "python_worker_logs", None)
    if logs is None:
        pytest.skip("Spark before 4.1 does not collect what its workers log")
    spark_session.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    try:
        spark_session.read.format("kafkalog").option("onCorrupt", "skip").load(str(orders)).count()
        found = {row.msg for row in logs().collect()}
    finally:
        spark_session.conf.unset("spark.sql.pyspark.worker.logging.enabled")
    assert {f"{path}: left out because of damage: {left_out}" for path, left_out in expected(orders).items()} <= found
