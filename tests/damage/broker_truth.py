"""What a real broker does with each kind of damage: starts it on damaged directories and writes down what it did.

    python -m tests.damage.broker_truth --version 4.2.0 --kind epochs-malformed
    python -m tests.damage.broker_truth --all          # every kind, version and stop: an hour; writes broker_truth.json

A row of `broker_truth.json` is a kind, a version of Kafka, and how the broker had stopped before (`broker_base.py`).
Kinds that are about one partition share a start, each in a copy of the partition; if it fails, each gets its own.

A row's consequence is found by rule: what is left of the log's batches before and after the start, and what clients
get of the partition compared with an undamaged copy. `doubtful` means that the broker left the damage where it was and
nobody noticed; `harmless`, that it removed it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafkalog.storage.file_names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from tests.damage.broker_base import (
    CLEAN,
    COPIES,
    GOLDEN,
    ONE_EACH,
    SETTINGS,
    UNCLEAN,
    UNFLUSHED,
    VERSIONS,
    base,
    copy_of_base,
)
from tests.damage.kinds import BY_NAME, KINDS, META_PROPERTIES, Kind
from tests.damage.ways import CannotDamage, segments
from tests.helpers.damage_kinds import places_of
from tests.helpers.golden import partitions, unpacked
from tests.oracle import java
from tests.oracle.broker import LOGGING_POM, Broker, BrokerFailed

TABLE = Path(__file__).with_name("broker_truth.json")
STOPS = (CLEAN, UNCLEAN, UNFLUSHED)
PATIENCE_S = 90
NOBODY = 65534
LINES_KEPT = 12
LINE_KEPT = 330
CHANGES_KEPT = 20
ENTRY_SIZES = {".index": 8, ".timeindex": 12}
PREALLOCATED = (65536, 65532)
"""Sizes of the indexes of a log that is open, or was not closed."""
LEVEL = re.compile(r"^(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ")
CAUSE = re.compile(r"^(Caused by: )?[\w.$]+(Exception|Error)\b.*")
COMPLETED = re.compile(r"Completed load of .*logStartOffset=(-?\d+), logEndOffset=(-?\d+)\) with (\d+) segments")
OF_THE_NETWORK = re.compile(r"\w+ (org\.apache\.kafka\.clients|kafka\.server\.NodeToController)")
TELLING = re.compile(
    r"recover|delete|deleting|truncating|truncated|rebuild|rename|renaming|stray|swap|clean shutdown|reload"
    r"|loading producer|corrupt|skip|not found|offline|removing|retention|start offset|epoch",
    re.IGNORECASE,
)
VARYING = re.compile(r"\b\d+(\.\d+)?\s?ms\b|\(\d+/\d+ completed.*|\b[0-9a-f]{32}\b|@[0-9a-f]{5,8}\b|\b\d{13}\b")

Look = dict[str, Any]
Tree = dict[str, tuple[int, str]]


@dataclass
class Row:
    """What one broker did with one kind of damage.

    low, end, log_end: first offset, high watermark, log end afterwards, None where the partition is not served.
    read: records that a consumer of each isolation level gets, of how many. batches: those of the
    undamaged log that are there before the start and afterwards, of how many. differs: answers unlike those of the
    undamaged partition.
    changed: files that the broker removed (-), made (+) or rewrote (~, with their sizes), unlike in the undamaged one.
    """

    kind: str
    version: str
    stop: str
    started: bool
    consequence: str = ""
    low: int | None = None
    end: int | None = None
    log_end: int | None = None
    read: dict[str, list[int]] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


@dataclass
class Outcome:
    """A broker's whole start: what it said, what clients got, and the data directory before and after."""

    started: bool
    stayed_up: bool
    said: list[str]
    looks: dict[str, Look]
    before: Tree
    after: Tree
    batches: dict[str, tuple[int, int]]


