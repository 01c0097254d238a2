"""A driver of Spark, its Java and its Python, that is killed (SIGKILL) and started again: all of it once, or nothing.

It is another process, `stopping_driver.py`, which stops where it is to be killed; the session of the other tests is
what goes on afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.write import commit
from kafkalog.spark.writer import recover
from tests.helpers.locking import lock_data_dir
from tests.helpers.spark_logs import PER_BATCH, log_of
from tests.helpers.spark_writing import partitions_in, values_in
from tests.spark.sessions import SMALL

# Not the group of the other tests of a session: these have the second worker to themselves.
pytestmark = [pytest.mark.spark]

DRIVER = Path(__file__).with_name("stopping_driver.py")
PATIENCE_S = 300.0
OLD = [b"old"]
NEW = {f"t-{part}": [b"%d" % i for i in range(part, 1000, 2)] for part in range(2)}


def killed(scratch: Path, **options: Any) -> int:
    """A driver that does this is killed, Java and Python, when it has stopped; the process that waits."""
    reached = scratch / "reached"
    reached.unlink(missing_ok=True)
    config = {**SMALL, "spark.local.dir": str(scratch), "spark.sql.warehouse.dir": str(scratch / "wh")}
    asked = {**options, "reached": str(reached), "config": config}
    with (scratch / "driver.log").open("wb") as said:
        command = [sys.executable, str(DRIVER), json.dumps(asked)]
        driver = subprocess.Popen(command, cwd=scratch, stdout=said, stderr=said, start_new_session=True)
    try:
        wait_until_it_has_stopped(driver, reached, scratch / "driver.log")
    finally:
        # A group of its own: Spark's Java is in it, and the Python workers end with that.
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return int(reached.read_text())


def wait_until_it_is_gone(worker: int) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while is_there(worker):
        assert time.monotonic() < give_up, f"process {worker} was killed and is still there"
        time.sleep(0.05)


def is_there(worker: int) -> bool:
    try:
        return Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_it_has_stopped(driver: subprocess.Popen[bytes], reached: Path, log: Path) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not reached.exists():
        assert driver.poll() is None, log.read_text("utf-8", "replace")[-4000:]
        assert time.monotonic() < give_up, log.read_text("utf-8", "replace")[-4000:]
        time.sleep(0.05)


# --- a write


def rows_of(spark: Any, *values: bytes) -> Any:
    frame = spark.createDataFrame([(value.decode(),) for value in values], "value string")
    return frame.selectExpr("'t' as topic", "0 as partition", "value").coalesce(1)


def write_again(spark: Any, path: Path, mode: str) -> None:
    frame = spark.range(0, 1000, 1, 2)
    rows = frame.selectExpr("'t' as topic", "int(id % 2) as partition", "cast(id as string) as value")
    rows.write.format("kafkalog").mode(mode).save(str(path))


def found_in(path: Path) -> dict[str, list[bytes | None]]:
    return {name: values_in(path, name) for name in partitions_in(path) if name != commit.TEMPORARY}


# Overwriting is killed at each point by `test_writer.py`, without Spark.
CASES = [
    ("append", "in a task", False),
    ("append", "before it is committed", False),
    ("append", "between two directories", True),
    ("append", "before the job is removed", True),
    ("overwrite", "between two directories", True),
]


@pytest.mark.parametrize(("mode", "point", "committed"), CASES)
def test_a_write_whose_driver_is_killed_is_there_once(
    spark_session: Any, tmp_path: Path, mode: str, point: str, committed: bool
) -> None:
    path = tmp_path / "data"
    rows_of(spark_session, *OLD).write.format("kafkalog").mode("append").save(str(path))
    after = {"t-0": [*OLD, *NEW["t-0"]] if mode == "append" else NEW["t-0"], "t-1": NEW["t-1"]}
    wait_until_it_is_gone(killed(tmp_path, do="write", point=point, path=str(path), mode=mode))
    if point != "between two directories":
        assert found_in(path) == (after if committed else {"t-0": OLD})
    assert len(recover(path)) == committed
    assert found_in(path) == (after if committed else {"t-0": OLD})
    if not committed:
        write_again(spark_session, path, mode)
    assert found_in(path) == after
    assert recover(path) == []


def test_a_write_that_waits_for_others_when_its_driver_is_killed_does_not_come_later(
    spark_session: Any, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    rows_of(spark_session, *OLD).write.format("kafkalog").mode("append").save(str(path))
    (path / commit.TEMPORARY / "another").mkdir(parents=True)
    with lock_data_dir(path):
        worker = killed(tmp_path, do="write", point="while it waits for others", path=str(path), mode="append")
        wait_until_it_is_gone(worker)
    assert recover(path) == []
    assert found_in(path) == {"t-0": OLD}


# --- a stream


@pytest.mark.parametrize("point", [10, 130])
def test_a_stream_whose_driver_is_killed_gives_each_record_once(spark_session: Any, tmp_path: Path, point: int) -> None:
    """In its first micro-batch, and in a later one; the log has grown when it begins again."""
    orders, out, checkpoint = log_of(tmp_path / "orders-0"), tmp_path / "out", tmp_path / "checkpoint"
    paths = {"path": str(orders), "out": str(out), "checkpoint": str(checkpoint), "limit": "50"}
    wait_until_it_is_gone(killed(tmp_path, do="stream", point=str(point), **paths))
    log_of(orders, segments=3)
    reader = spark_session.readStream.format("kafkalog").option("startingOffsets", "earliest").schema("offset long")
    frame = reader.option("maxOffsetsPerTrigger", "50").load(str(orders))
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start(str(out)).awaitTermination()
    found = sorted(row.offset for row in spark_session.read.parquet(str(out)).collect())
    assert found == list(range(3 * 40 * PER_BATCH))
