"""The cluster's metadata: what is read of a log and its snapshot, and what follows for the partitions beside it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.errors import InvalidRecordError
from kafkalog.fsck import Consequence, Options, apply_repair, plan_repair, verify_path
from kafkalog.fsck.cluster_metadata import ClusterMetadata, read_cluster_metadata
from kafkalog.storage.file_names import CLEANER_OFFSET_CHECKPOINT, PARTITION_METADATA
from kafkalog.storage.read_only_log import ReadOnlyLog
from tests.helpers.broker_dirs import COMPACTED, METADATA, PLAIN, broker_dir, checkpointed, findings, segments, told
from tests.helpers.cluster_metadata import (
    ABORT,
    BEGIN,
    END,
    cluster,
    feature,
    partition,
    removed,
    setting,
    topic,
    write_metadata,
    write_snapshot,
)
from tests.helpers.damage_kinds import places_of
from tests.helpers.golden import unpacked

ONE, TWO = "DSJlzBLuSiitpwYYSNi0Sg", "bUPDMCVQRZiKdmIvGGjhHg"
LEVEL = feature("metadata.version", 21)


def names(data: Path) -> dict[str, str] | None:
    found = read_cluster_metadata(data)
    return None if found is None else found.topic_ids


def test_the_golden_metadata_have_every_partition_of_the_broker_with_its_id() -> None:
    data = unpacked() / "kafka-3.9" / "data"
    found = read_cluster_metadata(data)
    assert found is not None
    assert found.features == {"metadata.version": 21}
    for directory in data.glob("*-0"):
        name = directory.name.removesuffix("-0")
        if name != "__cluster_metadata":
            topic_id = (directory / PARTITION_METADATA).read_text()[-22:]
            assert found.topic_ids[name] == topic_id
            assert found.partitions[topic_id][0].nodes == (1,)
    assert found.topic_settings("v2-compacted")["cleanup.policy"] == "compact"


def test_a_snapshot_is_read_and_then_the_log_after_it(tmp_path: Path) -> None:
    write_snapshot(tmp_path, [LEVEL, topic("one", ONE)], 5)
    write_snapshot(tmp_path, [LEVEL], 3)
    # The log begins before the snapshot, whose records are in it, too.
    write_metadata(tmp_path, [removed(ONE)], [topic("two", TWO)] * 2, [removed(ONE)], [topic("three", TWO)], offset=2)
    assert names(tmp_path) == {"three": TWO}


def with_snapshot(data: Path) -> Path:
    """Write a snapshot beside a log that begins where it ends."""
    values = [LEVEL, topic("v2-none", ONE), partition(ONE, 0)]
    shutil.rmtree(data / METADATA)
    snapshot = write_snapshot(data, values, 3)
    write_metadata(data, [setting(2, "v2-none", "segment.ms", "5")], offset=3)
    return snapshot


def test_a_snapshot_that_a_broker_writes_is_sound(data: Path) -> None:
    with_snapshot(data)
    assert not {code for code, *_ in told(data)} & {"mode", "metadata-snapshot", "metadata-not-compared"}
    assert read_cluster_metadata(data) is not None


def flipped(content: bytes) -> bytes:
    return content[:150] + bytes([content[150] ^ 1]) + content[151:]


def emptied(_: bytes) -> bytes:
    return b""


def torn(content: bytes) -> bytes:
    return content[:-20]


def without_footer(content: bytes) -> bytes:
    return content[: places_of(content)[-2]]


@pytest.mark.parametrize(
    ("harm", "consequence"),
    [(emptied, "no-start"), (flipped, "no-start"), (torn, "set-aside"), (without_footer, "set-aside")],
)
def test_a_damaged_snapshot_is_found_before_a_broker_reads_it(
    data: Path, harm: Callable[[bytes], bytes], consequence: str
) -> None:
    snapshot = with_snapshot(data)
    content = harm(snapshot.read_bytes())
    snapshot.unlink()
    snapshot.write_bytes(content)
    found = told(data)
    assert ("metadata-snapshot", consequence, f"{METADATA}/{snapshot.name}") in found
    assert told(data, only=frozenset({"checkpoints"})) == [each for each in found if each[0] == "metadata-snapshot"]


def test_a_damaged_log_of_the_metadata_is_not_to_be_salvaged(data: Path) -> None:
    log = segments(data, METADATA)[0]
    log.write_bytes(flipped(log.read_bytes()))
    damaged = next(each for each in findings(data) if each.code == "crc-mismatch")
    assert str(damaged.mend).startswith(f"mv {data / METADATA} ASIDE ")


def test_it_is_told_that_partitions_are_not_compared_with_metadata_that_are_not_understood(data: Path) -> None:
    cluster(data, topic("v2-none", ONE), b"\1\2\1")
    (found,) = findings(data)
    assert (found.code, found.consequence) == ("metadata-not-compared", Consequence.HARMLESS)
    assert "version 1 of record 2 is not known" in found.message
    assert findings(data, only=frozenset({"logs"})) == []


def test_a_draft_of_a_snapshot_is_none(tmp_path: Path) -> None:
    cluster(tmp_path, topic("one", ONE))
    write_metadata(tmp_path, [LEVEL], name=f"{2:020}-{1:010}.checkpoint.part")
    assert names(tmp_path) == {"one": ONE}


def test_a_log_that_begins_after_the_snapshot_is_not_read(tmp_path: Path) -> None:
    write_snapshot(tmp_path, [LEVEL], 5)
    write_metadata(tmp_path, [topic("one", ONE)], offset=9)
    assert names(tmp_path) is None


@pytest.mark.parametrize(("end", "expected"), [([END], {"one": ONE}), ([ABORT], {}), ([], {})])
def test_a_transaction_counts_once_it_is_committed(tmp_path: Path, end: list[bytes], expected: dict[str, str]) -> None:
    cluster(tmp_path, BEGIN, topic("one", ONE), *end)
    assert names(tmp_path) == expected


def test_a_topic_that_is_created_again_has_none_of_its_old_settings(tmp_path: Path) -> None:
    old = (topic("one", ONE), partition(ONE, 0), setting(2, "one", "segment.ms", "5"))
    cluster(tmp_path, *old, removed(ONE), topic("one", TWO))
    found = read_cluster_metadata(tmp_path)
    assert found is not None
    assert (found.topic_ids, found.names) == ({"one": TWO}, {TWO: "one"})
    assert (found.partitions, found.topic_settings("one")) == ({TWO: {}}, {})


def test_a_setting_of_a_broker_hides_that_of_all_brokers(tmp_path: Path) -> None:
    own = setting(4, "1", "log.cleanup.policy", "delete"), setting(4, "", "log.cleanup.policy", "compact")
    cluster(tmp_path, topic("one", ONE), *own, topic("two", TWO), setting(2, "two", "cleanup.policy", "delete"))
    found = read_cluster_metadata(tmp_path)
    assert found is not None
    assert [found.cleanup_policy("one", node) for node in (1, 2, None)] == ["delete", "compact", "compact"]
    assert found.cleanup_policy("two", 2) == "delete"
    assert found.cleanup_policy("three", 1) is None


def test_a_torn_tail_is_the_end_of_the_metadata(tmp_path: Path) -> None:
    log = cluster(tmp_path, topic("one", ONE), topic("two", TWO))
    log.write_bytes(log.read_bytes()[:-1])
    assert names(tmp_path) == {"one": ONE}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\2\2\0",
        b"\1\2\1",
        b"\1\2\0\5ab",
        b"\1\3\3",
        b"\1\4\0\2\0",
        b"\1\xff\xff\xff\xff\xff\xff",
        b"\1\2\0\3\xff\xff",
    ],
)
def test_metadata_that_are_not_understood_are_not_used(tmp_path: Path, value: bytes) -> None:
    cluster(tmp_path, topic("one", ONE), value)
    assert names(tmp_path) is None


def test_any_bytes_are_read_or_refused() -> None:
    with ReadOnlyLog(unpacked() / "kafka-3.9" / "data" / METADATA) as log:
        values = [record.value or b"" for record in log]
    chance = random.Random(1)
    refused = 0
    for value in values * 10:
        changed = bytearray(value[: chance.randrange(len(value)) if chance.random() < 0.3 else None] or b"\0")
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            ClusterMetadata().apply(bytes(changed))
        except (InvalidRecordError, ValueError):
            refused += 1
    assert 0 < refused < 10 * len(values)


def test_metadata_that_are_damaged_are_not_used(tmp_path: Path) -> None:
    log = cluster(tmp_path, topic("one", ONE), topic("two", TWO))
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    assert names(tmp_path) is None
    log.write_bytes(b"")
    assert names(tmp_path) is None


# --- what follows for the partitions


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """With node 1 in `meta.properties`."""
    return broker_dir(tmp_path, PLAIN, METADATA)


def test_a_topic_id_unlike_that_of_the_cluster_sets_the_only_partition_aside(data: Path) -> None:
    (data / PLAIN / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {TWO}")
    (found,) = findings(data)
    assert (found.code, found.expected, found.found) == ("topic-id-differs", ONE, TWO)
    assert found.consequence is Consequence.SET_ASIDE


def test_a_partition_of_a_topic_that_the_cluster_has_not_is_found(data: Path) -> None:
    cluster(data, topic("other", TWO))
    assert told(data) == [("topic-gone", "set-aside", f"{PLAIN}/{PARTITION_METADATA}")]


@pytest.mark.parametrize("nodes", [None, (2, 3)])
def test_a_partition_that_the_cluster_does_not_have_here_is_found(data: Path, nodes: tuple[int, ...] | None) -> None:
    cluster(data, topic("v2-none", ONE), *([] if nodes is None else [partition(ONE, 0, nodes)]))
    assert told(data) == [("replica-not-assigned", "set-aside", f"{PLAIN}/{PARTITION_METADATA}")]


def test_a_repair_leaves_what_the_topic_id_that_it_writes_leads_to(data: Path) -> None:
    cluster(data, topic("v2-none", ONE), partition(ONE, 0, (1,)))
    shutil.copytree(data / PLAIN, data / "v2-none-1")
    for name in (PLAIN, "v2-none-1"):
        (data / name / PARTITION_METADATA).unlink(missing_ok=True)
    plan = plan_repair(data)
    assert [each.topic_id for each in plan.changes] == [ONE, ONE]
    (left,) = plan.left
    assert (left.finding.code, left.finding.path) == (
        "replica-not-assigned",
        str(data / "v2-none-1" / PARTITION_METADATA),
    )
    assert "renames it -stray" in left.why
    apply_repair(plan)
    assert [each.finding.code for each in plan_repair(data).left] == ["replica-not-assigned"]


def test_a_directory_with_the_id_of_another_topic_is_loaded_and_not_served(data: Path) -> None:
    shutil.copytree(data / PLAIN, data / "ghost-0")
    assert told(data) == [("topic-name-differs", "doubtful", f"ghost-0/{PARTITION_METADATA}")]


@pytest.mark.parametrize(("mark", "consequence"), [("delete", "data-deleted"), ("stray", "set-aside")])
def test_a_renamed_partition_that_the_cluster_still_has_here_is_found(data: Path, mark: str, consequence: str) -> None:
    renamed = data / f"{PLAIN}.{'0' * 32}-{mark}"
    shutil.copytree(data / PLAIN, renamed)
    assert [each[0:2] for each in told(data)] == [(f"directory-{mark}", "harmless" if mark == "delete" else "doubtful")]
    shutil.rmtree(data / PLAIN)
    assert (f"directory-{mark}", consequence, renamed.name) in told(data)
    # It is in another directory of the broker by now.
    cluster(data, topic("v2-none", ONE), partition(ONE, 0, (1,), (TWO,)))
    assert (f"directory-{mark}", consequence, renamed.name) not in told(data)


def test_a_partition_without_a_directory_is_missed_unless_its_topic_was_deleted(data: Path) -> None:
    shutil.rmtree(data / PLAIN)
    assert [code for code, *_ in told(data)] == ["partition-gone"]
    cluster(data, topic("other", TWO))
    assert told(data) == []


def test_metadata_that_are_damaged_change_nothing_for_the_partitions(data: Path) -> None:
    log = segments(data, METADATA)[0]
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    assert {Path(each.path).parent.name for each in findings(data)} == {METADATA}


@pytest.mark.parametrize(
    ("policy", "cleaned", "is_found"),
    [
        ("delete", None, True),
        ("compact", None, False),
        (" delete , compact ", None, False),
        ("compact", 1, True),
        (None, None, True),
    ],
)
def test_the_cleanup_policy_tells_whether_a_gap_is_one(
    data: Path, policy: str | None, cleaned: int | None, is_found: bool
) -> None:
    own = [] if policy is None else [setting(2, "v2-none", "cleanup.policy", policy)]
    cluster(data, topic("v2-none", ONE), partition(ONE, 0), *own)
    if cleaned is not None:
        checkpointed(data, CLEANER_OFFSET_CHECKPOINT, PLAIN, cleaned)
    log = segments(data, PLAIN)[4]
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    assert ("segment-gap" in {each.code for each in findings(data)}) == is_found


def test_a_gap_of_a_topic_that_is_deleted_from_is_found_without_checkpoints(data: Path) -> None:
    cluster(data, topic("v2-none", ONE), partition(ONE, 0), setting(4, "", "log.cleanup.policy", "delete"))
    log = segments(data, PLAIN)[4]
    for path in [*log.parent.glob(f"{log.stem}.*"), *data.glob("*-checkpoint")]:
        path.unlink()
    assert "segment-gap" in {each.code for each in findings(data)}


# --- repairs


@pytest.mark.parametrize("content", [None, "version: 0\n"])
def test_a_repair_takes_the_topic_id_from_the_cluster(data: Path, content: str | None) -> None:
    path = data / PLAIN / PARTITION_METADATA
    path.unlink()
    if content is not None:
        path.write_text(content)
    for place in (data, data / PLAIN):
        (change,) = plan_repair(place).changes
        assert (change.path, change.topic_id) == (path, ONE)


def test_a_repair_does_not_join_the_logs_of_a_topic_that_was_created_again(data: Path) -> None:
    path = data / PLAIN / PARTITION_METADATA
    path.write_text(f"version: 0\ntopic_id: {TWO}")
    plan = plan_repair(data)
    assert not plan.changes
    (left,) = plan.left
    assert left.finding.code == "topic-id-differs"
    assert "deleted" in left.why
    assert left.why.endswith(f"give --topic-id {ONE}")
    (change,) = plan_repair(data, topic_ids={"v2-none": ONE}).changes
    assert change.topic_id == ONE


def with_id_of_another_topic(data: Path) -> Path:
    """Give the partition the id of another topic that the cluster has; return its `partition.metadata`."""
    cluster(data, topic("v2-none", ONE), partition(ONE, 0), topic("other", TWO), partition(TWO, 0))
    path = data / PLAIN / PARTITION_METADATA
    path.write_text(f"version: 0\ntopic_id: {TWO}")
    return path


def test_a_partition_with_the_id_of_another_topic_is_not_served(data: Path) -> None:
    path = with_id_of_another_topic(data)
    (found,) = findings(data)
    assert (found.code, found.consequence) == ("topic-name-differs", Consequence.SET_ASIDE)
    assert (found.path, found.expected, found.found) == (str(path), ONE, TWO)
    assert str(found.mend).startswith(f"kafkalog repair {data / PLAIN} --topic-id {ONE} ")


@pytest.mark.parametrize("given", [{}, {"v2-none": ONE}])
def test_a_repair_mends_the_id_of_another_topic(data: Path, given: dict[str, str]) -> None:
    path = with_id_of_another_topic(data)
    for place in (data, data / PLAIN):
        plan = plan_repair(place, topic_ids=given)
        assert [(each.path, each.topic_id) for each in plan.changes] == [(path, ONE)]
        assert not plan.left
    apply_repair(plan)
    assert findings(data) == []


def test_the_advice_about_a_topic_id_that_differs_names_the_right_one(data: Path) -> None:
    (data / PLAIN / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {TWO}")
    (found,) = findings(data)
    assert str(found.mend).startswith(f"kafkalog repair {data / PLAIN} --topic-id {ONE} ")


# --- other versions


def of_version(data: Path, version: str) -> list[tuple[str, str, str]]:
    options = Options(only=frozenset({"checkpoints"}), for_version=version)
    return [(each.code, str(each.consequence), each.message) for each in verify_path(data, options)]


def test_what_a_version_refuses_and_ignores_is_found(data: Path) -> None:
    cluster(
        data,
        topic("v2-none", ONE),
        partition(ONE, 0),
        setting(2, "v2-none", "segment.bytes", "16384"),
        setting(2, "v2-none", "message.format.version", "2.8"),
        setting(4, "", "log.segment.bytes", "16384"),
        setting(4, "1", "log.segment.bytes", "1048576"),
        setting(4, "2", "log.segment.bytes", "16384"),
        feature("streams.version", 1),
    )
    of_broker = ("setting-refused", "doubtful", "all brokers: Kafka 4.1 refuses this value of log.segment.bytes")
    assert of_version(data, "4.1") == [
        ("feature-level", "no-start", "Kafka 4.1 does not read metadata of this level of streams.version"),
        ("setting-ignored", "doubtful", "topic v2-none: Kafka 4.1 has no setting message.format.version"),
        ("setting-refused", "no-start", "topic v2-none: Kafka 4.1 refuses this value of segment.bytes"),
        of_broker,
    ]
    refused = next(each for each in findings(data, for_version="4.1") if each.consequence == "no-start" and each.mend)
    assert refused.mend == (
        "kafka-configs.sh ... --alter --entity-type topics --entity-name v2-none --add-config segment.bytes=1048576"
    )
    # 4.0 refuses it of brokers only.
    assert "setting-refused no-start" not in {" ".join(each[:2]) for each in of_version(data, "4.0")}
    assert of_version(data, "4.2") == [
        (code, consequence, message.replace("4.1", "4.2")) for code, consequence, message in of_version(data, "4.1")[1:]
    ]


@pytest.mark.parametrize(("level", "versions"), [(6, {"3.9"}), (21, {"3.9", "4.0", "4.1", "4.2"}), (29, {"4.2"})])
def test_a_version_reads_the_levels_of_metadata_that_it_has(data: Path, level: int, versions: set[str]) -> None:
    cluster(data, topic("v2-none", ONE), partition(ONE, 0), level=level)
    assert {version for version in ("3.9", "4.0", "4.1", "4.2") if not of_version(data, version)} == versions


def test_without_metadata_it_is_told_that_nothing_is_checked_for_the_version(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, COMPACTED)
    for place in (data, data / COMPACTED, segments(data, COMPACTED)[0]):
        (found,) = findings(place, for_version="4.2")
        assert (found.code, found.consequence) == ("version-not-checked", Consequence.DOUBTFUL)


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match=r"none of the versions 3\.9, 4\.0, 4\.1, 4\.2"):
        Options(for_version="3.8")
