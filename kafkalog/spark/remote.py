"""Partitions in a remote store, read by ranges through fsspec (the extra `remote`)."""

from collections.abc import Iterator
from typing import NoReturn

from kafkalog.spark.partition import PartitionSource
from kafkalog.spark.window import Window
from kafkalog.storage.transaction_index import AbortedTxn


def _refuse(path: str) -> NoReturn:
    raise ValueError(f"option path: {path!r} is not on this machine, and other stores are not read yet")


def remote_partitions(path: str) -> Iterator[PartitionSource]:
    """The partitions that a URL leads to."""
    _refuse(path)


def remote_aborted_txns(path: str, first: int, end: int) -> Iterator[AbortedTxn]:
    """The aborted transactions from a segment on that have records in [first, end)."""
    del first, end
    _refuse(path)


class RemoteWindow(Window):
    """Of a file in a remote store."""

    def __init__(self, path: str) -> None:
        _refuse(path)

    def _load(self, position: int, length: int) -> tuple[int, memoryview]:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""
