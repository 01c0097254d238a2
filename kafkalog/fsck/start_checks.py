"""Checks of what keeps a broker from starting, without reading segments: `obstacles` of a data directory."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from kafkalog.errors import CorruptIndexError, KafkaLogError
from kafkalog.fsck.checkpoint_checks import Checkpoints
from kafkalog.fsck.consequences import Consequence
from kafkalog.fsck.findings import Finding, unreadable
from kafkalog.fsck.layout_checks import Names, directory_layout, names_in, partition_layout
from kafkalog.fsck.producer_checks import transaction_index_fault
from kafkalog.fsck.state_checks import of_error
from kafkalog.storage.checkpoint.leader_epoch_cache import LeaderEpochCache
from kafkalog.storage.checkpoint.partition_metadata_file import read_partition_metadata
from kafkalog.storage.data_dir.discover import DataDir, PartitionDir
from kafkalog.storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    TXN_INDEX_SUFFIX,
    segment_base_offset,
)
from kafkalog.storage.index.transaction_index import TransactionIndex


def obstacles(place: DataDir) -> Iterator[Finding]:
    """Yield the findings about files and names in a data directory with which a broker does not start.

    Raises:
        OSError: A directory cannot be listed.
    """
    found = chain(
        Checkpoints(place.path).file_findings(),
        directory_layout(place.path, names_in(place.path)),
        *map(obstacles_of_partition, place.partitions),
    )
    yield from (each for each in dict.fromkeys(found) if each.consequence is Consequence.NO_START)


def obstacles_of_partition(partition: PartitionDir) -> Iterator[Finding]:
    """Yield the findings about files of a partition with which a broker does not start, or that cannot be read.

    Raises:
        OSError: The partition cannot be listed.
    """
    names = names_in(partition.path)
    found = chain(start_findings(partition, names), partition_layout(partition.path, names))
    yield from (each for each in found if each.consequence is Consequence.NO_START or each.code == "unreadable")


def start_findings(partition: PartitionDir, names: Names) -> Iterator[Finding]:
    """Yield the findings about state files that a broker refuses, as a full check does, which also compares them."""
    directory = partition.path
    checks: list[tuple[Path, str, Callable[[Path], object]]] = [
        (directory / LEADER_EPOCH_CHECKPOINT, "leader-epoch-format", partial(LeaderEpochCache, writable=False)),
    ]
    if partition.mark is None:
        checks.append((directory / PARTITION_METADATA, "partition-metadata-format", read_partition_metadata))
    indexes = sorted(name for name in names.files if name.endswith(TXN_INDEX_SUFFIX))
    checks += [
        (directory / name, "", _read_transactions)
        for name in indexes
        if segment_base_offset(name.replace(TXN_INDEX_SUFFIX, LOG_SUFFIX)) is not None
    ]
    for path, code, read in checks:
        try:
            read(path)
        except OSError as error:
            yield unreadable(path, error)
        except CorruptIndexError as error:
            fault = transaction_index_fault(path, error)
            if fault.consequence is Consequence.NO_START:
                yield fault
        except KafkaLogError as error:
            yield of_error(code, path, error)


def _read_transactions(path: Path) -> None:
    index = TransactionIndex(path, int(path.stem), writable=False)
    index.sanity_check()
    for _ in index:
        pass
