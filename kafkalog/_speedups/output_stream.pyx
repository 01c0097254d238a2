"""`BufferingOutputStream`: bytes written one after the other into segments of one fixed size.

    segment [written.....] -> segment [written.....] -> segment [written..|zeros]

A length or a checksum stands before the bytes that it describes: its place is reserved (`reserve`) and filled once
they are written. Integers are big-endian; varints are zig-zag LEB128. A call either writes all of its argument or
raises an error and writes nothing. Source: core/.../message/MessageWriter.scala (0.10), `BufferingOutputStream`.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_GET_BUFFER
from cpython.number cimport PyNumber_AsSsize_t, PyNumber_Index
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kafkalog._speedups.put cimport VARLONG_BYTES, store_big_endian, store_varlong

import errno
import io


cdef int64_t checked(object value, int64_t least, int64_t most) except? 0:
    """Return an integer as a C number.

    Raises:
        TypeError: It is not an integer.
        OverflowError: It is outside [least, most].
    """
    cdef int64_t number = PyNumber_Index(value)
    if not least <= number <= most:
        raise OverflowError(f"{number} is outside [{least}, {most}]")
    return number


cdef class _Output:
    """The methods that a stream and a reservation share."""

    # Memoryviews of bytearrays, each `segment_size` bytes long. While there is a view, a bytearray does not move.
    cdef list segments
    cdef readonly Py_ssize_t segment_size
    # The place of the next byte, counted from the start of the first segment.
    cdef Py_ssize_t at

    cdef int claim(self, Py_ssize_t length) except -1:
        """Make sure that the segments have room for `length` more bytes."""
        raise NotImplementedError

    cdef int put(self, const uint8_t* data, Py_ssize_t length) except -1:
        cdef Py_ssize_t start, amount
        cdef object segment
        self.claim(length)
        # From here on no Python code runs that could write to this output, too.
        while length > 0:
            segment = self.segments[self.at // self.segment_size]
            start = self.at % self.segment_size
            amount = min(self.segment_size - start, length)
            memcpy(<uint8_t*> PyMemoryView_GET_BUFFER(segment).buf + start, data, amount)
            self.at += amount
            data += amount
            length -= amount
        return 0

    cdef int put_integer(self, int64_t value, int size) except -1:
        cdef uint8_t place[8]
        return self.put(place, store_big_endian(place, <uint64_t> value, size))

    cdef int put_varlong(self, int64_t value) except -1:
        cdef uint8_t place[VARLONG_BYTES]
        return self.put(place, store_varlong(place, value))

    def write(self, data, offset=0, length=None):
        """Write data[offset:offset + length] of any object with a contiguous buffer; length None: to its end.

        Raises:
            IndexError: `data` does not contain the range.
        """
        cdef Py_buffer lent
        cdef Py_ssize_t start, wanted
        PyObject_GetBuffer(data, &lent, PyBUF_SIMPLE)
        try:
            start = PyNumber_AsSsize_t(offset, IndexError)
            wanted = lent.len - start if length is None else PyNumber_AsSsize_t(length, IndexError)
            if not (0 <= start <= lent.len and 0 <= wanted <= lent.len - start):
                raise IndexError(f"{wanted} bytes from {start} on of {lent.len} bytes")
            self.put(<const uint8_t*> lent.buf + start, wanted)
        finally:
            PyBuffer_Release(&lent)

    def write_byte(self, value):
        """Write one byte, -128..255. OverflowError: outside of that."""
        self.put_integer(checked(value, -0x80, 0xFF), 1)

    def write_short(self, value):
        """Write two bytes, signed or unsigned. OverflowError: out of range."""
        self.put_integer(checked(value, -0x8000, 0xFFFF), 2)

    def write_int(self, value):
        """Write four bytes, signed or unsigned. OverflowError: out of range."""
        self.put_integer(checked(value, -0x80000000, 0xFFFFFFFF), 4)

    def write_long(self, value):
        """Write eight bytes, signed. OverflowError: out of range."""
        self.put_integer(checked(value, INT64_MIN, INT64_MAX), 8)

    def write_varint(self, value):
        """Write a signed 32-bit integer in one to five bytes. OverflowError: out of range."""
        self.put_varlong(checked(value, -0x80000000, 0x7FFFFFFF))

    def write_varlong(self, value):
        """Write a signed 64-bit integer in one to ten bytes. OverflowError: out of range."""
        self.put_varlong(checked(value, INT64_MIN, INT64_MAX))

    def __reduce__(self):
        # A copy would write to the same segments.
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")


cdef class BufferingOutputStream(_Output):
    """BufferingOutputStream(segment_size)\n--\n
    A stream of bytes in segments of one size.

    Attributes:
        segment_size: The size of the segments, bytes.

    Raises:
        ValueError: segment_size is less than 1.
    """

    def __init__(self, Py_ssize_t segment_size):
        if segment_size < 1:
            raise ValueError(f"segment_size is {segment_size}, at least 1 is needed")
        self.segments = [memoryview(bytearray(segment_size))]
        self.segment_size = segment_size
        self.at = 0

    @property
    def size(self):
        """The number of bytes written."""
        return self.at

    cdef int claim(self, Py_ssize_t length) except -1:
        while self.segment_size * len(self.segments) - self.at < length:
            self.segments.append(memoryview(bytearray(self.segment_size)))
        return 0

    def skip(self, length):
        """Write `length` zeros. IndexError: `length` is negative."""
        self.skip_bytes(length)

    cdef Py_ssize_t skip_bytes(self, object length) except -1:
        cdef Py_ssize_t amount = PyNumber_AsSsize_t(length, IndexError)
        if amount < 0:
            raise IndexError(f"{amount} bytes")
        # More than memory has is refused here, at once.
        cdef bytearray zeros = bytearray(amount)
        self.put(zeros, amount)
        return amount

    def reserve(self, length):
        """Write `length` zeros and return a `ReservedOutput` that overwrites them. IndexError: `length` is negative."""
        cdef ReservedOutput reserved = ReservedOutput.__new__(ReservedOutput)
        reserved.remaining = self.skip_bytes(length)
        reserved.segments, reserved.segment_size = self.segments, self.segment_size
        reserved.at = self.at - reserved.remaining
        return reserved

    def pieces(self, start=0):
        """Return the bytes from `start` on as read-only memoryviews, one for each segment; they stay valid.

        Raises:
            IndexError: `start` is negative or greater than `size`.
        """
        cdef Py_ssize_t before = PyNumber_AsSsize_t(start, IndexError)
        if not 0 <= before <= self.at:
            raise IndexError(f"start {before} of {self.at} bytes")
        found = []
        for at in range(0, self.at, self.segment_size):
            piece = self.segments[at // self.segment_size].toreadonly()[max(0, before - at):self.at - at]
            if piece:
                found.append(piece)
        return found

    def to_bytes(self):
        """Return a copy of all bytes written."""
        return b"".join(self.pieces())

    def write_to(self, target):
        """Copy all bytes to the start of a writable buffer, or write them to a binary file. Return their number.

        Raises:
            IndexError: The buffer is shorter; nothing is written.
            BlockingIOError: The file accepts no more; `characters_written` is the number of bytes it accepted.
            OSError: Writing to the file failed.
        """
        if hasattr(target, "write"):
            return write_pieces(target, self.pieces())
        place = memoryview(target).cast("B")
        if len(place) < self.at:
            raise IndexError(f"{self.at} bytes do not fit into {len(place)}")
        place[:self.at] = self.to_bytes()
        return self.at

    def __len__(self):
        return self.at


cdef object write_pieces(object file, list pieces):
    """Write the pieces to a file, which may be a raw one that accepts only some bytes at a time."""
    total = 0
    try:
        for piece in pieces:
            while piece:
                accepted = count_taken(file, file.write(piece), len(piece))
                if not accepted:
                    raise BlockingIOError(errno.EAGAIN, "the file accepts no more", 0)
                total += accepted
                piece = piece[accepted:]
    except BlockingIOError as error:
        error.characters_written = total + getattr(error, "characters_written", 0)
        raise
    return total


def count_taken(target, answer, length):
    """Return how many of `length` bytes `target` has accepted, by the result of its `write` or `send`.

    None means "nothing now" from a raw file, which does not wait, and "all of it" from others, which do not count.

    Raises:
        OSError: The result is negative, or larger than `length`.
    """
    if answer is None:
        return 0 if isinstance(target, io.RawIOBase) else length
    if not 0 <= answer <= length:
        raise OSError(errno.EIO, f"{type(target).__name__} says that it took {answer} of {length} bytes")
    return answer


@cython.final
cdef class ReservedOutput(_Output):
    """Reserved bytes of a stream, to be filled in order.

    Attributes:
        remaining: The number of bytes that are not filled yet.
        segment_size: The size of the segments of the stream, bytes.

    Raises:
        IndexError: More than `remaining` bytes are written; none of them is.
    """

    cdef readonly Py_ssize_t remaining

    cdef int claim(self, Py_ssize_t length) except -1:
        if length > self.remaining:
            raise IndexError(f"{length} bytes do not fit into the {self.remaining} that are reserved")
        self.remaining -= length
        return 0
