"""What Kafka's own tool says of the partitions that a DataFrame's writer leaves: logs and indexes, new and appended to.

The writer is driven as Spark drives it, without Spark.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is missing: pip install 'kafkalog[arrow]'")

from kafkalog import CompressionType
from tests.helpers.spark_writing import NOW, rows, written
from tests.oracle import java
from tests.oracle.broker import Broker, Seen

pytestmark = pytest.mark.oracle

DUMP_TOOL = "kafka.tools.DumpLogSegments"
RECORD = re.compile(rb"^\| offset: (\d+) .*? payload: (\S*)$", re.MULTILINE)
BATCH = re.compile(rb"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* isvalid: (\w+)")
TROUBLE = re.compile(r"recovering (unflushed|\d+ logs)|rebuild(ing)? .*index|unclean|corrupt|stray", re.IGNORECASE)
CODECS = list(CompressionType)
COUNT = 2400


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two jobs of two tasks each; a partition for each codec, of several segments."""
    path = tmp_path_factory.mktemp("written")
    headers = [{"key": "h", "value": b"x"}]
    for job in range(2):
        for number, codec in enumerate(CODECS):
            tasks = [
                rows(
                    *(
                        {"topic": "t", "partition": number, "key": b"k", "value": b"v%d" % i, "timestamp": NOW + i}
                        | ({"headers": headers} if i % 3 else {})
                        for i in range(first, first + COUNT // 4)
                    )
                )
                for first in (job * COUNT // 2, job * COUNT // 2 + COUNT // 4)
            ]
            written(path, *([task] for task in tasks), compression=codec.name, batchBytes=500, segmentBytes="16k")
    return path


def dumped(files: list[Path], *options: str) -> bytes:
    arguments = [*options, "--files", ",".join(map(str, files))]
    try:
        command = java.kafka_command(DUMP_TOOL, arguments, options=["-Xmx256m", "-XX:+UseSerialGC"])
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    done = subprocess.run(command, capture_output=True, check=True, timeout=1200)
    assert b"xception" not in done.stderr, done.stderr.decode()
    return done.stdout


def test_kafkas_tool_reads_every_record_in_order(directory: Path) -> None:
    logs = sorted(directory.glob("t-*/*.log"))
    assert len(logs) > len(CODECS)
    said = dumped(logs, "--deep-iteration", "--print-data-log")
    batches = BATCH.findall(said)
    assert {valid for *_, valid in batches} == {b"true"}
    assert all(int(last) - int(first) + 1 == int(count) for first, last, count, _ in batches)
    expected = [(b"%d" % i, b"v%d" % i) for i in range(COUNT)]
    assert RECORD.findall(said) == expected * len(CODECS)


def test_kafkas_tool_finds_no_fault_in_the_indexes(directory: Path) -> None:
    indexes = [path for pattern in ("*.index", "*.timeindex") for path in sorted(directory.glob(f"t-*/{pattern}"))]
    for option in ("--index-sanity-check", "--verify-index-only"):
        said = dumped(indexes, option)
        assert b"ismatch" not in said
        assert b"out of order" not in said.lower()
        if option == "--index-sanity-check":
            sound = re.findall(rb"index (passed sanity check|is empty)[.]", said)
            assert len(sound) == len(indexes)
            assert said.count(b"0.index passed") >= len(CODECS)


@pytest.mark.broker
def test_a_broker_goes_on_with_what_was_appended_to_its_own_partitions(tmp_path: Path) -> None:
    try:
        with Broker(tmp_path) as broker:
            run = broker.start()
            broker.client.create({"t": {}}, partitions=2)
            broker.client.produce("t-0", [Seen(0, NOW, b"k", b"0")])
            run.stop()
            more = [{"topic": "t", "partition": 0, "value": b"%d" % i, "timestamp": NOW + i} for i in range(1, 500)]
            written(broker.data, [rows(*more[:300])], [rows(*more[300:])], compression="lz4", batchBytes="1k")
            run = broker.start()
            broker.client.produce("t-0", [Seen(0, NOW + 500, b"k", b"500")])
            found = broker.client.view("t-0")
            said = run.said
            run.stop()
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    assert [(seen.offset, seen.timestamp, seen.value) for seen in found.committed] == [
        (i, NOW + i, b"%d" % i) for i in range(501)
    ]
    assert [line for line in said if TROUBLE.search(line) and "__cluster_metadata" not in line] == []
