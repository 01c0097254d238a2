"""Control records: what brokers and controllers write for readers, read as Kafka reads it."""

from __future__ import annotations

import struct
import uuid

import pytest

from kafkalog import Record
from kafkalog.errors import InvalidRecordError
from kafkalog.record.control import (
    ControlRecordType,
    Endpoint,
    EndTransactionMarker,
    KRaftVersion,
    KRaftVoter,
    KRaftVoters,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    UnknownControl,
    Voter,
    control_type,
    decode_control,
)

DIRECTORY = uuid.UUID(int=7)


def key(type_id: int, version: int = 0) -> bytes:
    return struct.pack(">hh", version, type_id)


def test_an_unknown_type_is_known_as_unknown() -> None:
    assert control_type(key(337)) == (ControlRecordType.UNKNOWN, 337)
    assert decode_control(Record(b"whatever", key(337))) == UnknownControl(337)


def test_a_newer_key_is_read_as_the_one_that_is_known() -> None:
    assert control_type(key(0, version=5) + struct.pack(">i", 23432)) == (ControlRecordType.ABORT, 0)


@pytest.mark.parametrize("short", [None, b"", b"\x00\x00\x00"])
def test_a_key_too_short_for_a_type_is_invalid(short: bytes | None) -> None:
    with pytest.raises(InvalidRecordError):
        control_type(short)


def test_a_key_of_a_negative_version_is_invalid() -> None:
    with pytest.raises(InvalidRecordError):
        control_type(key(0, version=-1))


def test_a_marker_of_a_negative_version_is_invalid() -> None:
    with pytest.raises(InvalidRecordError):
        decode_control(Record(struct.pack(">hi", -1, 1), key(0)))


def test_a_newer_marker_is_read_as_the_one_that_is_known() -> None:
    newer = Record(struct.pack(">hih", 5, 79, 23), key(1))
    assert decode_control(newer) == EndTransactionMarker(ControlRecordType.COMMIT, 79)


@pytest.mark.parametrize(
    ("type_id", "value", "expected"),
    [
        (0, "0000 00000005", EndTransactionMarker(ControlRecordType.ABORT, 5)),
        (1, "0000 00000005", EndTransactionMarker(ControlRecordType.COMMIT, 5)),
        (2, "0000 00000001 02 00000001 00 01 00", LeaderChange(1, (Voter(1, None),), ())),
        (
            2,
            f"0001 00000001 02 00000001 {DIRECTORY.hex} 00 02 00000001 {DIRECTORY.hex} 00 00",
            LeaderChange(1, (Voter(1, DIRECTORY),), (Voter(1, DIRECTORY),)),
        ),
        (3, "0000 0000000000000063 00", SnapshotHeader(99)),
        (4, "0000 00", SnapshotFooter()),
        (5, "0000 0001 00", KRaftVersion(1)),
        (
            6,
            f"0000 02 00000003 {DIRECTORY.hex} 02 02 61 03 6868 ffff 00 0000 0001 00 00 00",
            KRaftVoters((KRaftVoter(3, DIRECTORY, (Endpoint("a", "hh", 65535),), 0, 1),)),
        ),
    ],
)
def test_every_type_says_what_it_holds(type_id: int, value: str, expected: object) -> None:
    assert decode_control(Record(bytes.fromhex(value), key(type_id))) == expected


@pytest.mark.parametrize("type_id", [0, 1, 2, 3, 5, 6])
@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x00", b"\x00\x00\x02"])
def test_a_value_that_ends_too_early_is_invalid(type_id: int, value: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        decode_control(Record(value, key(type_id)))


@pytest.mark.parametrize(("type_id", "value"), [(2, "0000 00000001 00 00 00"), (6, "0000 00 00")])
def test_a_list_that_is_null_is_invalid(type_id: int, value: str) -> None:
    """Kafka: "non-nullable field was serialized as null"."""
    with pytest.raises(InvalidRecordError):
        decode_control(Record(bytes.fromhex(value), key(type_id)))


def test_a_null_value_is_invalid() -> None:
    with pytest.raises(InvalidRecordError):
        decode_control(Record(None, key(0)))


def test_a_list_that_claims_more_than_there_is_takes_no_time() -> None:
    with pytest.raises(InvalidRecordError):
        decode_control(Record(bytes.fromhex("0000 00000001 ffffffff0f"), key(2)))
