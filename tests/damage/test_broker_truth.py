"""The table of what brokers do with damage: complete, and a broker still does what a sample of its rows says."""

from __future__ import annotations

import pytest

from tests.damage.broker_base import CLEAN, UNFLUSHED, VERSIONS
from tests.damage.broker_truth import TABLE, Row, read, rows, stops_for
from tests.damage.kinds import BY_NAME
from tests.oracle import java

CONSEQUENCES = {
    *("no-start", "data-deleted", "set-aside", "records-lost", "served-wrongly"),
    *("rebuilt", "doubtful", "harmless"),
}
NEWEST = "4.2.0"
SHARED = ["log-torn-active", "log-size-too-large-sealed", "index-garbage", "snapshot-stale", "log-start-beyond-the-end"]
ALONE = ["epochs-malformed", "partition-metadata-other-id"]


def test_the_table_has_one_row_at_most_for_a_kind_version_and_stop() -> None:
    found = [(row.kind, row.version, row.stop) for row in read()]
    assert len(found) == len({*found})
    assert all(version in VERSIONS and stop in stops_for(BY_NAME[kind]) for kind, version, stop in found)


def test_at_least_seventy_kinds_were_tried_on_each_version() -> None:
    for version in VERSIONS:
        assert len({row.kind for row in read() if row.version == version}) >= 70


def test_every_consequence_in_the_table_is_one_of_those_known() -> None:
    assert {row.consequence for row in read()} <= CONSEQUENCES


def test_the_table_names_nothing_of_the_machine_that_made_it() -> None:
    text = TABLE.read_text()
    assert not any(path in text for path in ("/tmp", "/home", "/root", "/work", "127.0.0.1"))


@pytest.mark.oracle
@pytest.mark.broker
@pytest.mark.parametrize(("names", "stop"), [(SHARED, UNFLUSHED), (ALONE, CLEAN)], ids=["shared", "alone"])
def test_a_broker_does_what_the_table_says(names: list[str], stop: str) -> None:
    expected = {row.kind: row for row in read() if (row.version, row.stop) == (NEWEST, stop)}
    try:
        found = list(rows(NEWEST, stop, [BY_NAME[name] for name in names]))
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    assert [essence(row) for row in found] == [essence(expected[row.kind]) for row in found]
    assert sorted(row.kind for row in found) == sorted(names)


def essence(row: Row) -> tuple[object, ...]:
    """Return what does not hang on the pace of a machine."""
    return row.kind, row.started, row.consequence, row.low, row.end, row.log_end, row.read, row.batches
