"""Read a log: scan, fetch, search by time, count."""
