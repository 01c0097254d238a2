"""What a version of Kafka refuses or ignores in the cluster's metadata, before it is installed: `version_findings`.

    metadata.version 29                          4.1 reads the levels 7 to 27: it does not start
    topic orders: segment.bytes=16384            4.1 and later want 1048576 at least: they do not start
    topic orders: message.format.version=2.8     4.0 and later do not have it: they ignore it

Log files of all formats are read by all of these versions, 0 and 1 too.
Source: `LogConfig`, `AbstractKafkaConfig`, `MetadataVersion` and `Feature` of each version, which the tests ask, and
brokers of 3.9.1, 4.0.0, 4.1.0 and 4.2.0, started on such metadata.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kafkalog.fsck.cluster_metadata import ClusterMetadata
from kafkalog.fsck.findings import Finding
from kafkalog.storage.file_names import CLUSTER_METADATA_TOPIC

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """The settings and features that a version of Kafka accepts.

    Attributes:
        features: The smallest and the largest level of each feature; other features are not accepted.
        unknown: The names of settings of topics and of brokers that it does not have.
        least: The smallest value of settings of topics and of brokers that other versions allow to be smaller.
    """

    features: Mapping[str, tuple[int, int]]
    unknown: frozenset[str] = frozenset()
    least: Mapping[str, int] = field(default_factory=dict)


_REMOVED_IN_4_0 = frozenset({
    *("message.downconversion.enable", "message.format.version", "message.timestamp.difference.max.ms"),
    *("log.message.downconversion.enable", "log.message.format.version", "log.message.timestamp.difference.max.ms"),
})  # fmt: skip
_ADDED_IN_4_1 = frozenset({"internal.segment.bytes"})
_FEATURES_4_0 = {
    "metadata.version": (7, 25),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
_FEATURES_4_1 = _FEATURES_4_0 | {"metadata.version": (7, 27), "share.version": (0, 1)}
_FEATURES_4_2 = _FEATURES_4_1 | {"metadata.version": (7, 29), "streams.version": (0, 1)}

VERSIONS = {
    "3.9": KafkaVersion({"metadata.version": (1, 21)}, _ADDED_IN_4_1),
    "4.0": KafkaVersion(_FEATURES_4_0, _REMOVED_IN_4_0 | _ADDED_IN_4_1, {"log.segment.bytes": _MIB}),
    "4.1": KafkaVersion(_FEATURES_4_1, _REMOVED_IN_4_0, {"log.segment.bytes": _MIB, "segment.bytes": _MIB}),
    "4.2": KafkaVersion(_FEATURES_4_2, _REMOVED_IN_4_0, {"log.segment.bytes": _MIB, "segment.bytes": _MIB}),
}
"""The versions that are known."""


def version_findings(
    directory: Path, cluster: ClusterMetadata | None, node: int | None, version: str
) -> Iterator[Finding]:
    """Yield the findings about what a version would refuse or ignore.

    Args:
        directory: What is checked.
        cluster: The cluster's metadata.
        node: The broker; None if it is unknown.
        version: The name of the version, in `VERSIONS`.
    """
    if cluster is None:
        message = f"the cluster's metadata are absent or damaged here: its settings are not checked for Kafka {version}"
        yield Finding("version-not-checked", str(directory), message)
        return
    path, taken = str(directory / f"{CLUSTER_METADATA_TOPIC}-0"), VERSIONS[version]
    for name, level in sorted(cluster.features.items()):
        least, most = taken.features.get(name, (0, 0))
        if not least <= level <= most:
            message = f"Kafka {version} does not read metadata of this level of {name}"
            yield Finding("feature-level", path, message, expected=f"{least} to {most}", found=level)
    for kind, owner, settings in cluster.resources():
        if kind == "topic" or owner in {"", str(node)}:
            yield from _setting_findings(path, kind, owner, settings, version)


def _setting_findings(path: str, kind: str, owner: str, settings: Mapping[str, str], version: str) -> Iterator[Finding]:
    taken, whose = VERSIONS[version], f"{kind} {owner}" if owner else "all brokers"
    situation = "" if kind == "topic" else kind
    for name, value in sorted(settings.items()):
        if name in taken.unknown:
            message = f"{whose}: Kafka {version} has no setting {name}"
            yield Finding("setting-ignored", path, message, found=value)
        least = taken.least.get(name)
        with suppress(ValueError):
            if least is not None and int(value) < least:
                message = f"{whose}: Kafka {version} refuses this value of {name}"
                arguments = f"--entity-name {owner} --add-config {name}={least}"
                yield Finding("setting-refused", path, message, expected=f"at least {least}", found=value,
                              situation=situation, arguments=arguments)  # fmt: skip
