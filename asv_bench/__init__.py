"""Benchmarks: the segments they read (`segments`), the comparison with other readers (`peers`), asv's own."""
