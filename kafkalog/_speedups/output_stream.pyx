"""`BufferingOutputStream`: a stream of bytes in memory, in segments of a fixed size.

    segment [written.....] -> segment [written.....] -> segment [written..|zeros]

A length or checksum precedes the bytes that it describes. `reserve` reserves its bytes, which are overwritten later.
Integers are big-endian; varints are zig-zag LEB128. A call writes either all bytes of its argument, or none and raises
an error. Source: core/.../message/MessageWriter.scala (0.10), `BufferingOutputStream`.
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
    """Convert an integer to a C integer.

    Raises:
        TypeError: It is not an integer.
        OverflowError: It is outside [least, most].
    """
    cdef int64_t number = PyNumber_Index(value)
    if not least <= number <= most:
        raise OverflowError(f"{number} is outside [{least}, {most}]")
    return number


cdef class _Output:
    """The base class of `BufferingOutputStream` and `ReservedOutput`."""

    # Memoryviews of bytearrays of `segment_size` bytes. A bytearray with a view cannot be resized, so it does not move.
    cdef list segments
    cdef readonly Py_ssize_t segment_size
    # The number of bytes before the next one, from the start of the first segment.
    cdef Py_ssize_t at

    cdef int claim(self, Py_ssize_t length) except -1:
        """Make space for `length` further bytes, or raise an error."""
        raise NotImplementedError

    cdef int put(self, const uint8_t* data, Py_ssize_t length) except -1:
        """Copy bytes to the segments."""
        cdef Py_ssize_t start, amount
        cdef object segment
        self.claim(length)
        # From here on no Python code runs, which could write to this stream at the same time.
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
        """Write a big-endian integer of `size` bytes."""
        cdef uint8_t place[8]
        return self.put(place, store_big_endian(place, <uint64_t> value, size))

    cdef int put_varlong(self, int64_t value) except -1:
        """Write a zig-zag LEB128 integer."""
        cdef uint8_t place[VARLONG_BYTES]
        return self.put(place, store_varlong(place, value))

    def write(self, data, offset=0, length=None):
        """Write data[offset:offset + length].

        Args:
            data: An object with a contiguous buffer.
            offset: The index of the first byte.
            length: The number of bytes; None: all bytes from `offset` on.

        Raises:
            IndexError: The range is not inside `data`.
        """
        cdef Py_buffer view
        cdef Py_ssize_t start, wanted
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            start = PyNumber_AsSsize_t(offset, IndexError)
            wanted = view.len - start if length is None else PyNumber_AsSsize_t(length, IndexError)
            if not (0 <= start <= view.len and 0 <= wanted <= view.len - start):
                raise IndexError(f"{wanted} bytes from {start} on of {view.len} bytes")
            self.put(<const uint8_t*> view.buf + start, wanted)
        finally:
            PyBuffer_Release(&view)

    def write_byte(self, value):
        """Write an 8-bit integer, signed or unsigned.

        Args:
            value: The integer, -128..255.

        Raises:
            OverflowError: The integer is out of range.
        """
        self.put_integer(checked(value, -0x80, 0xFF), 1)

    def write_short(self, value):
        """Write a 16-bit integer, signed or unsigned.

        Args:
            value: The integer, -2**15..2**16 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
        self.put_integer(checked(value, -0x8000, 0xFFFF), 2)

    def write_int(self, value):
        """Write a 32-bit integer, signed or unsigned.

        Args:
            value: The integer, -2**31..2**32 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
        self.put_integer(checked(value, -0x80000000, 0xFFFFFFFF), 4)

    def write_long(self, value):
        """Write a signed 64-bit integer.

        Args:
            value: The integer, -2**63..2**63 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
        self.put_integer(checked(value, INT64_MIN, INT64_MAX), 8)

    def write_varint(self, value):
        """Write a signed 32-bit integer as a varint of one to five bytes.

        Args:
            value: The integer, -2**31..2**31 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
        self.put_varlong(checked(value, -0x80000000, 0x7FFFFFFF))

    def write_varlong(self, value):
        """Write a signed 64-bit integer as a varint of one to ten bytes.

        Args:
            value: The integer, -2**63..2**63 - 1.

        Raises:
            OverflowError: The integer is out of range.
        """
        self.put_varlong(checked(value, INT64_MIN, INT64_MAX))

    def __reduce__(self):
        # A copy would write to the same segments.
        raise TypeError(f"a {type(self).__name__} can be neither copied nor pickled")


cdef class BufferingOutputStream(_Output):
    """BufferingOutputStream(segment_size)\n--\n
    A stream of bytes in memory, in segments of a fixed size.

    Args:
        segment_size: The size of a segment, bytes.

    Attributes:
        segment_size: The size of a segment, bytes.

    Raises:
        ValueError: `segment_size` is less than 1.
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
        """Write zero bytes.

        Args:
            length: Their number.

        Raises:
            IndexError: `length` is negative.
        """
        self.skip_bytes(length)

    cdef Py_ssize_t skip_bytes(self, object length) except -1:
        """Write zero bytes and return their number."""
        cdef Py_ssize_t amount = PyNumber_AsSsize_t(length, IndexError)
        if amount < 0:
            raise IndexError(f"{amount} bytes")
        # One allocation, so that a length that does not fit in memory fails before a segment is added.
        cdef bytearray zeros = bytearray(amount)
        self.put(zeros, amount)
        return amount

    def reserve(self, length):
        """Write zero bytes and return a `ReservedOutput` that overwrites them.

        Args:
            length: Their number.

        Raises:
            IndexError: `length` is negative.
        """
        cdef ReservedOutput reserved = ReservedOutput.__new__(ReservedOutput)
        reserved.remaining = self.skip_bytes(length)
        reserved.segments, reserved.segment_size = self.segments, self.segment_size
        reserved.at = self.at - reserved.remaining
        return reserved

    def pieces(self, start=0):
        """Return the bytes from `start` on without copying them.

        Args:
            start: The number of bytes to leave out.

        Returns:
            A read-only memoryview of each segment. It stays valid, and shows bytes that are overwritten later.

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
        """Copy all bytes to a buffer or a file.

        Args:
            target: A writable buffer, whose first bytes are overwritten, or a binary file.

        Returns:
            The number of bytes.

        Raises:
            IndexError: The buffer is too small; nothing is written.
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
    """Write pieces to a file and return the number of bytes. A raw file may accept only some bytes of a call."""
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
    """Return the number of bytes that a file or socket has accepted, from the result of its `write` or `send`.

    Args:
        target: The file or socket.
        answer: The result. None means that a non-blocking raw file has accepted nothing, and that any other object,
            which does not return a number, has accepted all bytes.
        length: The number of bytes that were passed.

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
    """Reserved bytes of a `BufferingOutputStream`, which are overwritten in order.

    A method that writes raises IndexError, and writes nothing, if its bytes are more than `remaining`.

    Attributes:
        remaining: The number of reserved bytes that have not been overwritten.
        segment_size: The size of a segment of the stream, bytes.
    """

    cdef readonly Py_ssize_t remaining

    cdef int claim(self, Py_ssize_t length) except -1:
        if length > self.remaining:
            raise IndexError(f"{length} bytes do not fit into the {self.remaining} that are reserved")
        self.remaining -= length
        return 0
