"""The table of places in Python and the one in C are the same table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalog.record import layout

TABLE = Path(__file__).parents[2] / "kafkalog" / "_speedups" / "layout.pxd"


@pytest.mark.skipif(not TABLE.exists(), reason="the kernels' sources are not there")
def test_every_place_is_the_one_that_the_kernels_read() -> None:
    found = re.findall(r"^    ([A-Z_0-9]+) = (\S+)$", TABLE.read_text(), re.MULTILINE)
    compiled = {name: int(number, 0) for name, number in found}
    shared = compiled.keys() & vars(layout).keys()
    assert len(shared) >= 10
    assert {name: vars(layout)[name] for name in shared} == {name: compiled[name] for name in shared}
