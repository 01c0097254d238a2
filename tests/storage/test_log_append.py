from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import AppendOrigin, ByteBufferMessageSet, CompressionType, Record, TimestampType
from kafkalog.errors import (
    CorruptRecordError,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaLogError,
    LogStateError,
    OffsetsOutOfOrderError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    RecordValidationError,
    UnexpectedAppendOffsetError,
)
from kafkalog.storage.config import LogConfig
from tests.helpers.logs import (
    CONFIG,
    EVERYTHING,
    NOW,
    append,
    bases,
    batch,
    epochs,
    files,
    fill,
    follow,
    opened,
    seen,
    values,
)
from tests.helpers.making import marker, together

MAGICS_AND_CODECS = [(magic, codec) for magic in (0, 1, 2) for codec in (CompressionType.NONE, CompressionType.LZ4)]
ABORT = 0
LATER = {"partition_leader_epoch": 3}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "topic-0"


def stamped(magic: int) -> dict[str, Any]:
    """Format 0 has no timestamps."""
    return {"magic": magic, "timestamp": -1 if magic == 0 else NOW}


# --- as the leader


def test_appends_return_the_first_offset_of_each_batch_across_a_roll(directory: Path) -> None:
    with opened(directory) as log:
        assert append(log, b"a", b"b", b"c") == 0
        assert append(log, b"d", b"e", b"f") == 3
        log.roll()
        assert append(log, b"g", b"h", b"i") == 6
        assert bases(log) == [0, 6]
        assert values(log) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"]


def test_an_append_returns_a_summary_of_its_batches(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2)
        given_batch = batch(b"a", b"b", timestamp=NOW + 5, compression_type=CompressionType.GZIP)
        info = log.append_as_leader(given_batch, 7)
        assert (info.first_offset, info.last_offset, info.offsets_count) == (2, 3, 2)
        assert (info.max_timestamp, info.log_append_time, info.log_start_offset) == (NOW + 5, -1, 0)
        assert info.source_compression is CompressionType.GZIP
        assert info.valid_bytes == given_batch.size_in_bytes
        assert not info.is_duplicate
        assert [b.partition_leader_epoch for b in log.batches(2)] == [7]


def test_an_empty_message_set_appends_nothing(directory: Path) -> None:
    with opened(directory) as log:
        for info in (log.append_as_leader(ByteBufferMessageSet(b""), 0), log.append([])):
            assert (info.first_offset, info.last_offset, info.offsets_count) == (-1, -1, 0)
        assert log.log_end_offset == 0
        assert epochs(log) == []


def test_a_torn_tail_sent_by_a_client_is_left_out(directory: Path) -> None:
    sent = bytes(batch(b"whole").buffer)
    with opened(directory) as log:
        info = log.append_as_leader(ByteBufferMessageSet(sent + sent[:-1]), 0)
        assert info.valid_bytes == len(sent)
        assert log.size_in_bytes == len(sent)
        assert values(log) == [b"whole"]


@pytest.mark.parametrize("count", [12, 17, 100])
def test_zero_bytes_behind_a_batch_are_no_torn_tail_and_refused(directory: Path, count: int) -> None:
    sent = ByteBufferMessageSet(bytes(batch(b"a").buffer) + bytes(count))
    with opened(directory) as log:
        with pytest.raises(CorruptRecordError):
            log.append_as_leader(sent, 0)
        assert log.log_end_offset == 0


def test_replicated_batches_that_a_leader_appends_get_its_offsets_and_must_keep_its_limits(directory: Path) -> None:
    with opened(directory, replace(CONFIG, max_message_bytes=200)) as log:
        fill(log, 3)
        info = log.append_as_leader(batch(b"a", base_offset=77), 2, AppendOrigin.REPLICATION)
        assert info.first_offset == 3
        assert epochs(log) == [(0, 0), (2, 3)]
        with pytest.raises(RecordTooLargeError):
            log.append_as_leader(batch(bytes(200)), 2, AppendOrigin.REPLICATION)


def test_a_replaced_coordinator_is_refused_before_other_errors_are_looked_for(directory: Path) -> None:
    sent = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 0}
    with opened(directory) as log:
        log.append_as_leader(batch(b"a", **sent), 0)
        without_a_version = marker(0, ABORT, 7, producer_epoch=2)
        with pytest.raises(InvalidProducerEpochError):
            log.append_as_leader(without_a_version, 0, AppendOrigin.COORDINATOR)


