"""Logs and snapshots of a cluster's metadata, written by Kafka, are read as Kafka reads them (`Metadata.java`)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkalog.fsck.cluster_metadata import ClusterMetadata, read_cluster_metadata
from tests.oracle import java

pytestmark = pytest.mark.oracle

SOURCE = Path(__file__).with_name("Metadata.java")
COUNT = 60
# Kafka's word for a directory that no record names.
UNNAMED = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture(scope="module")
def written() -> Path:
    def write(directory: Path) -> None:
        subprocess.run([*command, str(directory), str(COUNT)], check=True, capture_output=True, timeout=300)

    try:
        command = java.command(SOURCE, options=["-Xmx256m", "-XX:+UseSerialGC"])
        return java.once(f"metadata-{java.digest(SOURCE, java.POM)}-{COUNT}", write)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")


def view(found: ClusterMetadata) -> dict[str, Any]:
    topics = {
        name: {
            "id": topic_id,
            "partitions": {
                str(number): {
                    "nodes": list(replicas.nodes),
                    "directories": list(replicas.directories) or [UNNAMED] * len(replicas.nodes),
                }
                for number, replicas in found.partitions[topic_id].items()
            },
        }
        for name, topic_id in found.topic_ids.items()
    }
    settings = [[kind, name, values] for (kind, name), values in sorted(found.settings.items()) if values]
    return {"topics": topics, "features": found.features, "settings": settings}


def test_every_topic_setting_and_feature_is_the_one_that_kafka_reads(written: Path) -> None:
    lines = (written / "images").read_text("utf-8").splitlines()
    assert len(lines) == COUNT
    topics = 0
    for number, line in enumerate(lines):
        expected = json.loads(line)
        found = read_cluster_metadata(written / str(number))
        assert found is not None
        expected["settings"] = sorted([each for each in expected["settings"] if each[2]], key=lambda each: each[:2])
        assert view(found) == expected, number
        assert found.names == {topic["id"]: name for name, topic in expected["topics"].items()}
        topics += len(expected["topics"])
    assert topics > COUNT
