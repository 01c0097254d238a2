# The module has no names for Python: `decode.decode_batches` calls it from C.
