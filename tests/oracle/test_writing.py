"""What kafkalog writes, Kafka reads: each field is the one that was put in, and Kafka's own tool finds nothing wrong.

A case is built twice, by `RecordsBuilder` and by `from_records`, and appended to a file with a segment's name; a second
set follows it there, as in a log. Kafka's readers of memory and of files are asked once about all cases
(`Decode.java`), its dump tool once about all files. What is not compressed must be, byte for byte, what Kafka's builder
makes of the same records (`Build.java`); of what another library compresses, the rest of the header and what was
compressed.
"""

import json
import random
import re
import struct
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafkalog import ByteBufferMessageSet, CompressionType, FileMessageSet, Record, TimestampType
from kafkalog.record.records_builder import BatchSettings, RecordsBuilder
from tests.oracle import java, kafka
from tests.oracle.kafka import FILE, MEMORY, Part
from tests.reference.compression import decompressed
from tests.reference.encode import FORMATS

pytestmark = pytest.mark.oracle

Answer = dict[str, Any]

BUILD = Path(__file__).with_name("Build.java")
JAVA_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC"]
DUMP_TOOL = "kafka.tools.DumpLogSegments"
NOW = 1_700_000_000_000
LATER = NOW + 5000
PRODUCERS: dict[str, Answer] = {
    "no producer": {},
    "idempotent": {"producer_id": 4000, "producer_epoch": 3, "base_sequence": 17},
    "sequence begins again": {"producer_id": 2**63 - 1, "producer_epoch": 2**15 - 1, "base_sequence": 2**31 - 2},
    "transactional": {
        "producer_id": 0,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
        "partition_leader_epoch": 42,
    },
}
CREATE_TIME: Answer = {"timestamp_type": TimestampType.CREATE_TIME}
LOG_APPEND_TIME: Answer = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": LATER}
TIMESTAMP_TYPES = (CREATE_TIME, LOG_APPEND_TIME)
HEADERS = (("a", b"1"), ("a", None), ("", b""), ("\u043a\u043b\u044e\u0447", b"\xff" * 200))
MARKERS = {"abort": b"\0\0\0\0", "commit": b"\0\0\0\1"}
MARKER_VALUE = struct.pack(">hi", 0, 7)


@dataclass(frozen=True)
class Case:
    """Records and what their batch says; `offsets`: None where they count up from the base offset."""

    name: str
    records: Sequence[Record]
    settings: BatchSettings
    offsets: Sequence[int] | None = None

    @property
    def assigned(self) -> Sequence[int]:
        base = self.settings.base_offset
        return range(base, base + len(self.records)) if self.offsets is None else self.offsets


# --- the cases


def _some(*, headers: bool = False, nulls: str = "", count: int = 6) -> list[Record]:
    """A few records; `nulls` names the fields that have none in every other record."""
    made = []
    for i in range(count):
        key = None if "key" in nulls and i % 2 == 0 else b"key %d" % (i % 3) if i % 3 else b""
        value = None if "value" in nulls and i % 2 else b"value %d " % i * i
        timestamp = -1 if i == 4 else NOW + (i * 7 if i % 2 else -i)
        made.append(Record(value, key, HEADERS[: i % 5] if headers else (), timestamp))
    return made


@cache
def _sizes() -> dict[str, list[Record]]:
    """From one record to 20,000, from nothing to 1 MB."""
    draw = random.Random(8)
    return {
        "one record of nothing": [Record()],
        "one record, empty value": [Record(b"", b"", (), 0)],
        "1 MB": [Record(draw.randbytes(2**20), b"k", (), NOW)],
        "1 MB of zeros": [Record(bytes(2**20), None, (), NOW)],
        "lengths around powers of two": [
            Record(draw.randbytes(2**power + step), b"k" * power, (), NOW + power)
            for power in range(17)
            for step in (-1, 0, 1)
        ],
        "20,000 records": [Record(b"%d" % (i * i), b"k%d" % (i % 100), (), NOW + i) for i in range(20_000)],
    }