def run(
    version: str,
    stop: str,
    damages: Sequence[tuple[Kind, str]],
    looked_at: Iterable[str],
    copies: Mapping[str, int],
    user: int | None = None,
) -> Outcome:
    """Start a broker on a copy of the base with these damages in these partitions; ask about those looked at."""
    with tempfile.TemporaryDirectory(prefix="kafkalog-damage-") as temporary:
        home = Path(temporary)
        data = home / "data"
        copy_of_base(data, stop, copies)
        for kind, partition in damages:
            kind.damage(data, partition)
        if user is not None:
            _give(home, user)
        names = sorted({*looked_at, *(partition for _, partition in damages)})
        before, batches_before = tree(data), {name: _sound_batches(data, name) for name in names}
        with Broker(home, SETTINGS, pom=VERSIONS[version], user=user) as broker:
            started = stayed_up = False
            looks: dict[str, Look] = {}
            with suppress(BrokerFailed):
                process = broker.start(PATIENCE_S)
                started = True
                looks = {name: broker.client.ask("look", partition=name, **_questions(name)) for name in names}
                stayed_up = process.is_up
                process.stop()
        text = (home / "broker-0.log").read_text("utf-8", "replace")
        batches = {name: (batches_before[name], _sound_batches(data, name)) for name in names}
        return Outcome(started, stayed_up, _lines(text, home, copies), looks, before, tree(data), batches)


def _give(home: Path, user: int) -> None:
    """Make the directory the user's, who gets to read Kafka's jars too."""
    for pom in (LOGGING_POM, *VERSIONS.values()):
        java.jars(pom).chmod(0o755)
    for path in (home, *home.rglob("*")):
        os.chown(path, user, user, follow_symlinks=False)


def tree(data: Path) -> Tree:
    """Return size and digest of every file by its path below `data`; a directory has size -1.

    Bytes of an index behind its last whole entry do not count: a broker cuts them off.
    """
    found: Tree = {}
    for path in sorted(data.rglob("*")):
        name = str(path.relative_to(data))
        if path.is_dir():
            found[name] = (-1, "")
        elif path.is_file():
            content = path.read_bytes()
            content = content[: len(content) - len(content) % ENTRY_SIZES.get(path.suffix, 1)]
            found[name] = (len(content), sha256(content).hexdigest()[:12])
        else:
            found[name] = (-2, "dangling link")
    return found


def _golden(partition: str) -> Path:
    return unpacked() / GOLDEN / "data" / f"{partition.rpartition('-')[0]}-0"


def _batches(content: bytes) -> list[bytes]:
    return [content[start:end] for start, end in pairwise(places_of(content))]


def _sound_batches(data: Path, partition: str) -> int:
    """Return how many of the undamaged partition's batches are there, in whatever `.log` file of whatever name."""
    homes = [data / partition, *data.glob(f"{partition}.*")]
    logs = [path for home in homes for path in home.glob("*.log*") if path.is_file()]
    contents = [path.read_bytes() for path in logs]
    return sum(any(batch in content for content in contents) for batch in _golden_batches(_golden(partition)))


@cache
def _golden_batches(directory: Path) -> list[bytes]:
    return [batch for log in segments(directory) for batch in _batches(log.read_bytes())]


def _all_batches(partition: str) -> int:
    return len(_golden_batches(_golden(partition)))


