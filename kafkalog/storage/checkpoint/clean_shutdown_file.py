"""`.kafka_cleanshutdown`: the last one that wrote to this data directory stopped in order.

    {"version":0,"brokerEpoch":17}

That the file is there is what counts: the logs are whole, and nothing need be recovered. It goes before they are
loaded, so that a crash leaves none. The epoch (-1: none) is what a broker shows the controller when it comes back, to
prove that it lost nothing since; whoever changes its logs has none to give. Older brokers leave the file empty.

Source: storage/.../checkpoint/CleanShutdownFileHandler.java.
"""

import json
from pathlib import Path

from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from kafkalog.storage.files.durable import sync_directory, write_atomically

_VERSION = 0


def was_clean_shutdown(directory: Path) -> bool:
    """Whether a data directory was left in order, and nobody has been there since."""
    return (directory / CLEAN_SHUTDOWN_FILE).exists()


def read_broker_epoch(directory: Path) -> int | None:
    """The epoch that the broker left; None where there is no file, or it does not say."""
    if not (directory / CLEAN_SHUTDOWN_FILE).is_file():
        return None
    try:
        text = (directory / CLEAN_SHUTDOWN_FILE).read_text("utf-8", "replace")
        epoch = json.JSONDecoder().raw_decode(text.lstrip())[0]["brokerEpoch"]  # as Kafka, whatever follows
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return epoch if type(epoch) is int else None


def write_clean_shutdown(directory: Path, broker_epoch: int = -1) -> None:
    """Say that a data directory is left in order. Every log must be on the disk before. OSError: it was not said."""
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(directory / CLEAN_SHUTDOWN_FILE, content.encode())


def delete_clean_shutdown(directory: Path) -> bool:
    """Take it back, before anything is changed; False where it was not said. OSError: it still stands."""
    try:
        (directory / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    sync_directory(directory)
    return True
