# Nothing of this module is seen from Python: columns.decode_batches is the way in.