def _matrix() -> Iterator[Case]:
    for magic, codec in FORMATS:
        base: Answer = {"magic": magic, "compression_type": CompressionType(codec)}
        name = f"v{magic} {CompressionType(codec).name.lower()}"
        for times, headers, nulls in product(TIMESTAMP_TYPES, (False, True), ("", "key", "value", "key value")):
            if headers and magic < 2:
                continue
            records = _some(headers=headers, nulls=nulls)
            what = f"{name} {times['timestamp_type'].label} {'headers' * headers} null: {nulls or 'none'}"
            for who, producer in PRODUCERS.items() if magic == 2 else [("", {})]:
                yield Case(f"{what} {who}", records, BatchSettings(**base, **times, **producer))
        for size, records in _sizes().items():
            yield Case(f"{name} {size}", records, BatchSettings(**base, base_offset=1234567))


def _control_and_horizon() -> Iterator[Case]:
    for codec in CompressionType:
        base: Answer = {"magic": 2, "compression_type": codec, "base_offset": 2**40}
        for name, key in MARKERS.items():
            marker = BatchSettings(
                **base,
                is_control=True,
                is_transactional=True,
                producer_id=9,
                producer_epoch=1,
                partition_leader_epoch=3,
            )
            yield Case(f"v2 {codec.name} {name}", [Record(MARKER_VALUE, key, (), NOW)], marker)
        for times in TIMESTAMP_TYPES:
            horizon = BatchSettings(**base, **times, delete_horizon_ms=NOW + 86_400_000)
            yield Case(f"v2 {codec.name} delete horizon {times}", _some(headers=True), horizon)


WITH_GAPS = [3, 4, 100, 70_000, 70_001, 2**31 - 1]
FAR_ON = [2**62 + i * 9 for i in range(6)]


def _gaps() -> Iterator[Case]:
    """Offsets as compaction leaves them: read back and built, not dumped, for the tool tells of every gap."""
    for magic, codec in FORMATS:
        for name, offsets in {"gaps": WITH_GAPS, "far": FAR_ON}.items():
            settings = BatchSettings(magic=magic, compression_type=CompressionType(codec), base_offset=offsets[0])
            yield Case(f"v{magic} {codec} {name}", _some(), settings, offsets)


@cache
def _cases() -> list[Case]:
    return [*_matrix(), *_control_and_horizon()]


# --- what kafkalog writes


def _from_records(case: Case, **changes: Any) -> ByteBufferMessageSet:
    given = _settings(case)
    del given["delete_horizon_ms"]
    append_time = given.pop("log_append_time")
    given["timestamp"] = append_time if case.settings.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    if case.offsets is not None:
        del given["base_offset"]
        given["offsets"] = case.offsets
    return ByteBufferMessageSet.from_records(case.records, **given | changes)


def _built(case: Case) -> bytes:
    builder = RecordsBuilder(case.settings)
    for offset, record in zip(case.assigned, case.records, strict=True):
        builder.append(record.value, record.key, record.headers, record.timestamp, offset=offset)
    return bytes(builder.build())


def _written(case: Case) -> ByteBufferMessageSet:
    """The case, built; it does not matter in which way."""
    built = _built(case)
    if case.settings.delete_horizon_ms is None:
        assert bytes(_from_records(case).buffer) == built, case.name
    return ByteBufferMessageSet(built)


FOLLOWING = [Record(b"what follows", b"key", (), NOW)]


def _following(case: Case) -> Case:
    return Case(
        "the set behind", FOLLOWING, BatchSettings(magic=case.settings.magic, base_offset=case.assigned[-1] + 1)
    )


def _appended(directory: Path, case: Case) -> Path:
    """A segment with the case, and a set that follows it."""
    directory.mkdir()
    path = directory / f"{case.assigned[0]:020d}.log"
    for each in (case, _following(case)):
        with FileMessageSet(path, read_only=False) as file:
            written = _written(each)
            assert file.append(written) == written.size_in_bytes
    return path


# --- what Kafka should read


def _expected(case: Case) -> list[Answer]:
    """The batches, in the words of Decode.java; of size and checksum, Kafka's own judgement is enough."""
    settings = case.settings
    one_each = settings.magic < 2 and settings.compression_type is CompressionType.NONE
    rows = [_row(case, place) for place in range(len(case.records))]
    return [_batch(settings, [row]) for row in rows] if one_each else [_batch(settings, rows)]


