"""Control records: records that a broker or a controller writes into a log, and that consumers do not see.

    key     version int16 (0) | type int16
    value   ABORT, COMMIT      version int16 | coordinator epoch int32
            LEADER_CHANGE      version int16 | leader id int32 | voters | granting voters | tags
            SNAPSHOT_HEADER    version int16 | last contained log timestamp int64 | tags
            SNAPSHOT_FOOTER    version int16 | tags
            KRAFT_VERSION      version int16 | kraft version int16 | tags
            KRAFT_VOTERS       version int16 | voters | tags

Lists are compact: unsigned varint n + 1, then n elements, each with its own tags. As in Kafka, a newer version is read
as the newest known one, and bytes after it are ignored.
Source: clients/.../common/record/{ControlRecordType,ControlRecordUtils,EndTransactionMarker}.java.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from struct import pack
from typing import TYPE_CHECKING

from kafkalog._speedups.arguments import EPOCH_MS, INT16_MAX, INT32_MAX, INT64_MAX, member, whole
from kafkalog._speedups.record import Record
from kafkalog.errors import InvalidRecordError
from kafkalog.record.message_fields import UUID_BYTES, MessageFields, present

if TYPE_CHECKING:
    from kafkalog.record.message_set import ByteBufferMessageSet


class ControlRecordType(IntEnum):
    """The type of a control record, by the number in its key.

    Attributes:
        UNKNOWN: Any other number.
        ABORT: The end of an aborted transaction.
        COMMIT: The end of a committed transaction.
        LEADER_CHANGE: A new leader of a KRaft quorum.
        SNAPSHOT_HEADER: The begin of a KRaft snapshot.
        SNAPSHOT_FOOTER: The end of a KRaft snapshot.
        KRAFT_VERSION: The level of the feature kraft.version.
        KRAFT_VOTERS: The voters of a KRaft quorum.
    """

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def _missing_(cls, value: object) -> "ControlRecordType":  # noqa: ARG003 - whatever the number is
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of a producer's transaction.

    Attributes:
        type: ABORT or COMMIT.
        coordinator_epoch: The epoch of the transaction coordinator that wrote it.
    """

    type: ControlRecordType
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class Voter:
    """A member of a KRaft quorum.

    Attributes:
        voter_id: The node id.
        directory_id: The id of its metadata directory; None before version 1.
    """

    voter_id: int
    directory_id: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A new leader of a KRaft quorum.

    Attributes:
        leader_id: Its node id.
        voters: The members of the quorum.
        granting_voters: Those that voted for it.
    """

    leader_id: int
    voters: tuple[Voter, ...]
    granting_voters: tuple[Voter, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The first record of a KRaft snapshot.

    Attributes:
        last_contained_log_timestamp: The time of the last record in the snapshot, ms.
    """

    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """The last record of a KRaft snapshot."""


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """The level of the feature kraft.version from this offset on.

    Attributes:
        kraft_version: The level.
    """

    kraft_version: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address on which a voter listens.

    Attributes:
        name: The name of the listener.
        host: The host.
        port: The port.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class KRaftVoter:
    """A voter of a KRaft quorum.

    Attributes:
        voter_id: The node id.
        directory_id: The id of its metadata directory.
        endpoints: The addresses on which it listens.
        min_supported_version: The lowest level of kraft.version that it supports.
        max_supported_version: The highest one.
    """

    voter_id: int
    directory_id: uuid.UUID
    endpoints: tuple[Endpoint, ...]
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True)
class KRaftVoters:
    """The voters from this offset on.

    Attributes:
        voters: The voters.
    """

    voters: tuple[KRaftVoter, ...]


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A control record of an unknown type; readers skip it.

    Attributes:
        type_id: The number of the type.
    """

    type_id: int


ControlRecord = (
    EndTransactionMarker | LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | KRaftVoters | UnknownControl
)


def control_type(key: bytes | None) -> tuple[ControlRecordType, int]:
    """Return the type in a control record's key, and its number.

    Raises:
        InvalidRecordError: The key is null or too short, or its version is negative.
    """
    if key is None or len(key) < 4:
        raise InvalidRecordError("a control record's key is too short", expected="4 bytes", found=key and len(key))
    fields = MessageFields(key)
    if (version := fields.integer(2)) < 0:
        raise InvalidRecordError("a control record's key has a negative version", expected="0", found=version)
    type_id = fields.integer(2)
    return ControlRecordType(type_id), type_id


def control_name(key: bytes | None) -> str | None:
    """Return the name of the type that a control record's key has, with its number if unknown; None: no such key."""
    try:
        kind, type_id = control_type(key)
    except InvalidRecordError:
        return None
    return f"{kind.name} {type_id}" if kind is ControlRecordType.UNKNOWN else kind.name


