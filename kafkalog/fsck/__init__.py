"""Checks of log files: what is damaged, where, and which offsets are lost. Only `recover`, `salvage` and repairs write.

    for finding in verify_path("data/orders-0", Options(deep=True)):
        print(finding)

`verify_path` yields `Finding`s, each with its `Consequence` and `Severity`, and counts them in the `Summary` of its
`Options`, which has a `Verdict` for each partition with findings.
`explain` tells what a broker would do at its start on a data directory.
`plan_repair` tells how to mend findings in place, `apply_repair` does it, `undo_repair` takes it back.
`recover` does what a broker does in a data directory after an unclean stop, `salvage` copies the good batches of
a damaged partition to a new one.
`SoundEntries` finds the next batch among bytes whose framing is lost.

The public names are imported on first use, so that a check does not import what recovers and repairs.
"""

from typing import TYPE_CHECKING, Any

from kafkalog.lazy_names import homes_of, imported

if TYPE_CHECKING:
    from kafkalog.fsck.batch_search import SoundEntries
    from kafkalog.fsck.consequences import Consequence, Severity
    from kafkalog.fsck.explaining import Explanation, explain
    from kafkalog.fsck.findings import Finding, Summary, Verdict
    from kafkalog.fsck.recovering import RecoveredPartition, bytes_to_recover, recover
    from kafkalog.fsck.repair_plan import Change, Left, Mending, RepairPlan
    from kafkalog.fsck.repair_planning import plan_repair
    from kafkalog.fsck.repairing import apply_repair, undo_repair
    from kafkalog.fsck.salvaging import SalvagedPartition, salvage
    from kafkalog.fsck.verifying import Options, verify_path

__all__ = [
    "Change",
    "Consequence",
    "Explanation",
    "Finding",
    "Left",
    "Mending",
    "Options",
    "RecoveredPartition",
    "RepairPlan",
    "SalvagedPartition",
    "Severity",
    "SoundEntries",
    "Summary",
    "Verdict",
    "apply_repair",
    "bytes_to_recover",
    "explain",
    "plan_repair",
    "recover",
    "salvage",
    "undo_repair",
    "verify_path",
]

# The home of each name. `TYPE_CHECKING` and `__all__` say the same to type checkers, which need literals.
_HOMES = homes_of(
    {
        "kafkalog.fsck.batch_search": "SoundEntries",
        "kafkalog.fsck.consequences": "Consequence Severity",
        "kafkalog.fsck.explaining": "Explanation explain",
        "kafkalog.fsck.findings": "Finding Summary Verdict",
        "kafkalog.fsck.recovering": "RecoveredPartition bytes_to_recover recover",
        "kafkalog.fsck.repair_plan": "Change Left Mending RepairPlan",
        "kafkalog.fsck.repair_planning": "plan_repair",
        "kafkalog.fsck.repairing": "apply_repair undo_repair",
        "kafkalog.fsck.salvaging": "SalvagedPartition salvage",
        "kafkalog.fsck.verifying": "Options verify_path",
    }
)


def __getattr__(name: str) -> Any:
    return imported(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return __all__
