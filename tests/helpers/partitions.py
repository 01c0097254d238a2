"""The partitions that brokers wrote, as cases of a test: all in its tier, or a third, and the others in `slow`."""

from __future__ import annotations

import pytest

from tests.helpers.golden import checked_partitions

# Of so many partitions one is in the fast tier.
ONE_IN = 3

every_partition = pytest.mark.parametrize("partition", checked_partitions(), ids=lambda partition: partition.id)
sampled_partition = pytest.mark.parametrize(
    "partition",
    [
        pytest.param(partition, id=partition.id, marks=() if number % ONE_IN == 0 else pytest.mark.slow)
        for number, partition in enumerate(checked_partitions())
    ],
)