def test_log_append_time_is_the_time_of_the_append(directory: Path) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    with opened(directory, config) as log:
        info = log.append_as_leader(batch(b"a", b"b", timestamp=NOW - 99_999), 0)
        assert (info.log_append_time, info.max_timestamp) == (NOW, NOW)
        assert [(r.timestamp, r.timestamp_type) for r in log] == [(NOW, TimestampType.LOG_APPEND_TIME)] * 2


@pytest.mark.parametrize(("topic", "sent", "stored"), [("producer", 2, 2), (CompressionType.ZSTD, 2, 4)])
def test_the_topic_says_how_batches_are_compressed_or_leaves_it_to_the_producer(
    directory: Path, topic: Any, sent: int, stored: int
) -> None:
    with opened(directory, LogConfig(compression_type=topic)) as log:
        info = log.append_as_leader(batch(b"a", compression_type=CompressionType(sent)), 0)
        assert info.source_compression == sent
        assert [b.compression_type for b in log.batches()] == [stored]


def test_records_without_a_timestamp_are_taken(directory: Path) -> None:
    with opened(directory) as log:
        append(log, b"none", timestamp=-1)
        assert [record.timestamp for record in log] == [-1]


def test_a_compacted_topic_takes_no_record_without_a_key(directory: Path) -> None:
    keyed, keyless = Record(b"v", b"k", timestamp=NOW), Record(b"v", timestamp=NOW)
    with opened(directory, LogConfig(cleanup_policy=("compact",))) as log:
        for codec in (CompressionType.NONE, CompressionType.GZIP):
            for records in ([keyless], [keyless, keyed], [keyed, keyless]):
                mixed = ByteBufferMessageSet.from_records(records, compression_type=codec)
                with pytest.raises(RecordValidationError):
                    log.append_as_leader(mixed, 0)
            log.append_as_leader(ByteBufferMessageSet.from_records([keyed], compression_type=codec), 0)
        assert [record.key for record in log] == [b"k", b"k"]


def test_a_client_may_not_choose_offsets(directory: Path) -> None:
    with opened(directory) as log, pytest.raises(InvalidRecordError, match="base offset"):
        append(log, b"a", base_offset=1)


def test_a_raft_leader_keeps_its_offsets_which_must_follow_the_log(directory: Path) -> None:
    with opened(directory) as log:

        def append_at(offset: int) -> None:
            sent = batch(b"a", b"b", b"c", base_offset=offset, partition_leader_epoch=0)
            log.append_as_leader(sent, 0, AppendOrigin.RAFT_LEADER)

        append_at(0)
        with pytest.raises(UnexpectedAppendOffsetError):
            append_at(1)
        append_at(3)
        assert log.log_end_offset == 6


def test_a_raft_leaders_batch_of_another_epoch_is_refused(directory: Path) -> None:
    with opened(directory) as log, pytest.raises(InvalidRecordError, match="epoch"):
        log.append_as_leader(batch(b"a", **LATER), 2, AppendOrigin.RAFT_LEADER)


# --- sizes


def test_more_than_a_segment_may_have_is_refused_in_one_append(directory: Path) -> None:
    both = batch(b"You", b"bethe")
    config = LogConfig(segment_bytes=both.size_in_bytes - 1)
    with opened(directory, config) as log:
        with pytest.raises(RecordBatchTooLargeError):
            log.append_as_leader(both, 0)
        with pytest.raises(RecordBatchTooLargeError):
            log.append_as_follower(both.with_offsets(0, partition_leader_epoch=0))
        assert log.size_in_bytes == 0


def test_a_batch_larger_than_a_message_may_be_is_refused_from_a_client_and_taken_from_a_leader(directory: Path) -> None:
    small, large = batch(b"short"), batch(b"a good deal longer")
    with opened(directory, LogConfig(max_message_bytes=large.size_in_bytes - 1)) as log:
        log.append_as_leader(small, 0)
        with pytest.raises(RecordTooLargeError) as refused:
            log.append_as_leader(large, 0)
        assert refused.value.found == large.size_in_bytes
        log.append_as_follower(large.with_offsets(1, partition_leader_epoch=0))
        assert values(log) == [b"short", b"a good deal longer"]


def test_a_batch_that_exceeds_the_limit_after_recompression_is_refused(directory: Path) -> None:
    sent = batch(b"x" * 4000, compression_type=CompressionType.ZSTD)
    config = LogConfig(max_message_bytes=sent.size_in_bytes + 10, compression_type=CompressionType.NONE)
    with opened(directory, config) as log, pytest.raises(RecordTooLargeError, match="converted"):
        log.append_as_leader(sent, 0)


