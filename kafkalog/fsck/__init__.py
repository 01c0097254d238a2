"""Judges what `storage` and `record` read: is it sound, where is it not, and what is lost. Nothing here writes.

    for finding in verify_path("data/orders-0", Options(deep=True)):
        print(finding)

The public names: `verify_path`, with `Options`, gives `Finding`s, each with its `Severity`, and counts them in a
`Summary`; `SoundEntries` finds where, among bytes whose framing is lost, a batch begins again.
"""

from kafkalog.fsck.batch_search import SoundEntries
from kafkalog.fsck.findings import Finding, Severity, Summary
from kafkalog.fsck.verifying import Options, verify_path

__all__ = ["Finding", "Options", "Severity", "SoundEntries", "Summary", "verify_path"]
