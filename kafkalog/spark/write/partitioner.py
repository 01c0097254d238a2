"""The partition of a record, chosen as Kafka's default partitioner does.

    key       murmur2(key) without its sign bit, modulo the number of partitions
    no key    one partition for about the bytes of a batch, then the next: batches are full

Kafka continues with a random partition; here it is the next one, so that a repeated task writes the same files.

murmur2 hashes four bytes at a time, little-endian, and then up to three remaining ones. For many keys this is one step
of numpy for the first words of all keys, one for the second words, and so on.

Source: clients/.../common/utils/Utils.java, clients/.../producer/internals/BuiltInPartitioner.java.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_POSITIVE = 0x7FFFFFFF


def murmur2_of(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return Kafka's hash of the keys at these places in `data`."""
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    # Padding, so that a word at the last byte is not read beyond the end.
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    # The little-endian word that begins at each byte.
    words: NDArray[np.uint32] = np.ndarray((len(data) + 1,), "<u4", padded, strides=(1,))
    values = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    rising, done = -(lengths // 4), 0
    # The keys with more than `done` whole words.
    while left := int(np.searchsorted(rising, -done, "left")):
        _take_word(values[:left], words[starts[:left] + 4 * done])
        done += 1
    _finish(values, words, starts, lengths)
    result = np.empty(len(order), np.uint32)
    result[order] = values
    return result.view(np.int32)


def _take_word(values: NDArray[np.uint32], word: NDArray[np.uint32]) -> None:
    """Update the hashes with a word of each key."""
    word *= np.uint32(_M)
    word ^= word >> np.uint32(_R)
    word *= np.uint32(_M)
    values *= np.uint32(_M)
    values ^= word


def _finish(
    values: NDArray[np.uint32], words: NDArray[np.uint32], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> None:
    """Finish the hashes: hash up to three remaining bytes, and mix."""
    left = lengths & 3
    tail = words[starts + lengths - left] & ((1 << (left * 8)) - 1).astype(np.uint32)
    values[:] = np.where(left > 0, (values ^ tail) * np.uint32(_M), values)
    values ^= values >> np.uint32(13)
    values *= np.uint32(_M)
    values ^= values >> np.uint32(15)


class Partitioner:
    """Assigns the records of one task to partitions, batch by batch.

    Args:
        sticky_bytes: The bytes of records without a key that go to one partition before the next.
        first: The first partition for them; it differs between tasks, so that they do not all begin with the same one.
    """

    def __init__(self, sticky_bytes: int, first: int = 0) -> None:
        self._sticky_bytes = sticky_bytes
        self._first = first
        self._bytes = 0

    def assign(
        self, keys: "BinaryColumn", sizes: NDArray[np.int64], partitions: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Return the partition of each record.

        Args:
            keys: The keys.
            sizes: The size of each record, bytes.
            partitions: The number of partitions of each record's topic.
        """
        hashes = murmur2_of(keys.data, keys.starts, np.maximum(keys.lengths, 0))
        assigned = (hashes & np.int32(_POSITIVE)) % partitions
        without = keys.lengths < 0
        if without.any():
            before = self._bytes + np.cumsum(sizes[without]) - sizes[without]
            turn = self._first + before // self._sticky_bytes
            assigned[without] = turn % partitions[without]
            self._bytes += int(sizes[without].sum())
        return assigned.astype(np.int32, copy=False)


class BinaryColumn(NamedTuple):
    """The places of a column's values in `data`; a length of -1 is null."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, array: "pa.Array") -> "BinaryColumn":
        """Create a column from a binary or large_binary Arrow array without copying its bytes."""
        import pyarrow as pa

        count, (_, offsets, data) = len(array), array.buffers()
        if not count or offsets is None:
            return cls(np.zeros(0, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64))
        dtype = np.dtype(np.int64 if pa.types.is_large_binary(array.type) else np.int32)
        found = np.frombuffer(offsets, dtype, count + 1, array.offset * dtype.itemsize).astype(np.int64)
        lengths = np.diff(found)
        if array.null_count:
            lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
        every = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        return cls(every[found[0] : found[-1]], found[:-1] - found[0], lengths)

    @classmethod
    def of_nulls(cls, count: int) -> "BinaryColumn":
        """Create a column of `count` nulls."""
        return cls(np.zeros(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64))

    def where(self, chosen: NDArray[np.bool_]) -> "BinaryColumn":
        """Return the chosen values."""
        return BinaryColumn(self.data, self.starts[chosen], self.lengths[chosen])
