"""The results of a check: `Finding`, one problem at one place, and `Summary`, the totals.

The codes are stable; programs may rely on them. The letter is the severity: E error, W warning, I info.

    file          unreadable E         it cannot be opened, or reading fails
                  not-a-log E          it is not a log file
                  file-changed W       it became shorter while it was read
                  segment-gone I       it was deleted after its directory was listed
    framing       lost-bytes E         a range without a readable batch, up to the next batch or the end of the file
                  wrong-size E         only the size field is wrong: with the size expected, the checksum holds
                  torn-tail W/E        the last batch is incomplete; W in the active segment (a write in progress, or
                                       recovery will cut it off), E in one that has a successor
                  preallocated-tail I  only zeros up to the end of the active segment
                  zeroed-tail E        the same in a segment that has a successor
    batch         crc-mismatch E  unknown-magic E  batch-too-short E  unknown-codec E
                  last-offset-delta E  the last offset is less than the base offset
                  records-count E      negative, or more records than offsets
                  producer-fields W    a combination of producer id, epoch, sequence and flags that no producer sends
    order         offset-order E       a batch begins no later than the one before it
                  offset-overlap E     a batch begins within the one before it
                  offset-below-segment E  offset-beyond-segment E  segment-overlap E
                  leader-epoch W       the leader epoch decreases, or is less than -1
    records       invalid-records E    they cannot be decompressed, or do not follow the format
                  inner-crc E          a message inside a compressed message has a wrong checksum
                  inner-offsets E      they do not rise, or leave the range that their batch states
                  control-record E     key or value of a control record do not follow the format
                  max-timestamp W      the largest timestamp in the header differs from that of the records
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """The severity of a finding. ERROR: data is damaged or lost. WARNING: worth a look. INFO: normal."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


UNREADABLE_CODES = ("unreadable", "not-a-log")
_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem at one place. Findings sort by path, position, length, severity and code.

    Attributes:
        severity: How severe it is.
        code: Its stable name.
        path: The file or directory.
        message: The description of the problem.
        position: The first byte concerned, counted from the start of the file; None if it is not about bytes.
        length: The number of bytes concerned; None if it is not about bytes.
        first_offset: The first offset concerned, or that may have been in lost bytes; None if unknown.
        last_offset: The last offset concerned, inclusive; None if unknown.
        expected: The expected value; None if there is nothing to compare.
        found: The value found; None if there is nothing to compare.
    """

    severity: Severity
    code: str
    path: str
    message: str
    position: int | None = None
    length: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    expected: int | str | None = None
    found: int | str | None = None

    @property
    def end(self) -> int | None:
        """The position after the last byte concerned; None if the finding is not about bytes."""
        return None if self.position is None or self.length is None else self.position + self.length

    def __lt__(self, other: "Finding") -> bool:
        return self._sort_key() < other._sort_key()

    def _sort_key(self) -> tuple[Any, ...]:
        place = -1 if self.position is None else self.position
        return self.path, place, self.length or 0, _RANKS[self.severity], self.code, self.message

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as values that JSON can represent."""
        return {**asdict(self), "severity": str(self.severity)}

    def __str__(self) -> str:
        """Return one line: PATH:POSITION: SEVERITY CODE: MESSAGE (bytes, offsets, expected, found)."""
        place = "" if self.position is None else f":{self.position}"
        details = ", ".join(self._details())
        line = f"{self.path}{place}: {self.severity} {self.code}: {self.message}" + (f" ({details})" if details else "")
        return line.replace("\n", "\\n")

    def _details(self) -> list[str]:
        details = []
        if self.length is not None:
            details.append(f"{self.length} bytes")
        if self.first_offset is not None and self.last_offset is not None:
            details.append(f"offsets {self.first_offset}..{self.last_offset}")
        elif self.first_offset is not None or self.last_offset is not None:
            details.append(f"offsets {_offset_text(self.first_offset)}..{_offset_text(self.last_offset)}")
        details += [
            f"{name} {value}"
            for name, value in (("expected", self.expected), ("found", self.found))
            if value is not None
        ]
        return details


def _offset_text(offset: int | None) -> str:
    return "" if offset is None else str(offset)


@dataclass(slots=True)
class Summary:
    """The totals of a check, updated while it runs.

    Attributes:
        files: The number of files opened.
        bytes: The number of bytes checked.
        batches: The number of batches with a valid checksum.
        records: The number of records decoded (deep checks only).
        unreadable: The number of files and directories that could not be read to their end.
        seconds: The time the check has taken.
        severities: The number of findings by severity.
        codes: The number of findings by code.
    """

    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    unreadable: int = 0
    seconds: float = 0.0
    severities: Counter[Severity] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)

    def count(self, finding: Finding) -> Finding:
        """Count a finding and return it."""
        self.severities[finding.severity] += 1
        self.codes[finding.code] += 1
        self.unreadable += finding.code in UNREADABLE_CODES
        return finding

    @property
    def errors(self) -> int:
        """The number of errors."""
        return self.severities[Severity.ERROR]

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return self.severities[Severity.WARNING]

    @property
    def infos(self) -> int:
        """The number of findings that are neither errors nor warnings."""
        return self.severities[Severity.INFO]

    def as_dict(self) -> dict[str, Any]:
        """Return all totals as values that JSON can represent."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "batches": self.batches,
            "records": self.records,
            "unreadable": self.unreadable,
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "codes": dict(sorted(self.codes.items())),
            "seconds": round(self.seconds, 3),
        }
