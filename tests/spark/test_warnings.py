"""Warnings of what a read leaves out; errors that say where it looked for what it did not find."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkalog.errors import NotALogError
from kafkalog.spark import plan_splits
from kafkalog.spark.read.options import ReadOptions
from kafkalog.storage.file_names import TopicPartition
from tests.helpers.partition_dirs import NOW
from tests.helpers.spark_logs import log_of, offsets, options, splits

END = 240
TORN = b"\0\0\0\0\0\0\0\xf0\0\0\1\0torn"


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return log_of(tmp_path / "data" / "orders-0")


def active(directory: Path) -> Path:
    return max(directory.glob("*.log"))


# --- what is left out


def test_a_torn_tail_is_reported_with_file_position_and_length(orders: Path, caplog: pytest.LogCaptureFixture) -> None:
    size = active(orders).stat().st_size
    with active(orders).open("ab") as file:
        file.write(TORN)
    assert offsets(orders) == list(range(END))
    assert f"{active(orders)}: position {size}: the last {len(TORN)} bytes are no whole batch" in caplog.text


def test_text_in_place_of_a_log_is_reported(orders: Path, caplog: pytest.LogCaptureFixture) -> None:
    active(orders).write_text("This is no log, and yet it is long enough for one: " * 10)
    splits(orders)
    assert "position 0: the last 510 bytes are no whole batch" in caplog.text


def test_reserved_zeros_and_a_tail_behind_the_requested_end_are_not_reported(
    orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = active(orders).read_bytes()
    active(orders).write_bytes(whole + bytes(4096))
    splits(orders)
    active(orders).write_bytes(whole + TORN)
    splits(orders, endingOffsets={"orders": {"0": 30}})
    assert not caplog.records


def test_a_stream_does_not_report_the_tail_that_a_writer_is_writing(
    orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with active(orders).open("ab") as file:
        file.write(TORN)
    stream = ReadOptions.parse({"path": str(orders)}, streaming=True)
    assert plan_splits(stream, {TopicPartition("orders", 0): (0, END)})
    assert not caplog.records


def test_a_segment_that_compaction_has_not_put_in_place_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = log_of(tmp_path / "orders-0", segments=3)
    middle = directory / f"{120:020d}.log"
    middle.rename(f"{middle}.swap")
    assert offsets(directory) == [*range(120), *range(240, 360)]
    assert f"{middle}.swap is not read: compaction or splitting did not end" in caplog.text


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"startingTimestamp": NOW // 1000}, True),
        ({"endingTimestamp": NOW // 1000}, True),
        ({"startingOffsetsByTimestamp": {"orders": {"0": NOW // 1000}}}, True),
        ({"startingTimestamp": 0}, False),
        ({"startingTimestamp": NOW}, False),
        ({"endingTimestamp": NOW + 5}, False),
    ],
)
def test_a_time_in_seconds_is_reported(
    orders: Path, given: dict[str, Any], reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    splits(orders, **given)
    (option,) = given
    assert (f"option {option}: {NOW // 1000} ms is 1970-01-21; are seconds meant?" in caplog.text) is reported


# --- ranges that hold nothing


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"orders": {"0": offset}}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"startingOffsets": at(END)}, "from startingOffsets 240 to endingOffsets latest"),
        ({"startingOffsets": at(END), "endingOffsets": at(-1)}, "from startingOffsets 240 to endingOffsets latest"),
        (
            {"startingTimestamp": NOW * 2, "startingOffsetsByTimestampStrategy": "latest"},
            f"from startingTimestamp {NOW * 2} ms to endingOffsets latest",
        ),
        ({"endingTimestamp": NOW - 1}, f"from startingOffsets earliest to endingTimestamp {NOW - 1} ms"),
        (
            {"startingOffsets": at(-2), "endingOffsetsByTimestamp": at(NOW - 1)},
            f"from startingOffsets earliest to endingOffsetsByTimestamp {NOW - 1} ms",
        ),
    ],
)
def test_an_empty_range_is_reported_with_the_range_requested_and_the_offsets_present(
    orders: Path, given: dict[str, Any], asked: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert offsets(orders, **given) == []
    assert caplog.messages == [f"nothing is read of orders-0: {asked}, and there are 0..239"]


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
@pytest.mark.parametrize(
    ("given", "where", "asked"),
    [
        ({"startingOffsets": at(500)}, (500, END), "startingOffsets 500 to endingOffsets latest"),
        (
            {"startingOffsets": at(500), "endingOffsets": at(-1)},
            (500, END),
            "startingOffsets 500 to endingOffsets latest",
        ),
        ({"startingOffsets": at(9), "endingOffsets": at(5)}, (9, 5), "startingOffsets 9 to endingOffsets 5"),
        (
            {"startingOffsets": at(9), "endingTimestamp": NOW - 1},
            (9, 0),
            f"startingOffsets 9 to endingTimestamp {NOW - 1} ms",
        ),
    ],
)
def test_a_range_that_ends_before_it_begins_is_refused_with_the_offsets_present(
    orders: Path, given: dict[str, Any], where: tuple[int, int], asked: str, fail_on_data_loss: bool
) -> None:
    with pytest.raises(ValueError, match="would begin at") as caught:
        splits(orders, failOnDataLoss=fail_on_data_loss, **given)
    refusal = "option startingOffsets: would begin at offset {} and end before {}".format(*where)
    assert str(caught.value) == f"{refusal}; orders-0: from {asked}, and there are 0..239"


def test_an_empty_partition_is_reported_where_it_was_requested_by_number(
    orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_of(orders.parent / "orders-1", batches=0, segments=1)
    assert offsets(orders.parent, assign={"orders": [0, 1]}) == list(range(END))
    asked = "from startingOffsets earliest to endingOffsets latest"
    assert caplog.messages == [f"nothing is read of orders-1: {asked}, and there are none"]


def test_many_empty_ranges_are_one_warning(orders: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(1, 8):
        log_of(orders.parent / f"orders-{number}", batches=1, segments=1)
    given = {"startingTimestamp": NOW * 2, "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(orders.parent, **given) == []
    (message,) = caplog.messages
    assert message.count("ms to endingOffsets latest, and there are") == 5
    assert message.endswith("; so it is with 3 more")


def test_ranges_left_empty_on_purpose_and_unnamed_partitions_are_not_reported(
    orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_of(orders.parent / "orders-1", batches=0, segments=1)
    assert offsets(orders.parent, subscribe="orders") == list(range(END))
    nothing = {"orders": {"0": 9, "1": 0}}
    assert offsets(orders.parent, startingOffsets=nothing, endingOffsets=nothing) == []
    assert not caplog.records


def test_lost_offsets_are_reported_once(orders: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"startingOffsets": at(500), "endingOffsets": at(600), "failOnDataLoss": False}
    assert offsets(orders, **given) == []
    assert caplog.messages == [f"{orders}: orders-0: offsets 500..599 are not there; there are 0..239"]


# --- where it was looked for


def test_a_missing_topic_is_an_error_with_the_place_and_its_topics(orders: Path) -> None:
    for i in range(12):
        log_of(orders.parent / f"topic{i:02}-0", batches=1, segments=1)
    with pytest.raises(ValueError, match="option subscribe: not found: refunds") as caught:
        splits(orders.parent, subscribe="refunds")
    named = ", ".join(["orders", *(f"topic{i:02}" for i in range(9))])
    assert str(caught.value).endswith(f"; in {orders.parent} there are the topics {named} and 3 more")


def test_the_error_for_a_directory_above_a_data_directory_names_the_latter(orders: Path) -> None:
    above = orders.parent.parent
    (above / "file").touch()
    (above / "empty").mkdir()
    with pytest.raises(NotALogError, match=rf"no Kafka log: .*; {orders.parent} has some"):
        splits(above)


@pytest.mark.parametrize(
    ("url", "needed"),
    [("s3://bucket/x", "s3fs"), ("gs://bucket/x", "gcsfs"), ("abfss://c@a/x", "adlfs"), ("hdfs://h/x", "pyarrow")],
)
def test_all_packages_that_a_store_needs_are_named(url: str, needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_fsspec(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "fsspec":
            raise ModuleNotFoundError("No module named 'fsspec'", name=name)
        return imported(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without_fsspec)
    with pytest.raises(ImportError, match=rf"pip install 'kafkalog\[remote\]' {needed}$"):
        plan_splits(options(url))


@pytest.mark.slow
def test_the_module_that_looks_for_java_says_what_it_does() -> None:
    command = [sys.executable, "-m", "kafkalog.spark.java", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "whether Spark will find a Java" in run.stdout
