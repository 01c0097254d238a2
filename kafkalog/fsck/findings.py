"""The results of a check: `Finding`, one problem at one place; `Verdict`, all of a partition; `Summary`, the totals.

What a broker does about each, and hence the severity, is in `consequences`, by code.
"""

import os
import shlex
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from kafkalog.errors import owner_hint
from kafkalog.fsck.consequences import OF_METADATA, RULES, SALVAGE, SALVAGE_DEEP, Consequence, Rule, Severity
from kafkalog.storage.file_names import CLUSTER_METADATA_TOPIC, parse_partition_dir

UNREADABLE_CODES = ("unreadable", "not-a-log", "version-not-checked")
_ORDER = {consequence: place for place, consequence in enumerate(Consequence)}
_RANKS = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem at one place. Findings sort by path, position, length, severity and code.

    Attributes:
        code: Its stable name.
        path: The file or directory.
        message: The description of the problem.
        position: The first byte concerned, counted from the start of the file; None if it is not about bytes.
        length: The number of bytes concerned; None if it is not about bytes.
        first_offset: The first offset concerned, or that may have been in lost bytes; None if unknown.
        last_offset: The last offset concerned, inclusive; None if unknown.
        expected: The expected value; None if there is nothing to compare.
        found: The value found; None if there is nothing to compare.
        situation: What else decides on the rule: "sealed" in a segment that has a successor, "synced" if it also ends
            before the recovery point, "stopped" in the last one after a clean stop, "empty" in a log without segments,
            "unindexed" in a segment without an offset index, "hiding" of an index that hides the records of a segment,
            "known" of a topic that the cluster has, "completed" of a left-over file that is put in place, "needed" of
            what is deleted though it is the only copy, "not-permitted" of what this user may not read, "directory" of
            one in the place of a file, "space" of a name with one, "not-utf-8" of one that is not, "digits" of an
            offset with another number of digits than 20, the name of a checkpoint; `RULES` has `torn-tail, sealed`,
            for example.
        partition: The partition, `<topic>-<number>`, of a wrong line in a checkpoint; else None.
        arguments: What the command that mends it is given beside the path.
    """

    code: str
    path: str
    message: str
    position: int | None = None
    length: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    expected: int | str | None = None
    found: int | str | None = None
    situation: str = ""
    partition: str | None = None
    arguments: str = ""

    @property
    def rule(self) -> Rule:
        """What a broker does about it."""
        return RULES.get(f"{self.code}, {self.situation}") or RULES[self.code]

    @property
    def consequence(self) -> Consequence:
        """The worst that follows from it."""
        return self.rule.consequence

    @property
    def severity(self) -> Severity:
        """How severe it is, by its consequence."""
        return self.consequence.severity

    @property
    def mend(self) -> str | None:
        """The command that mends it; None if there is nothing to mend."""
        directory = self.path.rpartition("/")[0] or "."
        name = os.path.basename(os.path.abspath(directory))  # noqa: PTH100, PTH119 - a URL has one too
        partition = f"{directory}/{parse_partition_dir(self.path.rpartition('/')[2])}"
        path, directory, name, partition = map(shlex.quote, (self.path, directory, name, partition))
        of_metadata = name == f"{CLUSTER_METADATA_TOPIC}-0" and self.rule.mend in {SALVAGE, SALVAGE_DEEP}
        mend = OF_METADATA if of_metadata else self.rule.mend
        names = {"path": path, "directory": directory, "name": name, "partition": partition}
        return mend.format(**names, expected=self.expected, arguments=self.arguments) or None

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
        """Return all fields, and what a broker does, as values that JSON can represent."""
        fields = asdict(self)
        del fields["situation"], fields["arguments"]
        return {
            "severity": str(self.severity),
            **fields,
            "consequence": str(self.consequence),
            "clean_start": self.rule.clean,
            "unclean_start": self.rule.unclean,
            "mend": self.mend,
        }

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
        if self.first_offset is not None or self.last_offset is not None:
            first, last = ("" if offset is None else offset for offset in (self.first_offset, self.last_offset))
            details.append(f"offsets {first}..{last}")
        details += [
            f"{name} {value}"
            for name, value in (("expected", self.expected), ("found", self.found))
            if value is not None
        ]
        return details


def unreadable(path: str | os.PathLike[str], error: OSError) -> Finding:
    """Return the finding about a file or a directory that cannot be read, or that this user may not read."""
    message = f"{error.strerror or error}{owner_hint(path, error)}"
    situation = "not-permitted" if isinstance(error, PermissionError) else ""
    situation = "directory" if isinstance(error, IsADirectoryError) else situation
    return Finding("unreadable", os.fspath(path), message, situation=situation)


@dataclass(slots=True)
class Verdict:
    """The findings of one file, partition or data directory, taken together.

    Attributes:
        worst: The first of the findings with the worst consequence.
        severities: The number of findings by severity.
        codes: The number of findings by code.
        mend: The command that mends the worst finding, or several partitions that need the same.
    """

    worst: Finding
    severities: Counter[Severity] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    mend: str | None = None

    def count(self, finding: Finding) -> None:
        """Add a finding."""
        if finding is self.worst or _ORDER[finding.consequence] < _ORDER[self.worst.consequence]:
            self.worst, self.mend = finding, finding.mend
        self.severities[finding.severity] += 1
        self.codes[finding.code] += 1

    def as_dict(self) -> dict[str, Any]:
        """Return all values as values that JSON can represent."""
        return {
            "consequence": str(self.worst.consequence),
            "errors": self.severities[Severity.ERROR],
            "warnings": self.severities[Severity.WARNING],
            "infos": self.severities[Severity.INFO],
            "codes": dict(sorted(self.codes.items())),
            "clean_start": self.worst.rule.clean,
            "unclean_start": self.worst.rule.unclean,
            "mend": self.mend,
        }


def _is_repair(mend: str | None, path: str) -> bool:
    """Return whether a command is the plain repair of a path."""
    return (mend or "").partition("    #")[0] == f"kafkalog repair {shlex.quote(path)}"


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
        verdicts: By path, the verdicts on partitions, on other directories that need attention, on data directories,
            and on files that are checked alone.
    """

    files: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    unreadable: int = 0
    seconds: float = 0.0
    severities: Counter[Severity] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def count(self, finding: Finding, *places: str) -> Finding:
        """Count a finding, also in the verdicts on these places, and return it."""
        for place in places:
            self.verdicts.setdefault(place, Verdict(finding)).count(finding)
        self.severities[finding.severity] += 1
        self.codes[finding.code] += 1
        self.unreadable += finding.code in UNREADABLE_CODES
        return finding

    def add_counts(self, other: "Summary") -> None:
        """Add the numbers of files, bytes, batches and records."""
        self.files += other.files
        self.bytes += other.bytes
        self.batches += other.batches
        self.records += other.records

    def conclude(self, place: str) -> None:
        """Move the verdict on a data directory, if there is one, behind those on what is in it.

        If several of its partitions need a repair, the command that mends it is the repair of the directory.
        """
        if place not in self.verdicts:
            return
        verdict = self.verdicts[place] = self.verdicts.pop(place)
        repaired = {path for path, each in self.verdicts.items() if _is_repair(each.mend, path)}
        within = {path for path in repaired if path.startswith(f"{place}/")}
        if len(within) > 1 and any(_is_repair(verdict.mend, path) for path in within):
            verdict.mend = f"kafkalog repair {shlex.quote(place)}"

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
            "verdicts": [{"path": path, **verdict.as_dict()} for path, verdict in self.verdicts.items()],
            "seconds": round(self.seconds, 3),
        }