# --- as a follower


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_a_follower_takes_nothing_that_begins_before_the_logs_end(
    directory: Path, magic: int, codec: CompressionType
) -> None:
    with opened(directory) as log:
        follow(log, 0, b"a", b"b")
        with pytest.raises(UnexpectedAppendOffsetError):
            log.append_as_follower(batch(b"x", base_offset=1, compression_type=codec, **stamped(magic)))
        assert log.log_end_offset == 2


@pytest.mark.parametrize(("magic", "codec"), MAGICS_AND_CODECS)
def test_an_empty_log_takes_nothing_from_before_its_start_and_says_what_it_was_given(
    directory: Path, magic: int, codec: CompressionType
) -> None:
    with opened(directory, log_start_offset=7) as log:
        early = batch(b"k1", b"k2", b"k3", base_offset=4, compression_type=codec, **stamped(magic))
        with pytest.raises(UnexpectedAppendOffsetError) as refused:
            log.append_as_follower(early)
        assert (refused.value.first_offset, refused.value.last_offset) == (4, 6)


def test_offsets_that_do_not_rise_are_refused(directory: Path) -> None:
    with opened(directory) as log:
        for order in ([0, 1, 3, 2, 4], [0, 1, 1], [5, 0]):
            with pytest.raises(OffsetsOutOfOrderError):
                log.append_as_follower(together(*(batch(b"v", base_offset=offset) for offset in order)))
        assert log.log_end_offset == 0


def test_offsets_may_leave_gaps(directory: Path) -> None:
    offsets = list(range(50)) + list(range(50, 200, 7))
    with opened(directory, LogConfig(segment_bytes=700, index_interval_bytes=100)) as log:
        for offset in offsets:
            follow(log, offset, b"%d" % offset)
        for start in range(offsets[-1] + 1):
            first = next(iter(log.read(start, EVERYTHING).message_set))
            assert first.offset == next(offset for offset in offsets if offset >= start)
            assert first.value == b"%d" % first.offset


def test_batches_of_a_later_leader_than_the_one_asked_are_left_out(directory: Path) -> None:
    sent = together(batch(b"own", partition_leader_epoch=4), batch(b"later", base_offset=1, partition_leader_epoch=5))
    with opened(directory) as log:
        log.append_as_follower(sent, 4)
        assert values(log) == [b"own"]
        log.append_as_follower(batch(b"later", base_offset=1, partition_leader_epoch=5), 4)
        assert log.log_end_offset == 1
        log.append_as_follower(batch(b"later", base_offset=1, partition_leader_epoch=5), 5)
        assert values(log) == [b"own", b"later"]


def test_a_follower_writes_byte_for_byte_what_it_was_sent(directory: Path) -> None:
    sent = together(
        batch(b"a", b"b", compression_type=CompressionType.SNAPPY, partition_leader_epoch=2),
        batch(b"c", base_offset=2, **stamped(1)),
        batch(b"d", base_offset=90, timestamp=-1, partition_leader_epoch=2),
    )
    with opened(directory, LogConfig(compression_type=CompressionType.GZIP)) as log:
        log.append_as_follower(sent)
        assert files(directory, ".log") == {f"{0:020d}.log": bytes(sent.buffer)}


@pytest.mark.parametrize(
    ("damage", "is_refused"),
    [
        (lambda whole: whole[:11], False),
        (lambda whole: b"\0" * 11 + b"\x0d" + b"\0" * 244, True),
        (lambda whole: whole[:16], False),
        (lambda whole: whole[:16] + b"\xff" + whole[17:], True),
        (lambda whole: whole[:16] + b"\x03" + whole[17:], True),
        (lambda whole: whole[:-1], False),
    ],
    ids=["no size", "size 13", "no magic", "magic -1", "magic 3", "torn"],
)
@pytest.mark.parametrize("as_follower", [True, False])
def test_bytes_that_are_no_whole_batch_are_passed_over_and_bytes_that_are_no_batch_refused(
    directory: Path, damage: Any, is_refused: bool, as_follower: bool
) -> None:
    messages = ByteBufferMessageSet(damage(bytes(batch(b"value").buffer)))
    with opened(directory) as log:
        try:
            _ = log.append_as_follower(messages) if as_follower else log.append_as_leader(messages, 0)
        except CorruptRecordError:
            assert is_refused
        else:
            assert not is_refused
        assert (log.log_end_offset, log.size_in_bytes) == (0, 0)


