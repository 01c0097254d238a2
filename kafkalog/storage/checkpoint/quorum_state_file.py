"""`quorum-state`: what a node knows of the KRaft quorum, in the directory of `__cluster_metadata-0`.

    {"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],
     "data_version":0}

Source: raft/.../FileQuorumStateStore.java, raft/src/main/resources/common/message/QuorumStateData.json.
"""

import json
from pathlib import Path
from typing import Any

from kafkalog.errors import CorruptCheckpointError
from kafkalog.storage.files.small_file import read_small_text

QUORUM_STATE = "quorum-state"
MAX_BYTES = 1 << 20
_VERSIONS = (0, 1)
_NUMBERS = "leaderId", "leaderEpoch", "votedId"


def read_quorum_state(path: Path) -> dict[str, Any] | None:
    """Return the state; None if the file is missing.

    Raises:
        CorruptCheckpointError: The file does not follow its format.
        OSError: The file cannot be read.
    """
    text = read_small_text(path, MAX_BYTES)
    if text is None:
        return None
    try:
        state = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(f"not JSON: {error}", str(path)) from None
    if not isinstance(state, dict):
        raise CorruptCheckpointError("not a JSON object", str(path))
    if state.get("data_version") not in _VERSIONS:
        raise CorruptCheckpointError("the version is unknown", str(path), None, "0..1", state.get("data_version"))
    for name in _NUMBERS:
        if not isinstance(state.get(name), int):
            raise CorruptCheckpointError(f"{name} is not a number", str(path), None, "a number", state.get(name))
    return state
