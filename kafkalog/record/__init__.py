"""Bytes only: framing, batches, records and codecs. Knows of no file."""
