"""`kafkalog.spark` without Spark: planning the splits of a read, and their Arrow batches."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

import sys
import tempfile
from pathlib import Path

from benchmarks import SCALE

from kafkalog.spark import ReadOptions, plan_splits, read_split

sys.path.append(str(Path(__file__).resolve().parents[2]))

from asv_bench.comparison import spark_logs


class Plan:
    """A thousand segments of 1 GiB, holes in all of them."""

    def setup_cache(self) -> Path:
        """In a directory that is there until the machine deletes it."""
        return spark_logs.make_planned(Path(tempfile.mkdtemp(prefix="kafkalog-bench-")))

    def time_plan(self, directory: Path) -> None:
        """All of it."""
        plan_splits(ReadOptions.parse({"path": str(directory)}))


class Read:
    """Records with a value of 100 bytes, and all columns or one."""

    params = (spark_logs.CODECS, ("all", "offset"))
    param_names = ("codec", "columns")

    def setup_cache(self) -> Path:
        """A log of each codec."""
        directory = Path(tempfile.mkdtemp(prefix="kafkalog-bench-"))
        for codec in spark_logs.CODECS:
            spark_logs.make(directory, codec, SCALE)
        return directory

    def setup(self, directory: Path, codec: str, columns: str) -> None:
        """The splits."""
        self.options = ReadOptions.parse({"path": str(directory / f"{codec}-0")})
        self.splits = plan_splits(self.options)
        self.columns = None if columns == "all" else [columns]

    def time_read(self, directory: Path, codec: str, columns: str) -> None:
        """Every Arrow batch."""
        for split in self.splits:
            for _ in read_split(split, self.columns, self.options):
                pass

    def peakmem_read(self, directory: Path, codec: str, columns: str) -> None:
        """Bounded by the size of a batch."""
        self.time_read(directory, codec, columns)
