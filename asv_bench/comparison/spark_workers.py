"""A session of Spark in a process of its own: answers "case TAB partition directory" with a JSON line.

    READER QUERY     how long it took, on the clock or in processor time a task; items: rows
    memory QUERY     of kafkalog; bytes: what a Python worker had at most, items: without mapped files
    plan             splits of a directory, without Spark; items: how many

READER is one of `READERS`, QUERY one of `QUERIES`. The only argument is a JSON object: jars, broker,
scratch, value_bytes, and rows by the directory's name.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

MEMORY = "4g"
TASKS = 2  # at a time
QUERIES = ("count", "sum", "groups")
_NEEDED = {"count": "offset long", "sum": "value binary", "groups": "key binary"}


def session(settings: dict[str, Any]) -> Any:
    """local[2], on this machine alone."""
    from pyspark.sql import SparkSession

    config = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": MEMORY,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": settings["scratch"],
        "spark.sql.warehouse.dir": f"{settings['scratch']}/warehouse",
    }
    if settings["jars"]:
        config["spark.jars"] = settings["jars"]
    builder = SparkSession.builder.master(f"local[{TASKS}]").appName("bench")
    for name, value in config.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


# --- sources


class Asked(NamedTuple):
    """What is to be done, and where. broker: its address."""

    spark: Any
    path: Path
    query: str
    rows: int
    broker: str


def kafkalog(asked: Asked) -> Any:
    """All columns."""
    return asked.spark.read.format("kafkalog").load(str(asked.path))


def kafkalog_chosen(asked: Asked) -> Any:
    """The one column that the query needs."""
    return asked.spark.read.format("kafkalog").schema(_NEEDED[asked.query]).load(str(asked.path))


def ready(asked: Asked) -> Any:
    """Batches that are ready."""
    return asked.spark.read.format("ready").option("rows", str(asked.rows)).load(str(asked.path))


def kafka(asked: Asked) -> Any:
    """Spark's own source, in as many tasks as kafkalog's."""
    from kafkalog.spark import ReadOptions, plan_splits

    tasks = len(plan_splits(ReadOptions.parse({"path": str(asked.path)})))
    reader = asked.spark.read.format("kafka").option("kafka.bootstrap.servers", asked.broker)
    topic = asked.path.name.rpartition("-")[0]
    return reader.option("subscribe", topic).option("minPartitions", str(tasks)).load()


def parquet(asked: Asked) -> Any:
    """The same rows as Parquet beside the partition, written when they are first asked for."""
    written = asked.path.parents[1] / f"{asked.path.name}.parquet"
    if not written.exists():
        kafkalog(asked).write.parquet(str(written))
    return asked.spark.read.parquet(str(written))


def of_frame(make: Callable[[Asked], Any], asked: Asked) -> int:
    """The query over a DataFrame; how many rows that were, or bytes of values."""
    from pyspark.sql import functions as f

    frame = make(asked)
    if asked.query == "count":
        return int(frame.count())
    if asked.query == "sum":
        return int(frame.agg(f.sum(f.length("value"))).first()[0])
    return sum(row["count"] for row in frame.groupBy("key").count().collect())


def of_arrow_rdd(asked: Asked) -> int:
    """The same over an RDD of Arrow batches."""
    from kafkalog.spark import read_rdd

    batches = read_rdd(asked.spark.sparkContext, asked.path, as_arrow=True)
    if asked.query == "count":
        return int(batches.map(_rows).sum())
    if asked.query == "sum":
        return int(batches.map(_value_bytes).sum())
    return sum(count for _, count in batches.flatMap(_keys).reduceByKey(add).collect())


def _rows(batch: Any) -> int:
    return int(batch.num_rows)


def _value_bytes(batch: Any) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.binary_length(batch.column("value"))).as_py())


def _keys(batch: Any) -> Iterator[tuple[bytes, int]]:
    counts = batch.column("key").value_counts()
    return zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)


def of_record_rdd(asked: Asked) -> int:
    """The same over an RDD of records."""
    from kafkalog.spark import read_rdd

    records = read_rdd(asked.spark.sparkContext, asked.path)
    if asked.query == "count":
        return int(records.count())
    if asked.query == "sum":
        return int(records.map(_value_length).sum())
    return sum(count for _, count in records.map(_key_and_one).reduceByKey(add).collect())


def _value_length(record: Any) -> int:
    return len(record.value)


def _key_and_one(record: Any) -> tuple[bytes, int]:
    return record.key, 1


READERS: dict[str, Callable[[Asked], int]] = {
    "kafkalog": partial(of_frame, kafkalog),
    "kafkalog, chosen": partial(of_frame, kafkalog_chosen),
    "ready": partial(of_frame, ready),
    "kafka": partial(of_frame, kafka),
    "parquet": partial(of_frame, parquet),
    "rdd, Arrow": of_arrow_rdd,
    "rdd, records": of_record_rdd,
}


# --- memory


class PythonWorkers(threading.Thread):
    """Looks at the processes in which Spark runs Python, as long as a query takes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = self.peak_anonymous = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.02):
            for pid in _descendants(os.getpid()):
                self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        try:
            if b"pyspark" not in Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"java")[0]:
                return
            found = dict(
                line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
            )
        except OSError:  # it has just ended
            return
        if "VmHWM" in found:
            self.peak = max(self.peak, int(found["VmHWM"].split()[0]) << 10)
            self.peak_anonymous = max(self.peak_anonymous, int(found["RssAnon"].split()[0]) << 10)

    def stop(self) -> None:
        self._done.set()
        self.join()


