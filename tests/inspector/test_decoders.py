"""Keys and values in known formats: what brokers wrote to their own topics, schema registries, MessagePack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.inspector.model.decoders import Decoded, Formats, schema_id


def all_of(golden_logs: Path, topic: str) -> list[tuple[Any, Any, str]]:
    """The keys and values of the records of a broker, and what the values are; control records left out."""
    found = []
    with kafkalog.open(golden_logs / "kafka-3.9" / "data" / f"{topic}-0") as log:
        for record in log:
            key = Formats(topic).decoded("key", record.key, record.value)
            value = Formats(topic).decoded("value", record.key, record.value)
            assert (key is None) == (record.key is None), record
            assert (value is None) == (record.value is None), record
            found.append((key and json.loads(key.json), value and json.loads(value.json), value.kind if value else ""))
    return found


def test_offsets_and_groups_are_those_that_the_consumer_committed(golden_logs: Path) -> None:
    records = all_of(golden_logs, "__consumer_offsets")
    committed = {key["topic"]: value["offset"] for key, value, kind in records if kind == "offset commit"}
    assert committed == {"v2-none": 800, "v2-zstd": 1200}
    group, state, _ = next(each for each in records if each[2] == "group")
    assert (group, state["protocolType"], state["members"][0]["clientId"]) == (
        {"group": "golden"}, "consumer", "rdkafka",
    )  # fmt: skip


def test_transactions_have_their_producer_and_partitions(golden_logs: Path) -> None:
    records = all_of(golden_logs, "__transaction_state")
    assert records[0][0] == {"transactionalId": "txn-1-1"}
    key, value, kind = records[2]
    assert (key["transactionalId"], kind, value["producerId"], value["transactionStatus"]) == (
        "txn-1-1", "transaction", 2, 1,
    )  # fmt: skip
    assert value["transactionPartitions"] == [{"topic": "v2-txn", "partitionIds": [0]}]


def test_every_record_of_the_cluster_metadata_is_decoded(golden_logs: Path) -> None:
    records = [value for _, value, _ in all_of(golden_logs, "__cluster_metadata")]
    names = [value["name"] for value in records if value["record"] == "Topic"]
    assert {"v2-none", "v2-zstd", "v2-txn"} <= set(names)
    broker = next(value for value in records if value["record"] == "RegisterBroker")
    assert broker["endPoints"][0]["name"] == "PLAINTEXT"
    assert next(value for value in records if value["record"] == "FeatureLevel")["name"] == "metadata.version"


def test_a_frame_of_a_schema_registry_is_json_with_the_id_of_its_schema() -> None:
    assert Formats("t").decoded("value", None, b"\0\0\0\0\7" + b'{"a": 1}') == Decoded("schema 7", b'{"a": 1}')
    assert Formats("t").decoded("value", None, b"\0\0\0\0\7" + b"\x02\x0aavro") is None
    assert [schema_id(each) for each in (b"\0\0\0\0\7\2", b"\0\0\0\0\0\2", b"\0\0\0\0\7", b"x\0\0\0\7\2", None)] == [
        7, None, None, None, None,
    ]  # fmt: skip


def test_messagepack_is_decoded_if_it_has_names() -> None:
    assert Formats("t").decoded("key", msgspec.msgpack.encode({"a": [1, None]}), None) == Decoded(
        "MessagePack", b'{"a":[1,null]}'
    )
    assert Formats("t").decoded("key", msgspec.msgpack.encode({1: 2}), None) is None
    assert Formats("t").decoded("key", msgspec.msgpack.encode({"a": 1}) + b"x", None) is None


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__cluster_metadata", "t"])
@given(key=st.binary(max_size=40), value=st.binary(max_size=80), version=st.integers(0, 2))
def test_no_bytes_raise_an_error(topic: str, key: bytes, value: bytes, version: int) -> None:
    for part in ("key", "value"):
        found = Formats(topic).decoded(part, bytes([0, version]) + key, value)
        assert found is None or json.loads(found.json) is not None
