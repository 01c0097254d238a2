"""What a broker does about a finding, by its code: `RULES`. The severity of a finding follows from its consequence.

    no-start        error    the broker does not start, or takes the data directory offline
    data-deleted    error    the broker deletes good records when it starts
    set-aside       error    the partition is not served: it is renamed, or left out
    records-lost    error    records are gone, or are cut off, or no consumer gets them
    served-wrongly  error    the broker starts, and gives wrong answers
    rebuilt         warning  the broker repairs it when it starts, and no committed record is lost
    doubtful        warning  the broker accepts it, but no broker writes it
    harmless        info     normal, or left over and removed

The codes are stable; programs may rely on them. The consequence is the worse one of a start after a clean stop and of
one after an unclean stop: whether a broker stopped cleanly is not known of a copy. After a clean stop a broker trusts
all files. After an unclean stop it reads the segments from the recovery point on, cuts the log at the first damage, and
rebuilds what is beside these segments.
"""

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """The severity of a finding. ERROR: data is damaged or lost. WARNING: worth a look. INFO: normal."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Consequence(StrEnum):
    """What follows if a broker starts with a finding, the worst first; see the head of this file."""

    NO_START = "no-start"
    DATA_DELETED = "data-deleted"
    SET_ASIDE = "set-aside"
    RECORDS_LOST = "records-lost"
    SERVED_WRONGLY = "served-wrongly"
    REBUILT = "rebuilt"
    DOUBTFUL = "doubtful"
    HARMLESS = "harmless"

    @property
    def severity(self) -> Severity:
        """The severity of findings with this consequence."""
        if self is Consequence.HARMLESS:
            return Severity.INFO
        return Severity.WARNING if self in {Consequence.REBUILT, Consequence.DOUBTFUL} else Severity.ERROR


class Rule(NamedTuple):
    """What a broker does about findings of one code.

    Attributes:
        consequence: The worst that follows.
        clean: What a broker does at its start after a clean stop.
        unclean: What it does at its start after an unclean stop.
        mend: The command that mends it while the broker is stopped, with `{path}`, `{directory}`, `{name}` and
            `{expected}`: the file, its directory, the name of that, and the expected value; empty if there is nothing
            to mend. What `kafkalog repair` does is in `repair_plan`.
    """

    consequence: Consequence
    clean: str
    unclean: str
    mend: str = ""

    def does(self, *, recovered: bool) -> str:
        """Return what a broker does at its start, to a segment that it recovers or to one that it trusts."""
        return self.unclean.removesuffix(_ELSE_TRUSTED) if recovered and self.unclean != _SAME else self.clean

    def follows(self, *, recovered: bool) -> Consequence:
        """Return what follows from that alone; `consequence` is the worse one of both."""
        return _FOLLOWS.get(self.does(recovered=recovered), self.consequence)

    def cuts(self, *, recovered: bool) -> bool:
        """Return whether it cuts off the rest of the log."""
        return recovered and self.does(recovered=recovered).startswith("cuts ")


_NO_START, _DELETED, _ASIDE, _LOST, _WRONG, _REBUILT, _DOUBTFUL, _HARMLESS = Consequence

_SAME = "does the same"
_FATAL = "stops while it starts, or takes the data directory offline"
_ACCEPTS = "accepts it"
_SERVES = "serves the bytes as they are; a consumer stops there"
_ELSE_TRUSTED = "; before the recovery point, as after a clean stop"
_CUTS = "cuts the segment there" + _ELSE_TRUSTED
_CUTS_ALL = "cuts the segment there and deletes all later ones" + _ELSE_TRUSTED
SALVAGE = "kafkalog salvage {directory} COPY/{name}    # or, if other replicas have it: mv {directory} ASIDE"
OF_METADATA = "mv {directory} ASIDE    # if another controller has the metadata: their log must not have gaps"
"""The advice for a damaged log of the cluster's metadata, which must not be salvaged."""
SALVAGE_DEEP = SALVAGE.replace("salvage", "salvage --deep", 1)
_FETCH = "mv {directory} ASIDE    # if other replicas have the records"
_REPAIR = "kafkalog repair {directory}"
_TAIL = _REPAIR + "    # or, if the broker did not stop cleanly, kafkalog recover of its data directory"
_SHORT = (
    "mv {directory} ASIDE    # if other replicas have the records; else, if the broker did not stop cleanly, kafkalog"
    " recover of its data directory; else kafkalog repair {directory} --drop-corrupt"
)
_STRAYS = "takes the partition for a stray one, and renames it -stray"
_SETTING = "kafka-configs.sh ... --alter --entity-type topics {arguments}"
_RENAME = "mv {path} {partition}"
_GONE = "mv ASIDE/{arguments} {directory}    # if no other replica has it; else the broker fetches it"
_OLDER = "mv {path} ASIDE    # if the log or an older snapshot has the rest; else take both from another controller"
_ID = _REPAIR + "    # with --topic-id ID, if the directory does not tell it"
_KNOWN_ID = _REPAIR + " --topic-id {expected}"

