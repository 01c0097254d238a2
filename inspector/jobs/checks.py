"""What checks have found, by path: `Checks`. No Textual here.

verify of the data directory    orders-0/0.log: 2 errors        orders-0 damaged, its segment 0 damaged
the other partitions ok, as long as they do not change
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from kafkalog.fsck import Finding, Severity

Checked: TypeAlias = Literal["unchecked", "ok", "damaged"]
# The clock of a file system may be behind by so much.
SETTLED_SECONDS = 0.02


@dataclass(slots=True)
class Check:
    """One check of a data directory, a partition or a file.

    Attributes:
        path: What is checked.
        began: When it began, seconds since the epoch.
        finished: Whether it has come to its end.
        errors: The number of errors of each file or directory, and the text of the first of them.
    """

    path: Path
    began: float = field(default_factory=time.time)
    finished: bool = False
    errors: dict[Path, tuple[int, str]] = field(default_factory=dict)

    def add(self, findings: Iterable[Finding]) -> None:
        """Take note of the errors among findings."""
        for finding in findings:
            if finding.severity is Severity.ERROR:
                path = Path(finding.path)
                # A line of a checkpoint is about a partition.
                place = path if finding.partition is None else path.parent / finding.partition
                count, first = self.errors.get(place, (0, f"{path.name}: {finding.message}"))
                self.errors[place] = count + 1, first

    def of(self, path: Path) -> tuple[Checked, str | None]:
        """Return what it says of a partition, a segment or a directory, and the problem.

        Errors stay until the next check. A file that was written since is not known to be sound any more.
        """
        found = [(count, first) for place, (count, first) in self.errors.items() if _is_of(place, path)]
        if found:
            errors = sum(count for count, _ in found)
            return "damaged", found[0][1] + (f" ({errors:,} errors; 8 lists them)" if errors > 1 else "")
        if not self.finished or not (path == self.path or self.path in path.parents):
            return "unchecked", None
        return ("ok" if _last_change(path) < self.began - SETTLED_SECONDS else "unchecked"), None


def _is_of(place: Path, path: Path) -> bool:
    """Return whether a file is, or is below, a path, or belongs to the segment at a path."""
    return place == path or path in place.parents or (place.parent == path.parent and place.stem == path.stem)


def _last_change(path: Path) -> float:
    """Return when a segment, or one of a partition's, was last written; infinity: unknown."""
    try:
        if not path.is_dir():
            return path.stat().st_mtime
        with os.scandir(path) as entries:
            return max((entry.stat().st_mtime for entry in entries if entry.name.endswith(".log")), default=0.0)
    except OSError:
        return float("inf")
