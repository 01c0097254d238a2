"""`kafkalog.storage.log`: a partition directory, opened and read."""

from itertools import islice

from benchmarks import path_of, records_of

import kafkalog


class Log:
    """One segment of large batches."""

    def setup(self) -> None:
        """The directory."""
        self.directory = path_of("none").parent
        self.count = records_of("none")

    def time_open(self) -> None:
        """From the path to the last offset."""
        with kafkalog.open(self.directory) as log:
            _ = log.log_end_offset

    def time_some_records_from_the_middle(self) -> None:
        """A thousand records, sought by offset."""
        with kafkalog.open(self.directory) as log:
            for _ in islice(log.records(self.count // 2), 1000):
                pass

    def time_columns(self) -> None:
        """All of it."""
        with kafkalog.open(self.directory) as log:
            for _ in log.columns():
                pass
