"""The state of a log that is written to: segments, watermarks, rolling, retention, truncation."""
