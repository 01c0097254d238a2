"""A segment to damage, and the outcome of a check of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkalog.fsck.findings import Finding, Summary
from kafkalog.fsck.verifying import Options, verify_place
from kafkalog.storage.data_dir.discover import LogFile
from tests.reference.encode import V2Batch, records

BATCHES = 8
EACH = 5


@dataclass(frozen=True)
class Checked:
    """The outcome of a check."""

    findings: list[Finding]
    summary: Summary

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.findings]

    @property
    def places(self) -> list[tuple[str, str, int | None, int | None]]:
        """Return severity, code, position and length of each finding."""
        return [(str(f.severity), f.code, f.position, f.length) for f in self.findings]


def check(path: Path, data: bytes | None = None, *, deep: bool = False, sealed: bool = False) -> Checked:
    """Check a file, to which `data` is written first if there is any; a `sealed` one gets a successor."""
    if data is not None:
        path.write_bytes(data)
    if sealed:
        path.with_name(f"{1 << 20:020}.log").touch()
    summary = Summary()
    findings = list(verify_place(LogFile(path), Options(deep=deep, summary=summary)))
    return Checked(findings, summary)


def batch(place: int, size: int = 700, **fields: Any) -> bytes:
    """Return the batch of that number: offsets 5 * place to 5 * place + 4, values of `size` bytes."""
    values = [bytes([33 + place % 200]) * size for _ in range(EACH)]
    return V2Batch(records(*values, offset=EACH * place), **fields).encoded()


def log(*changed: tuple[int, bytes], size: int = 700) -> list[bytes]:
    """Return eight batches, some of them exchanged for others."""
    batches = [batch(place, size) for place in range(BATCHES)]
    for place, data in changed:
        batches[place] = data
    return batches


def start_of(batches: list[bytes], place: int) -> int:
    return sum(map(len, batches[:place]))


def with_bytes(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def flipped(data: bytes, at: int, bit: int) -> bytes:
    return with_bytes(data, at, bytes([data[at] ^ 1 << bit]))
