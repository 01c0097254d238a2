"""Encoding of records as lines of JSON, if all keys, values and headers are UTF-8, as in most logs.

    HEAD"offset":N,"timestamp":N,"timestamp_type":"LABEL","key":TEXT,"value":TEXT,"headers":[{"key":TEXT,"value":TEXT}]}

A record of a batch with a producer id has, after the headers:

    ,"producer_id":N,"producer_epoch":N,"sequence":N,"transaction_state":"STATE"

For other records the caller uses msgspec, which is slower. It encodes the same fields to the same bytes, which tests
compare.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from kafkalog._speedups.cursor cimport Cursor, bytes_left, cursor_open, read_varint, take

cdef enum:
    # The most characters for one byte of a key or value: \u00xx.
    LONGEST_ESCAPE = 6
    # The most characters for one byte of headers. A header of two bytes needs 24 for its names, quotes and brackets.
    LONGEST_HEADER_BYTE = 12
    LONGEST_NUMBER = 20
    # More than the names, quotes, brackets and numbers of a line need.
    LINE_OVERHEAD = 352

cdef const char* HEX = b"0123456789abcdef"


# Each of these functions returns the address after the text that it has put.

cdef inline uint8_t* put(uint8_t* at, const char* text, Py_ssize_t length) noexcept nogil:
    """Put a text as it is."""
    memcpy(at, text, length)
    return at + length


cdef uint8_t* put_number(uint8_t* at, int64_t number) noexcept nogil:
    """Put a decimal number."""
    cdef uint8_t digits[LONGEST_NUMBER]
    cdef uint64_t left = <uint64_t> number
    cdef int place = LONGEST_NUMBER
    if number < 0:
        at = put(at, b"-", 1)
        left = 0 - left
    while True:
        place -= 1
        digits[place] = <uint8_t> (c"0" + left % 10)
        left //= 10
        if left == 0:
            break
    return put(at, <const char*> &digits[place], LONGEST_NUMBER - place)


cdef bint is_utf8(const uint8_t* text, int64_t length) noexcept with gil:
    """Return whether a text is valid UTF-8."""
    try:
        PyUnicode_DecodeUTF8(<const char*> text, length, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef inline uint8_t short_escape(uint8_t char) noexcept nogil:
    """Return the letter of the escape sequence of a control character; 0 = it has none."""
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
    """Put the text of a JSON string, escaping quotes, backslashes and control characters."""
    cdef int64_t i
    cdef uint8_t char
    cdef uint8_t letter
    for i in range(length):
        char = text[i]
        at[0] = c"\\"
        if char >= 0x20:
            # Without a branch: quotes are frequent in JSON inside JSON, and a branch would often be mispredicted.
            at += (char == c'"') | (char == c"\\")
            at[0] = char
            at += 1
            continue
        letter = short_escape(char)
        if letter:
            at[1] = letter
            at += 2
        else:
            at = put(at, b"\\u00", 4)
            at[0] = HEX[char >> 4]
            at[1] = HEX[char & 15]
            at += 2
    return at


cdef uint8_t* put_text(uint8_t* at, const uint8_t* text, int64_t length) noexcept nogil:
    """Put a JSON string, or null if the length is negative. Return NULL if the text is not UTF-8."""
    cdef uint8_t high = 0
    cdef uint8_t special = 0
    cdef int64_t i
    if length < 0:
        return put(at, b"null", 4)
    # No branches, so that compilers vectorize this loop.
    for i in range(length):
        high |= text[i]
        special |= (text[i] < 0x20) | (text[i] == c'"') | (text[i] == c"\\")
    if high & 0x80 and not is_utf8(text, length):
        return NULL
    at = put(at, b'"', 1)
    if special:
        at = put_escaped(at, text, length)
    else:
        at = put(at, <const char*> text, length)
    return put(at, b'"', 1)


cdef uint8_t* put_key_and_value(uint8_t* at, const uint8_t* key, int64_t key_length, const uint8_t* value,
                                int64_t value_length) noexcept nogil:
    """Put "key" and "value". Return NULL if one of them is not UTF-8."""
    at = put_text(put(at, b'"key":', 6), key, key_length)
    return NULL if at == NULL else put_text(put(at, b',"value":', 9), value, value_length)


cdef uint8_t* put_headers(uint8_t* at, const uint8_t* start, int64_t length) noexcept nogil:
    """Put the headers of a record. Return NULL if the bytes are not UTF-8, or not valid headers."""
    cdef Cursor cursor
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef int64_t key_length, value_length
    cursor_open(&cursor, start, start + max(0, length))
    while bytes_left(&cursor) > 0:
        at = put(at, b",{" if cursor.at > start else b"{", 2 if cursor.at > start else 1)
        key_length = read_varint(&cursor)
        key = take(&cursor, max(0, key_length))
        value_length = read_varint(&cursor)
        value = take(&cursor, max(0, value_length))
        if cursor.fault or key_length < 0:
            return NULL
        at = put_key_and_value(at, key, key_length, value, value_length)
        if at == NULL:
            return NULL
        at = put(at, b"}", 1)
    return at


cdef uint8_t* put_known(uint8_t* at, int64_t number) noexcept nogil:
    """Put a number, or null if it is -1."""
    return put(at, b"null", 4) if number == -1 else put_number(at, number)


cdef uint8_t* put_producer(uint8_t* at, int64_t producer_id, int64_t epoch, int64_t sequence, uint8_t state) noexcept \
        nogil:
    """Put the fields of a record whose batch has a producer id."""
    at = put_number(put(at, b',"producer_id":', 15), producer_id)
    at = put_known(put(at, b',"producer_epoch":', 18), epoch)
    at = put_known(put(at, b',"sequence":', 12), sequence)
    if state:
        at = put(at, b',"transaction_state":"', 22)
        if state == 1:
            at = put(at, b'committed"', 10)
        elif state == 2:
            at = put(at, b'aborted"', 8)
        elif state == 3:
            at = put(at, b'open"', 5)
        else:
            at = put(at, b'undecided"', 10)
    return at


cdef int64_t total_length(const int64_t[:] starts, const int64_t[:] lengths, Py_ssize_t count,
                          int64_t size) except -1:
    """Return the total length of some fields in bytes, after checking that they are inside a buffer of `size` bytes."""
    cdef int64_t total = 0
    cdef Py_ssize_t i
    if starts.shape[0] != count or lengths.shape[0] != count:
        raise ValueError(f"{count} offsets, {starts.shape[0]} starts, {lengths.shape[0]} lengths")
    for i in range(count):
        if lengths[i] < 0:
            continue
        if starts[i] < 0 or lengths[i] > size - starts[i]:
            raise ValueError(f"a piece at {starts[i]}, {lengths[i]} bytes, is outside the buffer of {size} bytes")
        total += lengths[i]
    return total


def json_lines(const uint8_t[::1] buffer not None, const int64_t[:] offset not None,
               const int64_t[:] timestamp not None, const int64_t[:] key_start not None,
               const int64_t[:] key_length not None, const int64_t[:] value_start not None,
               const int64_t[:] value_length not None, const int64_t[:] headers_start not None,
               const int64_t[:] headers_length not None, bytes head not None, bytes label not None,
               const int64_t[:] producer_id not None, const int64_t[:] producer_epoch not None,
               const int64_t[:] sequence not None, const uint8_t[:] state not None):
    """Encode records as lines of JSON. The GIL is released.

    Args:
        buffer: The bytes that starts refer to.
        offset: The offsets, int64, shape (n,), as all arrays up to headers_length.
        timestamp: The timestamps, ms.
        key_start: The index in `buffer` of each key.
        key_length: The length in bytes of each key; -1 = null.
        value_start: The index in `buffer` of each value.
        value_length: The length in bytes of each value; -1 = null.
        headers_start: The index in `buffer` of the headers of each record.
        headers_length: Their length in bytes; 0 = no headers.
        head: "{" and the fields that are the same in every line.
        label: The timestamp type.
        producer_id: The producer ids, int64, shape (n,); a record with -1 has no field of a producer. If no record has
            a producer id, the shape of this array and the following ones may be (0,).
        producer_epoch: The producer epochs; -1 becomes null.
        sequence: The sequences; -1 becomes null.
        state: The index of the transaction state in `transaction_states.STATES`, uint8; 0 = no field.

    Returns:
        The lines as bytes; None if a key, a value or a header is not UTF-8.

    Raises:
        ValueError: A key, value or header is outside the buffer, or the arrays differ in length.
    """
    cdef Py_ssize_t count = offset.shape[0]
    cdef int64_t size = buffer.shape[0]
    cdef const uint8_t* data = &buffer[0] if size else NULL
    head += b'"offset":'
    label = b',"timestamp_type":"' + label + b'",'
    cdef Py_ssize_t head_length = len(head), label_length = len(label)
    cdef const char* head_text = head
    cdef const char* label_text = label
    cdef uint8_t* out
    cdef uint8_t* at
    cdef Py_ssize_t i
    if timestamp.shape[0] != count:
        raise ValueError(f"{count} offsets, {timestamp.shape[0]} timestamps")
    cdef Py_ssize_t producers = producer_id.shape[0]
    if producers not in (0, count) or not (producers == producer_epoch.shape[0] == sequence.shape[0] == state.shape[0]):
        raise ValueError(f"{count} offsets, {producers} producer ids")
    cdef int64_t capacity = LONGEST_ESCAPE * total_length(key_start, key_length, count, size)
    capacity += LONGEST_ESCAPE * total_length(value_start, value_length, count, size)
    capacity += LONGEST_HEADER_BYTE * total_length(headers_start, headers_length, count, size)
    capacity += count * (head_length + label_length + LINE_OVERHEAD)
    # Enough for the worst case. Pages that are never touched cost nothing.
    out = at = <uint8_t*> malloc(max(1, capacity))
    if out == NULL:
        raise MemoryError
    try:
        with nogil:
            for i in range(count):
                at = put_number(put(at, head_text, head_length), offset[i])
                at = put_number(put(at, b',"timestamp":', 13), timestamp[i])
                at = put(at, label_text, label_length)
                at = put_key_and_value(at, data + key_start[i], key_length[i], data + value_start[i], value_length[i])
                if at != NULL:
                    at = put_headers(put(at, b',"headers":[', 12), data + headers_start[i], headers_length[i])
                if at == NULL:
                    break
                at = put(at, b"]", 1)
                if producers and producer_id[i] >= 0:
                    at = put_producer(at, producer_id[i], producer_epoch[i], sequence[i], state[i])
                at = put(at, b"}\n", 2)
        return None if at == NULL else PyBytes_FromStringAndSize(<const char*> out, at - out)
    finally:
        free(out)
