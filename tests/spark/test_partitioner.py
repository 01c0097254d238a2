"""Records go to the partitions that Kafka's own producer would send them to."""

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.spark.write.partitioner import BinaryColumn, Partitioner, murmur2_of
from tests.reference.murmur2 import murmur2, partition_of_key

# What Kafka's own tests expect of its hash (clients/.../common/utils/UtilsTest.java).
KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def hashes(keys: list[bytes]) -> list[int]:
    column = BinaryColumn.of(pa.array(keys, pa.binary()))
    return list(murmur2_of(column.data, column.starts, column.lengths).tolist())


@pytest.mark.parametrize("key", KAFKAS)
def test_a_keys_hash_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == KAFKAS[key]
    assert hashes([key] * 20) == [KAFKAS[key]] * 20


@given(st.lists(st.binary(max_size=70), max_size=40), st.integers(0, 5))
def test_many_keys_at_once_hash_as_each_alone(keys: list[bytes], skipped: int) -> None:
    column = BinaryColumn.of(pa.array(keys, pa.binary()).slice(skipped))
    found = murmur2_of(column.data, column.starts, column.lengths)
    assert found.tolist() == [murmur2(key) for key in keys[skipped:]]


def test_a_few_very_long_keys_among_many_short_ones_hash_the_same() -> None:
    draw = random.Random(5)
    keys = [draw.randbytes(draw.choice([0, 3, 8, 9, 20_001])) for _ in range(60)]
    assert hashes(keys) == [murmur2(key) for key in keys]


def assigned(partitioner: Partitioner, keys: list[bytes | None], partitions: int, size: int = 10) -> list[int]:
    column = BinaryColumn.of(pa.array(keys, pa.large_binary()))
    counts = np.full(len(keys), partitions, np.int32)
    return list(partitioner.assign(column, np.full(len(keys), size, np.int64), counts).tolist())


@given(st.lists(st.binary(max_size=9), max_size=30), st.integers(1, 1000))
def test_a_keys_partition_is_never_negative_and_depends_on_the_key_alone(keys: list[bytes], partitions: int) -> None:
    found = assigned(Partitioner(1), list(keys), partitions)
    assert found == [partition_of_key(key, partitions) for key in keys]
    assert all(0 <= each < partitions for each in found)


def test_records_without_a_key_fill_one_partition_before_the_next_has_its_turn() -> None:
    partitioner = Partitioner(sticky_bytes=30, first=2)
    assert assigned(partitioner, [None] * 5, 3) == [2, 2, 2, 0, 0]
    assert assigned(partitioner, [None] * 3, 3) == [0, 1, 1]


def test_records_with_a_key_do_not_move_those_without_one_on() -> None:
    key = partition_of_key(b"k", 4)
    assert assigned(Partitioner(20), [None, b"k", None, b"k", None], 4) == [0, key, 0, key, 1]


def test_an_empty_key_is_a_key() -> None:
    assert assigned(Partitioner(20), [b""], 7) == [partition_of_key(b"", 7)]
