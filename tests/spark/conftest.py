"""What every test of the Spark support needs; without pyarrow there is nothing to test."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'kafkalog[arrow]'")
