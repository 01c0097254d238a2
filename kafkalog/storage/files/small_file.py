"""Bounded reads of the small files beside segments: checkpoints, metadata, producer snapshots."""

import stat
from pathlib import Path

from kafkalog.errors import CorruptCheckpointError, KafkaLogError


def read_small_file(path: Path, max_bytes: int, error: type[KafkaLogError] = CorruptCheckpointError) -> bytes:
    """Return the content of a file that has a maximum size.

    Args:
        path: The file.
        max_bytes: The maximum size: a damaged or sparse file of many gigabytes is rejected before it is read.
        error: The class of the error.

    Raises:
        KafkaLogError: Of class `error`: the file is larger, or is not a regular file; a pipe would block.
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise error("not a regular file", str(path))
    if status.st_size > max_bytes:
        raise error("the file is too large", str(path), None, f"at most {max_bytes} bytes", f"{status.st_size} bytes")
    return path.read_bytes()


def read_small_text(path: Path, max_bytes: int) -> str | None:
    r"""Return the content of a UTF-8 file, with `\r\n` and `\r` read as `\n`; None if there is no such file.

    Raises:
        CorruptCheckpointError: The file is not UTF-8, not a regular file, or larger.
        OSError: The file cannot be read.
    """
    try:
        text = read_small_file(path, max_bytes).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError("not a text file", str(path), error.start) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
