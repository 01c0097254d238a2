"""`.kafka_cleanshutdown`: the last writer of this data directory stopped cleanly.

    {"version":0,"brokerEpoch":17}

If the file exists, the logs are complete and need no recovery. It is deleted before the logs are loaded, so it is
missing after a crash. A broker sends the epoch (-1: none) to the controller on its next start, as proof that it has
lost nothing. A writer other than that broker writes -1. Older brokers leave the file empty.

Source: storage/.../checkpoint/CleanShutdownFileHandler.java.
"""

import json
from pathlib import Path

from kafkalog.errors import KafkaLogError
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from kafkalog.storage.files.durable import sync_directory, write_atomically
from kafkalog.storage.files.small_file import read_small_file

MAX_BYTES = 1 << 16
_VERSION = 0


def was_clean_shutdown(directory: Path) -> bool:
    """Return whether the last writer of a data directory stopped cleanly."""
    return (directory / CLEAN_SHUTDOWN_FILE).exists()


def read_broker_epoch(directory: Path) -> int | None:
    """Return the epoch that the broker wrote; None if the file is missing or has no epoch."""
    try:
        text = read_small_file(directory / CLEAN_SHUTDOWN_FILE, MAX_BYTES).decode(errors="replace")
        epoch = json.JSONDecoder().raw_decode(text.lstrip())[0]["brokerEpoch"]  # like Kafka, ignore what follows
    except (OSError, KafkaLogError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return epoch if type(epoch) is int else None


def write_clean_shutdown(directory: Path, broker_epoch: int = -1) -> None:
    """Mark a data directory as cleanly shut down. Every log must have been flushed.

    Raises:
        OSError: The file was not written.
    """
    content = json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(directory / CLEAN_SHUTDOWN_FILE, content.encode())


def delete_clean_shutdown(directory: Path) -> bool:
    """Delete the mark before the directory is changed. Return False if there was none.

    Raises:
        OSError: The file was not deleted.
    """
    try:
        (directory / CLEAN_SHUTDOWN_FILE).unlink()
    except FileNotFoundError:
        return False
    sync_directory(directory)
    return True
