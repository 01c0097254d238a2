"""`meta.properties`: which node of which cluster a data directory belongs to.

    node.id=1                                   broker.id in version 0
    version=1                                   0: ZooKeeper, 1: KRaft
    directory.id=HofQ42HDrd0Y_VmgXvms-Q
    cluster.id=DTfjWV3NSqurIbRBugvACg

A file of Java properties. A broker does not start with a file of another cluster, or of another node.
Source: server-common/.../metadata/properties/{MetaProperties,MetaPropertiesVersion}.java.
"""

import re
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.files.small_file import read_small_text

MAX_BYTES = 1 << 16
_LINE = re.compile(r"\s*([^\s=:]+)\s*[=:\s]\s*(.*)")
_NUMBER = re.compile(r"-?[0-9]{1,10}")
# The properties that each version needs.
_NEEDED = {0: (), 1: ("cluster.id", "node.id")}
_NUMBERS = "node.id", "broker.id"


def read_meta_properties(path: Path) -> dict[str, str] | None:
    """Return the properties; None if the file is missing.

    Raises:
        CorruptCheckpointError: The version is unknown, or a property is missing or not a number.
        OSError: The file cannot be read.
    """
    text = read_small_text(path, MAX_BYTES)
    if text is None:
        return None
    matches = [_LINE.fullmatch(line) for line in text.splitlines() if not line.lstrip().startswith(("#", "!"))]
    properties = {match[1]: match[2].strip() for match in matches if match}
    version = properties.get("version")
    if version not in {str(each) for each in _NEEDED}:
        raise CorruptCheckpointError("the version is unknown", str(path), None, "version=0 or 1", version)
    for name in _NEEDED[int(version)]:
        if name not in properties:
            raise CorruptCheckpointError("a property is missing", str(path), None, f"{name}=", None)
    for name in _NUMBERS:
        if name in properties and not _NUMBER.fullmatch(properties[name]):
            raise CorruptCheckpointError(f"{name} is not a number", str(path), None, "a number", properties[name])
    return properties
