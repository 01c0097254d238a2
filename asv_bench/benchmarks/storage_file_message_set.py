"""`kafkalog.storage.segment.file_message_set`: from opening a file, sealed (mapped) or still growing (read)."""

# ruff: noqa: ARG002 - asv hands every parameter to every method

from benchmarks import path_of, records_of
from segments import FIRST_TIMESTAMP

from kafkalog import FileMessageSet


class File:
    """Large batches, and one a record."""

    params = (("none", "single"), (True, False))
    param_names = ("kind", "sealed")

    def setup(self, kind: str, sealed: bool) -> None:
        """The segment, and a record far inside it."""
        self.path = path_of(kind)
        self.offset = records_of(kind) * 9 // 10

    def time_open_and_headers(self, kind: str, sealed: bool) -> None:
        """The header table, from opening the file."""
        FileMessageSet(self.path, sealed=sealed).headers()

    def time_search(self, kind: str, sealed: bool) -> None:
        """The batch of an offset."""
        FileMessageSet(self.path, sealed=sealed).search(self.offset)

    def time_search_timestamp(self, kind: str, sealed: bool) -> None:
        """The record of a time."""
        FileMessageSet(self.path, sealed=sealed).search_timestamp(FIRST_TIMESTAMP + 7 * self.offset)

    def time_columns(self, kind: str, sealed: bool) -> None:
        """All records."""
        for _ in FileMessageSet(self.path, sealed=sealed).columns():
            pass

    def peakmem_headers(self, kind: str, sealed: bool) -> None:
        """The table, and whatever the scan holds."""
        FileMessageSet(self.path, sealed=sealed).headers()
