"""`verify` finds the damage after which a real broker loses or misserves records, deletes data, or does not start."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from kafkalog.fsck import Consequence, Options, Severity, verify_path
from tests.damage.kinds import BY_NAME, KINDS, Kind
from tests.helpers.broker_dirs import METADATA, broker_dir

TABLE = Path(__file__).with_name("broker_truth.json")
VERSION = "4.2.0"
# Of so many kinds one is in the fast tier.
FEW = 25
# What needs more than one data directory, or `server.properties`, to be noticed; metadata of the cluster that are gone;
# and compaction, which leaves the same gaps.
NOT_FOUND = {
    "log-segment-missing-compacted",
    "meta-no-directory-id",
    "meta-other-directory-id",
    "metadata-directory-missing",
}


@cache
def harmful() -> dict[str, set[Consequence]]:
    """The kinds after which a broker was seen to do harm, with what it did after a clean and an unclean stop."""
    found: dict[str, set[Consequence]] = {}
    for row in json.loads(TABLE.read_text()):
        if row["version"] == VERSION and row["consequence"]:
            found.setdefault(row["kind"], set()).add(Consequence(row["consequence"]))
    return {kind: seen for kind, seen in found.items() if any(each.severity is Severity.ERROR for each in seen)}


def keep_from_starting() -> set[str]:
    """The kinds after which a broker did not start, but for those that cannot be found, or end as a lost partition."""
    rows = [row for row in json.loads(TABLE.read_text()) if row["version"] == VERSION]
    named = {row["kind"] for row in rows if row["consequence"] == Consequence.NO_START}
    # Another node's id is found by the partitions that are not this node's then.
    return (named & BY_NAME.keys()) - NOT_FOUND - {"directory-is-a-file", "meta-other-node"}


def damaged(kind: Kind, directory: Path) -> Path:
    data = broker_dir(directory, METADATA, kind.partition, "v2-empty-0")
    kind.damage(data, kind.partition)
    return data


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if number % FEW == 0 else pytest.mark.slow)
        for number, kind in enumerate(each for each in KINDS if each.name in harmful())
    ],
)
def test_what_a_broker_suffers_from_is_an_error(kind: Kind, tmp_path: Path) -> None:
    findings = [each for each in verify_path(damaged(kind, tmp_path)) if each.severity is Severity.ERROR]
    assert bool(findings) == (kind.name not in NOT_FOUND), findings


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(BY_NAME[name], id=name, marks=() if name == "epochs-negative" else pytest.mark.slow)
        for name in sorted(keep_from_starting())
    ],
)
def test_what_keeps_a_broker_from_starting_is_found_without_reading_all_segments(kind: Kind, tmp_path: Path) -> None:
    options = Options(only=frozenset({"checkpoints", "layout"}))
    data = damaged(kind, tmp_path)
    found = [each for each in verify_path(data, options) if each.consequence is Consequence.NO_START]
    everything = [each for each in verify_path(data) if each.consequence is Consequence.NO_START]
    assert found
    assert {(each.code, each.path) for each in found} == {(each.code, each.path) for each in everything}
    assert options.summary.bytes < sum(path.stat().st_size for path in data.rglob("*.log") if path.is_file())


def test_every_kind_that_is_not_found_is_in_the_catalogue() -> None:
    assert harmful().keys() & BY_NAME.keys() >= NOT_FOUND
