"""What every test of the Spark support needs; without pyarrow there is nothing to test.

Tests that need a session take `spark_session`: one JVM for all of them, small, on this machine alone.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'kafkalog[arrow]'")

from kafkalog.spark.java import missing_java

ON_LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
SMALL = {
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark 4.0 and 4.1 leave the closing of their own sockets to the garbage collector."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session whose tasks are tried again, as on a cluster; workers import what this interpreter imports."""
    pytest.importorskip("pyspark", reason="pyspark is missing: pip install 'kafkalog[spark]'", exc_type=ImportError)
    wrong = missing_java()
    if wrong is not None:
        pytest.skip(wrong)
    directory = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _environment(directory).items():
            patch.setenv(name, value)
        session = _started({"spark.sql.warehouse.dir": f"{directory}/wh", "spark.local.dir": f"{directory}/local"})
        yield session
        session.stop()


def _environment(directory: Path) -> dict[str, str]:
    (directory / "fsspec").mkdir()
    path = os.pathsep.join(each for each in sys.path if each)
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": path,
        # Where a test says how its store is reached; what this machine's user has is not asked.
        "FSSPEC_CONFIG_DIR": str(directory / "fsspec"),
    }


def _started(directories: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2,4]").appName("kafkalog")
    for name, value in {**ON_LOOPBACK, **SMALL, **directories}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # pandas, of some other version than pyspark was made for, is not used.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@pytest.fixture
def load(spark_session: Any) -> Callable[..., Any]:
    """`load(path, schema=None, **options)`: a DataFrame of `format("kafkalog")`."""

    def loaded(path: Any, schema: Any = None, **options: Any) -> Any:
        reader = spark_session.read.format("kafkalog").options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load([str(each) for each in path] if isinstance(path, list) else str(path))

    return loaded
