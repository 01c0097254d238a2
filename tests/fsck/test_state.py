"""Leader epochs and topic ids of partitions."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from kafkalog.fsck import Consequence, plan_repair
from tests.helpers.broker_dirs import EPOCHS, PLAIN, broker_dir, findings, segments, told
from tests.helpers.damage_kinds import places_of

OTHER_ID = "bUPDMCVQRZiKdmIvGGjhHg"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_dir(tmp_path, EPOCHS, PLAIN)


@pytest.fixture
def epochs(data: Path) -> Path:
    """0 from 0, 2 from 400, 4 from 800, 6 from 1200, which is the log's end."""
    return data / EPOCHS / "leader-epoch-checkpoint"


@pytest.mark.parametrize(
    "content",
    [
        "0\n1\n0 zero\n",
        "0\n2\n0 0\n",
        "0\n1\n0 0\n2 400\n",
        "9\n1\n0 0\n",
        "no checkpoint",
        "0\n1\n0 -5\n",
        "0\n1\n-1 5\n",
    ],
)
def test_epochs_that_do_not_follow_the_format_keep_a_broker_from_starting(epochs: Path, content: str) -> None:
    epochs.write_text(content)
    (found,) = findings(epochs.parents[1])
    assert (found.code, found.path, found.consequence) == ("leader-epoch-format", str(epochs), Consequence.NO_START)


def test_epochs_that_fall_are_found(epochs: Path) -> None:
    epochs.write_text("0\n4\n0 0\n4 400\n2 800\n6 1200\n")
    found = findings(epochs.parent)
    assert [each.code for each in found] == ["leader-epoch-order", "leader-epoch-differs"]
    assert found[0].expected == "0 from 0, 2 from 800, 6 from 1200"


def test_an_epoch_behind_the_logs_end_is_found(epochs: Path) -> None:
    epochs.write_text("0\n5\n0 0\n2 400\n4 800\n6 1200\n7 1300\n")
    (found,) = findings(epochs.parent)
    assert (found.code, found.expected, found.found) == ("leader-epoch-beyond-end", "at most 1200", 1300)


@pytest.mark.parametrize("content", ["0\n4\n0 0\n2 300\n4 800\n6 1200\n", "0\n3\n0 0\n4 800\n6 1200\n"])
def test_an_epoch_that_the_batches_have_elsewhere_is_found_with_their_offset(epochs: Path, content: str) -> None:
    epochs.write_text(content)
    (found,) = findings(epochs.parent)
    assert found.code == "leader-epoch-differs"
    assert found.first_offset in {399, 400}


def test_the_first_epochs_are_missed_only_if_the_log_start_does_not_explain_it(epochs: Path) -> None:
    epochs.write_text("0\n3\n2 400\n4 800\n6 1200\n")
    data = epochs.parents[1]
    assert told(data) == [("leader-epoch-differs", "served-wrongly", f"{EPOCHS}/{epochs.name}")]
    # The log start may have been moved since the checkpoint was written.
    (data / ".kafka_cleanshutdown").unlink()
    assert told(data) == []


@pytest.mark.parametrize("batches", [1, 2])
def test_a_segment_that_begins_with_a_lower_epoch_is_found_and_its_checkpoint_stays(
    epochs: Path, tmp_path: Path, batches: int
) -> None:
    log = segments(epochs.parents[1], EPOCHS)[-2]
    content = bytearray(log.read_bytes())
    for place in places_of(bytes(content))[:batches]:
        struct.pack_into(">i", content, place + 12, 1)
    log.write_bytes(content)
    (found,) = findings(epochs.parents[1])
    assert (found.code, found.path, found.position) == ("leader-epoch", str(log), 0)
    assert (found.expected, found.found) == ("at least 4", 1)
    assert plan_repair(epochs.parent).changes == ()


@pytest.mark.parametrize("content", [None, ""])
def test_epochs_that_are_gone_are_found(epochs: Path, content: str | None) -> None:
    if content is None:
        epochs.unlink()
    else:
        epochs.write_text(content)
    assert told(epochs.parents[1]) == [("leader-epoch-missing", "rebuilt", f"{EPOCHS}/{epochs.name}")]


@pytest.mark.parametrize(
    "content", ["", "version: 0", "version: 0\ntopic_id: twelve", "version: -1\ntopic_id: " + OTHER_ID, "no metadata"]
)
def test_metadata_that_do_not_follow_the_format_keep_a_broker_from_starting(data: Path, content: str) -> None:
    path = data / PLAIN / "partition.metadata"
    path.write_text(content)
    assert told(data) == [("partition-metadata-format", "no-start", f"{PLAIN}/{path.name}")]


def test_a_partition_without_metadata_is_set_aside_if_others_have_it(data: Path) -> None:
    (data / PLAIN / "partition.metadata").unlink()
    assert told(data) == [("partition-metadata-missing", "set-aside", f"{PLAIN}/partition.metadata")]


def test_a_broker_of_kraft_needs_the_metadata_of_all_partitions_and_an_older_one_does_not(data: Path) -> None:
    for name in (PLAIN, EPOCHS):
        (data / name / "partition.metadata").unlink()
    assert [each[:2] for each in told(data)] == [("partition-metadata-missing", "set-aside")] * 2
    properties = data / "meta.properties"
    properties.write_text("version=0\nbroker.id=1\n")
    assert told(data) == []
    properties.unlink()
    assert told(data) == []


def test_a_topic_id_unlike_the_other_partitions_of_the_topic_sets_the_partition_aside(data: Path) -> None:
    for number in (1, 2):
        shutil.copytree(data / PLAIN, data / f"v2-none-{number}")
    path = data / "v2-none-1" / "partition.metadata"
    usual = path.read_text().split()[-1]
    path.write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    (found,) = findings(data)
    assert (found.code, found.path, found.expected, found.found) == ("topic-id-differs", str(path), usual, OTHER_ID)
    assert found.consequence is Consequence.SET_ASIDE
