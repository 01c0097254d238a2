"""Keys and values in a format that is known, as JSON: `Formats(topic).decoded(part, key, value)`.

    __consumer_offsets     00 01 | 00 06 golden | 00 07 v2-none | 00 00 00 00      {"group": "golden", "topic": ...}
    __transaction_state    __cluster_metadata                                      what brokers write to these topics
    schema registry        00 | 00 00 00 07 | {"order": 17}                        schema 7: JSON, or by `schemas`
    MessagePack            81 a5 order 11                                          {"order": 17}

Source: Kafka 3.9, group-coordinator and transaction-coordinator .../common/message/*.json, metadata
.../common/metadata/*.json. What is not exactly in one of these formats is not decoded.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from kafkalog.errors import InvalidRecordError
from kafkalog.record.message_fields import MessageFields

from ..text import printable
from .schemas import Schemas

Part: TypeAlias = Literal["key", "value"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

_NUMBERS: Final = {
    "int8": Struct(">b"), "int16": Struct(">h"), "int32": Struct(">i"), "int64": Struct(">q"),
    "uint16": Struct(">H"), "float64": Struct(">d"), "bool": Struct(">?"),
}  # fmt: skip
_MOST_ELEMENTS: Final = 100_000
# A frame of a schema registry: a zero byte and the id of the schema.
_FRAME: Final = Struct(">bI")
# name:type, [type] is an array, {fields} an array of structures; @1 since version 1, @1-1 only in it; #0 is a tag.
_FIELD: Final = re.compile(r"(\w+):(\[\w+\]|\w+|\{[^}]*\})(?:@(\d+)(?:-(\d+))?)?(?:#(\d+))?")

_END_POINTS = "endPoints:{name:string host:string port:uint16 securityProtocol:int16}"
_FEATURES = "features:{name:string minSupportedVersion:int16 maxSupportedVersion:int16}"
_METADATA: Final = {
    0: "RegisterBroker 3 brokerId:int32 isMigratingZkBroker:bool@2 incarnationId:uuid brokerEpoch:int64 "
       f"{_END_POINTS} {_FEATURES} rack:string fenced:bool inControlledShutdown:bool@1 logDirs:[uuid]@3#0",
    1: "UnregisterBroker 0 brokerId:int32 brokerEpoch:int64",
    2: "Topic 0 name:string topicId:uuid",
    3: "Partition 2 partitionId:int32 topicId:uuid replicas:[int32] isr:[int32] removingReplicas:[int32] "
       "addingReplicas:[int32] leader:int32 leaderRecoveryState:int8#0 leaderEpoch:int32 partitionEpoch:int32 "
       "directories:[uuid]@1 eligibleLeaderReplicas:[int32]@2#1 lastKnownElr:[int32]@2#2",
    4: "Config 0 resourceType:int8 resourceName:string name:string value:string",
    5: "PartitionChange 2 partitionId:int32 topicId:uuid isr:[int32]#0 leader:int32#1 replicas:[int32]#2 "
       "removingReplicas:[int32]#3 addingReplicas:[int32]#4 leaderRecoveryState:int8#5 directories:[uuid]@1#8 "
       "eligibleLeaderReplicas:[int32]@2#6 lastKnownElr:[int32]@2#7",
    7: "FenceBroker 0 id:int32 epoch:int64",
    8: "UnfenceBroker 0 id:int32 epoch:int64",
    9: "RemoveTopic 0 topicId:uuid",
    10: "DelegationToken 0 owner:string requester:string renewers:[string] issueTimestamp:int64 maxTimestamp:int64 "
        "expirationTimestamp:int64 tokenId:string",
    11: "UserScramCredential 0 name:string mechanism:int8 salt:bytes storedKey:bytes serverKey:bytes iterations:int32",
    12: "FeatureLevel 0 name:string featureLevel:int16",
    14: "ClientQuota 0 entity:{entityType:string entityName:string} key:string value:float64 remove:bool",
    15: "ProducerIds 0 brokerId:int32 brokerEpoch:int64 nextProducerId:int64",
    17: "BrokerRegistrationChange 2 brokerId:int32 brokerEpoch:int64 fenced:int8#0 inControlledShutdown:int8@1#1 "
        "logDirs:[uuid]@2#2",
    18: "AccessControlEntry 0 id:uuid resourceType:int8 resourceName:string patternType:int8 principal:string "
        "host:string operation:int8 permissionType:int8",
    19: "RemoveAccessControlEntry 0 id:uuid",
    20: "NoOp 0",
    21: "ZkMigration 0 zkMigrationState:int8",
    22: "RemoveUserScramCredential 0 name:string mechanism:int8",
    23: "BeginTransaction 0 name:string#0",
    24: "EndTransaction 0",
    25: "AbortTransaction 0 reason:string#0",
    26: "RemoveDelegationToken 0 tokenId:string",
    27: "RegisterController 0 controllerId:int32 incarnationId:uuid zkMigrationReady:bool "
        f"{_END_POINTS} {_FEATURES}",
}  # fmt: skip


class _Record(NamedTuple):
    """A record of a coordinator.

    Attributes:
        kind: What it is, for people.
        key: The fields of the key.
        newest: The newest version of the value, which is the first flexible one too.
        value: The fields of the value.
    """

    kind: str
    key: str
    newest: int
    value: str


_OFFSET_COMMIT: Final = _Record(
    "offset commit",
    "group:string topic:string partition:int32",
    newest=4,
    value="offset:int64 leaderEpoch:int32@3 metadata:string commitTimestamp:int64 expireTimestamp:int64@1-1",
)
_GROUP: Final = _Record(
    "group",
    "group:string",
    newest=4,
    value="protocolType:string generation:int32 protocol:string leader:string currentStateTimestamp:int64@2 "
    "members:{memberId:string groupInstanceId:string@3 clientId:string clientHost:string rebalanceTimeout:int32@1 "
    "sessionTimeout:int32 subscription:bytes assignment:bytes}",
)
_TRANSACTION: Final = _Record(
    "transaction",
    "transactionalId:string",
    newest=1,
    value="producerId:int64 producerEpoch:int16 transactionTimeoutMs:int32 transactionStatus:int8 "
    "transactionPartitions:{topic:string partitionIds:[int32]} transactionLastUpdateTimestampMs:int64 "
    "transactionStartTimestampMs:int64",
)
# By the version of the key.
_TOPICS: Final = {
    "__consumer_offsets": {0: _OFFSET_COMMIT, 1: _OFFSET_COMMIT, 2: _GROUP},
    "__transaction_state": {0: _TRANSACTION},
}


class Decoded(NamedTuple):
    """What bytes mean: its kind, for people, and its content as JSON."""

    kind: str
    json: bytes


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats of the records of a topic.

    Attributes:
        topic: The topic.
        schemas: The schemas of a registry; None: there are none.
    """

    topic: str = ""
    schemas: Schemas | None = None

    @classmethod
    def of(cls, partition: str, schemas: Schemas | None) -> Formats:
        """Return the formats of a partition, by the name of its directory."""
        return cls(partition.rpartition("-")[0], schemas)

    def decoded(self, part: Part, key: bytes | None, value: bytes | None) -> Decoded | None:
        """Decode the key or the value of a record; None if its format is none of those known, or it is null."""
        data = key if part == "key" else value
        if not data:
            return None
        try:
            if self.topic in _TOPICS:
                return _of_coordinator(self.topic, part, key or b"", data)
            if self.topic == "__cluster_metadata":
                return _of_metadata(data)
            return self._of_registry(data) or _of_messagepack(data)
        except (InvalidRecordError, ValueError, struct.error, RecursionError, msgspec.MsgspecError):
            return None

    def note(self, data: bytes | None) -> str:
        """Return what may be said of bytes that are not decoded: that they may be a frame, and why it is not read."""
        number = schema_id(data)
        if data is None or number is None:
            return ""
        frame = f"perhaps a frame of schema {number}"
        if self.schemas is None:
            return f"{frame} (see --schema-dir)"
        try:
            self.schemas.decode(number, data[_FRAME.size :])
        except ValueError as error:
            return f"{frame}: {printable(str(error))}"
        return frame

    def _of_registry(self, data: bytes) -> Decoded | None:
        number, content = schema_id(data), data[_FRAME.size :]
        if number is None:
            return None
        if self.schemas is not None and self.schemas.path(number) is not None:
            return Decoded(f"schema {number}", self.schemas.decode(number, content))
        if content[:1] not in {b"{", b"["}:
            return None
        msgspec.json.decode(content)
        return Decoded(f"schema {number}", content)