_TRUSTS = "trusts the index: reads may begin at a wrong place, and miss records or fail"
_REBUILDS = "rebuilds it" + _ELSE_TRUSTED
# The consequences of actions, where the kind of stop decides between them.
_FOLLOWS = {_SERVES: _LOST, "cuts it off": _REBUILT, "rebuilds it": _REBUILT}

_damaged = Rule(_LOST, _SERVES, _CUTS, SALVAGE)
_damaged_sealed = Rule(_DELETED, _SERVES, _CUTS_ALL, SALVAGE)
_unnoticed = Rule(_LOST, "serves the batch; consumers fail, or leave out records", _SAME, SALVAGE)
_unread = Rule(_LOST, "serves the batch; consumers fail, or leave out records", _SAME, SALVAGE_DEEP)
_missing = Rule(_LOST, "serves what is there; consumers pass over the missing offsets", _SAME, _FETCH)
_accepted = Rule(_DOUBTFUL, _ACCEPTS, _ACCEPTS)

RULES: dict[str, Rule] = {
    # Files.
    "unreadable": Rule(_NO_START, _FATAL, _SAME),
    "unreadable, not-permitted": Rule(_DOUBTFUL, "reads it, or stops if its user may not read it either", _SAME),
    "unreadable, directory": Rule(_NO_START, _FATAL, _SAME, "mv {path} ASIDE"),
    "not-a-log": Rule(_LOST, "passes over it, if it is no file; else serves its bytes", _SAME, "mv {path} ASIDE"),
    "file-changed": _accepted,
    "segment-gone": Rule(_HARMLESS, "nothing: it was deleted after its directory was listed", _SAME),
    # Framing.
    "lost-bytes": _damaged,
    "wrong-size": _damaged,
    "torn-tail": Rule(
        _REBUILT, "appends behind the incomplete batch, which no consumer gets past", "cuts it off", _TAIL
    ),
    "torn-tail, stopped": Rule(
        _LOST, "appends behind the incomplete batch, which no consumer gets past", "cuts it off", _REPAIR
    ),
    "preallocated-tail": Rule(_HARMLESS, _ACCEPTS, "cuts it off"),
    "preallocated-tail, stopped": Rule(_NO_START, "does not start: a size of 0 is damage", "cuts it off", _TAIL),
    "zeroed-tail": _damaged,
    # Batches.
    "crc-mismatch": _damaged,
    # No checksum covers the magic.
    "unknown-magic": _unnoticed,
    "batch-too-short": _damaged,
    "unknown-codec": _unread,
    "last-offset-delta": _unnoticed,
    "records-count": _unread,
    "producer-fields": _accepted,
    # The order of batches.
    "offset-order": _unnoticed,
    "offset-overlap": _unnoticed,
    "offset-below-segment": _unnoticed,
    "offset-beyond-segment": Rule(_LOST, "splits the segment there", _SAME, SALVAGE),
    "segment-overlap": _unnoticed,
    "leader-epoch": _accepted,
    # Records.
    "invalid-records": _unread,
    "linked-lz4-blocks": _unnoticed,
    "largest-offset": _unnoticed,
    "inner-crc": _unread,
    "inner-offsets": _unread,
    "control-record": _unnoticed,
    "max-timestamp": _accepted,
    # Missing offsets.
    "offset-gap": _missing,
    "segment-gap": _missing,
    # Retention leaves the same if the machine goes down in the moment between both, until retention runs again.
    "first-segment-missing": Rule(
        _LOST,
        "begins the log at the first segment that is there; consumers get nothing before it",
        _SAME,
        _FETCH,
    ),
    # They are in no file: what can be mended is the checkpoint.
    "log-too-short": Rule(_LOST, "lowers the high watermark: committed records are gone", _SAME, _SHORT),
    "log-too-short, empty": Rule(
        _LOST,
        "lowers the high watermark: committed records are gone",
        _SAME,
        _SHORT.replace("{directory}", "{path}"),
    ),
    # Indexes.
    "index-missing": Rule(_REBUILT, "reads the segment and rebuilds its indexes", _SAME, _REPAIR),
    "time-index-missing": Rule(_REBUILT, "rebuilds it", _SAME, _REPAIR),
    "time-index-missing, sealed": Rule(
        _WRONG, "leaves it empty: searches by time pass over the segment", _REBUILDS, _REPAIR
    ),
    "index-size": Rule(_REBUILT, "cuts off the rest of an entry", _REBUILDS, _REPAIR),
    "index-empty": Rule(_HARMLESS, _ACCEPTS, _ACCEPTS),
    "index-zeros": Rule(_WRONG, _TRUSTS, _REBUILDS, _REPAIR),
    "index-entries": Rule(_WRONG, _TRUSTS, _REBUILDS, _REPAIR),
    # It looks up the last entry's offset, and finds no batch.
    "index-entries, hiding": Rule(
        _LOST,
        "takes the segment's base offset for the log's end: it hides the segment's records, and gives their offsets out"
        " again",
        "rebuilds it",
        _REPAIR,
    ),
    "time-index-entries": Rule(_WRONG, _TRUSTS, _REBUILDS, _REPAIR),
    "time-index-short": Rule(_WRONG, _TRUSTS, _REBUILDS, _REPAIR),
    "orphaned-index": Rule(_REBUILT, "deletes it", _SAME, _REPAIR),
    # The state of a partition.
    "txn-index-version": Rule(_NO_START, _FATAL, _SAME, _REPAIR),
    "txn-index-format": Rule(_REBUILT, "reads the segment and rebuilds its indexes", _SAME, _REPAIR),
    "txn-index-missing": Rule(_WRONG, "serves aborted records to consumers of committed ones", _REBUILDS, _REPAIR),
    "txn-index-missing, unindexed": Rule(_REBUILT, "rebuilds it", _SAME, _REPAIR),
    "txn-index-entries": Rule(_WRONG, "hides records from consumers of committed ones", _REBUILDS, _REPAIR),
    "snapshot-format": Rule(_REBUILT, "deletes it, and replays the log from an older snapshot", _SAME, _REPAIR),
    "snapshot-differs": Rule(_WRONG, "refuses batches of producers, or accepts them twice", _REBUILDS, _REPAIR),
    "snapshot-missing": Rule(
        _WRONG, "forgets all producers: repeated batches are accepted twice", _REBUILDS, "kafkalog repair {path}"
    ),
    "leader-epoch-format": Rule(_NO_START, _FATAL, _SAME, _REPAIR),
    "leader-epoch-order": Rule(_REBUILT, "drops the entries that do not rise", _SAME, _REPAIR),
    "leader-epoch-beyond-end": Rule(_REBUILT, "drops the entry", _SAME, _REPAIR),
    "leader-epoch-missing": Rule(_REBUILT, "begins a new file with its next epoch", _SAME, _REPAIR),
    "leader-epoch-differs": Rule(_WRONG, "gives followers wrong offsets to truncate to", _SAME, _REPAIR),
    "partition-metadata-format": Rule(_NO_START, _FATAL, _SAME, _ID),
    "partition-metadata-missing": Rule(_ASIDE, _STRAYS, _SAME, _ID),
    "topic-id-differs": Rule(
        _ASIDE, _STRAYS, _SAME, _KNOWN_ID + "    # or, if it is of a topic that was deleted: mv {directory} ASIDE"
    ),
    # Comparison with the cluster's metadata.
    "topic-gone": Rule(_ASIDE, _STRAYS, _SAME),
    "replica-not-assigned": Rule(_ASIDE, _STRAYS, _SAME),
    "topic-name-differs": Rule(_DOUBTFUL, "loads the partition, and serves it to nobody", _SAME),
    "topic-name-differs, known": Rule(
        _ASIDE,
        "serves neither it nor the partition whose topic id it has",
        _SAME,
        _KNOWN_ID + "    # or, if the directory was renamed, give it its name again",
    ),
    # The files of a data directory.
    "checkpoint-format": Rule(_NO_START, _FATAL, _SAME, _REPAIR),
    # A field that is not a number.
    "checkpoint-format, recovery-point": Rule(
        _REBUILT, "takes 0 for all recovery points", "recovers all logs", _REPAIR
    ),
    "checkpoint-format, replication": Rule(_ASIDE, "serves no partition of the directory", _SAME, _REPAIR),
    "checkpoint-format, log-start": Rule(
        _WRONG, "serves deleted records again, from the first segments on", _SAME, _REPAIR
    ),
    "checkpoint-format, cleaner": Rule(_DOUBTFUL, "compacts nothing in the directory", _SAME, _REPAIR),
    # A broker that stops writes a header even if there are no entries.
    "checkpoint-empty": Rule(_DOUBTFUL, "finds out the high watermarks again", _SAME),
    "checkpoint-empty, recovery-point": Rule(_REBUILT, _ACCEPTS, "recovers all logs"),
    "checkpoint-empty, log-start": Rule(
        _WRONG, "serves deleted records again, from the first segments on", _SAME, _REPAIR
    ),
    # The deletion comes `log.initial.task.delay.ms` after the start, by default 30 s (3.9.1 and 4.2.0).
    "log-start-unlike-epochs": Rule(
        _DELETED,
        "serves nothing before the log start, and deletes the segments before it when retention first runs",
        _SAME,
        _REPAIR,
    ),
    "log-start-before-log": Rule(_WRONG, "serves deleted records again, from the first segment on", _SAME, _REPAIR),
    "log-start-beyond-end": Rule(_DELETED, "deletes all segments, and begins anew at the log start", _SAME, _REPAIR),
    "cleaner-offset-beyond-end": Rule(_DOUBTFUL, "compacts from the log's start again", _SAME, _REPAIR),
    "partition-gone": Rule(
        _LOST,
        "creates an empty partition, if the cluster still has it, and fetches what other replicas have",
        _SAME,
        _GONE,
    ),
    "clean-shutdown-format": Rule(
        _DOUBTFUL, "takes the stop for a clean one; its broker epoch is unknown", _SAME, _REPAIR
    ),
    "meta-properties-format": Rule(_NO_START, "does not start", _SAME),
    "meta-properties-missing": Rule(_NO_START, "does not start", _SAME),
    "metadata-snapshot": Rule(_NO_START, "does not start", _SAME, _OLDER),
    "metadata-snapshot, torn": Rule(
        _ASIDE, "takes partitions whose topics are missing in it for stray ones, and renames them -stray", _SAME, _OLDER
    ),
    "metadata-not-compared": Rule(_HARMLESS, "reads them as it does; no partition was compared with them here", _SAME),
    "quorum-state-format": Rule(_NO_START, "does not start", _SAME),
    # Behaviour of other versions of Kafka with the cluster's metadata.
    "feature-level": Rule(_NO_START, "does not start", _SAME),
    "setting-refused": Rule(_NO_START, _FATAL, _SAME, _SETTING),
    "setting-refused, broker": Rule(_DOUBTFUL, "ignores the setting, and logs an error", _SAME),
    "setting-ignored": Rule(_DOUBTFUL, "ignores the setting", _SAME),
    "version-not-checked": Rule(_DOUBTFUL, "may refuse settings or features that were not checked", _SAME),
    # Names, links and modes.
    "foreign-directory": Rule(_NO_START, "does not start", _SAME, _REPAIR),
    "foreign-directory, space": Rule(
        _NO_START, "starts, writes checkpoints that it cannot read, and does not start again", _SAME, _REPAIR
    ),
    "foreign-directory, not-utf-8": Rule(_ASIDE, "passes over it", _SAME, _REPAIR),
    "partition-twice": Rule(_NO_START, "does not start", _SAME, _REPAIR),
    "partition-name": Rule(_DOUBTFUL, "serves it under its usual name", _SAME, _RENAME),
    "foreign-log-name": Rule(_NO_START, "does not start", _SAME, _REPAIR),
    "foreign-log-name, digits": Rule(
        _WRONG, "opens the file that has the offset as 20 digits: a new segment without records", _SAME, _REPAIR
    ),
    "directory-delete": Rule(_HARMLESS, "deletes it", _SAME),
    "directory-delete, needed": Rule(_DELETED, "deletes it, and begins the partition anew", _SAME, _RENAME),
    "directory-future": Rule(_REBUILT, "makes it the partition, if the move was complete, or goes on moving it", _SAME),
    "directory-stray": Rule(_DOUBTFUL, "does not serve it", _SAME),
    "directory-stray, needed": Rule(_ASIDE, "does not serve it, and begins the partition anew", _SAME, _RENAME),
    "left-over": Rule(_HARMLESS, "deletes it", _SAME),
    "left-over, completed": Rule(_HARMLESS, "completes the replacement that it belongs to", _SAME),
    "left-over, needed": Rule(
        _DELETED, "deletes it", _SAME, "mv {path} ASIDE    # kafkalog dump --skip-damage shows its records"
    ),
    "swap-damaged": Rule(_DELETED, "puts it in place of good segments", _SAME, _REPAIR),
    "dangling-link": Rule(
        _LOST,
        "passes over it",
        _SAME,
        "readlink {path}    # mount or restore what it leads to",
    ),
    "mode": Rule(
        _NO_START,
        "takes the data directory offline, unless it runs as root",
        _SAME,
        "chmod -R u+rwX {directory}",
    ),
    "mode, owner": Rule(
        _NO_START,
        "takes the data directory offline, unless it runs as root",
        _SAME,
        "chown -R --reference={directory} {directory}",
    ),
}
RULES |= {f"{code}, sealed": _damaged_sealed for code, rule in RULES.items() if rule is _damaged}
RULES["torn-tail, sealed"] = _damaged_sealed
# A broker trusts segments before the recovery point after any stop.
RULES |= {
    code.replace(", sealed", ", synced"): Rule(rule.follows(recovered=False), rule.clean, _SAME, rule.mend)
    for code, rule in RULES.items()
    if code.endswith(", sealed")
}
