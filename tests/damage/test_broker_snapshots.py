"""What a real broker does with a damaged snapshot of the cluster's metadata, and what is said of it before."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from kafkalog.fsck import verify_path
from kafkalog.storage.checkpoint.partition_metadata_file import random_topic_id
from tests.damage.broker_base import SETTINGS, VERSIONS
from tests.helpers.damage_kinds import places_of
from tests.oracle import java
from tests.oracle.broker import Broker, BrokerFailed

EAGER = {**SETTINGS, "metadata.log.max.record.bytes.between.snapshots": 1}
"""A snapshot after every change."""
TOPIC = "orders"
PATIENCE_S = 60


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of 3.9.1, on which later versions start too, with a topic of two partitions and snapshots."""
    home = tmp_path_factory.mktemp("stopped")
    version = VERSIONS["3.9.1"]
    try:
        broker = Broker(home, EAGER, pom=version)
        words = ["format", "-t", random_topic_id(), "-c", str(home / "server.properties")]
        command = java.kafka_command("kafka.tools.StorageTool", words, poms=[version])
        subprocess.run(command, check=True, capture_output=True)
        with broker:
            run = broker.start()
            broker.client.create({TOPIC: {}}, 2)
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and TOPIC.encode() not in newest(broker.data).read_bytes():
                time.sleep(0.2)
            run.stop()
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    return broker.data


def newest(data: Path) -> Path:
    return max((data / "__cluster_metadata-0").glob("*.checkpoint"))


def harmed(content: bytes, how: str) -> bytes:
    places = places_of(content)
    middle = places[1] + 70
    return {
        "sound": content,
        "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "emptied": b"",
        "torn": content[: places[1] + 100],
        "header-only": content[: places[1]],
    }[how]


@pytest.mark.oracle
@pytest.mark.broker
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["sound", "flipped", "emptied", "torn", "header-only"])
def test_a_broker_does_what_is_said_of_a_damaged_snapshot(
    stopped: Path, tmp_path: Path, version: str, how: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(stopped, data)
    path = newest(data)
    content = harmed(path.read_bytes(), how)
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o444)
    findings = list(verify_path(data))
    assert bool(findings) == (how != "sound")
    expected = {each.consequence for each in findings if each.severity != "info"}
    with Broker(tmp_path, EAGER, pom=VERSIONS[version]) as broker:
        started = True
        try:
            run = broker.start(PATIENCE_S)
            run.stop()
        except BrokerFailed:
            started = False
    aside = list(data.glob(f"{TOPIC}-*-stray"))
    found = {"no-start"} if not started else {"set-aside"} if aside else set()
    assert found == expected
