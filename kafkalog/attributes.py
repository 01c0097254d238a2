"""The attributes of a batch: its codec, its timestamp type, and the flags of format 2.

    bits 0-2  codec        0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    bit  3    timestamp    0 CreateTime, 1 LogAppendTime (formats 1 and 2)
    bit  4    transactional        |
    bit  5    control batch        | format 2 only
    bit  6    base timestamp is the delete horizon |

Source: clients/.../common/record/{CompressionType,TimestampType,DefaultRecordBatch}.java.
"""

from enum import IntEnum
from typing import Literal, TypeAlias

LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40


class CompressionType(IntEnum):
    """The codec of a batch, by its number in the attributes.

    Attributes:
        NONE: No compression.
        GZIP: gzip.
        SNAPPY: Snappy, in the blocks of snappy-java.
        LZ4: LZ4 frames.
        ZSTD: Zstandard, from format 2 on.
    """

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CodecName: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""The name of a codec in a producer's configuration, which functions accept for it."""


TimestampName: TypeAlias = Literal["CreateTime", "LogAppendTime"]
"""The name of a timestamp type in the settings of a topic, which functions accept for it."""


def codec_name(number: int) -> str:
    """Return the name that a producer's configuration has for a codec, by its number in the attributes."""
    return CompressionType(number).name.lower() if number <= CompressionType.ZSTD else f"codec {number}"


class TimestampType(IntEnum):
    """The origin of a timestamp.

    Attributes:
        NO_TIMESTAMP_TYPE: There is no timestamp, as in format 0.
        CREATE_TIME: The producer set it.
        LOG_APPEND_TIME: The broker set it on append.
    """

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """The name in Kafka: `NoTimestampType`, `CreateTime` or `LogAppendTime`."""
        return {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}[self]
