"""Files: message sets, segments and logs on disk. How a batch is laid out is known to `kafkalog.record` alone."""