def _row(case: Case, place: int) -> list[Any]:
    record, settings = case.records[place], case.settings
    timestamp = -1
    if settings.magic > 0:
        is_appended = settings.timestamp_type is TimestampType.LOG_APPEND_TIME
        timestamp = settings.log_append_time if is_appended else record.timestamp
    headers = [[_base64(key.encode()), _base64(value)] for key, value in record.headers]
    sequence = _sequence(settings, case.assigned[place] - settings.base_offset)
    return [case.assigned[place], timestamp, sequence, _base64(record.key), _base64(record.value), headers]


def _batch(settings: BatchSettings, rows: list[list[Any]]) -> Answer:
    is_v2 = settings.magic == 2
    return {
        "magic": settings.magic,
        "base_offset": rows[0][0],
        "last_offset": rows[-1][0],
        "count": len(rows) if is_v2 else None,
        "codec": settings.compression_type.name.lower(),
        "timestamp_type": settings.timestamp_type.label if settings.magic else "NoTimestampType",
        "max_timestamp": max(row[1] for row in rows),
        "leader_epoch": settings.partition_leader_epoch,
        "producer_id": settings.producer_id,
        "producer_epoch": settings.producer_epoch,
        "base_sequence": settings.base_sequence,
        "last_sequence": _sequence(settings, rows[-1][0] - rows[0][0]),
        "transactional": settings.is_transactional,
        "control": settings.is_control,
        "delete_horizon": settings.delete_horizon_ms,
        "valid": None,
        "records": rows,
        "error": None,
    }


def _sequence(settings: BatchSettings, delta: int) -> int:
    return -1 if settings.base_sequence < 0 else (settings.base_sequence + delta) % 2**31


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _unlike(answer: Answer, expected: list[Answer], size: int) -> list[str]:
    found = answer["batches"]
    unlike = [] if answer["error"] is None else [f"the end: {answer['error']}"]
    if len(found) != len(expected) or sum(batch["size"] for batch in found) != size:
        unlike.append(f"{len(found)} batches for {len(expected)}")
    for place, (theirs, meant) in enumerate(zip(found, expected, strict=False)):
        unlike += [f"batch {place}, {name}" for name, value in meant.items() if theirs[name] != value]
    return unlike


# --- reading


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Case, Path]]:
    """A file for each case, made by appending."""
    directory = tmp_path_factory.mktemp("written")
    return [(case, _appended(directory / str(number), case)) for number, case in enumerate(_cases())]


def test_kafka_reads_every_field_that_was_put_in(segments: list[tuple[Case, Path]], tmp_path: Path) -> None:
    gaps = [(case, _appended(tmp_path / str(number), case)) for number, case in enumerate(_gaps())]
    parts, meant = [], []
    for case, path in [*segments, *gaps]:
        expected = _expected(case)
        parts += [Part(MEMORY, bytes(_written(case).buffer)), Part(FILE, path.read_bytes())]
        meant += [(case.name, expected), (f"{case.name}, in a file", [*expected, *_expected(_following(case))])]
    answers = kafka.answers_or_skip(parts)
    unlike = {
        name: found
        for part, (name, expected), answer in zip(parts, meant, answers, strict=True)
        if (found := _unlike(answer, expected, len(part.data)))
    }
    assert not unlike


BATCH_LINE = re.compile(r"^(?:baseOffset|offset): .*(isvalid|isValid): (\w+)", re.MULTILINE)
RECORD_LINE = re.compile(r"^\| offset: (\d+) .*?keySize: (-?\d+) valueSize: (-?\d+)", re.MULTILINE)
FINDINGS = re.compile(
    r"^(?:Mismatches|Non-consecutive|Found \d+ invalid bytes|.*[Ee]xception|.*corrupt|.*is[vV]alid: false).*",
    re.MULTILINE,
)


