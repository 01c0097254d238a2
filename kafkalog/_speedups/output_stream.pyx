"""`BufferingOutputStream`: bytes written one after the other into linked segments of one fixed size.

    segment [written....|free] -> segment [written....|free] -> ...

A full segment is followed by a new one and never written to again, except where bytes of it were reserved: a length
or a checksum stands before what it speaks of, so its place is stepped over (`reserve`) and filled once the rest is
known. Integers are big-endian; varints are zig-zag LEB128. A call either writes all it was given or raises before the
first byte. Source: core/.../message/MessageWriter.scala (0.10), `BufferingOutputStream`.

No Python code may run between looking at a segment and writing to it: what it did to the stream would be written over.
So arguments become C numbers first, and segments are made in a way that cannot start the garbage collector.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.number cimport PyNumber_AsSsize_t, PyNumber_Index
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kafkalog._speedups.put cimport VARLONG_BYTES, store_big_endian, store_varlong

import errno
import io

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    Py_ssize_t Py_REFCNT(object value)

cdef enum:
    # Taking more than so many bytes is first asked for in one piece.
    LARGE = 1 << 24


cdef int64_t integer(object value) except? -1:
    """TypeError: no integer; a float is none. OverflowError: more than 64 bits."""
    return value if PyLong_CheckExact(value) else PyNumber_Index(value)


cdef uint64_t checked(object value, int64_t least, int64_t most) except? 0:
    """The bits of `value`. OverflowError: outside [least, most]."""
    cdef int64_t number = integer(value)
    if not least <= number <= most:
        raise OverflowError(f"{number} is outside [{least}, {most}]")
    return <uint64_t> number


cdef Py_ssize_t index(object value) except? -1:
    """A length or a place. IndexError: more than any memory has."""
    return PyNumber_AsSsize_t(value, IndexError)


@cython.final
@cython.no_gc
@cython.auto_pickle(False)
cdef class Segment:
    """`size` bytes, of which the first `written` are taken, and what follows it."""

    cdef uint8_t* bytes
    cdef Py_ssize_t size
    cdef Py_ssize_t written
    cdef Segment next

    def __dealloc__(self):
        cdef Segment follower = self.next
        cdef Segment next
        PyMem_Free(self.bytes)
        self.next = None
        # One by one: left to themselves, the followers would go in a recursion as deep as the stream is long.
        while follower is not None and Py_REFCNT(follower) == 1:
            next = follower.next
            follower.next = None
            follower = next
            next = None

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        # Lent read-only; what has been written does not move, and the view keeps this segment alive.
        PyBuffer_FillInfo(buffer, self, self.bytes, self.written, 1, flags)


cdef Segment new_segment(Py_ssize_t size):
    cdef Segment segment = Segment.__new__(Segment)
    segment.bytes = <uint8_t*> PyMem_Malloc(size)
    if segment.bytes == NULL:
        raise MemoryError()
    segment.size = size
    return segment


cdef int check_memory(Py_ssize_t length) except -1:
    """MemoryError at once, and not only after the machine's last byte has been taken segment by segment."""
    cdef void* probe
    if length > LARGE:
        probe = PyMem_Malloc(length)
        if probe == NULL:
            raise MemoryError(f"no memory for {length} bytes")
        PyMem_Free(probe)
    return 0


cdef class _Output:
    """The writes that a stream and a reservation share; `put` says where they go."""

    cdef int put(self, const uint8_t* data, Py_ssize_t length) except -1:
        raise NotImplementedError

    cdef int put_integer(self, uint64_t value, int size) except -1:
        cdef uint8_t place[8]
        return self.put(place, store_big_endian(place, value, size))

    def write(self, data, offset=0, length=None):
        """data[offset:offset + length] (None: to its end), of anything that lends its bytes in one piece.

        IndexError: a range that `data` does not hold; nothing is written.
        """
        cdef Py_ssize_t start = index(offset)
        cdef Py_ssize_t wanted = -1 if length is None else index(length)
        cdef Py_buffer lent
        if length is not None and wanted < 0:
            raise IndexError(f"{wanted} bytes")
        PyObject_GetBuffer(data, &lent, PyBUF_SIMPLE)
        try:
            self.put_range(<const uint8_t*> lent.buf, lent.len, start, wanted)
        finally:
            PyBuffer_Release(&lent)

    cdef int put_range(self, const uint8_t* data, Py_ssize_t size, Py_ssize_t start, Py_ssize_t wanted) except -1:
        """`wanted` bytes from `start` on; -1: all that follow."""
        if not 0 <= start <= size or wanted > size - start:
            raise IndexError(f"{max(0, wanted)} bytes from {start} on of {size} bytes")
        if wanted < 0:
            wanted = size - start
        return self.put(data + start, wanted) if wanted else 0

    def write_byte(self, value):
        """One byte, -128..255. OverflowError: outside."""
        self.put_integer(checked(value, -128, 255), 1)

    def write_short(self, value):
        """Two bytes, signed or unsigned. OverflowError: outside."""
        self.put_integer(checked(value, -0x8000, 0xFFFF), 2)

    def write_int(self, value):
        """Four bytes, signed or unsigned. OverflowError: outside."""
        self.put_integer(checked(value, -0x80000000, 0xFFFFFFFF), 4)

    def write_long(self, value):
        """Eight bytes, signed. OverflowError: outside."""
        self.put_integer(<uint64_t> integer(value), 8)

    def write_varint(self, value):
        """A signed 32-bit integer in one to five bytes. OverflowError: outside."""
        cdef uint8_t place[VARLONG_BYTES]
        self.put(place, store_varlong(place, <int64_t> checked(value, -0x80000000, 0x7FFFFFFF)))

    def write_varlong(self, value):
        """A signed 64-bit integer in one to ten bytes. OverflowError: outside."""
        cdef uint8_t place[VARLONG_BYTES]
        self.put(place, store_varlong(place, integer(value)))

    def __reduce__(self):
        # A copy would share the segments and not the count of what is in them.
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")


