"""What a check says: `Finding`, one matter at one place, and `Summary`, how much was looked at and how much was found.

The codes are stable; programs may rely on them. Severity in brackets: E error, W warning, I info.

    the file      unreadable E         it cannot be opened or read (on)
                  not-a-log E          it is something else
                  file-changed W       it became shorter while it was read
                  segment-gone I       it was deleted after its directory had been listed
    framing       lost-bytes E         a range in which no batch can be read, up to the next one that can, or to the end
                  wrong-size E         only the size field is wrong: with the size expected, the checksum holds
                  torn-tail W/E        the last batch is not there whole; W in the active segment (a write under way, or
                                       recovery will cut it off), E in one that has a successor
                  preallocated-tail I  nothing but zeros up to the end of the active segment
                  zeroed-tail E        the same in a segment that has a successor
    a batch       crc-mismatch E  unknown-magic E  batch-too-short E  unknown-codec E
                  last-offset-delta E  the last offset is less than the base offset
                  records-count E      negative, or more records than offsets
                  producer-fields W    producer id, epoch, sequence and flags that no producer can have sent together
    their order   offset-order E       a batch begins no later than the one before it
                  offset-overlap E     a batch begins within the one before it
                  offset-below-segment E  offset-beyond-segment E  segment-overlap E
                  leader-epoch W       the leader epoch goes down, or is less than -1
    records       invalid-records E    they cannot be decompressed, or do not follow the format
                  inner-crc E          a message inside a compressed message has a wrong checksum
                  inner-offsets E      they do not rise, or leave the range that their batch states
                  control-record E     key or value of a control record do not follow the format
                  max-timestamp W      the batch states another than its records have
"""

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is. ERROR: data is damaged or lost; WARNING: look at it; INFO: normal, and good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


UNREADABLE_CODES = ("unreadable", "not-a-log")
_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One matter at one place. Findings sort by path, position, length, severity and code.

    position, length: the bytes concerned, counted from the start of the file; None where no bytes are. first_offset,
    last_offset: the offsets concerned, both inclusive, where they are known; of lost bytes, those that may have been in
    them. expected, found: numbers or text, None where there is nothing to compare.
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
        """The position after the last byte concerned."""
        return None if self.position is None or self.length is None else self.position + self.length

    def __lt__(self, other: "Finding") -> bool:
        return self._sort_key() < other._sort_key()

    def _sort_key(self) -> tuple[Any, ...]:
        place = -1 if self.position is None else self.position
        return self.path, place, self.length or 0, _RANKS[self.severity], self.code, self.message

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
        return {**asdict(self), "severity": str(self.severity)}

    def __str__(self) -> str:
        """One line: PATH:POSITION: SEVERITY CODE: MESSAGE (bytes, offsets, expected, found)."""
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
            details.append(f"offsets {_or_nothing(self.first_offset)}..{_or_nothing(self.last_offset)}")
        details += [
            f"{name} {value}"
            for name, value in (("expected", self.expected), ("found", self.found))
            if value is not None
        ]
        return details


def _or_nothing(offset: int | None) -> str:
    return "" if offset is None else str(offset)


@dataclass(slots=True)
class Summary:
    """What has been looked at and found so far; it grows while a check runs.

    batches: those whose checksum holds. records: those decoded (deep checks only). unreadable: files and directories
    that could not be read, or not to their end.
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
        """Take note of a finding, and give it back."""
        self.severities[finding.severity] += 1
        self.codes[finding.code] += 1
        self.unreadable += finding.code in UNREADABLE_CODES
        return finding

    @property
    def errors(self) -> int:
        """How many errors were found."""
        return self.severities[Severity.ERROR]

    @property
    def warnings(self) -> int:
        """How many warnings were found."""
        return self.severities[Severity.WARNING]

    @property
    def infos(self) -> int:
        """How many things good to know were found."""
        return self.severities[Severity.INFO]

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON knows it."""
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
