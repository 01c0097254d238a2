"""Checks of log files: what is damaged, where, and which offsets are lost. Nothing here writes.

    for finding in verify_path("data/orders-0", Options(deep=True)):
        print(finding)

`verify_path` yields `Finding`s, each with its `Severity`, and counts them in the `Summary` of its `Options`.
`SoundEntries` finds the next batch among bytes whose framing is lost.
"""

from kafkalog.fsck.batch_search import SoundEntries
from kafkalog.fsck.findings import Finding, Severity, Summary
from kafkalog.fsck.verifying import Options, verify_path

__all__ = ["Finding", "Options", "Severity", "SoundEntries", "Summary", "verify_path"]
