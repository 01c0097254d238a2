"""Scans over all records of a log, in bounded memory and past damage where asked."""