def test_kafkas_dump_tool_finds_nothing_wrong(segments: list[tuple[Case, Path]]) -> None:
    root = segments[0][1].parents[1]
    dumped = _dumped(root, [str(path.relative_to(root)) for _, path in segments])
    for (case, path), text in zip(segments, dumped, strict=True):
        assert FINDINGS.findall(text) == [], case.name
        following = _following(case)
        batches = [*_expected(case), *_expected(following)]
        assert [word for _, word in BATCH_LINE.findall(text)] == ["true"] * len(batches), (case.name, text[:500])
        meant = [
            (str(offset), str(_length(record.key)), str(_length(record.value)))
            for each in (case, following)
            for offset, record in zip(each.assigned, each.records, strict=True)
        ]
        assert RECORD_LINE.findall(text) == meant, (case.name, path)


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _dumped(directory: Path, files: list[str]) -> list[str]:
    """What Kafka's tool says of each file; it is started once."""
    arguments = ["--deep-iteration", "--print-data-log", "--files", ",".join(files)]
    try:
        command = java.kafka_command(DUMP_TOOL, arguments, options=JAVA_OPTIONS)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    done = subprocess.run(command, cwd=directory, capture_output=True, check=True, timeout=1200)
    assert b"xception" not in done.stderr, done.stderr.decode()
    return done.stdout.decode(errors="replace").split("Dumping ")[1:]


# --- the bytes of Kafka's builder


def _identity_cases() -> list[Case]:
    """The cases above, also far on in a log; and those that only Kafka's builder has an opinion of."""
    cases = [*_cases(), *_gaps()]
    far = [replace(case, settings=replace(case.settings, base_offset=2**40 + 5)) for case in _matrix()]
    without_type: Answer = {"magic": 0, "timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}
    cases += [Case("v0 without a timestamp type", _some(), BatchSettings(**without_type))]
    plain = BatchSettings(is_transactional=True, is_control=True, producer_id=1, producer_epoch=0)
    several = [Record(MARKER_VALUE, key, (), NOW) for key in MARKERS.values()]
    cases += [Case("v2 two control records", several, plain)]
    cases += [Case("v2 a control record of no transaction", several[:1], BatchSettings(is_control=True))]
    return [*cases, *(case for case in far if case.settings.compression_type is CompressionType.NONE)]


def _as_json(case: Case) -> str:
    rows = [
        [offset, record.timestamp, _base64(record.key), _base64(record.value), _headers(record)]
        for offset, record in zip(case.assigned, case.records, strict=True)
    ]
    return json.dumps(_settings(case) | {"records": rows}) + "\n"


def _settings(case: Case) -> dict[str, Any]:
    """What the batch is made with, by name."""
    return {each.name: getattr(case.settings, each.name) for each in fields(BatchSettings) if each.init}


def _headers(record: Record) -> list[Any]:
    return [[key, _base64(value)] for key, value in record.headers]


def _kafka_builds(cases: list[Case], directory: Path) -> list[bytes]:
    files = [directory / name for name in ("cases", "built")]
    files[0].write_text("".join(map(_as_json, cases)))
    try:
        command = java.command(BUILD, list(map(str, files)), options=JAVA_OPTIONS)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    subprocess.run(command, check=True, capture_output=True, timeout=1200)
    data, built, position = files[1].read_bytes(), [], 0
    while position < len(data):
        end = position + 4 + int.from_bytes(data[position : position + 4])
        built.append(data[position + 4 : end])
        position = end
    return built


def test_the_bytes_are_those_of_kafkas_builder(tmp_path: Path) -> None:
    cases = _identity_cases()
    unlike = []
    for case, theirs in zip(cases, _kafka_builds(cases, tmp_path), strict=True):
        mine = bytes(_written(case).buffer)
        if case.settings.compression_type is CompressionType.NONE:
            unlike += [case.name] * (mine != theirs)
        else:
            unlike += [case.name] * (_without_codec(case, mine) != _without_codec(case, theirs))
    assert not unlike


def _without_codec(case: Case, data: bytes) -> tuple[bytes, bytes]:
    """The header without what the codec's library decides, sizes and checksum; and what was compressed."""
    settings, length = case.settings, case.settings.header_size
    header = bytearray(data[:length])
    for field in _decided_by_codec(settings.magic, length):
        header[field] = bytes(4)
    return bytes(header), decompressed(data[length:], settings.compression_type, settings.magic)


def _decided_by_codec(magic: int, length: int) -> list[slice]:
    if magic == 2:
        return [slice(8, 12), slice(17, 21)]
    return [slice(8, 12), slice(12, 16), slice(length - 4, length)]
