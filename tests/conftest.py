"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from golden import unpacked

# Whoever runs the tests twice is to be told the same thing of the same tree, so the same examples are drawn: a few, or
# more of them where there is time. A thorough run draws new ones, and very many.
_SLOW_IS_NO_FAULT = [HealthCheck.too_slow, HealthCheck.data_too_large]
for name, examples in (("quick", 100), ("more", 300)):
    settings.register_profile(
        name, deadline=None, derandomize=True, max_examples=examples, suppress_health_check=_SLOW_IS_NO_FAULT
    )
settings.register_profile("thorough", deadline=None, max_examples=20_000, suppress_health_check=_SLOW_IS_NO_FAULT)
settings.load_profile(os.environ.get("KAFKALOG_HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="session")
def golden_logs() -> Path:
    """The brokers' logs unpacked: `NAME/data`, `NAME/expected`. For reading only; `golden` walks them."""
    return unpacked()
