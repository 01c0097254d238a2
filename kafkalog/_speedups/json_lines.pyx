"""Records to lines of JSON, for those that have no headers and are UTF-8, as most are; the others are no haste.

    HEAD"offset":N,"timestamp":N,"timestamp_type":"LABEL","key":TEXT,"value":TEXT,"headers":[]}

Byte for byte what msgspec makes of the same fields, which is the plain twin: tests hold the two together.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

cdef enum:
    # Every byte may become \u00xx.
    LONGEST_ESCAPE = 6
    LONGEST_NUMBER = 20
    # What stands around the fields, and the numbers; more than enough.
    AROUND = 160

cdef const char* HEX = b"0123456789abcdef"


cdef inline uint8_t* put(uint8_t* at, const char* text, Py_ssize_t length) noexcept nogil:
    memcpy(at, text, length)
    return at + length


cdef inline uint8_t* put_number(uint8_t* at, int64_t number) noexcept nogil:
    cdef uint8_t digits[LONGEST_NUMBER]
    cdef uint64_t left = <uint64_t> number
    cdef int place = LONGEST_NUMBER
    if number < 0:
        at[0] = c"-"
        at += 1
        left = 0 - left
    while True:
        place -= 1
        digits[place] = <uint8_t> (c"0" + left % 10)
        left //= 10
        if left == 0:
            break
    return put(at, <const char*> &digits[place], LONGEST_NUMBER - place)


cdef bint is_continued(const uint8_t* text, int64_t left, int64_t count) noexcept nogil:
    """Whether `count` continuation bytes follow the first byte; `left` bytes are there with it."""
    cdef int64_t i
    if left <= count:
        return False
    for i in range(1, count + 1):
        if text[i] & 0xC0 != 0x80:
            return False
    return True


cdef int64_t sequence_length(const uint8_t* text, int64_t left) noexcept nogil:
    """Bytes of the UTF-8 sequence at `text`, 0 = it is none: as Python is strict, no surrogate and nothing overlong."""
    cdef uint8_t first = text[0]
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF and is_continued(text, left, 1):
        return 2
    if 0xE0 <= first <= 0xEF and is_continued(text, left, 2):
        return 0 if (first == 0xE0 and text[1] < 0xA0) or (first == 0xED and text[1] > 0x9F) else 3
    if 0xF0 <= first <= 0xF4 and is_continued(text, left, 3):
        return 0 if (first == 0xF0 and text[1] < 0x90) or (first == 0xF4 and text[1] > 0x8F) else 4
    return 0


cdef bint is_utf8(const uint8_t* text, int64_t length) noexcept nogil:
    cdef int64_t i = 0
    cdef int64_t step
    while i < length:
        step = sequence_length(text + i, length - i)
        if step == 0:
            return False
        i += step
    return True


cdef inline uint8_t short_escape(uint8_t char) noexcept nogil:
    """The letter that JSON has for it after a backslash, 0 = none."""
    if char == c'"' or char == c"\\":
        return char
    if char == c"\n":
        return c"n"
    if char == c"\t":
        return c"t"
    if char == c"\r":
        return c"r"
    if char == c"\b":
        return c"b"
    if char == c"\f":
        return c"f"
    return 0


cdef uint8_t* put_escaped(uint8_t* at, const uint8_t* text, int64_t length) noexcept nogil:
    cdef int64_t i
    cdef uint8_t letter
    for i in range(length):
        letter = short_escape(text[i])
        if letter:
            at[0] = c"\\"
            at[1] = letter
            at += 2
        elif text[i] < 0x20:
            at = put(at, b"\\u00", 4)
            at[0] = HEX[text[i] >> 4]
            at[1] = HEX[text[i] & 15]
            at += 2
        else:
            at[0] = text[i]
            at += 1
    return at


cdef inline uint8_t* put_quoted(uint8_t* at, const uint8_t* text, int64_t length) noexcept nogil:
    """Text without control bytes. No branch: quotes come often in JSON inside JSON, and nobody can foretell them."""
    cdef int64_t i
    cdef uint8_t char
    for i in range(length):
        char = text[i]
        at[0] = c"\\"
        at += (char == c'"') | (char == c"\\")
        at[0] = char
        at += 1
    return at


cdef inline uint8_t* put_text(uint8_t* at, const uint8_t* text, int64_t length) noexcept nogil:
    """In quotes; NULL: it is not UTF-8. The first loop is one that compilers turn into wide instructions."""
    cdef uint8_t high = 0
    cdef uint8_t control = 0
    cdef uint8_t special = 0
    cdef int64_t i
    for i in range(length):
        high |= text[i]
        control |= text[i] < 0x20
        special |= (text[i] == c'"') | (text[i] == c"\\")
    if high & 0x80 and not is_utf8(text, length):
        return NULL
    at = put(at, b'"', 1)
    if control:
        at = put_escaped(at, text, length)
    elif special:
        at = put_quoted(at, text, length)
    else:
        at = put(at, <const char*> text, length)
    return put(at, b'"', 1)


cdef inline uint8_t* put_nullable(uint8_t* at, const uint8_t* data, int64_t start, int64_t length) noexcept nogil:
    return put(at, b"null", 4) if length < 0 else put_text(at, data + start, length)


cdef struct Fields:
    const uint8_t* data
    int64_t size
    const uint8_t* out_end
    const char* head
    Py_ssize_t head_length
    const char* label
    Py_ssize_t label_length


cdef inline bint is_inside(const Fields* fields, int64_t start, int64_t length) noexcept nogil:
    return length < 0 or (0 <= start <= fields.size - length)


cdef bint has_room(const uint8_t* at, const Fields* fields, int64_t key_length, int64_t value_length) noexcept nogil:
    cdef int64_t left = fields.out_end - at - fields.head_length - fields.label_length - AROUND
    return LONGEST_ESCAPE * (max(0, key_length) + max(0, value_length)) <= left


cdef uint8_t* put_lines(uint8_t* at, const Fields* fields, const int64_t[:] offset, const int64_t[:] timestamp,
                        const int64_t[:] key_start, const int64_t[:] key_length, const int64_t[:] value_start,
                        const int64_t[:] value_length) noexcept nogil:
    """NULL: a key or value is not UTF-8, or is no longer where it was when room was made for it."""
    cdef Py_ssize_t i
    cdef int64_t key_at, key_size, value_at, value_size
    for i in range(offset.shape[0]):
        key_at, key_size, value_at, value_size = key_start[i], key_length[i], value_start[i], value_length[i]
        # Asked again: others run meanwhile, and may write to the arrays.
        if not (is_inside(fields, key_at, key_size) and is_inside(fields, value_at, value_size)
                and has_room(at, fields, key_size, value_size)):
            return NULL
        at = put(at, fields.head, fields.head_length)
        at = put(at, b'"offset":', 9)
        at = put_number(at, offset[i])
        at = put(at, b',"timestamp":', 13)
        at = put_number(at, timestamp[i])
        at = put(at, b',"timestamp_type":"', 19)
        at = put(at, fields.label, fields.label_length)
        at = put(at, b'","key":', 8)
        at = put_nullable(at, fields.data, key_at, key_size)
        if at == NULL:
            return NULL
        at = put(at, b',"value":', 9)
        at = put_nullable(at, fields.data, value_at, value_size)
        if at == NULL:
            return NULL
        at = put(at, b',"headers":[]}\n', 15)
    return at


cdef int64_t checked_length(const int64_t[:] starts, const int64_t[:] lengths, Py_ssize_t count,
                            int64_t size) except -1:
    """Bytes of all pieces together. ValueError: one of them is outside the buffer of `size` bytes."""
    cdef int64_t total = 0
    cdef int64_t start, length
    cdef Py_ssize_t i
    if starts.shape[0] != count or lengths.shape[0] != count:
        raise ValueError(f"{count} offsets, {starts.shape[0]} starts, {lengths.shape[0]} lengths")
    for i in range(count):
        start = starts[i]
        length = lengths[i]
        if length < 0:
            continue
        if start < 0 or length > size - start:
            raise ValueError(f"a piece at {start}, {length} bytes, is outside the buffer of {size} bytes")
        total += length
    return total


def json_lines(const uint8_t[::1] buffer not None, const int64_t[:] offset not None,
               const int64_t[:] timestamp not None, const int64_t[:] key_start not None,
               const int64_t[:] key_length not None, const int64_t[:] value_start not None,
               const int64_t[:] value_length not None, bytes head not None, bytes label not None):
    """A line a record, as bytes; None where a key or value is not UTF-8.

    head: "{" and what is the same in every line. Starts index `buffer`, a length of -1 is null. The GIL is released.
    ValueError: a piece outside the buffer, or arrays of different lengths.
    """
    cdef Py_ssize_t count = offset.shape[0]
    cdef int64_t length = buffer.shape[0]
    cdef int64_t room
    cdef uint8_t* out
    cdef uint8_t* end
    cdef Fields fields
    if timestamp.shape[0] != count:
        raise ValueError(f"{count} offsets, {timestamp.shape[0]} timestamps")
    fields.data = &buffer[0] if length else NULL
    fields.size = length
    fields.head, fields.head_length = head, len(head)
    fields.label, fields.label_length = label, len(label)
    room = checked_length(key_start, key_length, count, length)
    room += checked_length(value_start, value_length, count, length)
    room = room * LONGEST_ESCAPE + count * (fields.head_length + fields.label_length + AROUND)
    # Memory that is not touched costs nothing, so that the worst case is no waste.
    out = <uint8_t*> malloc(max(1, room))
    if out == NULL:
        raise MemoryError
    fields.out_end = out + room
    try:
        with nogil:
            end = put_lines(out, &fields, offset, timestamp, key_start, key_length, value_start, value_length)
        return None if end == NULL else PyBytes_FromStringAndSize(<const char*> out, end - out)
    finally:
        free(out)
