"""A sound data directory of a broker, to be copied and damaged: each golden partition many times over.

A broker (3.9.1, so that later ones start on the directory too) formats it and makes the topics; then the golden files
take the place of those of the empty partitions, but for the topic ids. It is made once and kept beside Kafka's jars.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kafkalog.storage.checkpoint.partition_metadata_file import random_topic_id
from kafkalog.storage.file_names import PARTITION_METADATA
from tests.damage.kinds import CHECKPOINTS, COMPACTED, DELETED_RECORDS, EPOCHS, IDEMPOTENT, PLAIN, TRANSACTIONAL
from tests.damage.ways import checkpoint_of, segments
from tests.helpers.golden import ARCHIVES, unpacked
from tests.oracle import java
from tests.oracle.broker import CLIENT, LOGGING_POM, Broker

VERSIONS = {"3.9.1": java.POM.with_name("pom_3.9.xml"), "4.2.0": java.POM}
GOLDEN = "kafka-3.9"
COPIES = {PLAIN: 33, TRANSACTIONAL: 25, EPOCHS: 13, COMPACTED: 9, DELETED_RECORDS: 5, IDEMPOTENT: 2}
"""Partitions of each topic; number 0 stays undamaged."""
ONE_EACH = dict.fromkeys(COPIES, 1)
NEVER_COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}
RESTARTS = 3  # each raises the leader epochs by two; the golden logs have epochs up to 6
SETTINGS = {
    "log.cleaner.backoff.ms": 500,
    "log.segment.delete.delay.ms": 1000,
    "producer.id.expiration.ms": 2**31 - 1,
}
CLEAN, UNCLEAN, UNFLUSHED = "clean", "unclean", "unflushed"
"""How the broker stopped: in order; killed with the closed segments flushed; killed with nothing flushed."""


def base(copies: Mapping[str, int]) -> Path:
    """Return the directory above `data`, for reading only; `copies` of the golden partitions are in it."""
    for pom in (LOGGING_POM, *VERSIONS.values()):
        java.jars(pom)  # these and the client's classes outside the lock that making takes
    java.classes(CLIENT)
    archive = next(ARCHIVES.glob(f"{GOLDEN}.tar.xz"))
    name = f"damage-base-{java.digest(Path(__file__), archive)}-{sum(copies.values())}"
    return java.once(name, lambda target: _make(target, copies))


def _make(target: Path, copies: Mapping[str, int]) -> None:
    version = VERSIONS["3.9.1"]
    broker = Broker(target, SETTINGS, pom=version)
    words = ["format", "-t", random_topic_id(), "-c", str(target / "server.properties")]
    formatting = java.kafka_command("kafka.tools.StorageTool", words, poms=[version])
    subprocess.run(formatting, check=True, capture_output=True)
    with broker:
        for restart in range(RESTARTS):
            run = broker.start()
            if not restart:
                for partition, count in copies.items():
                    topic = partition.removesuffix("-0")
                    broker.client.create({topic: NEVER_COMPACTED if partition == COMPACTED else {}}, count)
            run.stop()
    data = broker.data
    for partition, count in copies.items():
        for number in range(count):
            _install(unpacked() / GOLDEN / "data" / partition, data / f"{partition.removesuffix('-0')}-{number}")
    for name in CHECKPOINTS.values():
        (data / name).write_text(_for_all_copies((unpacked() / GOLDEN / "data" / name).read_text(), copies))
    (data / ".lock").unlink(missing_ok=True)


def _install(golden: Path, partition: Path) -> None:
    for path in partition.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    for path in golden.iterdir():
        if path.name != PARTITION_METADATA:
            shutil.copy2(path, partition)


def _for_all_copies(checkpoint: str, copies: Mapping[str, int]) -> str:
    """Return a golden checkpoint with its lines about the topics that are here, for all their partitions."""
    lines = []
    for line in checkpoint.splitlines()[2:]:
        topic, _, offset = line.split()
        lines += [f"{topic} {number} {offset}" for number in range(copies.get(f"{topic}-0", 0))]
    return checkpoint_of(lines)


def copy_of_base(data: Path, stop: str, copies: Mapping[str, int]) -> None:
    """Copy the sound data directory as it would be after such a stop."""
    shutil.copytree(base(copies) / "data", data)
    if stop == CLEAN:
        return
    (data / ".kafka_cleanshutdown").unlink()
    lines = []
    for partition, count in copies.items():
        for number in range(count):
            topic = partition.removesuffix("-0")
            flushed = 0 if stop == UNFLUSHED else int(segments(data / f"{topic}-{number}")[-1].stem)
            lines.append(f"{topic} {number} {flushed}")
    (data / CHECKPOINTS["recovery-point"]).write_text(checkpoint_of(lines))
