"""Planning and reading need no Spark, planning no Arrow, and importing nothing at all."""

from __future__ import annotations

import subprocess
import sys

import pytest


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "unneeded"),
    [
        ("import kafkalog.spark", {"pyspark", "pyarrow", "numpy", "fsspec"}),
        ("from kafkalog.spark import ReadOptions, plan_splits", {"pyspark", "pyarrow", "fsspec"}),
        ("from kafkalog.spark import read_records", {"pyspark", "pyarrow", "fsspec"}),
        ("import kafkalog.spark.read.arrow_batches", {"pyspark", "fsspec", "pandas"}),
        ("import kafkalog.storage.files.open_source", {"pyspark", "pyarrow", "fsspec"}),
    ],
)
def test_planning_and_reading_import_no_package_that_they_do_not_need(statement: str, unneeded: set[str]) -> None:
    assert not modules_after(statement) & unneeded


def test_an_unknown_name_is_an_attribute_error() -> None:
    import kafkalog.spark

    with pytest.raises(AttributeError, match=r"'kafkalog\.spark' has no attribute 'nothing'"):
        _ = kafkalog.spark.nothing
    assert {"ReadOptions", "Split", "plan_splits", "read_split"} <= set(dir(kafkalog.spark))
