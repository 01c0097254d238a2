"""Judges what `storage` and `record` read: is it sound, where is it not, and what is lost. Nothing here writes."""