@cache
def _questions(partition: str) -> dict[str, list[int]]:
    """Return offsets to seek and times to ask for: of records of the log, the middle segment and the active one."""
    golden = next(each for each in partitions() if each.directory == _golden(partition))
    of_segments = [[record for batch in golden.batches() for record in batch["records"]]]
    for segment in (golden.segments[len(golden.segments) // 2], golden.segments[-1]):
        of_segments.append([record for batch in segment.batches() for record in batch["records"]])
    chosen = sorted({tuple(each[:2]) for some in of_segments for each in some[:: max(1, len(some) // 8)]})
    return {"seeks": [offset for offset, _ in chosen], "times": sorted({timestamp for _, timestamp in chosen})}


def _lines(text: str, home: Path, copies: Mapping[str, int]) -> list[str]:
    """Return the lines of a log without machine paths and random ids; an exception joins the line above."""
    text = text.replace(str(home / "data"), "DIR").replace(str(home), "HOME")
    for name, number in _ids(base(copies) / "data"):
        text = text.replace(number, name)
    found: list[str] = []
    for line in text.splitlines():
        if OF_THE_NETWORK.match(line):
            continue
        if LEVEL.match(line):
            found.append(line)
        elif found and CAUSE.match(line) and len(found[-1]) < 2 * LINE_KEPT:
            found[-1] += f" | {line}"
        elif CAUSE.match(line):
            found.append(line)
    return found


def _ids(data: Path) -> Iterator[tuple[str, str]]:
    for name, line in re.findall(r"^(\w+)\.id=(\S{22})$", (data / META_PROPERTIES).read_text(), re.MULTILINE):
        yield f"{name.upper()}-ID", line
    for path in data.glob(f"*-0/{PARTITION_METADATA}"):
        yield "TOPIC-ID", path.read_text()[-22:]


# --- from an outcome to rows


def row(kind: Kind, version: str, stop: str, damaged: tuple[Outcome, str], sound: tuple[Outcome, str]) -> Row:
    """Compare a partition of one outcome with the undamaged one of another, or of the same."""
    outcome, partition = damaged
    result = Row(kind.name, version, stop, outcome.started and outcome.stayed_up)
    reference = sound[0].looks[sound[1]]
    look = outcome.looks.get(partition, {})
    uncommitted = look.get("read_uncommitted", {})
    result.low, result.end = uncommitted.get("low"), uncommitted.get("end")
    for line in outcome.said:
        loaded = COMPLETED.search(line)
        if loaded and re.search(_pattern(partition), line):
            result.log_end = int(loaded[2])
    for level in ("read_uncommitted", "read_committed") if result.started else ():
        expected = reference[level]["records"]
        result.read[level] = [len(_same(look.get(level, {}).get("records", []), expected)), len(expected)]
    result.batches = [*outcome.batches[partition], _all_batches(partition)]
    result.differs = _differences(look, reference) if result.started else []
    result.changed = _changes(kind, outcome, partition, *sound)
    result.said = _about(kind, outcome, partition, *sound)
    result.consequence = consequence(result, left_as_it_was(kind, outcome, partition, result))
    return result


def _same(records: list[Any], expected: list[Any]) -> list[Any]:
    known = {json.dumps(record) for record in expected}
    return [record for record in records if json.dumps(record) in known]


def _differences(look: Look, reference: Look) -> list[str]:
    found = []
    for level in ("read_uncommitted", "read_committed"):
        seen, expected = look.get(level, {}), reference[level]
        found += [f"{level} {name}: {seen.get(name)}" for name in ("low", "end") if seen.get(name) != expected[name]]
        if "error" in seen:
            found.append(f"{level}: {_plain(seen['error'], '')[:200]}")
        elif seen.get("records") != expected["records"]:
            missing = len(expected["records"]) - len(_same(seen.get("records", []), expected["records"]))
            more = len(seen.get("records", [])) - (len(expected["records"]) - missing)
            found.append(f"{level}: {missing} missing, {more} others")
    for name in ("seeks", "times"):
        if isinstance(look.get(name), str):
            found.append(f"{name}: {look[name]}")
            continue
        pairs = zip(look.get(name, []), reference[name], strict=False)
        wrong = [f"{seen} for {expected}" for seen, expected in pairs if seen != expected]
        if wrong:
            found.append(f"{name}: {len(wrong)} of {len(reference[name])} differ, the first: {wrong[0]}")
    if isinstance(look.get("producers"), list) and sorted(look["producers"]) != sorted(reference["producers"]):
        found.append(f"producers: {len(look['producers'])} of {len(reference['producers'])}, or other states")
    return found


def _pattern(partition: str) -> str:
    topic, _, number = map(re.escape, partition.rpartition("-"))
    return rf"{topic}-{number}(?!\d)|topic={topic}, partition={number}\b|partition={number}, topic={topic}\b"


def _plain(line: str, partition: str) -> str:
    """Return a line without what differs from run to run, and with the golden partition's name."""
    if partition:
        topic, _, number = partition.rpartition("-")
        line = re.sub(rf"\b{re.escape(topic)}-{number}(?!\d)", f"{topic}-0", line)
        line = re.sub(rf"partition={number}\b", "partition=0", line)
    return VARYING.sub("…", line)


def _about(kind: Kind, outcome: Outcome, partition: str, sound: Outcome, control: str) -> list[str]:
    """Return the lines that tell of the damage: those about the partition, or all if the start was for it alone."""
    compared = [line for line in sound.said if alone(outcome) or re.search(_pattern(control), line)]
    usual = {_shape(_plain(line, control)) for line in compared}
    found = []
    for line in outcome.said:
        if not alone(outcome) and not re.search(_pattern(partition), line):
            continue
        plain = _plain(line, partition)
        if (not line.startswith("INFO") or TELLING.search(line)) and _shape(plain) not in usual:
            found.append(plain[:LINE_KEPT])
    unique = list(dict.fromkeys(found))
    loud = [line for line in unique if not line.startswith("INFO")]
    kept = loud[:LINES_KEPT] + [line for line in unique if line.startswith("INFO")][: LINES_KEPT - min(len(loud), 8)]
    return [line for line in unique if line in kept]


def alone(outcome: Outcome) -> bool:
    return len(outcome.batches) - sum(name.endswith("-0") for name in outcome.batches) == 0


def _shape(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def _changes(kind: Kind, outcome: Outcome, partition: str, sound: Outcome, control: str) -> list[str]:
    usual = set(_changed_files(sound, control))
    found = [change for change in _changed_files(outcome, partition) if change not in usual]
    if alone(outcome):
        usual_elsewhere = set(_changed_files(sound, ""))
        found += [
            each for each in _changed_files(outcome, "") if each not in usual_elsewhere and f" {partition}/" not in each
        ]
    whole = {each for each in found if each.startswith(("+ ", "- ")) and each.endswith("/")}
    found = [each for each in found if each in whole or not each.startswith(tuple(whole))]
    unique = list(dict.fromkeys(_plain(each, partition) for each in found))
    return unique if len(unique) <= CHANGES_KEPT else [*unique[:CHANGES_KEPT], f"and {len(unique) - CHANGES_KEPT} more"]


def _changed_files(outcome: Outcome, partition: str) -> Iterator[str]:
    """Yield the changes of a partition and of what is called after it; of all if its name is empty."""
    names = sorted(outcome.before.keys() | outcome.after.keys())
    own = re.compile(rf"{re.escape(partition)}(?!\d)") if partition else re.compile("")
    for name in names:
        if not own.match(name) or name.startswith("__cluster_metadata-0/0"):
            continue
        shown = re.sub(rf"^{re.escape(partition)}/", "", name) if partition else name
        before, after = outcome.before.get(name), outcome.after.get(name)
        if before is None and after is not None:
            yield f"+ {shown}" + (f" ({after[0]})" if after[0] >= 0 else "/")
        elif after is None and before is not None:
            yield f"- {shown}" + ("" if before[0] >= 0 else "/")
        elif (
            before is not None and after is not None and before != after and after[0] not in PREALLOCATED and partition
        ):
            yield f"~ {shown} ({before[0]} to {after[0]})"


def left_as_it_was(kind: Kind, outcome: Outcome, partition: str, result: Row) -> bool:
    """Tell whether everything that the damage changed is as the damage left it."""
    sound = {str(name): entry for name, entry in _sound_tree(partition).items()}
    for name, entry in outcome.before.items():
        own = name.partition("/")[0] == partition
        shown = name.partition("/")[2]
        if own and shown != LEADER_EPOCH_CHECKPOINT and sound.get(shown) != entry and outcome.after.get(name) != entry:
            return False
    missing = [name for name in sound if f"{partition}/{name}" not in outcome.before]
    return not any(f"{partition}/{name}" in outcome.after for name in missing)


def _sound_tree(partition: str) -> Tree:
    return tree(_golden(partition))


def consequence(result: Row, left: bool) -> str:
    """Return the name of the consequence."""
    had, has, of = result.batches
    if not result.started:
        return "no-start"
    if result.low is None or _is_set_aside(result):
        return "set-aside"
    if has < had:
        return "data-deleted"
    lost = any(read < expected for read, expected in result.read.values())
    if lost and had < of:
        return "records-lost"
    if result.differs:
        return "served-wrongly"
    if any(change[0] in "+~" for change in result.changed):
        return "rebuilt"
    if left:
        return "doubtful"
    return "harmless" if result.changed else "rebuilt"


def _is_set_aside(result: Row) -> bool:
    """Tell whether the partition was renamed, or has nothing while all of its batches are in another directory."""
    renamed = any(change[0] == "+" and change.endswith("-stray/") for change in result.changed)
    _, has, of = result.batches
    return renamed or (has == of and result.read["read_uncommitted"][0] == 0)


# --- the table


def rows(version: str, stop: str, kinds: Sequence[Kind]) -> Iterator[Row]:
    """Yield a row for each kind: those about a partition in as few starts as possible."""
    shared = [kind for kind in kinds if not kind.alone]
    while shared:
        chosen = _one_start(shared)
        yield from _together(version, stop, chosen)
        shared = [kind for kind in shared if kind not in [each for each, _ in chosen]]
    for kind in kinds:
        if kind.alone:
            # After an unclean stop there is no marker of a clean one to damage.
            with suppress(CannotDamage):
                yield _by_itself(version, stop, kind)


def _one_start(kinds: Sequence[Kind]) -> list[tuple[Kind, str]]:
    """Give a partition to as many kinds as there are copies."""
    free = {topic: list(range(1, copies)) for topic, copies in COPIES.items()}
    return [
        (kind, f"{kind.partition.removesuffix('-0')}-{free[kind.partition].pop(0)}")
        for kind in kinds
        if free[kind.partition]
    ]


def _together(version: str, stop: str, chosen: Sequence[tuple[Kind, str]]) -> Iterator[Row]:
    if not chosen:
        return
    controls = sorted({kind.partition for kind, _ in chosen})
    outcome = run(version, stop, chosen, controls, COPIES)
    if outcome.started and outcome.stayed_up:
        for kind, partition in chosen:
            yield row(kind, version, stop, (outcome, partition), (outcome, kind.partition))
        return
    suspects = [each for each in chosen if _is_named(outcome, each[1])]
    if suspects:
        for kind, _ in suspects:
            yield _by_itself(version, stop, kind)
        yield from _together(version, stop, [each for each in chosen if each not in suspects])
    elif len(chosen) == 1:
        yield _by_itself(version, stop, chosen[0][0])
    else:
        half = len(chosen) // 2
        yield from _together(version, stop, chosen[:half])
        yield from _together(version, stop, chosen[half:])


def _is_named(outcome: Outcome, partition: str) -> bool:
    """Tell whether the broker complains of the partition."""
    loud = [line for line in outcome.said if line.startswith(("ERROR", "FATAL")) or CAUSE.match(line)]
    return any(re.search(_pattern(partition), line) for line in loud)


_SOUND: dict[tuple[str, str], Outcome] = {}


def _by_itself(version: str, stop: str, kind: Kind) -> Row:
    """Damage the undamaged copy of a partition in a directory of its own."""
    if (version, stop) not in _SOUND:
        _SOUND[version, stop] = run(version, stop, [], ONE_EACH, ONE_EACH)
    user = NOBODY if kind.file == "mode" and os.getuid() == 0 else None
    outcome = run(version, stop, [(kind, kind.partition)], [], ONE_EACH, user)
    return row(kind, version, stop, (outcome, kind.partition), (_SOUND[version, stop], kind.partition))


def stops_for(kind: Kind) -> tuple[str, ...]:
    """Return the stops that make a difference to a kind."""
    return (CLEAN, UNCLEAN) if kind.alone else STOPS


def write(path: Path, found: Iterable[Row]) -> None:
    """Write the table, sorted, a row a line."""
    order = {kind.name: place for place, kind in enumerate(KINDS)}
    ordered = sorted(found, key=lambda each: (order[each.kind], each.version, STOPS.index(each.stop)))
    lines = [json.dumps(asdict(each), ensure_ascii=False) for each in ordered]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def read(path: Path = TABLE) -> list[Row]:
    """Return the rows of a table."""
    return [Row(**each) for each in json.loads(path.read_text())]


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.damage.broker_truth", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--version", action="append", choices=VERSIONS, help="of Kafka; all by default")
    parser.add_argument("--stop", action="append", choices=STOPS, help="all that matter by default")
    parser.add_argument("--kind", action="append", metavar="NAME", help="a kind, or a part of its name")
    parser.add_argument("--all", action="store_true", help="every kind")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--shared", action="store_true", help="of these, the kinds that share a start")
    which.add_argument("--own", action="store_true", help="of these, the kinds that get a start of their own")
    parser.add_argument("--table", type=Path, help="merge the rows into this file")
    options = parser.parse_args(arguments)
    options.chosen = [kind for kind in KINDS if options.all or any(part in kind.name for part in options.kind or ())]
    if options.shared or options.own:
        options.chosen = [kind for kind in options.chosen if kind.alone == options.own]
    if not options.chosen:
        parser.error("no such kind: name some by --kind, or give --all")
    return options


def main(arguments: Sequence[str]) -> int:
    options = parsed(arguments)
    table = options.table or (TABLE if options.all else None)
    for version in options.version or VERSIONS:
        for stop in options.stop or STOPS:
            kinds = [kind for kind in options.chosen if stop in stops_for(kind)]
            for each in rows(version, stop, kinds):
                print(json.dumps(asdict(each), ensure_ascii=False), flush=True)
                if table:
                    kept = read(table) if table.exists() else []
                    same = [(old.kind, old.version, old.stop) == (each.kind, version, stop) for old in kept]
                    kept = [old for old, is_same in zip(kept, same, strict=True) if not is_same]
                    write(table, [*(old for old in kept if old.kind in BY_NAME), each])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