def schema_id(data: bytes | None) -> int | None:
    """Return the id of the schema if the bytes may be a frame of a schema registry; else None."""
    if data is None or len(data) <= _FRAME.size:
        return None
    zero, number = _FRAME.unpack_from(data)
    return number or None if zero == 0 else None


def _of_coordinator(topic: str, part: Part, key: bytes, data: bytes) -> Decoded | None:
    (version,) = _NUMBERS["int16"].unpack_from(key)
    record = _TOPICS[topic].get(version)
    if record is None:
        return None
    fields = _Fields(data, is_flexible=False)
    version = fields.number("int16")
    if part == "key":
        return Decoded(record.kind, _json(fields.read(record.key, version), fields))
    if version > record.newest:
        return None
    fields.is_flexible = version == record.newest
    return Decoded(record.kind, _json(fields.read(record.value, version), fields))


def _of_metadata(data: bytes) -> Decoded | None:
    fields = _Fields(data)
    frame, record, version = fields.varint(), _METADATA.get(fields.varint()), fields.varint()
    if frame != 1 or record is None:
        return None
    name, newest, *spec = record.split(" ")
    if version > int(newest):
        return None
    return Decoded(f"{name}Record", _json({"record": name, **fields.read(" ".join(spec), version)}, fields))


def _of_messagepack(data: bytes) -> Decoded | None:
    # Others than maps with names, and lists of such maps, are too likely to be something else.
    content = msgspec.msgpack.decode(data)
    first = content[0] if isinstance(content, list) and content else content
    if not isinstance(first, dict) or not first or not all(isinstance(name, str) for name in first):
        return None
    return Decoded("MessagePack", msgspec.json.encode(content))


