"""Sequences and epochs of producers: which batches follow, which are duplicates, which are out of order."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import InvalidProducerEpochError, InvalidRecordError, OutOfOrderSequenceError
from kafkalog.record.record_batch import increment_sequence
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_state_entry import BatchMetadata, ProducerStateEntry
from tests.helpers.producers import (
    CLIENT,
    COORDINATOR,
    DAY_MS,
    NOW,
    REPLICATION,
    Producers,
    data_batch,
    marker_batch,
    the_batch,
)
from tests.reference.encode import CONTROL, TRANSACTIONAL, V2Batch

LARGEST = 2**31 - 1


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


def test_a_sequence_follows_the_last_and_a_new_epoch_begins_at_zero(producers: Producers) -> None:
    producers.data(1, 0, 0)
    producers.data(1, 0, 1)
    for sequence in (1, 5):
        with pytest.raises(OutOfOrderSequenceError) as caught:
            producers.data(1, 0, sequence)
        assert (caught.value.expected, caught.value.found) == (2, sequence)
    producers.data(1, 1, 0)
    with pytest.raises(InvalidProducerEpochError) as old:
        producers.data(1, 0, 0)
    assert (old.value.expected, old.value.found) == ("at least 1", 0)


def test_a_refusal_names_producer_partition_and_offset(producers: Producers) -> None:
    producers.data(7, 0, 0)
    with pytest.raises(OutOfOrderSequenceError, match=r"producer 7 of topic-0 at offset 42: .*expected 1, found 3"):
        producers.data(7, 0, 3, 42)


def test_a_refused_batch_does_not_change_the_producer_state(producers: Producers) -> None:
    producers.data(1, 0, 0)
    before = producers.entry(1)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, 1, 5)
    assert producers.entry(1) == before


def test_a_producer_that_is_not_known_may_begin_anywhere(producers: Producers) -> None:
    producers.data(1, 3, 17)
    assert producers.entry(1).last_seq == 17


def test_a_marker_of_an_unknown_producer_sets_its_epoch_and_sequences_begin_at_zero(producers: Producers) -> None:
    assert producers.marker(1, 2) is None
    assert producers.entry(1).last_seq == -1
    with pytest.raises(InvalidProducerEpochError):
        producers.data(1, 0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, 2, 17)
    producers.data(1, 2, 0)


def test_zero_follows_the_largest_sequence(producers: Producers) -> None:
    producers.data(1, 0, LARGEST, origin=REPLICATION)
    producers.data(1, 0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, 0, 0)


def test_sequences_may_begin_again_within_a_batch(producers: Producers) -> None:
    producers.data(1, 0, LARGEST - 10, 2000, count=21, origin=REPLICATION)
    entry = producers.entry(1)
    assert entry.batch_metadata == (BatchMetadata(9, 2020, 20, NOW),)
    assert (entry.batch_metadata[0].first_seq, entry.last_seq) == (LARGEST - 10, 9)
    assert (entry.last_data_offset, entry.last_offset_delta) == (2020, 20)


@given(first=st.integers(0, LARGEST), delta=st.integers(0, LARGEST))
def test_the_first_sequence_is_found_back_from_the_last(first: int, delta: int) -> None:
    metadata = BatchMetadata(increment_sequence(first, delta), 10**12, delta, NOW)
    assert (metadata.first_seq, metadata.first_offset) == (first, 10**12 - delta)


def test_a_marker_of_a_later_epoch_forgets_the_batches(producers: Producers) -> None:
    producers.data(1, 0, 0)
    producers.data(1, 0, 1)
    producers.marker(1, 1)
    entry = producers.entry(1)
    assert (entry.producer_epoch, entry.last_seq, entry.batch_metadata) == (1, -1, ())
    producers.data(1, 1, 0)
    assert producers.entry(1).last_seq == 0


@pytest.mark.parametrize("epoch", [1, 2])
def test_after_a_marker_of_a_later_epoch_no_sequence_but_zero_follows(producers: Producers, epoch: int) -> None:
    producers.data(1, 0, 0)
    producers.data(1, 0, 1)
    producers.marker(1, 1)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, epoch, 2)
    producers.data(1, epoch, 0)


def test_a_later_epoch_without_a_marker_begins_at_zero_too(producers: Producers) -> None:
    producers.data(1, 0, 0, count=3)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, 1, 5)


def test_a_marker_of_the_same_epoch_keeps_the_batches(producers: Producers) -> None:
    producers.data(1, 0, 0, transactional=True)
    producers.marker(1, 0)
    producers.data(1, 0, 1, transactional=True)
    assert [batch.last_seq for batch in producers.entry(1).batch_metadata] == [0, 1]


def test_a_replica_accepts_gaps_and_old_epochs_that_a_client_may_not_send(producers: Producers) -> None:
    producers.data(1, 5, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producers.data(1, 5, 3)
    producers.data(1, 5, 3, origin=REPLICATION)
    assert producers.entry(1).last_seq == 3
    producers.data(1, 4, 9, origin=REPLICATION)
    assert (producers.entry(1).producer_epoch, producers.entry(1).last_seq) == (4, 9)


def test_a_coordinators_batch_is_checked_for_epoch_but_not_sequence(producers: Producers) -> None:
    producers.data(1, 1, -1, origin=COORDINATOR, transactional=True)
    producers.data(1, 1, -1, origin=COORDINATOR, transactional=True)
    assert producers.entry(1).last_data_offset == 1
    with pytest.raises(InvalidProducerEpochError):
        producers.data(1, 0, -1, origin=COORDINATOR, transactional=True)


def test_the_batches_of_one_append_follow_each_other(producers: Producers) -> None:
    info = producers.manager.prepare_update(1, CLIENT)
    info.append(data_batch(1, 0, 4, 0, count=2))
    info.append(data_batch(1, 0, 6, 2))
    info.append(data_batch(1, 1, 0, 3))
    producers.manager.update(info)
    assert producers.entry(1).batch_metadata == (BatchMetadata(0, 3, 0, NOW),)
    late = producers.manager.prepare_update(1, CLIENT)
    late.append(data_batch(1, 1, 1, 4))
    with pytest.raises(OutOfOrderSequenceError):
        late.append(data_batch(1, 1, 3, 5))


def test_after_a_marker_of_a_later_epoch_in_the_same_append_sequences_begin_at_zero(producers: Producers) -> None:
    producers.data(1, 0, 0, count=3)
    info = producers.manager.prepare_update(1, CLIENT)
    info.append(marker_batch(1, 1, 3), None, 2)
    with pytest.raises(OutOfOrderSequenceError):
        info.append(data_batch(1, 1, 3, 4))
    info.append(data_batch(1, 1, 0, 4))


def test_a_whole_append_of_an_unknown_producer_may_have_gaps(producers: Producers) -> None:
    info = producers.manager.prepare_update(1, CLIENT)
    info.append(data_batch(1, 0, 4, 0))
    info.append(data_batch(1, 0, 9, 1))
    producers.manager.update(info)
    assert producers.entry(1).last_seq == 9


# --- repetitions


def test_only_the_last_five_batches_are_recognised_as_duplicates(producers: Producers) -> None:
    for sequence in range(6):
        producers.data(1, 0, sequence)
    producers.data(1, 0, 6, count=3)
    entry = producers.entry(1)
    assert [batch.first_offset for batch in entry.batch_metadata] == [2, 3, 4, 5, 6]
    repeated = {each: entry.find_duplicate_batch(data_batch(1, 0, each, 99)) for each in range(6)}
    assert [each for each, known in repeated.items() if known] == [2, 3, 4, 5]
    assert entry.find_duplicate_batch(data_batch(1, 0, 6, 99, count=3)) == BatchMetadata(8, 8, 2, NOW)
    assert entry.find_duplicate_batch(data_batch(1, 0, 7, 99, count=2)) is None
    assert entry.find_duplicate_batch(data_batch(1, 1, 5, 99)) is None
    for sequence, count in ((7, 2), (0, 1), (6, 3)):
        with pytest.raises(OutOfOrderSequenceError):
            producers.data(1, 0, sequence, count=count)


def test_an_append_of_more_than_five_batches_leaves_its_last_five(producers: Producers) -> None:
    producers.data(1, 0, 0)
    info = producers.manager.prepare_update(1, CLIENT)
    for sequence in range(1, 8):
        info.append(data_batch(1, 0, sequence, sequence))
    producers.manager.update(info)
    assert [batch.last_seq for batch in producers.entry(1).batch_metadata] == [3, 4, 5, 6, 7]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12))
def test_the_five_latest_batches_are_known_however_appends_divide_them(appends: list[int]) -> None:
    entry = ProducerStateEntry(1, 0)
    batches = [BatchMetadata(number, number, 0, NOW) for number in range(sum(appends))]
    done = 0
    for size in appends:
        entry = entry.updated(ProducerStateEntry(1, 0, batch_metadata=tuple(batches[done : done + size])))
        done += size
    assert entry.batch_metadata == tuple(batches[-5:])


# --- compaction and control batches


def test_offsets_and_sequences_that_compaction_has_emptied_still_count(producers: Producers) -> None:
    last_kept = the_batch(
        V2Batch([], base_offset=23, last_offset_delta=3, producer_id=1, producer_epoch=0, base_sequence=0)
    )
    producers.append(last_kept, REPLICATION)
    assert producers.entry(1).last_seq == 3
    producers.data(1, 0, 4, 27)


def test_an_emptied_control_batch_changes_nothing(producers: Producers) -> None:
    producers.data(1, 0, 0, transactional=True)
    before = producers.entry(1)
    emptied = V2Batch(
        [], base_offset=1, last_offset_delta=0, flags=TRANSACTIONAL | CONTROL, producer_id=1, producer_epoch=0
    )
    assert producers.append(the_batch(emptied), REPLICATION) is None
    assert producers.entry(1) == before
    assert producers.unstable == 0


def test_a_control_batch_without_a_known_marker_type_is_refused(producers: Producers) -> None:
    with pytest.raises(InvalidRecordError, match="UnknownControl"):
        producers.append(marker_batch(1, 0, 0, kind=b"\0\0\0\x63"))


def test_the_checksum_of_a_marker_is_not_checked_again(producers: Producers) -> None:
    producers.data(1, 0, 0, transactional=True)
    damaged = marker_batch(1, 0, 1, kind=b"\0\0\0\0", checksum=1)
    assert not damaged.is_valid
    assert producers.append(damaged) == (1, 0, 1, True)


# --- other fields


def test_a_batch_without_a_producer_cannot_be_remembered(producers: Producers) -> None:
    info = producers.manager.prepare_update(-1, CLIENT)
    with pytest.raises(ValueError, match="without a producer id"):
        producers.manager.update(info)


def test_the_producers_handed_out_do_not_change_with_the_log(producers: Producers) -> None:
    producers.data(1, 0, 0)
    before = producers.manager.active_producers
    producers.data(1, 0, 1)
    producers.data(2, 0, 0)
    assert [*before] == [1]
    assert before[1].last_seq == 0
    assert sorted(producers.manager.active_producers) == [1, 2]


def test_the_offset_delta_counts_from_where_the_batch_was_put(producers: Producers) -> None:
    info = producers.manager.prepare_update(1, CLIENT)
    info.append(data_batch(1, 0, 0, 40, count=3), LogOffsetMetadata(40, 0, 1234))
    assert info.to_entry().batch_metadata == (BatchMetadata(2, 42, 2, NOW),)
    assert "BatchMetadata" in repr(info)


def test_a_producer_expires_after_a_day_and_may_then_begin_anywhere(producers: Producers) -> None:
    producers.data(1, 0, 0)
    producers.manager.remove_expired_producers(NOW + DAY_MS - 1)
    assert 1 in producers.manager.active_producers
    producers.manager.remove_expired_producers(NOW + DAY_MS)
    assert not producers.manager.active_producers
    producers.data(1, 0, 17)