def decode_control(record: Record) -> ControlRecord:
    """Decode a control record.

    Raises:
        InvalidRecordError: Its key or value does not follow the format.
    """
    kind, type_id = control_type(record.key)
    if kind is ControlRecordType.UNKNOWN:
        return UnknownControl(type_id)
    fields = MessageFields(record.value or b"")
    version = fields.integer(2)
    if version < 0:
        raise InvalidRecordError(f"a {kind.name} record has a negative version", expected="0", found=version)
    parse = _PARSERS.get(kind)
    return EndTransactionMarker(kind, fields.integer(4)) if parse is None else parse(fields, version)


def end_transaction_marker(
    kind: ControlRecordType,
    producer_id: int,
    producer_epoch: int,
    *,
    coordinator_epoch: int = 0,
    timestamp: int,
) -> "ByteBufferMessageSet":
    """Return the batch with which a coordinator ends a producer's transaction.

    `log.append_as_leader(marker, leader_epoch, AppendOrigin.COORDINATOR)` appends it.

    Args:
        kind: ABORT or COMMIT.
        producer_id: The producer's id.
        producer_epoch: The producer's epoch.
        coordinator_epoch: The epoch of the coordinator.
        timestamp: Milliseconds since the epoch.

    Raises:
        ValueError: Another kind, or a number out of range.
    """
    # Imported here, as readers of control records need no message sets.
    from kafkalog.record.message_set import ByteBufferMessageSet

    kind = member("kind", kind, ControlRecordType)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        raise ValueError(f"kind is {kind.name}: a transaction ends with ABORT or COMMIT")
    epoch = whole("coordinator_epoch", coordinator_epoch, 0, INT32_MAX)
    at = whole("timestamp", timestamp, 0, INT64_MAX, EPOCH_MS)
    return ByteBufferMessageSet.from_records(
        [Record(pack(">hi", 0, epoch), pack(">hh", 0, kind), timestamp=at)],
        producer_id=whole("producer_id", producer_id, 0, INT64_MAX),
        producer_epoch=whole("producer_epoch", producer_epoch, 0, INT16_MAX),
        is_transactional=True,
        is_control=True,
    )


def _voters(fields: MessageFields, version: int) -> tuple[Voter, ...]:
    voters = []
    for _ in range(present(fields.count())):
        voters.append(Voter(fields.integer(4), _uuid(fields) if version >= 1 else None))
        _skip_tags(fields)
    return tuple(voters)


def _kraft_voter(fields: MessageFields) -> KRaftVoter:
    voter_id, directory_id = fields.integer(4), _uuid(fields)
    endpoints = []
    for _ in range(present(fields.count())):
        endpoints.append(Endpoint(present(fields.string()), present(fields.string()), fields.integer(2, signed=False)))
        _skip_tags(fields)
    versions = fields.integer(2), fields.integer(2)
    _skip_tags(fields)
    _skip_tags(fields)
    return KRaftVoter(voter_id, directory_id, tuple(endpoints), *versions)


def _uuid(fields: MessageFields) -> uuid.UUID:
    return uuid.UUID(bytes=fields.take(UUID_BYTES))


def _skip_tags(fields: MessageFields) -> None:
    for _ in fields.tagged():
        pass


_PARSERS: dict[ControlRecordType, Callable[[MessageFields, int], ControlRecord]] = {
    ControlRecordType.LEADER_CHANGE: lambda fields, version: LeaderChange(
        fields.integer(4), _voters(fields, version), _voters(fields, version)
    ),
    ControlRecordType.SNAPSHOT_HEADER: lambda fields, _: SnapshotHeader(fields.integer(8)),
    ControlRecordType.SNAPSHOT_FOOTER: lambda *_: SnapshotFooter(),
    ControlRecordType.KRAFT_VERSION: lambda fields, _: KRaftVersion(fields.integer(2)),
    ControlRecordType.KRAFT_VOTERS: lambda fields, _: KRaftVoters(
        tuple(_kraft_voter(fields) for _ in range(present(fields.count())))
    ),
}
