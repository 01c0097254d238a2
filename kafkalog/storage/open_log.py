"""Open a single partition for reading, or lock it, recover it if necessary, and open it for appending.

    mode "r"   reads only; never writes, creates or locks anything
    mode "a"   reads and appends; the directory is created if it is missing

The parent directory is treated as a broker's data directory, whether or not there is a broker: its lock, checkpoints
and clean-shutdown marker are used and maintained.
"""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kafkalog._speedups import decompress
from kafkalog._speedups.arguments import BYTES, INT64_MAX, whole
from kafkalog.errors import NotALogError
from kafkalog.storage.checkpoint.partition_metadata_file import topic_id_in
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.data_dir.session import Session, read_checkpoints
from kafkalog.storage.file_names import partition_of_dir, real_path, segment_files
from kafkalog.storage.files.durable import make_directory
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import local_path
from kafkalog.storage.unified_log import Ending, Opening, Progress, WritableLog


def open_log(
    path: str | os.PathLike[str],
    mode: Literal["r", "a"] = "r",
    config: LogConfig | None = None,
    *,
    decompression_limit: int | None = None,
    progress: Progress | None = None,
) -> Log:
    """Open a partition; see `kafkalog.open`."""
    limit = decompress.DEFAULT_LIMIT
    if decompression_limit is not None:
        limit = whole("decompression_limit", decompression_limit, 0, INT64_MAX, BYTES)
    if mode == "r":
        return ReadOnlyLog(path, config, decompression_limit=limit)
    if mode != "a":
        raise ValueError(f"mode is {mode!r}; 'r' reads, 'a' reads and appends")
    directory = local_path(path).absolute()
    config = config_or_default(config)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress is a function of bytes done and bytes to do, not {type(progress).__name__}")
    return _opened(directory, config, Opening(progress=progress, decompression_limit=limit))


def _opened(directory: Path, config: LogConfig, opening: Opening) -> WritableLog:
    """Lock a partition directory, and load it with the checkpoints of its data directory."""
    real = real_path(directory)
    name, data_dir, partition = real.name, real.parent, partition_of_dir(real.name)
    if directory.is_file():
        raise NotADirectoryError(errno.ENOTDIR, "a partition directory is needed, and this is a file", str(directory))
    if partition is None:
        raise NotALogError(
            f"{name!r} is not the name of a partition: <topic>-<number>, such as orders-0", str(directory)
        )
    make_directory(data_dir)
    # Report damaged checkpoints and metadata before anything is changed.
    read_checkpoints(data_dir)
    if _is_new(directory):
        topic_id_in(data_dir, partition.topic)
    session = Session(DirectoryLock.of_partition(directory))

    def at_end(log: Log, ending: Ending) -> None:
        in_order = False
        try:
            if ending is Ending.CLOSED:
                session.update_checkpoints([log])
            elif ending is Ending.DELETED:
                session.forget_partition(partition)
            in_order = ending is not Ending.ABANDONED
        finally:
            session.end(name, in_order=in_order)

    try:
        is_new = _is_new(directory)
        topic_id, known = session.settle_topic_id(directory) if is_new else None, read_checkpoints(data_dir)
        opening = replace(
            opening,
            had_clean_shutdown=is_new or session.is_whole(name),
            topic_id=topic_id,
            ensure_alone=session.lock.ensure_held,
            at_truncation=lambda log: session.update_checkpoints([log]),
            at_end=at_end,
        )
        return WritableLog.load_checkpointed(directory, config, opening, known)
    except BaseException:
        session.end(name, in_order=False)
        raise


def _is_new(directory: Path) -> bool:
    """Return whether a partition has no segment yet."""
    return not directory.exists() or not segment_files(directory)
