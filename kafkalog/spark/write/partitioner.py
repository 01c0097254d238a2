"""Which partition a record goes to, as Kafka's default partitioner has it.

    key       murmur2(key) with its sign bit off, modulo the number of partitions
    no key    one partition until about a batch's bytes are in it, then the next: the batches stay full

Kafka goes on to a partition drawn at random; here it is the next one, so that a task that is run again writes the same.

murmur2 takes four bytes at a time, little-endian, and up to three that are left. Over many keys that is one step of
numpy for all first words, one for all second words, and so on. Source: clients/.../common/utils/Utils.java,
clients/.../producer/internals/BuiltInPartitioner.java.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF
# So few keys are hashed sooner one by one.
_FEW = 8


def murmur2(data: bytes) -> int:
    """Kafka's hash of these bytes, a signed 32-bit number."""
    value = _rest(_SEED ^ len(data), data)
    return value - (1 << 32) if value > _POSITIVE else value


def partition_of_key(key: bytes, partitions: int) -> int:
    """The partition of a record with this key, of so many."""
    return (murmur2(key) & _POSITIVE) % partitions


def _rest(value: int, data: bytes) -> int:
    """The hash after the bytes that are left, given what it is after those before."""
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        word = (word ^ word >> _R) * _M & _MASK
        value = value * _M & _MASK ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def murmur2_of(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """`murmur2` of the keys that lie at these places of `data`, all of them inside of it."""
    order = np.argsort(-lengths, kind="stable")
    places = _Places(data, starts[order], lengths[order])
    values = np.uint32(_SEED) ^ places.lengths.astype(np.uint32)
    done = 0
    while (left := places.longer_than(done)) > _FEW:
        _take_word(values[:left], places.words[places.starts[:left] + 4 * done])
        done += 1
    for i in range(left):
        values[i] = _rest(int(values[i]), places.bytes_from(i, 4 * done))
    _finish(values[left:], places, left)
    result = np.empty(len(order), np.uint32)
    result[order] = values
    return result.view(np.int32)


class _Places:
    """Where keys lie, the longest first. `words` has the four bytes that begin at each byte."""

    def __init__(self, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        # Room for a word at every byte, so that none is read beyond the end.
        self._bytes = np.concatenate([data, np.zeros(4, np.uint8)])
        self.words: NDArray[np.uint32] = np.ndarray((len(data) + 1,), "<u4", self._bytes, strides=(1,))
        self.starts, self.lengths = starts, lengths
        self._rising = -(lengths // 4)

    def longer_than(self, count: int) -> int:
        """How many keys have more than `count` whole words."""
        return int(np.searchsorted(self._rising, -count, "left"))

    def bytes_from(self, i: int, at: int) -> bytes:
        start = int(self.starts[i])
        return self._bytes[start + at : start + int(self.lengths[i])].tobytes()


def _take_word(values: NDArray[np.uint32], word: NDArray[np.uint32]) -> None:
    word *= np.uint32(_M)
    word ^= word >> np.uint32(_R)
    word *= np.uint32(_M)
    values *= np.uint32(_M)
    values ^= word


def _finish(values: NDArray[np.uint32], places: _Places, first: int) -> None:
    """Of the keys from `first` on: the up to three bytes that are left, and the last stirring."""
    starts, lengths = places.starts[first:], places.lengths[first:]
    left = lengths & 3
    tail = places.words[starts + lengths - left] & ((1 << (left * 8)) - 1).astype(np.uint32)
    values[:] = np.where(left > 0, (values ^ tail) * np.uint32(_M), values)
    values ^= values >> np.uint32(13)
    values *= np.uint32(_M)
    values ^= values >> np.uint32(15)


class Partitioner:
    """Assigns the records of one task to partitions, batch by batch.

    sticky_bytes: so many bytes of records without a key go to one partition before the next one has its turn. first:
    where they begin; another one for each task, so that not all of them begin in the same partition.
    """

    def __init__(self, sticky_bytes: int, first: int = 0) -> None:
        self._sticky_bytes = sticky_bytes
        self._first = first
        self._bytes = 0

    def assign(
        self, keys: "BinaryColumn", sizes: NDArray[np.int64], partitions: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """The partition of each record. sizes: bytes of each record; partitions: of how many, for each."""
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
    """Where the values of a column lie in `data`; a length of -1 is null."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, array: "pa.Array") -> "BinaryColumn":
        """Of an Arrow array, binary or large_binary; its bytes are not copied."""
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
        """So many nulls."""
        return cls(np.zeros(0, np.uint8), np.zeros(count, np.int64), np.full(count, -1, np.int64))

    def where(self, chosen: NDArray[np.bool_]) -> "BinaryColumn":
        """Some of the values."""
        return BinaryColumn(self.data, self.starts[chosen], self.lengths[chosen])
