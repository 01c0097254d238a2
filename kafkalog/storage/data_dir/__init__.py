"""Data directories: their content, their lock and their checkpoints."""
