"""Files: message sets, segments and logs on disk. Parses no batch itself; that is `kafkalog.record`."""