def _json(content: dict[str, Any], fields: _Fields) -> bytes:
    """Return the JSON of a record that has been read to its end.

    Raises:
        ValueError: Bytes are left.
    """
    if fields.left:
        raise ValueError(f"{fields.left} bytes are left")
    return msgspec.json.encode(content)


class _Fields(MessageFields):
    """Reads structures that are described as text."""

    def read(self, spec: str, version: int) -> dict[str, Any]:
        """Read the fields of a structure.

        Raises:
            InvalidRecordError: The bytes end before the structure does.
            ValueError: An array has too many elements.
        """
        found: dict[str, Any] = {}
        tagged = {}
        for name, kind, first, last, tag in _FIELD.findall(spec):
            if not int(first or 0) <= version <= int(last or version):
                continue
            if tag:
                tagged[int(tag)] = name, kind
            else:
                found[name] = self._value(kind, version)
        if self.is_flexible:
            for tag, content in self.tagged():
                if tag in tagged:
                    name, kind = tagged[tag]
                    found[name] = content._value(kind, version)
        return found

    def _value(self, kind: str, version: int) -> Any:
        if kind in _NUMBERS:
            return self.number(kind)
        if kind == "uuid":
            return self.uuid()
        if kind == "string":
            return self.string()
        count = self.count()
        if count is None:
            return None
        if kind == "bytes":
            return self.take(count)
        if count > _MOST_ELEMENTS:
            raise ValueError(f"{count} elements")
        read = self._value if kind[0] == "[" else self.read
        return [read(kind[1:-1], version) for _ in range(count)]

    def number(self, kind: str) -> Any:
        """Return a number of fixed size, or a bool."""
        plain = _NUMBERS[kind]
        return plain.unpack(self.take(plain.size))[0]
