"""`verify` finds the damage after which a real broker loses or misserves records, deletes data, or does not start."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path

import pytest

from kafkalog.fsck import Consequence, Severity, verify_path
from tests.damage.kinds import BY_NAME, KINDS, Kind

TABLE = Path(__file__).with_name("broker_truth.json")
VERSION = "4.2.0"
# Of so many kinds one is in the fast tier.
FEW = 25
# What needs more than one data directory, or `server.properties`, to be noticed; metadata of the cluster that are gone;
# and compaction, which leaves the same gaps.
NOT_FOUND = {
    "log-segment-missing-compacted",
    "meta-missing",
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


def damaged(kind: Kind, directory: Path, golden_logs: Path) -> Path:
    data = directory / "data"
    shutil.copytree(golden_logs / "kafka-3.9" / "data", data)
    kind.damage(data, kind.partition)
    return data


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if number % FEW == 0 else pytest.mark.slow)
        for number, kind in enumerate(each for each in KINDS if each.name in harmful())
    ],
)
def test_what_a_broker_suffers_from_is_found(kind: Kind, tmp_path: Path, golden_logs: Path) -> None:
    findings = [
        each for each in verify_path(damaged(kind, tmp_path, golden_logs)) if each.severity is not Severity.INFO
    ]
    assert bool(findings) == (kind.name not in NOT_FOUND), findings


def test_every_kind_that_is_not_found_is_in_the_catalogue() -> None:
    assert harmful().keys() & BY_NAME.keys() >= NOT_FOUND
