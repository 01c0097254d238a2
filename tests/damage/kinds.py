"""The catalogue: kinds of damage to a data directory, each a function that damages a copy of one.

    for kind in KINDS:
        data = ...                       # a copy, with the file times, of a data directory
        kind.damage(data, "v2-none-0")   # CannotDamage: that partition has not got what it damages

`partition` is the golden partition that a kind is about. A broker was started on each of them (`broker_truth.json`).
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.damage import ways
from tests.damage.ways import ACTIVE, BEYOND, FIRST, HEX, LOG_AND_INDEXES, MIDDLE, TEXT, Damage
from tests.helpers.cluster_metadata import append_metadata, moved, removed

PLAIN, TRANSACTIONAL, COMPACTED, IDEMPOTENT = "v2-none-0", "v2-txn-0", "v2-compacted-0", "v2-idempotent-0"
EPOCHS, DELETED_RECORDS = "v2-epochs-0", "v2-deleted-records-0"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
QUORUM_STATE = "__cluster_metadata-0/quorum-state"
CHECKPOINTS = {
    "recovery-point": RECOVERY_POINT_CHECKPOINT,
    "high-watermark": HIGH_WATERMARK_CHECKPOINT,
    "log-start": LOG_START_OFFSET_CHECKPOINT,
    "cleaner": CLEANER_CHECKPOINT,
}
OTHER_ID = "BBBBBBBBBBBBBBBBBBBBBA"


@dataclass(frozen=True)
class Kind:
    """A kind of damage.

    file: the kind of file that is damaged. partition: of the golden partitions, the one that it is about. alone: it
    concerns the directory as a whole, or keeps a broker from loading any of its partitions.
    """

    name: str
    says: str
    file: str
    damage: Damage
    partition: str = PLAIN
    alone: bool = False


def _logs() -> Iterator[Kind]:
    def log(name: str, says: str, damage: Damage, partition: str = PLAIN) -> Kind:
        return Kind(f"log-{name}", says, "log", damage, partition)

    for which, suffix in ((ACTIVE, "active"), (MIDDLE, "sealed")):
        where = f"of the {'active' if which == ACTIVE else 'middle'} segment"
        # The active segment of the plain partition has two batches; of them the last one would be damaged.
        subject = TRANSACTIONAL if which == ACTIVE else PLAIN
        batch, whole = ways.batch_bytes, ways.log_bytes
        for name, says, damage in (
            ("payload-flipped", f"A bit of a payload {where} is flipped.", batch(which, ways.flip(-3))),
            ("size-too-large", f"A size field {where} is 1 GiB.", batch(which, ways.at(8, b"\x40\0\0\0"))),
            ("size-zero", f"A size field {where} is zero.", batch(which, ways.at(8, bytes(4)))),
            ("magic-unknown", f"The magic byte of a batch {where} is 9.", batch(which, ways.at(16, b"\t"))),
            ("zeroed", f"A batch {where} is zeros.", batch(which, lambda data: bytes(len(data)))),
            ("batch-removed", f"A batch {where} is cut out.", batch(which, lambda data: b"")),
            (
                "base-offset",
                f"The base offset of a batch {where}, which no checksum covers, is {BEYOND}.",
                batch(which, ways.at(0, struct.pack(">q", BEYOND))),
            ),
            (
                "leader-epoch",
                f"The leader epoch of a batch {where}, which no checksum covers, is 99.",
                batch(which, ways.at(12, struct.pack(">i", 99))),
            ),
            ("batch-repeated", f"A batch {where} is there twice.", whole(which, ways.repeated)),
            ("batches-swapped", f"Two batches {where} changed places.", whole(which, ways.swapped)),
        ):
            yield log(f"{name}-{suffix}", says, damage, subject)
        for name, says, damage in (
            ("torn", f"The last batch {where} is cut in the middle.", whole(which, ways.torn)),
            ("last-batch-removed", f"The last batch {where} is cut off.", whole(which, ways.last_cut_off)),
            ("last-batch-flipped", f"A bit at the end {where} is flipped.", whole(which, ways.last_flipped)),
            ("emptied", f"All bytes {where} are gone.", whole(which, lambda data, places: b"")),
            ("garbage-at-end", f"Text follows the last batch {where}.", whole(which, _with(TEXT * 9))),
            ("zeros-at-end", f"Zeros follow the last batch {where}.", whole(which, _with(bytes(4096)))),
            ("missing", f"The .log {where} is gone; its indexes are there.", ways.without_segment(which, ".log")),
            (
                "segment-missing",
                f"All files {where} are gone.",
                ways.without_segment(which, *LOG_AND_INDEXES, ".snapshot"),
            ),
        ):
            yield log(f"{name}-{suffix}", says, damage)
    yield log("segment-missing-first", "The oldest segment is gone.", ways.without_segment(FIRST, *LOG_AND_INDEXES))
    yield log("emptied-first", "All bytes of the oldest segment are gone.", ways.log_bytes(FIRST, lambda *_: b""))
    yield log("all-missing", "No .log is there; all other files are.", ways.without_any(".log"))
    yield log("overlap", "A second segment begins in the middle of one.", ways.overlapping)
    yield log("renamed-up", "A segment's files have a base offset 3 too large.", ways.renamed_segment(3))
    yield log("renamed-down", "A segment's files have a base offset 3 too small.", ways.renamed_segment(-3))
    yield log("of-another-segment", "A .log has the bytes of a later segment.", ways.foreign_segment)
    yield log("name-not-a-number", "A file is called notes.log.", ways.file_added("notes.log"))
    yield log("is-a-directory", "A .log is a directory.", ways.directory_in_place_of_log)
    yield log(
        "batch-removed-compacted",
        "A batch of a compacted partition is cut out.",
        ways.batch_bytes(MIDDLE, lambda data: b""),
        COMPACTED,
    )
    yield log(
        "payload-flipped-compacted",
        "A bit of a payload of a compacted partition is flipped.",
        ways.batch_bytes(MIDDLE, ways.flip(-3)),
        COMPACTED,
    )
    yield log(
        "segment-missing-compacted",
        "The middle segment of a compacted partition is gone.",
        ways.without_segment(MIDDLE, *LOG_AND_INDEXES, ".snapshot"),
        COMPACTED,
    )
    yield log(
        "marker-removed", "The marker of a transaction is cut out.", ways.batch_lost(ways.is_marker), TRANSACTIONAL
    )
    yield log(
        "sequence-gap",
        "A batch of an idempotent producer is cut out.",
        ways.batch_lost(ways.is_data_of_producer),
        IDEMPOTENT,
    )
    yield log(
        "torn-transactional",
        "The last batch of a transactional partition is cut in the middle.",
        ways.log_bytes(ACTIVE, ways.torn),
        TRANSACTIONAL,
    )


def _with(more: bytes) -> ways.LogChange:
    return lambda data, places: data + more


def _indexes() -> Iterator[Kind]:
    for suffix, size in ((".index", 8), (".timeindex", 12), (".txnindex", 34)):
        kind = suffix[1:]
        partition = TRANSACTIONAL if suffix == ".txnindex" else PLAIN

        def index(
            name: str,
            says: str,
            damage: Damage,
            kind: str = kind,
            partition: str = partition,
        ) -> Kind:
            return Kind(f"{kind}-{name}", says, kind, damage, partition)

        change = ways.index
        yield index("missing", f"A {suffix} is gone.", ways.without_index(suffix))
        yield index("empty", f"A {suffix} has no bytes.", change(suffix, MIDDLE, lambda data: b""))
        yield index("odd-size", f"A {suffix} ends inside of an entry.", change(suffix, MIDDLE, lambda data: data[:-3]))
        yield index("garbage", f"A {suffix} has random bytes.", change(suffix, MIDDLE, ways.noise))
        yield index("zeroed", f"A {suffix} is zeros.", change(suffix, MIDDLE, lambda data: bytes(len(data))))
        yield index(
            "of-another-segment", f"A {suffix} has the bytes of another segment's.", ways.index_of_another(suffix)
        )
        if suffix != ".txnindex":
            yield index("missing-active", f"The active segment's {suffix} is gone.", ways.without_index(suffix, ACTIVE))
            yield index(
                "reversed", f"The entries of a {suffix} fall.", change(suffix, MIDDLE, ways.entries_reversed(size))
            )
            yield index(
                "garbage-active", f"The active segment's {suffix} is random.", change(suffix, ACTIVE, ways.noise)
            )
    yield Kind(
        "index-between-batches",
        "The positions in an .index lie 5 bytes behind batches.",
        "index",
        ways.index(".index", MIDDLE, ways.each_number(8, 4, 5)),
    )
    yield Kind(
        "index-beyond-the-log",
        "The positions in an .index lie beyond the end of the .log.",
        "index",
        ways.index(".index", MIDDLE, ways.each_number(8, 4, 1 << 20)),
    )
    yield Kind(
        "index-offsets-too-small",
        "The offsets in an .index are 20 less than those of their batches: lookups lead too far.",
        "index",
        ways.index(".index", MIDDLE, ways.each_number(8, 0, -20)),
    )
    yield Kind(
        "timeindex-too-late",
        "The times in a .timeindex are a day later than those of the records.",
        "timeindex",
        ways.index(".timeindex", MIDDLE, ways.time_entries_later),
    )
    yield Kind(
        "timeindex-offsets-too-large",
        "The offsets in a .timeindex lie 20 behind those of their records.",
        "timeindex",
        ways.index(".timeindex", MIDDLE, ways.each_number(12, 8, 20)),
    )
    yield Kind(
        "txnindex-version",
        "The version of a transaction index' entry is 256.",
        "txnindex",
        ways.index(".txnindex", MIDDLE, ways.at(0, b"\1")),
        TRANSACTIONAL,
    )


def _snapshots() -> Iterator[Kind]:
    def snapshot(name: str, says: str, damage: Damage, partition: str = TRANSACTIONAL) -> Kind:
        return Kind(f"snapshot-{name}", says, "snapshot", damage, partition)

    newest = ways.newest_snapshot
    yield snapshot("newest-missing", "The newest snapshot is gone.", ways.without_newest_snapshot)
    yield snapshot("all-missing", "All snapshots are gone.", ways.without_any(".snapshot"))
    yield snapshot("wrong-crc", "The newest snapshot's checksum is wrong.", newest(ways.flip(3)))
    yield snapshot("all-wrong-crc", "The checksums of all snapshots are wrong.", ways.every_snapshot(ways.flip(3)))
    yield snapshot("stale", "The newest snapshot has the bytes of the oldest.", ways.stale_snapshot)
    yield snapshot("empty", "The newest snapshot has no bytes.", newest(lambda data: b""))
    yield snapshot("torn", "The newest snapshot is cut in half.", newest(lambda data: data[: len(data) // 2]))
    yield snapshot("version-9", "The newest snapshot's version is 9.", newest(ways.at(0, b"\0\t")))
    yield snapshot("garbage", "The newest snapshot has random bytes.", newest(ways.noise))
    yield snapshot("beyond-the-end", f"There is a snapshot of offset {BEYOND}.", ways.snapshot_beyond_the_end)


def _epochs() -> Iterator[Kind]:
    def epochs(name: str, says: str, damage: Damage, partition: str = EPOCHS) -> Kind:
        return Kind(f"epochs-{name}", says, LEADER_EPOCH_CHECKPOINT, damage, partition)

    yield epochs("missing", "The file is gone.", ways.without(LEADER_EPOCH_CHECKPOINT, of_partition=True))
    yield epochs("empty", "The file has no bytes.", ways.epochs(ways.emptied))
    yield epochs("malformed", "An offset in it is a word.", ways.epochs(ways.line_malformed))
    yield epochs("count-too-large", "It declares a line more than it has.", ways.epochs(ways.count_too_large))
    yield epochs("count-too-small", "It declares a line fewer than it has.", ways.epochs(ways.count_too_small))
    yield epochs("version-9", "Its version is 9.", ways.epochs(ways.version_9))
    yield epochs("decreasing", "Its lines are in the reverse order.", ways.epochs(ways.epoch_starts_decreasing))
    yield epochs(
        "beyond-the-end", "An epoch in it begins beyond the log's end.", ways.epoch_line_appended(f"7 {BEYOND}")
    )
    yield epochs("first-lost", "Its first line is gone.", ways.epochs(ways.first_epoch_lost))
    yield epochs("from-the-future", "An epoch in it is larger than any leader's.", ways.epoch_line_appended("999 1200"))
    yield epochs("negative", "An offset in it is negative.", ways.epoch_line_appended("7 -5"))
    yield epochs("garbage", "It is text of another kind.", ways.epochs(lambda content: TEXT.decode()))


def _checkpoints() -> Iterator[Kind]:
    for short, file in CHECKPOINTS.items():

        def whole(name: str, says: str, damage: Damage, short: str = short, file: str = file) -> Kind:
            subject = {"log-start": DELETED_RECORDS, "cleaner": COMPACTED}.get(short, PLAIN)
            return Kind(f"{short}-{name}", f"{file}: {says}", file, damage, subject, alone=True)

        def offset(name: str, says: str, damage: Damage, partition: str, short: str = short, file: str = file) -> Kind:
            return Kind(f"{short}-{name}", f"{file}: {says}", file, damage, partition)

        yield whole("missing", "it is gone.", ways.without(file))
        yield whole("empty", "it has no bytes.", ways.text(file, ways.emptied))
        yield whole("malformed", "an offset in it is a word.", ways.text(file, ways.line_malformed))
        yield whole("count-too-large", "it declares a line more than it has.", ways.text(file, ways.count_too_large))
        yield whole("count-too-small", "it declares a line fewer than it has.", ways.text(file, ways.count_too_small))
        yield whole("version-9", "its version is 9.", ways.text(file, ways.version_9))
        yield whole("unknown-partition", "it names a partition that is not there.", ways.text(file, _GHOST))
        yield whole("line-twice", "a line is there twice.", ways.text(file, ways.line_repeated))
        subject = COMPACTED if short == "cleaner" else PLAIN
        yield offset("beyond-the-end", "an offset lies beyond the log's end.", ways.offset_in(file, BEYOND), subject)
        yield offset(
            "below-the-start", "an offset lies before the log's start.", ways.offset_in(file, 100), DELETED_RECORDS
        )
        yield offset("in-the-log", "an offset lies within the log, too early.", ways.offset_in(file, 600), PLAIN)
        yield offset("negative", "an offset is negative.", ways.offset_in(file, -7), subject)


_GHOST = ways.line_added("ghost 0 100")


def _of_the_directory() -> Iterator[Kind]:
    def clean(name: str, says: str, damage: Damage) -> Kind:
        return Kind(f"clean-mark-{name}", says, CLEAN_SHUTDOWN_FILE, damage, alone=True)

    def meta(name: str, says: str, damage: Damage) -> Kind:
        return Kind(f"meta-{name}", says, META_PROPERTIES, damage, alone=True)

    def quorum(name: str, says: str, damage: Damage) -> Kind:
        return Kind(f"quorum-{name}", says, "quorum-state", damage, alone=True)

    yield clean("missing", "The mark of a clean stop is gone.", ways.without(CLEAN_SHUTDOWN_FILE))
    yield clean("empty", "The mark of a clean stop is an empty file.", ways.text(CLEAN_SHUTDOWN_FILE, ways.emptied))
    yield clean(
        "garbage", "The mark of a clean stop is no JSON.", ways.text(CLEAN_SHUTDOWN_FILE, lambda _: "garbage {")
    )

    changed = ways.replaced
    yield meta("missing", "The file is gone.", ways.without(META_PROPERTIES))
    yield meta("empty", "The file has no bytes.", ways.text(META_PROPERTIES, ways.emptied))
    yield meta("garbage", "The file is text of another kind.", ways.text(META_PROPERTIES, lambda _: TEXT.decode()))
    yield meta(
        "foreign-cluster",
        "The cluster id is another one.",
        ways.text(META_PROPERTIES, _property("cluster.id", OTHER_ID)),
    )
    yield meta("other-node", "The node id is another one.", ways.text(META_PROPERTIES, _property("node.id", "42")))
    yield meta("node-not-a-number", "The node id is a word.", ways.text(META_PROPERTIES, _property("node.id", "one")))
    yield meta(
        "other-directory-id",
        "The directory id is another one.",
        ways.text(META_PROPERTIES, _property("directory.id", OTHER_ID)),
    )
    yield meta(
        "no-directory-id", "The directory id is gone.", ways.text(META_PROPERTIES, _property("directory.id", None))
    )
    yield meta("version-9", "The version is 9.", ways.text(META_PROPERTIES, _property("version", "9")))

    yield quorum("missing", "The file is gone.", ways.without(QUORUM_STATE))
    yield quorum("empty", "The file has no bytes.", ways.text(QUORUM_STATE, ways.emptied))
    yield quorum("malformed", "The file is no JSON.", ways.text(QUORUM_STATE, lambda content: content[:-20]))
    yield quorum(
        "version-9", "Its version is 9.", ways.text(QUORUM_STATE, changed('"data_version":0', '"data_version":9'))
    )
    yield quorum("epoch-ahead", "Its epoch is 999.", ways.text(QUORUM_STATE, _number("leaderEpoch", 999)))
    yield quorum("epoch-behind", "Its epoch is 0.", ways.text(QUORUM_STATE, _number("leaderEpoch", 0)))
    yield quorum("other-voters", "Its voter is another node.", ways.text(QUORUM_STATE, _number("voterId", 42)))

    def metadata(name: str, says: str, damage: Damage) -> Kind:
        # About the cluster's own log, whatever the partition.
        return Kind(f"metadata-{name}", says, "__cluster_metadata", _elsewhere(damage), alone=True)

    yield metadata("directory-missing", "The log of the cluster's metadata is gone.", ways.without_partition)
    yield metadata("torn", "Its last batch is cut in the middle.", ways.log_bytes(ACTIVE, ways.torn))
    yield metadata("flipped", "A bit of a batch of it is flipped.", ways.batch_bytes(ACTIVE, ways.flip(-3)))
    yield metadata("emptied", "All bytes of it are gone.", ways.log_bytes(ACTIVE, lambda *_: b""))
    yield metadata("epochs-malformed", "Its leader epochs are malformed.", ways.epochs(ways.line_malformed))
    for name, says, record in (
        ("topic-removed", "The cluster has removed the topic of the partition.", removed),
        ("replica-moved", "The cluster has moved the partition to another broker.", _to_another_broker),
    ):
        yield Kind(f"metadata-{name}", says, "__cluster_metadata", _recorded(record), alone=True)


def _to_another_broker(topic_id: str) -> bytes:
    return moved(topic_id, 0, 42)


def _recorded(record: Callable[[str], bytes]) -> Damage:
    """Append a record about a partition's topic id to the log of the cluster's metadata."""
    return lambda data, partition: append_metadata(
        data, record((data / partition / PARTITION_METADATA).read_text()[-22:])
    )


def _elsewhere(damage: Damage) -> Damage:
    return lambda data, partition: damage(data, "__cluster_metadata-0")


def _property(name: str, value: str | None) -> ways.TextChange:
    """Set a property of a Java properties file; None removes it."""

    def change(content: str) -> str:
        lines = [line for line in content.splitlines() if not line.startswith(f"{name}=")]
        return "\n".join([*lines, *([f"{name}={value}"] if value is not None else []), ""])

    return change


def _number(name: str, value: int) -> ways.TextChange:
    """Set a number in a line of JSON."""
    return lambda content: ways.number_replaced(content, name, value)


def _partition_metadata() -> Iterator[Kind]:
    def kind(name: str, says: str, damage: Damage) -> Kind:
        return Kind(f"partition-metadata-{name}", says, PARTITION_METADATA, damage)

    change = ways.partition_metadata
    yield kind("missing", "The file is gone.", ways.without(PARTITION_METADATA, of_partition=True))
    yield kind("empty", "The file has no bytes.", change(ways.emptied))
    yield kind("malformed", "The file is text of another kind.", change(lambda _: TEXT.decode()))
    yield kind("no-id", "The line of the topic id is gone.", change(lambda _: "version: 0"))
    yield kind("id-malformed", "The topic id is no id.", change(lambda _: "version: 0\ntopic_id: twelve"))
    yield kind("version-9", "The version is 9.", change(ways.replaced("version: 0", "version: 9")))
    yield kind("version-negative", "The version is -1.", change(ways.replaced("version: 0", "version: -1")))
    yield kind("other-id", "The topic id is another one.", change(lambda _: f"version: 0\ntopic_id: {OTHER_ID}"))
    yield kind("zero-id", "The topic id is zero.", change(lambda _: "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"))
    yield kind("of-another-topic", "The file is that of another topic's partition.", _metadata_of_another_topic)


def _metadata_of_another_topic(data: Path, partition: str) -> None:
    others = (each for each in sorted(data.glob(f"*-0/{PARTITION_METADATA}")) if each.parent.name != partition)
    shutil.copy2(next(each for each in others if not each.parent.name.startswith("__")), data / partition)


def _directories() -> Iterator[Kind]:
    def whole(name: str, says: str, damage: Damage) -> Kind:
        return Kind(f"directory-{name}", says, "directory", damage, alone=True)

    def partition(name: str, says: str, damage: Damage) -> Kind:
        return Kind(f"directory-{name}", says, "directory", damage)

    yield whole("foreign", "There is a directory of no partition's name.", ways.directory("notes", with_file=True))
    yield whole("foreign-empty", "There is an empty directory of no partition's name.", ways.directory("empty"))
    yield whole("lost-and-found", "There is a directory called lost+found.", ways.directory("lost+found"))
    yield whole(
        "hidden", "There is a directory whose name begins with a dot.", ways.directory(".trash", with_file=True)
    )
    yield whole("partition-not-a-number", "A partition's directory ends in a word.", ways.copied_as("v2-none-x"))
    yield whole("partition-too-large", "A partition's number is no int32.", ways.copied_as("v2-none-4294967296"))
    yield whole("partition-negative", "A partition's number is negative.", ways.copied_as("v2-none--1"))
    yield whole("of-no-topic", "There is a partition of a topic that the cluster has not.", _of_unknown_topic)
    yield whole(
        "copied-as-topic", "There is a copy of a partition under another topic's name.", ways.copied_as("ghost-0")
    )
    yield whole(
        "copied-with-space", "There is a copy of a partition with a space in its name.", ways.copied_as("my topic-0")
    )
    yield whole("of-no-partition", "There is a partition that its topic has not.", ways.copied_as("v2-none-99999"))
    yield whole(
        "leading-zero", "A partition's directory is there again with a leading zero.", ways.copied_as("v2-none-00")
    )
    yield whole("renamed-leading-zero", "It is renamed: its number has a leading zero.", ways.moved_to("v2-none-00"))
    yield whole("backup-copy", "A copy of a partition is called {partition}.bak.", ways.copied_as("{0}.bak"))
    yield partition("deleted-too", "It is there again as -delete.", ways.copied_as("{0}." + HEX + "-delete"))
    yield partition("stray-too", "It is there again as -stray.", ways.copied_as("{0}." + HEX + "-stray"))
    yield partition("future-too", "It is there again as -future.", ways.copied_as("{0}." + HEX + "-future"))
    yield partition("deleted", "It is renamed to -delete.", ways.moved_to("{0}." + HEX + "-delete"))
    yield partition("stray", "It is renamed to -stray.", ways.moved_to("{0}." + HEX + "-stray"))
    yield partition("future", "It is renamed to -future.", ways.moved_to("{0}." + HEX + "-future"))
    yield whole("delete-without-id", "It is renamed to -delete without an id.", ways.moved_to("{0}-delete"))
    yield partition("emptied", "All its files are gone.", ways.without_content)
    yield partition("gone", "It is gone, but in the checkpoints.", ways.without_partition)
    yield whole("is-a-file", "A file has its name.", ways.file_in_place_of_directory)
    yield partition("linked", "It is a link to a directory elsewhere.", ways.linked_directory)


def _of_unknown_topic(data: Path, partition: str) -> None:
    ways.copied_as("ghost-0")(data, partition)
    (data / "ghost-0" / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {OTHER_ID}")


def _leftovers() -> Iterator[Kind]:
    def kind(name: str, says: str, damage: Damage, partition: str = PLAIN) -> Kind:
        return Kind(f"leftover-{name}", says, "leftover", damage, partition)

    yield kind("swap", "A segment is there again as .swap.", ways.leftover(".swap", *LOG_AND_INDEXES))
    yield kind("swap-only", "A segment is there as .swap only.", ways.leftover(".swap", *LOG_AND_INDEXES, instead=True))
    yield kind("swap-of-two", "A .log.swap has two segments, which are still there.", ways.swap_of_two, COMPACTED)
    yield kind("swap-torn", "A .log.swap is half of its segment.", ways.torn_swap)
    yield kind("swap-index", "An index is there again as .swap.", ways.leftover(".swap", ".index"))
    yield kind("cleaned", "A segment is there again as .cleaned.", ways.leftover(".cleaned", *LOG_AND_INDEXES))
    yield kind("cleaned-only", "A segment is .cleaned only.", ways.leftover(".cleaned", *LOG_AND_INDEXES, instead=True))
    yield kind("swap-above-cleaned", "A .cleaned segment, and a .swap one of the same offset.", _swap_above_cleaned)
    yield kind("swap-only-above-cleaned", "The same, without the segment.", _swap_only_above_cleaned)
    yield kind("deleted", "A segment is there again as .deleted.", ways.leftover(".deleted", *LOG_AND_INDEXES))
    yield kind("deleted-only", "A segment is .deleted only.", ways.leftover(".deleted", *LOG_AND_INDEXES, instead=True))
    for suffix in LOG_AND_INDEXES[1:]:
        name = f"{BEYOND:020}{suffix}"
        yield kind(f"orphaned-{suffix[1:]}", f"There is a {suffix} of no segment.", ways.file_added(name, bytes(1020)))
    yield kind(
        "temporary", "There is a leader-epoch-checkpoint.tmp.", ways.file_added(f"{LEADER_EPOCH_CHECKPOINT}.tmp")
    )
    yield kind("foreign-file", "There is a file of no kind of Kafka's.", ways.file_added("notes.txt"))
    yield kind("number-with-suffix", "There is a copy of a .log with a suffix.", ways.leftover(".bak", ".log"))


def _swap_above_cleaned(data: Path, partition: str) -> None:
    ways.leftover(".swap", ".log")(data, partition)
    ways.leftover(".cleaned", ".log")(data, partition)


def _swap_only_above_cleaned(data: Path, partition: str) -> None:
    ways.leftover(".cleaned", ".log")(data, partition)
    ways.leftover(".swap", *LOG_AND_INDEXES, instead=True)(data, partition)


def _modes_and_links() -> Iterator[Kind]:
    yield Kind("mode-log-unreadable", "Nobody may read a .log.", "mode", ways.mode(0, MIDDLE))
    yield Kind("mode-log-read-only", "Nobody may write a sealed .log.", "mode", ways.mode(0o444, MIDDLE))
    yield Kind("mode-active-read-only", "Nobody may write the active .log.", "mode", ways.mode(0o444, ACTIVE))
    yield Kind("mode-directory-unreadable", "Nobody may list the partition.", "mode", ways.mode(0))
    yield Kind("mode-directory-read-only", "Nobody may make files in the partition.", "mode", ways.mode(0o555))
    yield Kind("link-dangling", "A .log is a link that leads nowhere.", "link", ways.link("nowhere"))
    yield Kind("link-elsewhere", "A .log is a link to its bytes elsewhere.", "link", ways.link(""))


_BY_ITSELF = {
    "log-name-not-a-number",
    "log-is-a-directory",
    "link-dangling",
    "txnindex-garbage",
    "txnindex-version",
    *(
        f"epochs-{name}"
        for name in ("malformed", "count-too-large", "count-too-small", "version-9", "garbage", "negative")
    ),
    *(f"partition-metadata-{name}" for name in ("empty", "malformed", "no-id", "id-malformed", "zero-id")),
    *(f"partition-metadata-{name}" for name in ("version-9", "version-negative", "of-another-topic")),
    *(f"{short}-negative" for short in CHECKPOINTS),
}
"""Kinds about one partition that keep a broker from loading the others, or might."""


def _marked(kind: Kind) -> Kind:
    return replace(kind, alone=True) if kind.name in _BY_ITSELF or kind.file == "mode" else kind


_KINDS = (
    *_logs(),
    *_indexes(),
    *_snapshots(),
    *_epochs(),
    *_checkpoints(),
    *_of_the_directory(),
    *_partition_metadata(),
    *_directories(),
    *_leftovers(),
    *_modes_and_links(),
)
KINDS = tuple(map(_marked, _KINDS))
BY_NAME = {kind.name: kind for kind in KINDS}
