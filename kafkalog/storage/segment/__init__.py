"""Segments: one file of batches with its indexes, and the list of them."""
