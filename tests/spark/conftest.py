"""What every test of the Spark support needs; without pyarrow there is nothing to test.

Tests that need a session take `spark_session`: one JVM for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'kafkalog[arrow]'")

from tests.spark.sessions import spark_started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark 4.0 and 4.1 leave the closing of their own sockets to the garbage collector."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_started(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def load(spark_session: Any) -> Callable[..., Any]:
    """`load(path, schema=None, **options)`: a DataFrame of `format("kafkalog")`."""

    def loaded(path: Any, schema: Any = None, **options: Any) -> Any:
        reader = spark_session.read.format("kafkalog").options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load([str(each) for each in path] if isinstance(path, list) else str(path))

    return loaded
