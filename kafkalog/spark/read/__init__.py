"""Read partitions in Spark: options, planning, splits, Arrow batches."""
