"""A data directory: what is in it, who may write to it."""
