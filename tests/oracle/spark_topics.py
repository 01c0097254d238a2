"""Topics with everything that a source may get wrong, written through a broker; the broker stays up to be asked.

orders    3 partitions, the last one empty; null and empty keys and values, headers, times that go back; every codec
stamped   times of the broker (LogAppendTime)
rolled    segments of 4 KiB; what is before offset 137 is deleted
paid      2 partitions of transactions: decided either way, and one still open; records of no transaction between
"""

import time
from pathlib import Path

from kafkalog import CompressionType
from kafkalog.storage.checkpoint.checkpoint_file import read_offset_checkpoint
from kafkalog.storage.file_names import LOG_START_OFFSET_CHECKPOINT, TopicPartition
from tests.oracle.broker import PATIENCE_S, Client, Seen

BEGIN = 1_700_000_000_000
DELETED_BEFORE = 137
PARTITIONS = {"orders": 3, "stamped": 1, "rolled": 1, "paid": 2}
HEADERS = (
    (),
    (("trace", b"7"),),
    (("a", b"1"), ("ä", b""), ("a", None)),
    (("", b"no name"),),
)
_CODECS = [each.name.lower() for each in CompressionType]


def records(first: int, count: int) -> list[Seen]:
    """10 ms apart, every seventh before the one before it."""
    return [_record(first + i) for i in range(count)]


def _record(number: int) -> Seen:
    at = BEGIN + 10 * number - (35 if number % 7 == 3 else 0)
    key = (b"key %d" % (number % 11), None, b"")[number % 3]
    value = (None, b"", b"value %d " % number * 5)[min(2, number % 5)]
    return Seen(-1, at, key, value, HEADERS[number % len(HEADERS)])


def write(client: Client, data: Path) -> None:
    """Make the topics. data: the broker's directory."""
    for topic, partitions in PARTITIONS.items():
        settings = {
            "stamped": {"message.timestamp.type": "LogAppendTime"},
            "rolled": {"internal.segment.bytes": "4096"},
        }
        client.create({topic: settings.get(topic, {})}, partitions=partitions)
    _write_orders(client)
    for number in range(3):
        client.produce("stamped-0", records(20 * number, 20), "lz4")
        time.sleep(0.05)
    for number in range(12):
        client.produce("rolled-0", records(30 * number, 30), _CODECS[number % 2])
    client.delete_records("rolled-0", DELETED_BEFORE)
    _write_paid(client)
    _wait_for_log_start(data)


def _write_orders(client: Client) -> None:
    for number, codec in enumerate(_CODECS * 2):
        client.produce("orders-0", records(25 * number, 25), codec)
    client.produce("orders-1", records(500, 40), "zstd")


def _write_paid(client: Client) -> None:
    for partition in ("paid-0", "paid-1"):
        for number, codec in enumerate(_CODECS):
            name = f"{partition} {codec}"
            client.produce(partition, records(40 * number, 5), codec)
            client.produce(partition, records(40 * number + 10, 6), codec, transaction=name, commit=number % 2 == 0)
            client.produce(partition, records(40 * number + 20, 6), codec, transaction=name, commit=number % 2 == 1)
    client.produce("paid-0", records(300, 4), transaction="open", commit=None)
    client.produce("paid-0", records(310, 8))


def _wait_for_log_start(data: Path) -> None:
    give_up = time.monotonic() + PATIENCE_S
    checkpoint = data / LOG_START_OFFSET_CHECKPOINT
    while read_offset_checkpoint(checkpoint).get(TopicPartition("rolled", 0)) != DELETED_BEFORE:
        assert time.monotonic() < give_up
        time.sleep(0.1)