cdef class BufferingOutputStream(_Output):
    """BufferingOutputStream(segment_size)\n--\n
    Bytes written into linked segments of `segment_size` bytes each. `size`: how many so far. ValueError: segment_size
    is less than 1.
    """

    cdef Segment first
    cdef Segment last
    cdef readonly Py_ssize_t segment_size
    cdef readonly Py_ssize_t size

    def __init__(self, Py_ssize_t segment_size):
        if segment_size < 1:
            raise ValueError(f"segment_size is {segment_size}, at least 1 is needed")
        self.segment_size = segment_size
        self.size = 0
        self.first = self.last = new_segment(segment_size)

    cdef int check_begun(self) except -1:
        """RuntimeError: a subclass has forgotten to call `__init__`."""
        if self.last is None:
            raise RuntimeError("BufferingOutputStream.__init__ has not been called")
        return 0

    cdef int make_room(self, Py_ssize_t length) except -1:
        """Link as many new segments as `length` more bytes need, so that nothing can fail half-way."""
        cdef Py_ssize_t room = self.last.size - self.last.written
        cdef Segment tail = self.last
        cdef Segment head = None
        cdef Segment new
        if length > PY_SSIZE_T_MAX - self.size - self.segment_size:
            raise MemoryError(f"no memory for {length} bytes")
        check_memory(length)
        while room < length:
            new = new_segment(self.segment_size)
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
        self.check_begun()
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

    def skip(self, length):
        """Step over `length` bytes, which are zero until a reservation fills them. IndexError: length < 0."""
        self.step_over(index(length))

    cdef int step_over(self, Py_ssize_t length) except -1:
        if length < 0:
            raise IndexError(f"{length} bytes")
        return self.advance(NULL, length)

    def reserve(self, length):
        """Step over `length` bytes and give the `ReservedOutput` that fills them later. IndexError: length < 0."""
        cdef Py_ssize_t amount = index(length)
        cdef ReservedOutput reserved = ReservedOutput.__new__(ReservedOutput)
        self.check_begun()
        reserved.segment = self.last
        reserved.at = self.last.written
        # Counted last: should there be no memory, the reservation fills nothing.
        self.step_over(amount)
        reserved.remaining = amount
        return reserved

    def pieces(self, start=0):
        """The bytes from `start` on, as a list of read-only memoryviews; they stay valid. IndexError: no such start."""
        cdef Segment segment = self.first
        cdef list found = []
        cdef Py_ssize_t before = index(start)
        if not 0 <= before <= self.size:
            raise IndexError(f"start {before} of {self.size} bytes")
        while segment is not None and segment.written:
            if before < segment.written:
                found.append(memoryview(segment)[before:])
            before = max(0, before - segment.written)
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

        IndexError: the buffer is shorter; nothing is written. OSError: as the file raises it; BlockingIOError: it
        takes no more, `characters_written` tells how many bytes it took.
        """
        cdef uint8_t[::1] place
        if hasattr(target, "write"):
            return write_pieces(target, self.pieces())
        place = memoryview(target).cast("B")
        if place.shape[0] < self.size:
            raise IndexError(f"{self.size} bytes do not fit into {place.shape[0]}")
        if self.size:
            self.copy_to(&place[0])
        return self.size

    def __len__(self):
        return self.size


cdef object write_pieces(object file, list pieces):
    total = 0
    for piece in pieces:
        try:
            write_whole(file, piece)
        except BlockingIOError as error:
            error.characters_written += total
            raise
        total += len(piece)
    return total


def count_taken(target, answer, length):
    """How many of `length` bytes `target` has taken, by what its `write` or `send` returned.

    None is "nothing now" from a raw file, which does not wait, and "all of it" from others, which do not count.
    OSError: fewer than none, or more than there were.
    """
    if answer is None:
        return 0 if isinstance(target, io.RawIOBase) else length
    if not 0 <= answer <= length:
        raise OSError(errno.EIO, f"{type(target).__name__} says that it took {answer} of {length} bytes")
    return answer


def write_whole(file, piece):
    """Write all of `piece` to an open binary file, also to a raw one that takes only some at a time.

    BlockingIOError: it takes no more now; `characters_written` tells how many bytes it took.
    """
    total = 0
    while piece:
        try:
            taken = count_taken(file, file.write(piece), len(piece))
        except BlockingIOError as error:
            error.characters_written = total + getattr(error, "characters_written", 0)
            raise
        if not taken:
            raise BlockingIOError(errno.EAGAIN, "the file takes no more", total)
        total += taken
        piece = piece[taken:]


@cython.final
cdef class ReservedOutput(_Output):
    """Bytes of a stream that were stepped over, to be filled in order. `remaining`: how many are not yet.

    IndexError: a write of more than remain; nothing of it is written.
    """

    # With it, all that follow it live on, whatever becomes of the stream.
    cdef Segment segment
    cdef Py_ssize_t at
    cdef readonly Py_ssize_t remaining

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
