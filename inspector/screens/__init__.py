"""The screens: the list of partitions, a partition, the check of all, the help."""
