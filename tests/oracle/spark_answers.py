"""Asks Spark's `kafka` source and kafkalog's the same questions, in one session: `spark_answers.py questions answers`.

Both files are pickles: {"broker", "directory", "scratch", "jars", "questions": [(name, kind, options), ...]} in, and
{(name, source): Answer} out. kind: "batch", or "stream", which is read by availableNow from a checkpoint of its own.
"""

import pickle
import sys
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

SOURCES = ("kafka", "kafkalog")
# How many questions are asked at once.
AT_ONCE = 4
# What Spark says when a Python worker has not started within ten seconds, on a busy machine; and how often to ask then.
TOO_BUSY, TRIES = "Python worker failed to connect back", 5


class Answer(NamedTuple):
    """What a source gives: its schema, rows in order of topic, partition and offset; or which error, and its text."""

    schema: str = ""
    rows: list[tuple[Any, ...]] | None = None
    batches: int = 0
    error: str = ""
    text: str = ""


def started(asked: Mapping[str, Any]) -> Any:
    """A small session on this machine alone, that has Spark's source."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.jars": asked["jars"],
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{asked['scratch']}/warehouse",
        "spark.local.dir": f"{asked['scratch']}/local",
    }
    builder = SparkSession.builder.master("local[2]").appName("oracle")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


class Asker:
    """Puts questions to both."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._asked = asked
        self._spark = started(asked)
        self._streams = count()

    def answer(self, source: str, kind: str, options: Mapping[str, str]) -> Answer:
        """What one of them says."""
        found = Answer()
        for _ in range(TRIES):
            try:
                return self._batch(source, options) if kind == "batch" else self._stream(source, options)
            except Exception as error:  # noqa: BLE001 - which one is the answer
                found = Answer(error=type(error).__name__, text=str(error))
            if TOO_BUSY not in found.text:
                break
        return found

    def _loaded(self, reader: Any, source: str, options: Mapping[str, str]) -> Any:
        reader = reader.format(source).options(**options)
        if source == "kafka":
            # Offsets that never come are waited for, two minutes unless told otherwise.
            reader = reader.option("kafka.bootstrap.servers", self._asked["broker"])
            return reader.option("kafkaConsumer.pollTimeoutMs", "20000").load()
        return reader.load(self._asked["directory"])

    def _batch(self, source: str, options: Mapping[str, str]) -> Answer:
        frame = self._loaded(self._spark.read, source, options)
        return Answer(frame.schema.json(), _rows(frame.collect()))

    def _stream(self, source: str, options: Mapping[str, str]) -> Answer:
        checkpoint = f"{self._asked['scratch']}/stream-{next(self._streams)}"
        found: list[list[Any]] = []
        frame = self._loaded(self._spark.readStream, source, options)
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: found.append(batch.collect()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return Answer(frame.schema.json(), _rows([row for rows in found for row in rows]), len(found))


def _rows(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((_plain(row) for row in rows), key=lambda row: row[2:5])


def _plain(value: Any) -> Any:
    """Without Spark's classes."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each) for each in value)
    return bytes(value) if isinstance(value, bytearray) else value


def main(questions: str, answers: str) -> None:
    """Answer all questions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = pickle.loads(Path(questions).read_bytes())
        asker = Asker(asked)

        def answered(asking: tuple[str, str, str, Mapping[str, str]]) -> tuple[Any, ...]:
            name, source, kind, options = asking
            begin = time.monotonic()
            found = tuple(asker.answer(source, kind, options))
            print(f"{time.monotonic() - begin:7.2f} s  {source:9} {name}", file=sys.stderr, flush=True)
            return found

        asking = [(name, source, kind, options) for name, kind, options in asked["questions"] for source in SOURCES]
        # Most of the time Spark waits: for its scheduler, for checkpoints, for records that never come.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = {each[:2]: answer for each, answer in zip(asking, pool.map(answered, asking), strict=True)}
    Path(answers).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