def _cpu_seconds() -> float:
    """Of Spark's processes, Java and Python, and of those that have ended."""
    ticks = 0
    for pid in _descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        try:
            children = [task.read_text() for task in Path(f"/proc/{each}/task").glob("*/children")]
        except OSError:
            continue
        found.extend(int(child) for text in children for child in text.split())
    return found[1:]


# --- requests


class Requests:
    """Answers them in one session, which is made when it is first needed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._session: Any = None

    @property
    def _spark(self) -> Any:
        if self._session is None:
            from asv_bench.comparison.spark_ready import ReadyDataSource
            from kafkalog.spark import register

            self._session = session(self._settings)
            register(self._session)
            self._session.dataSource.register(ReadyDataSource)
        return self._session

    def answer(self, case: str, path: Path) -> dict[str, float]:
        reader, _, query = case.rpartition(" ")
        if query == "plan":
            return _planned(path)
        if reader == "memory":
            return self._remembered(query, path)
        asked = self._asked(query, path)
        begin, cpu_begin = time.perf_counter(), _cpu_seconds()
        found = READERS[reader](asked)
        seconds, cpu_seconds = time.perf_counter() - begin, _cpu_seconds() - cpu_begin
        expected = asked.rows * (self._settings["value_bytes"] if query == "sum" else 1)
        if found != expected:
            raise ValueError(f"{case} of {path}: {found} is not {expected}")
        return {"seconds": seconds, "cpu_seconds": cpu_seconds / TASKS, "items": asked.rows, "bytes": -1}

    def _asked(self, query: str, path: Path) -> Asked:
        return Asked(self._spark, path, query, self._settings["rows"][path.name], self._settings["broker"])

    def _remembered(self, query: str, path: Path) -> dict[str, float]:
        asked, watcher = self._asked(query, path), PythonWorkers()
        watcher.start()
        try:
            READERS["kafkalog"](asked)
        finally:
            watcher.stop()
        return {"seconds": 0, "cpu_seconds": 0, "items": watcher.peak_anonymous, "bytes": watcher.peak}


def _planned(path: Path) -> dict[str, float]:
    from kafkalog.spark import ReadOptions, plan_splits

    begin, cpu_begin = time.perf_counter(), time.process_time()
    splits = plan_splits(ReadOptions.parse({"path": str(path)}))
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "items": len(splits), "bytes": -1}


def main() -> None:
    """Answer until there are no more."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark's launcher writes to it, too
    requests = Requests(json.loads(sys.argv[1]))
    for line in sys.stdin:
        case, _, path = line.rstrip("\n").partition("\t")
        print(json.dumps(requests.answer(case, Path(path))), file=out, flush=True)


if __name__ == "__main__":
    main()
