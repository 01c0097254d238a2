"""Offset, time and transaction indexes."""
