# The module defines only C functions, which `decode.decode_batches` calls.
