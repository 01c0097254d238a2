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

from kafkalog._speedups.arguments import BYTES, INT64_MAX, whole
from kafkalog.errors import NotALogError
from kafkalog.record import decompress
from kafkalog.storage.checkpoint.partition_metadata_file import topic_id_in
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.data_dir.session import Session, read_checkpoints
from kafkalog.storage.file_names import TopicPartition, partition_of_dir, real_path, segment_files
from kafkalog.storage.files.durable import make_directory
from kafkalog.storage.log import Log
from kafkalog.storage.log_config import LogConfig, config_or_default
from kafkalog.storage.read_only_log import ReadOnlyLog
from kafkalog.storage.remote_path import local_path
from kafkalog.storage.unified_log import Ending, Opening, Progress, WritableLog


def open_log(
    path: str | os.PathLike[str],
    mode: str = "r",
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
    return _Partition(directory).opened(config, Opening(progress=progress, decompression_limit=limit))


class _Partition:
    """A partition directory to be opened for writing."""

    def __init__(self, directory: Path) -> None:
        real = real_path(directory)
        partition = partition_of_dir(real.name)
        if directory.is_file():
            raise NotADirectoryError(errno.ENOTDIR, "a partition directory is needed", str(directory))
        if partition is None:
            raise NotALogError(f"{real.name!r} is no partition's directory: <topic>-<number>", str(directory))
        self.directory = directory
        self.partition: TopicPartition = partition
        self.data_dir = real.parent

    @property
    def is_new(self) -> bool:
        """Whether the partition has no segment yet."""
        return not self.directory.exists() or not segment_files(self.directory)

    def opened(self, config: LogConfig | None, opening: Opening) -> WritableLog:
        make_directory(self.data_dir)
        # Report damaged checkpoints and metadata before anything is changed.
        read_checkpoints(self.data_dir)
        if self.is_new:
            topic_id_in(self.data_dir, self.partition.topic)
        session = Session(DirectoryLock.of_partition(self.directory))
        try:
            topic_id = session.settle_topic_id(self.directory) if self.is_new else None
            return self._loaded(session, config, replace(opening, topic_id=topic_id))
        except BaseException:
            session.end(str(self.partition), in_order=False)
            raise

    def _loaded(self, session: Session, config: LogConfig | None, opening: Opening) -> WritableLog:
        checkpoints, name = read_checkpoints(self.data_dir), str(self.partition)

        def at_end(log: Log, ending: Ending) -> None:
            in_order = False
            try:
                if ending is Ending.CLOSED:
                    session.update_checkpoints([log])
                elif ending is Ending.DELETED:
                    session.forget_partition(self.partition)
                in_order = ending is not Ending.ABANDONED
            finally:
                session.end(name, in_order=in_order)

        opening = replace(
            opening,
            had_clean_shutdown=self.is_new or session.is_whole(name),
            log_start_offset=checkpoints.log_starts.get(self.partition, 0),
            recovery_point=checkpoints.recovery_points.get(self.partition, 0),
            ensure_alone=session.lock.ensure_held,
            at_truncation=lambda log: session.update_checkpoints([log]),
            at_end=at_end,
        )
        log = WritableLog.load(self.directory, config, opening)
        log.update_high_watermark(checkpoints.high_watermarks.get(self.partition, log.log_end_offset))
        return log
