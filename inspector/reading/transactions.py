"""The transactions of a partition: open, hanging, aborted."""

from __future__ import annotations

from inspector.reading.answers import Transactions
from kafkalog import Log


def transactions_of(log: Log) -> Transactions:
    """What snapshot, log and transaction indexes tell. OSError, KafkaLogError: they cannot be read."""
    raise NotImplementedError
