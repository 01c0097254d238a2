"""`BufferingOutputStream`: bytes written one after the other into linked segments of one fixed size.

    segment [written....|free] -> segment [written....|free] -> ...

A full segment is followed by a new one and never written to again, except where bytes of it were reserved: a length
or a checksum stands before what it speaks of, so its place is stepped over (`reserve`) and filled once the rest is
known. Integers are big-endian; varints are zig-zag LEB128. A call either writes all it was given or raises before the
first byte. Source: core/.../message/MessageWriter.scala (0.10), `BufferingOutputStream`.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kafkalog._speedups.store cimport VARLONG_BYTES, store_big_endian, store_varlong


cdef uint64_t checked(int64_t value, int64_t least, int64_t most) except? 0:
    """The bits of `value`. OverflowError: outside [least, most]."""
    if not least <= value <= most:
        raise OverflowError(f"{value} is outside [{least}, {most}]")
    return <uint64_t> value


cdef Py_ssize_t checked_range(Py_ssize_t size, Py_ssize_t offset, object length) except -1:
    """How many bytes [offset, offset + length) are (length None: to the end). IndexError: not all of them are there."""
    cdef object wanted = size - offset if length is None else length
    if offset < 0 or wanted < 0 or offset + wanted > size:
        raise IndexError(f"{wanted} bytes from {offset} of {size} bytes")
    return wanted


@cython.final
cdef class Segment:
    """`size` bytes, of which the first `written` are taken, and what follows it."""

    cdef uint8_t* bytes
    cdef Py_ssize_t size
    cdef Py_ssize_t written
    cdef Segment next

    def __cinit__(self, Py_ssize_t size):
        self.bytes = <uint8_t*> PyMem_Malloc(size)
        if self.bytes == NULL:
            raise MemoryError()
        self.size = size

    def __dealloc__(self):
        PyMem_Free(self.bytes)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # Lent read-only; what has been written does not move, and the view keeps this segment alive.
        PyBuffer_FillInfo(buffer, self, self.bytes, self.written, 1, flags)


cdef class _Output:
    """The writes that a stream and a reservation share; `put` says where they go."""

    cdef int put(self, const uint8_t* data, Py_ssize_t length) except -1:
        raise NotImplementedError

    cdef int put_integer(self, uint64_t value, int size) except -1:
        cdef uint8_t place[8]
        return self.put(place, store_big_endian(place, value, size))

    def write(self, const uint8_t[::1] data not None, Py_ssize_t offset=0, length=None):
        """data[offset:offset + length] (None: to its end).

        IndexError: a range that `data` does not hold; nothing is written.
        """
        cdef Py_ssize_t wanted = checked_range(data.shape[0], offset, length)
        if wanted:
            self.put(&data[offset], wanted)

    def write_byte(self, int64_t value):
        """One byte, -128..255. OverflowError: outside."""
        self.put_integer(checked(value, -128, 255), 1)

    def write_short(self, int64_t value):
        """Two bytes, signed or unsigned. OverflowError: outside."""
        self.put_integer(checked(value, -0x8000, 0xFFFF), 2)

    def write_int(self, int64_t value):
        """Four bytes, signed or unsigned. OverflowError: outside."""
        self.put_integer(checked(value, -0x80000000, 0xFFFFFFFF), 4)

    def write_long(self, int64_t value):
        """Eight bytes, signed. OverflowError: outside."""
        self.put_integer(<uint64_t> value, 8)

    def write_varint(self, int64_t value):
        """A signed 32-bit integer in one to five bytes. OverflowError: outside."""
        cdef uint8_t place[VARLONG_BYTES]
        self.put(place, store_varlong(place, <int64_t> checked(value, -0x80000000, 0x7FFFFFFF)))

    def write_varlong(self, int64_t value):
        """A signed 64-bit integer in one to ten bytes. OverflowError: outside."""
        cdef uint8_t place[VARLONG_BYTES]
        self.put(place, store_varlong(place, value))


cdef class BufferingOutputStream(_Output):
    """Bytes written into linked segments of `segment_size` bytes each. ValueError: segment_size < 1."""

    cdef Segment first
    cdef Segment last
    cdef readonly Py_ssize_t segment_size
    cdef readonly Py_ssize_t size

    def __init__(self, Py_ssize_t segment_size):
        if segment_size < 1:
            raise ValueError(f"segment_size is {segment_size}, at least 1 is needed")
        self.segment_size = segment_size
        self.size = 0
        self.first = self.last = Segment(segment_size)

    cdef int make_room(self, Py_ssize_t length) except -1:
        """Link as many new segments as `length` more bytes need, so that nothing can fail half-way."""
        cdef Py_ssize_t room = self.last.size - self.last.written
        cdef Segment tail = self.last
        cdef Segment head = None
        cdef Segment new
        while room < length:
            new = Segment(self.segment_size)
            if head is None:
                head = new
            else:
                tail.next = new
            tail = new
            room += new.size
        if head is not None:
            self.last.next = head
        return 0

    cdef int advance(self, const uint8_t* data, Py_ssize_t length) except -1:
        """Take `length` bytes of room, filling them from `data` unless that is NULL."""
        cdef Py_ssize_t amount
        self.make_room(length)
        self.size += length
        while length > 0:
            if self.last.written == self.last.size:
                self.last = self.last.next
            amount = min(self.last.size - self.last.written, length)
            if data != NULL:
                memcpy(self.last.bytes + self.last.written, data, amount)
                data += amount
            else:
                memset(self.last.bytes + self.last.written, 0, amount)
            self.last.written += amount
            length -= amount
        return 0

    cdef int put(self, const uint8_t* data, Py_ssize_t length) except -1:
        return self.advance(data, length)

    def skip(self, Py_ssize_t length):
        """Step over `length` bytes, which are zero until a reservation fills them. IndexError: length < 0."""
        if length < 0:
            raise IndexError(f"cannot skip {length} bytes")
        self.advance(NULL, length)

    def reserve(self, Py_ssize_t length):
        """Step over `length` bytes and give the `ReservedOutput` that fills them later. IndexError: length < 0."""
        cdef ReservedOutput reserved = ReservedOutput.__new__(ReservedOutput)
        reserved.segment = self.last
        reserved.at = self.last.written
        reserved.remaining = length
        reserved.stream = self
        self.skip(length)
        return reserved

    def pieces(self, Py_ssize_t start=0):
        """The bytes from `start` on, as a list of read-only memoryviews; they stay valid. IndexError: no such start."""
        cdef Segment segment = self.first
        cdef list found = []
        if not 0 <= start <= self.size:
            raise IndexError(f"start {start} of {self.size} bytes")
        while segment is not None and segment.written:
            if start < segment.written:
                found.append(memoryview(segment)[start:])
            start = max(0, start - segment.written)
            segment = segment.next
        return found

    def to_bytes(self):
        """All bytes written, copied."""
        cdef bytes result = PyBytes_FromStringAndSize(NULL, self.size)
        self.copy_to(<uint8_t*> PyBytes_AS_STRING(result))
        return result

    cdef void copy_to(self, uint8_t* place) noexcept:
        cdef Segment segment = self.first
        while segment is not None:
            memcpy(place, segment.bytes, segment.written)
            place += segment.written
            segment = segment.next

    def write_to(self, target):
        """Copy all bytes to the front of a writable buffer, or write them to a binary file. Returns how many.

        IndexError: the buffer is shorter; nothing is written. OSError: as the file raises it.
        """
        cdef uint8_t[::1] place
        if hasattr(target, "write"):
            for piece in self.pieces():
                write_whole(target, piece)
            return self.size
        place = memoryview(target).cast("B")
        if place.shape[0] < self.size:
            raise IndexError(f"{self.size} bytes do not fit into {place.shape[0]}")
        if self.size:
            self.copy_to(&place[0])
        return self.size

    def __len__(self):
        return self.size


def write_whole(file, piece):
    """Write all of `piece` to an open binary file, also to a raw one that takes only some at a time."""
    while piece:
        taken = file.write(piece)
        if taken is None:
            raise BlockingIOError("the file would block")
        piece = piece[taken:]


@cython.final
cdef class ReservedOutput(_Output):
    """Bytes of a stream that were stepped over, to be filled in order. `remaining`: how many are not yet."""

    cdef Segment segment
    cdef Py_ssize_t at
    cdef readonly Py_ssize_t remaining
    # Keeps the stream's memory alive.
    cdef BufferingOutputStream stream

    def __init__(self):
        raise TypeError("a ReservedOutput comes from BufferingOutputStream.reserve")

    cdef int put(self, const uint8_t* data, Py_ssize_t length) except -1:
        cdef Py_ssize_t amount
        if length > self.remaining:
            raise IndexError(f"{length} bytes do not fit into the {self.remaining} that are reserved")
        self.remaining -= length
        while length > 0:
            if self.at == self.segment.size:
                self.segment = self.segment.next
                self.at = 0
            amount = min(self.segment.size - self.at, length)
            memcpy(self.segment.bytes + self.at, data, amount)
            data += amount
            self.at += amount
            length -= amount
        return 0
