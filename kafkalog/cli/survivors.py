"""A log or a file as a source of records that continues after damage: `--skip-damage`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap

from kafkalog.cli.log_source import Located, Source
from kafkalog.errors import KafkaLogError
from kafkalog.fsck.consequences import Severity
from kafkalog.record.record_batch import RecordBatch
from kafkalog.record.record_columns import RecordColumns
from kafkalog.scan.records import Damage, LeftOut, batches, last_offset, records
from kafkalog.storage.data_dir.discover import LogFile, PartitionDir
from kafkalog.storage.read.log_scan import NO_END


class SurvivingSource(Source):
    """A source that continues after damage and reports it."""

    def __init__(self, place: PartitionDir | LogFile, report: Callable[[object, str, LeftOut | None], None]) -> None:
        """Open the source.

        Args:
            place: The partition or file.
            report: Called with the damage, the file, and the counts of what is left out; None: the damage is only the
                torn tail of an active segment.
        """
        super().__init__(place)
        self._report_problem = report

    @property
    def start_offset(self) -> int:
        """The first offset that can be read, or the one in the file's name."""
        try:
            return super().start_offset
        except KafkaLogError:
            return self._first_base_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last valid batch."""
        last = last_offset(self.files[-1]) if self.files else None
        return super().end_offset if last is None else max(self.start_offset, last + 1)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset; the largest offset if damage hides which transactions are open."""
        try:
            return super().last_stable_offset
        except KafkaLogError:
            return NO_END

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
            self._report_problem(damage.error, damage.path, damage.left_out)
        elif finding.severity is not Severity.INFO:
            left_out = damage.left_out if finding.severity is Severity.ERROR else None
            self._report_problem(finding, damage.path, left_out)


def left_out_of(batch: RecordBatch) -> LeftOut:
    """Return the counts of a batch that is left out."""
    first = batch.last_offset if batch.magic < 2 else batch.base_offset
    return LeftOut(1, batch.size_in_bytes, max(0, batch.last_offset - first + 1))
