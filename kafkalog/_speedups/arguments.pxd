from libc.stdint cimport int64_t

cpdef object whole(str name, object value, int64_t minimum, int64_t maximum, str unit=*)
cpdef object member(str name, object value, object kind)
