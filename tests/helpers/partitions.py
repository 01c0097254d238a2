"""The partitions that brokers wrote, as cases of a test: all in its tier, or a fifth, and the others in `slow`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.helpers.golden import Partition, checked_partitions, partitions

# Of so many partitions one is in the fast tier.
ONE_IN = 5


def _cases(chosen: Iterable[Partition], one_in: int) -> pytest.MarkDecorator:
    """Parametrise `partition`; but for one in `one_in`, cases are slow."""
    cases = [
        pytest.param(partition, id=partition.id, marks=() if number % one_in == 0 else pytest.mark.slow)
        for number, partition in enumerate(chosen)
    ]
    return pytest.mark.parametrize("partition", cases)


every_partition = _cases(checked_partitions(), 1)
sampled_partition = _cases(checked_partitions(), ONE_IN)
# With the one that Kafka's own tool does not print record by record: __cluster_metadata.
sampled_of_all_partitions = _cases(partitions(), ONE_IN)

ARCHIVES = sorted({partition.archive for partition in checked_partitions()})
# The oldest format, and the newest after a crash; the others are slow.
FAST_ARCHIVES = {"kafka-0.8.2", "kafka-3.9-crash"}
sampled_archive = pytest.mark.parametrize(
    "archive", [pytest.param(name, marks=() if name in FAST_ARCHIVES else pytest.mark.slow) for name in ARCHIVES]
)
