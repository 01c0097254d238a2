"""Compare two replicas of a partition: do they have the same batches up to where the shorter one ends?

python examples/compare_replicas.py broker-1/orders-0 broker-2/orders-0

Exit code 0: they do; 1: they differ. Followers store the bytes of their leader, so checksums are enough.
"""

import sys
from itertools import zip_longest

import kafkalog
from kafkalog import RecordBatch


def figures(batch: RecordBatch | None) -> tuple[int, int, int, int] | None:
    """Return what two equal batches have in common: offsets, leader epoch, checksum."""
    if batch is None:
        return None
    return batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.checksum


def main(first: str, second: str) -> int:
    """Print the first difference, or what both have."""
    with kafkalog.open(first) as one, kafkalog.open(second) as other:
        start = max(one.log_start_offset, other.log_start_offset)
        end = min(one.log_end_offset, other.log_end_offset)
        if start >= end:
            print("no offset is in both")
            return 1
        for left, right in zip_longest(one.batches(start, end), other.batches(start, end)):
            if figures(left) != figures(right):
                print(f"{first} and {second} differ: {figures(left)} and {figures(right)}")
                return 1
        print(f"the same batches from {start} to {end}; the ends are {one.log_end_offset} and {other.log_end_offset}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
