"""After a repair, a real broker starts without a word about the partition and serves exactly the surviving records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import kafkalog
from kafkalog.fsck import apply_repair, plan_repair
from tests.damage.broker_base import CLEAN, COPIES, ONE_EACH, UNCLEAN
from tests.damage.broker_truth import _one_start, _pattern, run
from tests.damage.kinds import BY_NAME, Kind
from tests.oracle import java

OF_PARTITIONS = [
    "log-torn-active",
    "log-payload-flipped-sealed",
    "log-payload-flipped-active",
    "log-zeroed-sealed",
    "log-base-offset-sealed",
    "log-overlap",
    "log-zeros-at-end-active",
    "index-missing",
    "index-garbage",
    "timeindex-missing",
    "timeindex-too-late",
    "txnindex-garbage",
    "txnindex-missing",
    "snapshot-stale",
    "snapshot-all-missing",
    "snapshot-wrong-crc",
    "epochs-malformed",
    "epochs-first-lost",
    "epochs-missing",
    "log-start-beyond-the-end",
    "log-start-in-the-log",
    "cleaner-beyond-the-end",
    "partition-metadata-missing",
    "partition-metadata-malformed",
    "log-name-not-a-number",
    "leftover-swap-only",
    "leftover-swap-torn",
    "leftover-orphaned-index",
    "directory-future-too",
]
OF_DIRECTORIES = [
    "high-watermark-malformed",
    "recovery-point-count-too-large",
    "log-start-malformed",
    "log-start-empty",
    "log-start-missing",
    "directory-foreign",
    # Of the topic's only partition: only the cluster's metadata have the topic id.
    "partition-metadata-missing",
]
NEWEST = "4.2.0"
# Zeros at the end of a log are normal while a broker runs; after an unclean stop, it says that it cuts them off.
ONLY_CLEAN = {"log-zeros-at-end-active"}
LOUD = ("WARN", "ERROR", "FATAL")


def ensure_served(kinds: Sequence[tuple[Kind, str]], stop: str, copies: dict[str, int]) -> None:
    """Start a broker on a directory with these kinds of damage, after a repair of all."""
    surviving: dict[str, list[int]] = {}

    def repair(data: Path, _: str) -> None:
        apply_repair(plan_repair(data, drop_corrupt=True))
        for _kind, partition in kinds:
            with kafkalog.open(data / partition) as log:
                surviving[partition] = [record.offset for record in log]

    last = replace(BY_NAME["index-missing"], damage=repair)
    outcome = run(NEWEST, stop, [*kinds, (last, kinds[0][1])], [], copies)
    assert (outcome.started, outcome.stayed_up) == (True, True), outcome.said[-20:]
    patterns = {partition: re.compile(_pattern(partition)) for _, partition in kinds}
    for kind, partition in kinds:
        said = [line for line in outcome.said if line.startswith(LOUD) and patterns[partition].search(line)]
        assert said == [], kind.name
        found = outcome.looks[partition]["read_uncommitted"]
        assert [record[0] for record in found["records"]] == surviving[partition], kind.name
        assert "error" not in found, kind.name


@pytest.mark.oracle
@pytest.mark.broker
@pytest.mark.parametrize("stop", [CLEAN, UNCLEAN])
def test_repaired_partitions_are_served(stop: str) -> None:
    try:
        names = [name for name in OF_PARTITIONS if stop == CLEAN or name not in ONLY_CLEAN]
        ensure_served(_one_start([BY_NAME[name] for name in names]), stop, COPIES)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")


@pytest.mark.oracle
@pytest.mark.broker
@pytest.mark.parametrize("name", OF_DIRECTORIES)
def test_repaired_directories_are_served(name: str) -> None:
    kind = BY_NAME[name]
    try:
        ensure_served([(kind, kind.partition)], CLEAN, ONE_EACH)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
