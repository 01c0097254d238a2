"""`format("ready")`: Arrow batches that are ready before the first is asked for; what no source in Python can surpass.

Options: those of `format("kafkalog")`, whose splits are its tasks and whose first batch in each is given again and
again; `rows`, of all tasks together.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafkalog.spark import ReadOptions, plan_splits, read_split
from kafkalog.spark.schema import ddl


class ReadyDataSource(DataSource):
    """The same columns as those of kafkalog."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return ddl(ReadOptions.parse({"path": self.options["path"]}))

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - always all columns
        return ReadyReader(self.options["path"], int(self.options["rows"]))


class ReadyReader(DataSourceReader):
    """Knows how many rows a task has."""

    def __init__(self, path: str, rows: int) -> None:
        self._options = ReadOptions.parse({"path": path})
        self._rows = rows
        self._tasks = 0

    def partitions(self) -> list[InputPartition]:
        splits = plan_splits(self._options)
        return [_Part(split, _share(self._rows, number, len(splits))) for number, split in enumerate(splits)]

    def read(self, partition: Any) -> Iterator[Any]:
        batch, left = next(read_split(partition.value, None, self._options)), partition.rows
        while left > 0:
            yield batch if left >= batch.num_rows else batch.slice(0, left)
            left -= batch.num_rows


class _Part(InputPartition):
    def __init__(self, split: Any, rows: int) -> None:
        super().__init__(split)
        self.rows = rows


def _share(rows: int, number: int, tasks: int) -> int:
    return rows * (number + 1) // tasks - rows * number // tasks
