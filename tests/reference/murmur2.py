"""Kafka's hash of keys in plain Python: clients/.../common/utils/Utils.java, `murmur2`."""

from __future__ import annotations

SEED, M, MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash, a signed 32-bit number."""
    value = SEED ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * M & MASK
        word = (word ^ word >> 24) * M & MASK
        value = value * M & MASK ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * M & MASK
    value = (value ^ value >> 13) * M & MASK
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
