from libc.stdint cimport int64_t

cpdef object whole(str name, object given, int64_t least, int64_t most, str unit=*)
cpdef object member(str name, object given, object kind)
