"""What is in a directory, a partition and a segment. No Textual here; `types` has what screens draw."""
