"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.golden import unpacked

# The same examples in each run: two runs of one tree answer alike. KAFKALOG_EXAMPLES=many draws new ones.
_SLOW_IS_NO_FAULT = [HealthCheck.too_slow, HealthCheck.data_too_large]
for name, examples in (("fast", 20), ("more", 100), ("many", 20_000)):
    settings.register_profile(
        name,
        deadline=None,
        derandomize=name != "many",
        max_examples=examples,
        suppress_health_check=_SLOW_IS_NO_FAULT,
    )
settings.load_profile(os.environ.get("KAFKALOG_EXAMPLES", "fast"))


@pytest.fixture(scope="session", autouse=True)
def small_batches_in_threads() -> Iterator[None]:
    """Let `threads=2` decode batches of every size in threads, as it does large ones."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("kafkalog.record.decoding.LEAST_FOR_A_THREAD", {})
        yield


@pytest.fixture(scope="session")
def golden_logs() -> Path:
    """Return the golden logs unpacked, for reading only: `NAME/data` and `NAME/expected` (see tests.helpers.golden)."""
    return unpacked()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest test of the fast tier, that of Spark: no worker waits for it at the end."""
    items.sort(key=lambda item: "spark/test_smoke.py" not in item.nodeid)
