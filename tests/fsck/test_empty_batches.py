"""An empty batch takes the place of the batches that a salvage or a repair drops, so that no offset is missing."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

import kafkalog
from kafkalog.fsck import apply_repair, plan_repair, salvage, verify_path
from kafkalog.storage.checkpoint.checkpoint_file import write_leader_epoch_checkpoint
from kafkalog.storage.file_names import LEADER_EPOCH_CHECKPOINT
from tests.helpers.broker_dirs import PLAIN, broker_dir, segments
from tests.helpers.damage import with_bytes
from tests.helpers.damage_kinds import places_of
from tests.oracle import java
from tests.oracle.kafka_log import KafkaLogs
from tests.reference.encode import V2Batch, entries, records


def batch(offset: int, epoch: int) -> bytes:
    """A batch of one record."""
    return V2Batch(records(b"v", offset=offset), partition_leader_epoch=epoch).encoded()


def empty(first: int, last: int, epoch: int) -> bytes:
    return V2Batch(base_offset=first, last_offset_delta=last - first, partition_leader_epoch=epoch).encoded()


def damaged(tmp_path: Path, *pieces: bytes | None, epochs: tuple[tuple[int, int], ...] = ()) -> Path:
    """A partition of one segment, with damaged bytes in the places of None."""
    directory = tmp_path / "damaged" / "orders-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020}.log").write_bytes(b"".join(b"\7" * 100 if each is None else each for each in pieces))
    write_leader_epoch_checkpoint(directory / LEADER_EPOCH_CHECKPOINT, epochs)
    return directory


def salvaged(source: Path, tmp_path: Path) -> bytes:
    made = salvage(source, tmp_path / "salvaged" / "orders-0")
    return (made.directory / f"{0:020}.log").read_bytes()


def test_it_has_the_offsets_of_what_was_dropped(tmp_path: Path) -> None:
    source = damaged(tmp_path, batch(0, 3), None, batch(7, 3))
    assert salvaged(source, tmp_path) == batch(0, 3) + empty(1, 6, 3) + batch(7, 3)


def test_there_is_one_for_each_leader_epoch(tmp_path: Path) -> None:
    source = damaged(tmp_path, batch(0, 3), None, batch(7, 6), epochs=((3, 0), (4, 3), (6, 5)))
    between = empty(1, 2, 3) + empty(3, 4, 4) + empty(5, 6, 6)
    assert salvaged(source, tmp_path) == batch(0, 3) + between + batch(7, 6)


def test_leader_epochs_that_the_batches_beside_refute_are_not_taken(tmp_path: Path) -> None:
    source = damaged(tmp_path, batch(0, 3), None, batch(7, 3), epochs=((1, 0), (9, 4)))
    assert salvaged(source, tmp_path) == batch(0, 3) + empty(1, 6, 3) + batch(7, 3)


@pytest.mark.parametrize("epochs", [((3, 0), (4, 5), (9, 7)), ((3, 0),), ()])
def test_the_next_segment_tells_the_leader_epoch_of_a_whole_segment(
    tmp_path: Path, epochs: tuple[tuple[int, int], ...]
) -> None:
    source = damaged(tmp_path, batch(0, 3), epochs=epochs)
    (source / f"{1:020}.log").write_bytes(b"\7" * 300)
    (source / f"{9:020}.log").write_bytes(batch(9, 4))
    made = salvage(source, tmp_path / "salvaged" / "orders-0").directory / f"{1:020}.log"
    expected = {3: empty(1, 4, 3) + empty(5, 8, 4), 1: empty(1, 8, 3), 0: empty(1, 8, 4)}
    assert made.read_bytes() == expected[len(epochs)]


def test_messages_of_older_formats_get_none_in_their_midst(tmp_path: Path) -> None:
    old = [entries(records(b"v", offset=offset), magic=1) for offset in (0, 7)]
    source = damaged(tmp_path, old[0], None, old[1])
    assert salvaged(source, tmp_path) == b"".join(old)


def test_a_batch_at_the_largest_offset_is_damage(tmp_path: Path) -> None:
    wrong = with_bytes(empty(0, 5, 3), 0, (2**63 - 1).to_bytes(8, "big"))
    source = damaged(tmp_path, batch(0, 3), wrong, batch(7, 3))
    assert [each.code for each in verify_path(source / f"{0:020}.log")] == ["offset-beyond-segment"]
    assert salvaged(source, tmp_path) == batch(0, 3) + empty(1, 6, 3) + batch(7, 3)


def test_offsets_at_the_end_of_the_log_get_none(tmp_path: Path) -> None:
    source = damaged(tmp_path, batch(0, 3), None)
    assert salvaged(source, tmp_path) == batch(0, 3)


@pytest.mark.parametrize("whole", [False, True])
def test_a_repair_that_drops_batches_leaves_nothing_to_find(tmp_path: Path, whole: bool) -> None:
    data = broker_dir(tmp_path, PLAIN)
    log = segments(data, PLAIN)[3]
    content = log.read_bytes()
    log.write_bytes(bytes(len(content)) if whole else with_bytes(content, places_of(content)[1] + 70, b"\7\7"))
    plan = plan_repair(data, drop_corrupt=True)
    (lost,) = next(each.lost for each in plan.changes if each.lost)
    apply_repair(plan)
    assert list(verify_path(data)) == []
    with kafkalog.open(data / PLAIN) as opened:
        assert lost in [(each.base_offset, each.last_offset) for each in opened.batches() if not each.records_count]


def test_it_does_not_hide_other_gaps(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, PLAIN)
    log = segments(data, PLAIN)[3]
    content = log.read_bytes()
    log.write_bytes(with_bytes(content, places_of(content)[1] + 70, b"\7\7"))
    segments(data, PLAIN)[5].unlink()
    apply_repair(plan_repair(data, drop_corrupt=True))
    assert [each.code for each in verify_path(data)] == ["segment-gap"]


@pytest.mark.oracle
def test_a_follower_of_kafka_takes_it(tmp_path: Path) -> None:
    source = damaged(tmp_path, batch(0, 3), None, batch(7, 6), epochs=((3, 0), (4, 3), (6, 5)))
    log, directory = salvaged(source, tmp_path), tmp_path / "kafka" / "orders-0"
    directory.mkdir(parents=True)
    try:
        kafka = KafkaLogs(directory)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    with kafka:
        for line in ("open . unclean 0 0", f"follower {b64encode(log).decode()} 6", "crash", "open . unclean 0 0"):
            answer = kafka.run(line)
            assert "error" not in answer
        assert answer["state"]["log_end"] == 8
        assert answer["state"]["epochs"] == [[3, 0], [4, 3], [6, 5]]
    assert (directory / f"{0:020}.log").read_bytes() == log
