"""Which readings are set against which, and how much faster kafkalog means to be.

A comparison names one of kafkalog's cases and one of a peer's, both of `readers.py` or `PeerWorker.java`; CRCs are
checked by both or by neither. Goals are ratios, which hold on any machine, not rates. None: nothing was promised.
"""

from dataclasses import dataclass, field

CASES = ("columns", "objects", "headers", "crc", "threads", "memory", "dump")


@dataclass(frozen=True)
class Comparison:
    """kafkalog's `case` against `peer`'s `peer_case`; `goals` by codec, `single` for one-record batches."""

    group: str
    title: str
    case: str
    peer: str
    peer_case: str
    goals: dict[str, float] = field(default_factory=dict)

    def goal(self, kind: str) -> float | None:
        """The ratio wanted on segments of this kind."""
        return self.goals.get(kind)


_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_COLUMNS = {"none": 3.0, "gzip": 1.6, "snappy": 1.6, "lz4": 1.35, "zstd": 1.35}
_OBJECTS = {"none": 1.45, "gzip": 1.3, "snappy": 1.3, "lz4": 1.3, "zstd": 1.3}


def _each(goal: float) -> dict[str, float]:
    return dict.fromkeys(_CODECS, goal)


COMPARISONS = (
    Comparison("columns", "columns", "columns", "java", "records", _COLUMNS),
    Comparison("columns", "columns, CRC checked", "columns_crc", "java", "records_crc", _COLUMNS),
    Comparison("columns", "columns, CRC, not mapped", "columns_crc_read", "java", "records_crc"),
    Comparison("columns", "columns, CRC checked", "columns_crc", "aiokafka", "objects_crc"),
    Comparison("columns", "columns", "columns", "kafka-python", "objects"),
    Comparison("threads", "columns, 2 threads", "columns_2", "kafkalog", "columns", _each(1.8)),
    Comparison("threads", "columns, 2 threads, CRC", "columns_crc_2", "kafkalog", "columns_crc", _each(1.8)),
    Comparison("objects", "objects, CRC checked", "objects_crc", "aiokafka", "objects_crc", _OBJECTS),
    Comparison("objects", "objects, CRC against none", "objects_crc", "aiokafka", "objects"),
    Comparison("objects", "objects, CRC checked", "objects_crc", "java", "records_crc"),
    Comparison("objects", "objects, CRC against none", "objects_crc", "kafka-python", "objects"),
    Comparison("headers", "header scan, from opening", "headers", "java", "headers", _each(4.0) | {"single": 4.0}),
    Comparison("headers", "header scan, from opening", "headers", "aiokafka", "headers"),
    Comparison("crc", "CRC of every batch", "crc", "java", "crc", _each(3.0)),
    Comparison("crc", "CRC of every batch", "crc", "aiokafka", "crc"),
)

MEMORY = (("kafkalog", "columns"), ("kafkalog", "objects_crc"), ("java", "records"), ("aiokafka", "objects"))

DUMP_GOAL = 8.0
