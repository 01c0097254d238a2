"""Append records and batches: analyse, validate, write, note."""
