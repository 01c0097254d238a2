"""A topic's settings: their names, their allowed values, and what follows from them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog._speedups.arguments import INT32_MAX, INT64_MAX
from kafkalog.attributes import CompressionType, TimestampType
from kafkalog.storage.log_config import LogConfig

DAY_MS = 86_400_000


def test_the_defaults_are_those_of_a_brokers_topics() -> None:
    config = LogConfig()
    assert (config.segment_bytes, config.segment_ms, config.segment_index_bytes) == (1 << 30, 7 * DAY_MS, 10 << 20)
    assert (config.index_interval_bytes, config.max_message_bytes) == (4096, 1_048_588)
    assert (config.retention_ms, config.retention_bytes, config.delete_retention_ms) == (7 * DAY_MS, -1, DAY_MS)
    assert config.flush_messages == config.flush_ms == INT64_MAX
    assert (config.min_compaction_lag_ms, config.max_compaction_lag_ms) == (0, INT64_MAX)
    assert config.message_timestamp_type is TimestampType.CREATE_TIME
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (INT64_MAX, 3_600_000)
    assert (config.file_delete_delay_ms, config.min_cleanable_dirty_ratio) == (60_000, 0.5)
    assert (config.cleanup_policy, config.compression_type, config.compression) == (("delete",), "producer", None)


def test_kafkas_names_and_texts_make_the_same_settings_as_python_values() -> None:
    topic = {
        "segment.bytes": "1048576",
        "cleanup.policy": "compact, delete",
        "min.cleanable.dirty.ratio": "0.25",
        "preallocate": "TRUE",
        "compression.type": "gzip",
        "message.timestamp.type": "LogAppendTime",
        "leader.replication.throttled.replicas": "0:1,1:2",
    }
    assert LogConfig.from_topic_config(topic) == LogConfig(
        segment_bytes=1 << 20,
        cleanup_policy=("compact", "delete"),
        min_cleanable_dirty_ratio=0.25,
        preallocate=True,
        compression_type=CompressionType.GZIP,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        leader_replication_throttled_replicas=("0:1", "1:2"),
    )


def test_numbers_and_bools_need_not_be_texts() -> None:
    topic = {"segment.ms": 5, "preallocate": True, "min.cleanable.dirty.ratio": 1}
    assert LogConfig.from_topic_config(topic) == LogConfig(segment_ms=5, preallocate=True, min_cleanable_dirty_ratio=1)


def test_settings_that_a_topic_leaves_out_are_the_brokers() -> None:
    broker = LogConfig(segment_ms=5, retention_ms=9)
    assert LogConfig.from_topic_config({"retention.ms": "-1"}, broker) == replace(broker, retention_ms=-1)
    assert LogConfig.from_topic_config({}) == LogConfig()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("segment.byte", "; did you mean segment.bytes?"),
        ("retention_ms", "; did you mean retention.ms?"),
        ("clean.policy", "; did you mean cleanup.policy?"),
        ("", ""),
        ("bootstrap servers", ""),
        ("log.retention.hours", "; did you mean retention.ms?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(name: str, nearest: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole text is looked at
        LogConfig.from_topic_config({name: "1"})
    assert str(error.value) == f"{name} is not a topic setting{nearest}"


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("segment_bytes", 13, "a whole number from 14 to 2147483647"),
        ("segment_bytes", INT32_MAX + 1, "a whole number from 14 to 2147483647"),
        ("segment_index_bytes", 11, "a whole number from 12 to 2147483647"),
        ("segment_ms", 0, f"a whole number from 1 to {INT64_MAX}"),
        ("segment_ms", 1.0, "a whole number"),
        ("segment_ms", True, "a whole number"),
        ("segment_ms", "1", "a whole number"),
        ("segment_jitter_ms", -1, "a whole number from 0"),
        ("retention_ms", -2, "a whole number from -1"),
        ("retention_bytes", 2**63, "a whole number from -9223372036854775808"),
        ("compression_gzip_level", 0, "a whole number from 1 to 9 or -1"),
        ("compression_lz4_level", 18, "a whole number from 1 to 17"),
        ("compression_zstd_level", 23, "a whole number from -131072 to 22"),
        ("min_cleanable_dirty_ratio", 1.01, "a number from 0 to 1"),
        ("min_cleanable_dirty_ratio", float("nan"), "a number from 0 to 1"),
        ("preallocate", 1, "true or false"),
        ("cleanup_policy", "compact", "a tuple of any of compact and delete"),
        ("cleanup_policy", ("compact", "compact"), "each once"),
        ("cleanup_policy", ["delete"], "a tuple"),
        ("cleanup_policy", ("none",), "compact and delete"),
        ("compression_type", "zip", r"one of CompressionType\.NONE, CompressionType\.ZSTD, .*, 'producer'"),
        ("compression_type", 3, "one of"),
        (
            "message_timestamp_type",
            TimestampType.NO_TIMESTAMP_TYPE,
            r"one of TimestampType\.CREATE_TIME, TimestampType\.LOG",
        ),
        ("leader_replication_throttled_replicas", ("0-1",), "partition:broker"),
        ("follower_replication_throttled_replicas", (1,), "partition:broker"),
    ],
)
def test_an_invalid_value_is_named_with_the_allowed_ones(setting: str, value: Any, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed) as error:
        LogConfig(**{setting: value})
    assert str(error.value).startswith(f"{setting} is {value!r}: ")


def test_an_invalid_text_is_named_by_kafkas_name_of_the_setting() -> None:
    with pytest.raises(ValueError, match=r"^internal\.segment\.bytes is '13': expected a whole number from 14"):
        LogConfig.from_topic_config({"internal.segment.bytes": "13"})
    with pytest.raises(ValueError, match=r"^preallocate is 'yes': expected true or false$"):
        LogConfig.from_topic_config({"preallocate": "yes"})
    with pytest.raises(ValueError, match=r"^segment\.ms is None: "):
        LogConfig.from_topic_config({"segment.ms": None})
    with pytest.raises(ValueError, match=r"^compression\.type is 'none': expected one of uncompressed, zstd, .*$"):
        LogConfig.from_topic_config({"compression.type": "none"})
    with pytest.raises(ValueError, match=r"each once$"):
        LogConfig.from_topic_config({"cleanup.policy": "none"})


def test_a_list_stands_for_kafkas_comma_separated_values() -> None:
    config = LogConfig.from_topic_config({"cleanup.policy": ["compact", "delete"]})
    assert config.cleanup_policy == ("compact", "delete")


def test_settings_of_older_brokers_have_no_effect() -> None:
    old = {"message.format.version": "2.8", "message.downconversion.enable": "true", "segment.ms": 7}
    assert LogConfig.from_topic_config(old) == LogConfig(segment_ms=7)


@pytest.mark.parametrize("wrong", [None, "segment.ms=1", [("segment.ms", "1")]])
def test_settings_that_are_no_mapping_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="settings is a Mapping of names to values"):
        LogConfig.from_topic_config(wrong)


def test_a_name_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^1 is not a topic setting"):
        LogConfig.from_topic_config({1: 2})  # type: ignore[dict-item]


def test_a_segment_may_be_small_as_kafkas_own_tests_have_it() -> None:
    topic = {"segment.bytes": "1048576", "internal.segment.bytes": "100"}
    for settings in (topic, dict(reversed(topic.items()))):
        config = LogConfig.from_topic_config(settings)
        assert config == LogConfig(segment_bytes=100)
        assert config.to_topic_config()["internal.segment.bytes"] == "100"
        assert "segment.bytes" not in config.to_topic_config()


def test_the_compaction_lags_must_not_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="min_compaction_lag_ms is above max_compaction_lag_ms: 6 and 5"):
        LogConfig(min_compaction_lag_ms=6, max_compaction_lag_ms=5)
    assert LogConfig(min_compaction_lag_ms=5, max_compaction_lag_ms=5).max_compaction_lag_ms == 5


def test_remote_storage_cannot_be_switched_on() -> None:
    with pytest.raises(ValueError, match="remote storage is not supported"):
        LogConfig.from_topic_config({"remote.storage.enable": "true"})
    assert LogConfig.from_topic_config({"local.retention.ms": "5"}).local_retention_ms == 5


@pytest.mark.parametrize(
    ("policy", "delete", "compact"),
    [("delete", True, False), ("compact", False, True), ("compact,delete", True, True), ("", False, False)],
)
def test_the_policy_says_whether_to_delete_and_whether_to_compact(policy: str, delete: bool, compact: bool) -> None:
    config = LogConfig.from_topic_config({"cleanup.policy": policy})
    assert (config.delete, config.compact) == (delete, compact)


def test_a_compacted_segment_is_rolled_in_time_to_be_compacted() -> None:
    assert LogConfig(segment_ms=10, max_compaction_lag_ms=5).max_segment_ms == 10
    assert LogConfig(segment_ms=10, max_compaction_lag_ms=5, cleanup_policy=("compact",)).max_segment_ms == 5
    assert LogConfig(segment_ms=10, cleanup_policy=("compact",)).max_segment_ms == 10


def test_a_file_is_created_in_full_size_only_if_that_is_asked_for() -> None:
    assert LogConfig(segment_bytes=1000).init_file_size == 0
    assert LogConfig(segment_bytes=1000, preallocate=True).init_file_size == 1000


def test_jitter_is_at_random_below_its_limit_and_the_age_of_a_segment() -> None:
    assert LogConfig().random_segment_jitter() == 0
    for config, limit in ((LogConfig(segment_jitter_ms=4), 4), (LogConfig(segment_jitter_ms=9, segment_ms=3), 3)):
        assert {config.random_segment_jitter() for _ in range(400)} == set(range(limit))


@pytest.mark.parametrize(
    ("codec", "level"),
    [("gzip", 4), ("lz4", 12), ("zstd", -7), ("snappy", None), ("uncompressed", None), ("producer", None)],
)
def test_the_level_is_the_one_of_the_codec(codec: str, level: int | None) -> None:
    levels = {"compression.gzip.level": "4", "compression.lz4.level": "12", "compression.zstd.level": "-7"}
    config = LogConfig.from_topic_config({"compression.type": codec, **levels})
    assert config.compression_level == level
    assert (config.compression is None) == (codec == "producer")


def test_settings_are_a_value() -> None:
    config = LogConfig(segment_ms=5)
    assert config == LogConfig(segment_ms=5)
    assert len({config, LogConfig(segment_ms=5), LogConfig()}) == 2
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(FrozenInstanceError):
        config.segment_ms = 6  # type: ignore[misc]


numbers = st.fixed_dictionaries(
    {},
    optional={
        "segment_bytes": st.integers(14, INT32_MAX),
        "segment_ms": st.integers(1, INT64_MAX),
        "retention_bytes": st.integers(-(2**63), INT64_MAX),
        "retention_ms": st.integers(-1, INT64_MAX),
        "min_cleanable_dirty_ratio": st.floats(0, 1),
        "preallocate": st.booleans(),
        "cleanup_policy": st.sampled_from(
            [(), ("delete",), ("compact",), ("compact", "delete"), ("delete", "compact")]
        ),
        "compression_type": st.sampled_from([*CompressionType, "producer"]),
        "compression_zstd_level": st.integers(-131072, 22),
        "leader_replication_throttled_replicas": st.sampled_from([(), ("*",), ("0:1", "22:333")]),
    },
)


def test_the_expiration_of_producers_is_a_setting_of_brokers_not_of_topics() -> None:
    assert LogConfig().producer_id_expiration_ms == DAY_MS
    config = LogConfig.from_topic_config({"producer.id.expiration.ms": "5000"})
    assert config == LogConfig(producer_id_expiration_ms=5000)
    assert config.to_topic_config() == LogConfig().to_topic_config()
    with pytest.raises(ValueError, match="producer_id_expiration_ms is 0"):
        LogConfig(producer_id_expiration_ms=0)


@given(numbers)
def test_settings_survive_the_way_to_kafkas_names_and_back(settings: dict[str, Any]) -> None:
    config = LogConfig(**settings)
    assert LogConfig.from_topic_config(config.to_topic_config()) == config


def test_a_timestamp_type_may_be_given_by_name_and_is_stored_as_a_member() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    assert config == LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert config.timestamp_type is config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    with pytest.raises(ValueError, match="message_timestamp_type is 'NoTimestampType'"):
        LogConfig(message_timestamp_type="NoTimestampType")  # type: ignore[arg-type]


def test_a_codec_may_be_given_by_name_and_is_stored_as_a_member() -> None:
    config = LogConfig(compression_type="zstd")
    assert (config, config.compression_type) == (
        LogConfig(compression_type=CompressionType.ZSTD),
        CompressionType.ZSTD,
    )
    assert LogConfig(compression_type="none").to_topic_config()["compression.type"] == "uncompressed"
