"""A small session of Spark on this machine alone."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.java import missing_java

SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    # Sessions of tests are short: starting soon matters more than code that runs fast in the end.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_started(directory: Path) -> Iterator[Any]:
    """A session whose tasks are tried again, as on a cluster. Skips the test where pyspark or Java is missing."""
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)
    wrong = missing_java()
    if wrong is not None:
        pytest.skip(wrong)
    directories = {"spark.sql.warehouse.dir": f"{directory}/wh", "spark.local.dir": f"{directory}/local"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _environment(directory).items():
            patch.setenv(name, value)
        session = _started({**SMALL, **directories})
        yield session
        session.stop()
        del session
        # Here, where a socket that Spark has not closed is no error, and not in whatever test comes next.
        gc.collect()


def _environment(directory: Path) -> dict[str, str]:
    (directory / "fsspec").mkdir()
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Where a test says how its store is reached; what this machine's user has is not asked.
        "FSSPEC_CONFIG_DIR": str(directory / "fsspec"),
    }


def _started(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").appName("kafkalog")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # pandas, of some other version than pyspark was made for, is not used.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
