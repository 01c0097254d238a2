"""Checks of the cluster's metadata beside their log: `snapshot_findings`, of the newest snapshot.

    header | records ... | footer      control, data and control batches; a broker reads them before it starts

A snapshot without its footer has been cut off: the topics that are missing in it are gone for the broker.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kafkalog.errors import KafkaLogError, NotALogError
from kafkalog.fsck.cluster_metadata import newest_snapshot
from kafkalog.fsck.file_check import FileCheck, Scope
from kafkalog.fsck.findings import Finding, Summary, unreadable
from kafkalog.fsck.header_checks import Bounds
from kafkalog.fsck.state_checks import of_error
from kafkalog.record.control import ControlRecordType, control_type
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.segment.file_message_set import FileMessageSet

_CODE = "metadata-snapshot"


def snapshot_findings(data_dir: Path) -> Iterator[Finding]:
    """Yield the finding about the newest snapshot of the cluster's metadata, if a data directory has one."""
    path = None
    try:
        path = newest_snapshot(data_dir)
        if path is not None:
            yield from _damage_of(path)
    except FileNotFoundError:
        # A broker has deleted it, because it has a newer one.
        return
    except OSError as error:
        yield unreadable(path or data_dir, error)
    except NotALogError as error:
        yield of_error(_CODE, Path(str(error.path)), error)


def _damage_of(path: Path) -> Iterator[Finding]:
    with closing(open_source(path)) as source:
        found = next(FileCheck(source, Scope(str(path), Bounds(), sealed=True), Summary()).findings(), None)
    if found is not None:
        situation = "torn" if found.code == "torn-tail" else ""
        yield Finding(_CODE, str(path), f"the snapshot is damaged: {found.message}", found.position, found.length,
                      expected=found.expected, found=found.found, situation=situation)  # fmt: skip
    elif not path.stat().st_size:
        yield Finding(_CODE, str(path), "the snapshot has no bytes")
    elif not _ends_with_footer(path):
        yield Finding(
            _CODE, str(path), "the snapshot does not end with a footer: records are missing", situation="torn"
        )


def _ends_with_footer(path: Path) -> bool:
    with FileMessageSet(path, sealed=True) as snapshot:
        *_, last = snapshot.batches()
        try:
            kinds = [control_type(record.key)[0] for record in last if last.is_control]
        except KafkaLogError:
            return False
    return ControlRecordType.SNAPSHOT_FOOTER in kinds
