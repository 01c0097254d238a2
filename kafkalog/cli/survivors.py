"""A log or a file as a source of records that continues after damage: `--skip-damage`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap

from kafkalog.cli.log_source import Located, Source
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.findings import Severity
from kafkalog.record.record_columns import RecordColumns
from kafkalog.scan.records import Damage, batches, last_offset, records
from kafkalog.storage.data_dir.discover import LogFile, PartitionDir
from kafkalog.storage.file_names import segment_base_offset
from kafkalog.storage.remote_path import to_path


class SurvivingSource(Source):
    """A source that continues after damage and reports it."""

    def __init__(self, place: PartitionDir | LogFile, report: Callable[[object, bool], None]) -> None:
        """Open the source.

        Args:
            place: The partition or file.
            report: Called with the damage, and whether it is more than the torn tail of an active segment.
        """
        super().__init__(place)
        self._report_problem = report

    @property
    def start_offset(self) -> int:
        """The first offset that can be read, or the one in the file's name."""
        try:
            return super().start_offset
        except KafkaLogError:
            return segment_base_offset(to_path(self.files[0].path).name) or 0

    @property
    def end_offset(self) -> int:
        """The offset after the last valid batch."""
        last = last_offset(self.files[-1]) if self.files else None
        return super().end_offset if last is None else max(self.start_offset, last + 1)

    @property
    def torn(self) -> None:
        """None: a torn tail is reported like other damage."""

    def _first_offset_since(self, timestamp: int) -> int | None:  # noqa: ARG002 # headers may be damaged
        return 0

    def _parts(self, first: int, stop: int) -> Iterator[RecordColumns]:
        return records(self._log, first, stop, report=self._report)

    def _all_batches(self, first: int) -> Iterator[Located]:
        return starmap(Located, batches(self._log, first, report=self._report))

    def _report(self, damage: Damage) -> None:
        """Report damage, except findings of severity INFO."""
        finding = damage.finding
        if finding is None:
            self._report_problem(damage.error, True)
        elif finding.severity is not Severity.INFO:
            self._report_problem(finding, finding.severity is Severity.ERROR)