@given(data=st.binary(max_size=300))
def test_random_bytes_are_refused_or_passed_over(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    with opened(tmp_path_factory.mktemp("random") / "topic-0") as log:
        for sent in (data, b"\0" * 8 + b"\0\0\1" + data):
            with suppress(CorruptRecordError):
                log.append_as_follower(ByteBufferMessageSet(sent))
        assert (log.log_end_offset, log.size_in_bytes) == (0, 0)


# --- whatever is refused leaves no byte


REFUSED: dict[str, Any] = {
    "a checksum that does not hold": lambda: ByteBufferMessageSet(bytes(batch(b"aaa").buffer)[:-4] + b"zzzz"),
    "the second batch's checksum": lambda: ByteBufferMessageSet(
        bytes(batch(b"a").buffer) + bytes(batch(b"aaa").buffer)[:-4] + b"zzzz"
    ),
    "a record that is too late": lambda: batch(b"a", timestamp=NOW + 3_600_001),
    "two batches of a client": lambda: together(batch(b"a"), batch(b"b")),
    "too large": lambda: batch(b"x" * 2000),
    "records that are not as many as the header says": lambda: _with_count(batch(b"a", b"b"), 3),
}


def _with_count(messages: ByteBufferMessageSet, count: int) -> ByteBufferMessageSet:
    data = bytearray(messages.buffer)
    data[57:61] = count.to_bytes(4, "big")
    data[23:27] = (count - 1).to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return ByteBufferMessageSet(bytes(data))


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_a_refused_append_leaves_the_log_unchanged(directory: Path, sent: Any) -> None:
    with opened(directory, LogConfig(max_message_bytes=1000)) as log:
        append(log, b"first", epoch=1)
        before = files(directory)
        with pytest.raises(KafkaLogError):
            log.append_as_leader(sent(), 2)
        assert files(directory) == before
        assert (log.log_end_offset, epochs(log)) == (1, [(1, 0)])
        assert append(log, b"second") == 1


# --- leader epochs


def test_leader_epochs_are_noted_with_the_first_offset_appended_in_each(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 2, epoch=3)
        fill(log, 2, epoch=5)
        follow(log, 10, b"replicated", epoch=8)
        assert epochs(log) == [(3, 0), (5, 2), (8, 10)]


def test_the_epoch_of_a_refused_append_begins_at_its_first_accepted_append(directory: Path) -> None:
    with opened(directory, replace(CONFIG, segment_bytes=200)) as log:
        with pytest.raises(RecordBatchTooLargeError):
            follow(log, 19, bytes(200), epoch=3)
        append(log, b"a", epoch=3)
        assert epochs(log) == [(3, 0)]


def test_a_message_of_an_older_format_clears_the_leader_epochs(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(directory) as log:
        append(log, b"new", epoch=5)
        assert log.leader_epochs.latest_epoch == 5
        log.append_as_follower(batch(b"old", base_offset=1, **stamped(1)))
        assert epochs(log) == []
        assert "leader epochs are forgotten" in caplog.text


def test_the_first_message_of_format_2_begins_the_leader_epochs(directory: Path) -> None:
    with opened(directory) as log:
        log.append_as_follower(batch(b"old", **stamped(1)))
        assert log.leader_epochs.latest_epoch is None
        append(log, b"new", epoch=5)
        assert epochs(log) == [(5, 1)]


# --- flushing


def test_without_a_flush_interval_nothing_is_flushed(directory: Path) -> None:
    with opened(directory) as log:
        fill(log, 5)
        assert log.recovery_point == 0
        log.flush()
        assert log.recovery_point == 5


def test_every_so_many_messages_are_flushed(directory: Path) -> None:
    with opened(directory, LogConfig(flush_messages=3)) as log:
        points = []
        for _ in range(7):
            fill(log, 1)
            points.append(log.recovery_point)
        assert points == [0, 0, 3, 3, 3, 6, 6]


def test_nothing_is_appended_to_a_log_that_has_been_closed(directory: Path) -> None:
    with opened(directory) as log:
        log.close()
        with pytest.raises(LogStateError, match="closed"):
            append(log, b"late")
        with pytest.raises(LogStateError, match="closed"):
            log.append([Record(b"late")])
        log.close()


def test_reading_goes_on_from_where_compressed_batches_begin(directory: Path) -> None:
    with opened(directory) as log:
        for pair in ((b"hello", b"there"), (b"alpha", b"beta")):
            append(log, *pair, compression_type=CompressionType.GZIP)
        assert [seen(log, start, size=1000)[0] for start in range(4)] == [0, 0, 2, 2]
        assert CONFIG.segment_bytes > log.size_in_bytes
