"""Appending records: they are checked, and written as a leader writes the same batches of a producer."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import ByteBufferMessageSet, CompressionType, LogConfig, Record, TimestampType, errors
from kafkalog.record.message_set import batches_of_records
from kafkalog.record.records_builder import BatchSettings
from kafkalog.storage.unified_log import Opening, WritableLog
from tests.helpers.scheduling import ImmediateScheduler

NOW = 1_800_000_000_000
SMALL = LogConfig(segment_bytes=900, index_interval_bytes=100, segment_index_bytes=240, max_message_bytes=400)
TOPICS = {
    "takes all": SMALL,
    "asks for times": replace(SMALL, message_timestamp_before_max_ms=2**62),
    "asks for keys": replace(SMALL, cleanup_policy=("compact",)),
    "stamps": replace(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME),
    "compresses": replace(SMALL, compression_type=CompressionType.LZ4),
}
payloads = st.none() | st.binary(max_size=60)
record = st.builds(Record, payloads, payloads, timestamp=st.sampled_from([-1, 0, 5, NOW - 1, NOW, NOW + 3_600_001]))


def opened(directory: Path, config: LogConfig = SMALL) -> WritableLog:
    return WritableLog.load(directory, config, Opening(scheduler=ImmediateScheduler(), clock=lambda: NOW))


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def append_as_a_producer(log: WritableLog, records: list[Record], codec: CompressionType | None) -> None:
    """Append the batches that a producer would send."""
    latest = log.leader_epochs.latest_entry
    config = log.config
    settings = BatchSettings(compression_type=config.compression or codec or CompressionType.NONE)
    most = min(config.max_message_bytes, config.segment_bytes)
    for batch in batches_of_records(records, settings, max_size=most, default_timestamp=NOW):
        sent = ByteBufferMessageSet(bytes(8) + bytes(batch.buffer[8:]))
        log.append_as_leader(sent, 0 if latest is None else latest.epoch)
        log.update_high_watermark(log.log_end_offset)


@given(
    topic=st.sampled_from(sorted(TOPICS)),
    appends=st.lists(st.lists(record, max_size=9), max_size=8),
    codec=st.sampled_from([None, CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD]),
    epoch=st.sampled_from([None, 3]),
)
def test_records_are_written_as_a_leader_writes_the_batches_of_a_producer(
    tmp_path_factory: pytest.TempPathFactory,
    topic: str,
    appends: list[list[Record]],
    codec: CompressionType | None,
    epoch: int | None,
) -> None:
    home, outcomes = tmp_path_factory.mktemp("ways"), []
    for name in ("own-0", "sent-0"):
        log = opened(home / name, TOPICS[topic])
        if epoch is not None:
            log.leader_epochs.note(epoch, 0)
        errors_raised = []
        for records in appends:
            try:
                if name == "own-0":
                    log.append(records, compression_type=codec)
                else:
                    append_as_a_producer(log, records, codec)
            except errors.RecordValidationError as error:
                errors_raised.append((str(error).replace(name, "topic"), error.record_errors))
        outcomes.append((errors_raised, log.high_watermark, log.log_end_offset, log.last_stable_offset))
        log.close()
    assert outcomes[0] == outcomes[1]
    assert files(home / "own-0") == files(home / "sent-0")


@pytest.mark.parametrize(
    ("config", "bad", "error"),
    [
        (LogConfig(cleanup_policy=("compact",)), Record(b"no key"), errors.RecordValidationError),
        (
            LogConfig(message_timestamp_before_max_ms=10),
            Record(b"v", b"k", timestamp=NOW - 11),
            errors.RecordValidationError,
        ),
        (LogConfig(), Record(b"v", b"k", timestamp=NOW + 3_600_001), errors.RecordValidationError),
        (LogConfig(max_message_bytes=100), Record(b"v" * 100, b"k"), errors.RecordTooLargeError),
        (LogConfig(segment_bytes=100), Record(b"v" * 100, b"k"), errors.RecordBatchTooLargeError),
    ],
)
def test_a_record_that_the_topic_does_not_take_is_refused_and_nothing_is_written(
    tmp_path: Path, config: LogConfig, bad: Record, error: type[Exception]
) -> None:
    log = opened(tmp_path / "t-0", config)

    with pytest.raises(error):
        log.append([bad])

    assert (log.log_end_offset, log.size_in_bytes) == (0, 0)
    log.append([Record(b"good", b"k", timestamp=NOW)])
    assert [each.offset for each in log] == [0]
    log.close()


def test_a_topic_of_append_time_stamps_records_itself(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))

    info = log.append([Record(b"v", timestamp=5)])

    assert info.log_append_time == NOW
    assert [(each.timestamp, each.timestamp_type) for each in log] == [(NOW, TimestampType.LOG_APPEND_TIME)]
    log.close()


def test_the_topics_codec_comes_before_the_one_asked_for(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig(compression_type=CompressionType.ZSTD))

    log.append([Record(b"v" * 1000)], compression_type=CompressionType.LZ4)

    assert [batch.compression_type for batch in log.batches()] == [CompressionType.ZSTD]
    log.close()


@pytest.mark.parametrize("records", [list, lambda: iter(())])
def test_an_append_of_no_records_writes_no_batch(tmp_path: Path, records: Callable[[], list[Record]]) -> None:
    log = opened(tmp_path / "t-0")

    info = log.append(records())

    assert (info.first_offset, info.offsets_count, log.log_end_offset) == (-1, 0, 0)
    log.close()


def test_an_append_of_several_batches_returns_one_summary(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")

    info = log.append((Record(b"v" * 20, timestamp=1009 - i) for i in range(10)), max_batch_bytes=150)

    batches = list(log.batches())
    assert len(batches) > 2
    assert (info.first_offset, info.last_offset, info.max_timestamp) == (0, 9, 1009)
    assert info.valid_bytes == sum(batch.size_in_bytes for batch in batches)
    log.close()


def appended_before(error: BaseException) -> range:
    """Return the offsets that an append had given out before it failed."""
    appended: range = vars(error)["appended"]
    return appended


def given_until(error: BaseException, *values: bytes) -> Iterator[Record]:
    yield from map(Record, values)
    raise error


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), RuntimeError("no more"), OSError(5, "lost")])
def test_the_error_of_an_append_that_fails_midway_names_the_offsets_in_the_log(
    tmp_path: Path, raised: BaseException
) -> None:
    log = opened(tmp_path / "t-0")
    log.append([Record(b"before")])

    with pytest.raises(type(raised)) as caught:
        log.append(given_until(raised, *[bytes(100)] * 3), max_batch_bytes=200)

    assert appended_before(caught.value) == range(1, 3)
    assert "offsets 1 to 2" in caught.value.__notes__[0]
    assert log.log_end_offset == 3
    log.close()


def test_the_error_for_a_record_too_large_names_the_offsets_appended_before_it(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")

    with pytest.raises(errors.RecordTooLargeError) as first:
        log.append([Record(bytes(500)), Record(b"after")])
    with pytest.raises(errors.RecordTooLargeError) as second:
        log.append([Record(b"before"), Record(bytes(500))])

    assert appended_before(first.value) == range(0)
    assert not hasattr(first.value, "__notes__")
    assert appended_before(second.value) == range(1)
    assert [record.value for record in log] == [b"before"]
    log.close()


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        (Record(b"v"), {}, "records is a Record"),
        ([Record(b"v")], {"max_batch_bytes": 0}, "max_batch_bytes is 0 bytes"),
        ([Record(b"v")], {"max_batch_bytes": "1"}, "max_batch_bytes is a whole number of bytes, not str"),
        (["v"], {}, "not str"),
    ],
)
def test_invalid_arguments_of_append_are_named(
    tmp_path: Path, records: Any, options: dict[str, Any], words: str
) -> None:
    log = opened(tmp_path / "t-0")
    with pytest.raises((TypeError, ValueError), match=words):
        log.append(records, **options)
    assert log.log_end_offset == 0
    log.close()


def test_a_topic_that_takes_no_bytes_refuses_every_record_for_its_size(tmp_path: Path) -> None:
    with opened(tmp_path / "t-0", LogConfig(max_message_bytes=0)) as log:
        with pytest.raises(errors.RecordTooLargeError, match=r"max\.message\.bytes"):
            log.append([Record(b"v")])
        assert log.log_end_offset == 0
