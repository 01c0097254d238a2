"""The table of places in Python and the one in C are the same table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkalog import attributes
from kafkalog.record import layout

TABLE = Path(__file__).parents[2] / "kafkalog" / "_speedups" / "layout.pxd"


@pytest.mark.skipif(not TABLE.exists(), reason="the kernels' sources are not there")
def test_every_place_is_the_one_that_the_kernels_read() -> None:
    found = re.findall(r"^    ([A-Z_0-9]+) = (\S+)$", TABLE.read_text(), re.MULTILINE)
    compiled = {name: int(number, 0) for name, number in found}
    table = {name: compiled[name] for name in compiled.keys() & vars(layout).keys()}
    bits = {name: compiled[name] for name in compiled if name.endswith("_BIT")}
    assert {name: vars(layout)[name] for name in table} == table
    assert {name: vars(attributes)[name] for name in bits} == bits
    assert compiled.keys() - table.keys() - bits.keys() == {"LOG_APPEND_TIME"}
