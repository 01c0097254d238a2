"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from golden import unpacked

# CI must say the same thing twice about the same commit, so it draws the same examples; a thorough run draws new ones,
# and many more.
_SLOW_IS_NO_FAULT = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=300, suppress_health_check=_SLOW_IS_NO_FAULT
)
settings.register_profile("thorough", deadline=None, max_examples=20_000, suppress_health_check=_SLOW_IS_NO_FAULT)
settings.load_profile(os.environ.get("KAFKALOG_HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def golden_logs() -> Path:
    """The brokers' logs unpacked: `NAME/data`, `NAME/expected`. For reading only; `golden` walks them."""
    return unpacked()
