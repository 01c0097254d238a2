"""Which readings are set against which, and how much faster kafkalog means to be.

A comparison names one of kafkalog's cases and one of a peer's, both of `readers.py` or `PeerWorker.java`; CRCs are
checked by both or by neither. Goals are ratios, which hold on any machine, not rates. None: nothing was promised.

The peer `limit` is no program, but what the machine and the codecs' packages allow; see `limit.py`.
"""

from dataclasses import dataclass, field

CASES = ("columns", "objects", "headers", "crc", "threads", "memory", "dump")


@dataclass(frozen=True)
class Comparison:
    """A `case` of `reader` against `peer`'s `peer_case`; `goals` by codec, `single` for one-record batches.

    With `gain`, the goal is this part of what the second thread gains where packages are only called.
    """

    group: str
    title: str
    case: str
    peer: str
    peer_case: str
    goals: dict[str, float] = field(default_factory=dict)
    reader: str = "kafkalog"
    gain: float | None = None

    def applies_to(self, kind: str) -> bool:
        """Whether there is such a reading of this kind: without a codec, no package is called."""
        return self.peer_case != CALLS[1] or kind in _CODECS[1:]

    def goal(self, kind: str) -> float | None:
        """The ratio wanted on segments of this kind."""
        return self.goals.get(kind)


_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Of the limit: the calls of the codec's package alone, in two threads and in one.
CALLS_2, CALLS = ("limit", "calls_2"), ("limit", "calls")


def _each(goal: float) -> dict[str, float]:
    return dict.fromkeys(_CODECS, goal)


# Ahead of every peer, and close to the limit.
_AHEAD = _each(1.0)
_NEAR_LIMIT = _each(1 / 1.2)
_OBJECTS = _each(1.3)


COMPARISONS = (
    Comparison("columns", "columns", "columns", "java", "records", _AHEAD),
    Comparison("columns", "columns, CRC checked", "columns_crc", "java", "records_crc", _AHEAD),
    Comparison("columns", "columns, CRC, not mapped", "columns_crc_read", "java", "records_crc"),
    Comparison("columns", "columns, CRC checked", "columns_crc", "aiokafka", "objects_crc"),
    Comparison("columns", "columns", "columns", "kafka-python", "objects"),
    Comparison("columns", "columns, CRC checked", "columns_crc", "limit", "columns_crc", _NEAR_LIMIT),
    Comparison("threads", "package calls, 2 threads", CALLS_2[1], CALLS[0], CALLS[1], reader=CALLS_2[0]),
    Comparison("threads", "columns, 2 threads", "columns_2", "kafkalog", "columns", gain=0.9),
    Comparison("threads", "columns, 2 threads, CRC", "columns_crc_2", "kafkalog", "columns_crc", gain=0.9),
    Comparison("objects", "objects, CRC checked", "objects_crc", "aiokafka", "objects_crc", _OBJECTS),
    Comparison("objects", "objects, CRC against none", "objects_crc", "aiokafka", "objects"),
    Comparison("objects", "objects, CRC checked", "objects_crc", "java", "records_crc"),
    Comparison("objects", "objects, CRC against none", "objects_crc", "kafka-python", "objects"),
    Comparison("headers", "header scan, from opening", "headers", "java", "headers", _AHEAD | {"single": 1.0}),
    Comparison("headers", "header scan, from opening", "headers", "aiokafka", "headers"),
    Comparison("headers", "header scan, from opening", "headers", "limit", "headers", _NEAR_LIMIT),
    Comparison("crc", "CRC of every batch", "crc", "java", "crc", _AHEAD),
    Comparison("crc", "batch.ensure_valid()", "valid", "java", "crc", _AHEAD),
    Comparison("crc", "CRC of every batch", "crc", "aiokafka", "crc"),
)

MEMORY = (("kafkalog", "columns"), ("kafkalog", "objects_crc"), ("java", "records"), ("aiokafka", "objects"))

DUMP_GOALS = {"kafka-dump-log": 8.0}
