"""Kafka's LogValidator and kafkalog's make the same of the same messages: the bytes, the records, or the refusal.

Kafka is asked once about all cases (`validation_cases.py`). What is not written anew, and what is written anew without
compression, must be the same bytes. Of what is compressed anew, by another library, the header and the records are
compared.

Where kafkalog means to differ (`_means_to_differ`):

- Kafka skips over what is inside a compressed v2 batch that stays as it is, and takes records that nobody can read.
- Kafka wants to put a message of the wrong format inside a wrapper into words, and stumbles over its key.
- A size that cannot be makes Kafka run out of memory.
- A batch too short for its own header is damage before anything else is looked at; Kafka's log sees to that before.
"""

import hashlib
import json
import subprocess
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kafkalog import ByteBufferMessageSet, CompressionType, Record, TimestampType, errors
from kafkalog.record.builder import BatchSettings
from kafkalog.record.message_set import batches_of_records
from kafkalog.record.validation import ValidationResult, validate_messages_and_assign_offsets
from tests.oracle import java, kafka, ours
from tests.oracle.compare import differences
from tests.oracle.validation_cases import Case, cases
from tests.reference.encode import FORMATS

pytestmark = pytest.mark.oracle

VALIDATE = Path(__file__).with_name("Validate.java")
Answer = dict[str, Any]

# Kafka's exception, and the words of those that say too little by their name, to what kafkalog raises.
REFUSALS = {
    "CorruptRecordException": errors.CorruptRecordError,
    "InvalidRecordException": errors.InvalidRecordError,
    "UnsupportedForMessageFormatException": errors.UnsupportedForMessageFormatError,
    "KafkaException": errors.InvalidRecordError,
}
ARGUMENTS = {
    "Unknown compression type id": errors.InvalidRecordError,
    "does not support record headers": errors.UnsupportedForMessageFormatError,
    "Transactional records are not supported": errors.UnsupportedForMessageFormatError,
    "Invalid negative timestamp": errors.InvalidTimestampError,
    "ZStandard compression is not supported": errors.UnsupportedCompressionError,
}
# Java stumbled over lengths that cannot be: a header or a message that is too short, or a key or value too long.
STUMBLES = ("IndexOutOfBoundsException", "BufferUnderflowException", "IllegalArgumentException")
# Those that refuse a set by accident: no record to take an append time from, offsets to be mended in a skipped batch.
ACCIDENTS = ("NullPointerException", "UnsupportedOperationException")


def _asked(made: list[Case]) -> list[Answer]:
    pack = b"".join(case.data for case in made)
    lines, start = [], 0
    for case in made:
        lines.append(f"{start} {len(case.data)} {case.topic.words()}\n")
        start += len(case.data)
    digest = hashlib.sha256(VALIDATE.read_bytes() + "".join(lines).encode() + pack).hexdigest()[:16]
    command = java.command(VALIDATE, options=["-Xmx512m", "-XX:+UseSerialGC"])

    def ask(directory: Path) -> None:
        (directory / "pack").write_bytes(pack)
        (directory / "cases").write_text("".join(lines))
        files = [str(directory / name) for name in ("pack", "cases", "answers")]
        subprocess.run([*command, *files], check=True, capture_output=True, text=True, timeout=1200)

    with (java.once(f"validated-{digest}", ask) / "answers").open("rb") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def asked() -> list[tuple[Case, Answer]]:
    made = cases()
    try:
        return list(zip(made, _asked(made), strict=True))
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")


def _ours(case: Case) -> ValidationResult | errors.KafkaLogError:
    settings = {name: getattr(case.topic, name) for name in asdict(case.topic)}
    try:
        return validate_messages_and_assign_offsets(ByteBufferMessageSet(case.data), **settings)
    except errors.KafkaLogError as error:
        return error


def _unlike(case: Case, answer: Answer) -> str | None:
    mine = _ours(case)
    if _means_to_differ(case, answer, mine):
        return None
    if "error" in answer:
        return _unlike_error(answer, mine)
    if isinstance(mine, errors.KafkaLogError):
        return f"kafkalog refuses: {mine!r}"
    return _unlike_result(answer, mine)


def _means_to_differ(case: Case, answer: Answer, mine: Any) -> bool:
    error = answer.get("error")
    if error in STUMBLES and isinstance(mine, errors.RecordValidationError):
        return any("format" in each.message for each in mine.record_errors)
    if error and isinstance(mine, errors.CorruptRecordError) and "shorter than its header" in mine.message:
        return True
    if error == "OutOfMemoryError":
        return True
    skipped = error in (None, "RecordValidationException") and isinstance(mine, errors.InvalidRecordError)
    return skipped and case.data[16] == 2 and case.data[22] & 7 != 0 and _is_unreadable(case.data)


def _is_unreadable(data: bytes) -> bool:
    try:
        list(ByteBufferMessageSet(data))
    except errors.InvalidRecordError:
        return True
    return False


def _unlike_error(answer: Answer, mine: Any) -> str | None:
    if not isinstance(mine, errors.KafkaLogError):
        return f"kafkalog accepts, Kafka says {answer}"
    if answer["error"] == "RecordValidationException":
        if not isinstance(mine, errors.RecordValidationError):
            return f"Kafka {answer}, kafkalog {mine!r}"
        found = [type(mine.reason).__name__.replace("Error", "Exception"), [e.index for e in mine.record_errors]]
        expected = [answer["reason"], [index for index, _ in answer["record_errors"]]]
        return None if found == expected else f"Kafka {expected}, kafkalog {found}"
    return None if type(mine) in _expected(answer) else f"Kafka {answer}, kafkalog {mine!r}"


def _expected(answer: Answer) -> tuple[type, ...]:
    name, message = answer["error"], answer["message"] or ""
    if name in REFUSALS:
        return (REFUSALS[name],)
    for words, kind in ARGUMENTS.items():
        if words in message:
            return (kind,)
    if name in ACCIDENTS:
        return (errors.InvalidRecordError,)
    return (errors.InvalidRecordError, errors.CorruptRecordError) if name in STUMBLES else ()


def _unlike_result(answer: Answer, mine: ValidationResult) -> str | None:
    names = (
        "log_append_time",
        "max_timestamp",
        "offset_of_max_timestamp",
        "message_size_maybe_changed",
        "records_count",
    )
    keys = ("append_time", "max_timestamp", "offset_of_max_timestamp", "changed", "count")
    found, expected = [getattr(mine, name) for name in names], [answer[key] for key in keys]
    if found != expected:
        return f"Kafka {expected}, kafkalog {found}"
    theirs, bytes_found = b64decode(answer["bytes"]), bytes(mine.message_set.buffer)
    if theirs == bytes_found:
        return None
    rows = mine.message_set.headers()
    if not answer["changed"] or not rows["compression_type"].any():
        return f"bytes: Kafka {theirs.hex()}, kafkalog {bytes_found.hex()}"
    return _unlike_sets(ByteBufferMessageSet(theirs), mine.message_set)


def _unlike_sets(theirs: ByteBufferMessageSet, mine: ByteBufferMessageSet) -> str | None:
    """The headers, but for size and checksum, and the records."""
    left, right = theirs.headers().copy(), mine.headers().copy()
    for rows in (left, right):
        rows["size_in_bytes"] = rows["checksum"] = 0
    if left.tolist() != right.tolist():
        return f"headers: Kafka {left}, kafkalog {right}"
    records = [list(each) for each in (theirs, mine)]
    return None if records[0] == records[1] else f"records: Kafka {records[0]}, kafkalog {records[1]}"


def test_kafka_and_kafkalog_make_the_same_of_every_set(asked: list[tuple[Case, Answer]]) -> None:
    unlike = [
        f"{number} {case.what}: {text}\n  {case.topic}"
        for number, (case, answer) in enumerate(asked)
        if (text := _unlike(case, answer))
    ]
    assert not unlike, f"{len(unlike)} of {len(asked)}:\n" + "\n".join(unlike[:20])


def test_the_cases_have_every_outcome_many_times(asked: list[tuple[Case, Answer]]) -> None:
    """What the test above would not notice if the cases were all alike."""
    outcomes = Counter(answer.get("reason") or answer.get("error") or answer["changed"] for _, answer in asked)
    assert outcomes[False] > 500
    assert outcomes[True] > 1000
    for refusal in ("InvalidTimestampException", *list(REFUSALS)[:3], "IllegalArgumentException", *ACCIDENTS):
        assert outcomes[refusal] > 5, refusal
    several = [answer for _, answer in asked if len(answer.get("record_errors", ())) > 1]
    assert len(several) > 100


def test_kafka_and_kafkalog_differ_on_purpose_in_a_few_cases(asked: list[tuple[Case, Answer]]) -> None:
    assert 0 < sum(_means_to_differ(case, answer, _ours(case)) for case, answer in asked) < 40


# --- what is written without a leader


def _written() -> Iterator[tuple[str, ByteBufferMessageSet]]:
    """Sets from records, and what every step makes of them."""
    sizes = {
        "one": RECORDS[:1],
        "some": RECORDS,
        "many": RECORDS * 400,
        "large": [Record(bytes(2**20), b"k", timestamp=7)],
    }
    for magic, codec in FORMATS:
        for name, records in sizes.items():
            given = [Record(r.value, r.key, r.headers if magic == 2 else (), r.timestamp) for r in records]
            settings: Answer = {"magic": magic, "compression_type": CompressionType(codec)}
            plain = ByteBufferMessageSet.from_records(given, base_offset=5, **settings)
            yield f"v{magic} {codec} {name}", plain
            yield f"v{magic} {codec} {name} numbered", plain.with_offsets(2**40, partition_leader_epoch=3)
            if magic:
                log_append: Answer = {"timestamp_type": TimestampType.LOG_APPEND_TIME, "timestamp": 99}
                yield (
                    f"v{magic} {codec} {name} appended",
                    ByteBufferMessageSet.from_records(given, **settings, **log_append),
                )
            for to in (0, 1, 2) if codec != CompressionType.ZSTD else (2,):
                yield f"v{magic} {codec} {name} to {to}", plain.to_magic(to)
            spread = ByteBufferMessageSet.from_records(given, offsets=range(0, 3 * len(given), 3), **settings)
            yield f"v{magic} {codec} {name} spread", spread
            yield f"v{magic} {codec} {name} closed up", spread.with_offsets(1)
            for number, part in enumerate(batches_of_records(given, BatchSettings(**settings), max_size=2000)):
                if number < 3:
                    yield f"v{magic} {codec} {name} batch {number}", part
    for codec in CompressionType:
        producer: Answer = {
            "producer_id": 7,
            "producer_epoch": 1,
            "base_sequence": 2**31 - 2,
            "partition_leader_epoch": 9,
        }
        transaction = ByteBufferMessageSet.from_records(
            RECORDS, compression_type=codec, is_transactional=True, **producer
        )
        yield f"transaction {codec}", transaction


RECORDS = [
    Record(b"value", b"key", [("h", b"1"), ("", None)], 1000),
    Record(None, b"", (), 999),
    Record(b"", None, [("\u043a", b"")], -1),
    Record(bytes(range(256)), b"k" * 300, (), 2**41),
]


def test_kafka_reads_what_is_written_and_corrected() -> None:
    made = list(_written())
    answers = kafka.answers_or_skip([kafka.Part(kafka.MEMORY, bytes(message_set.buffer)) for _, message_set in made])
    for (name, message_set), answer in zip(made, answers, strict=True):
        assert answer["error"] is None, name
        assert [batch for batch in answer["batches"] if batch["valid"] or batch["error"]] == [], name
        assert not differences(answer, ours.answer(message_set), bytes(message_set.buffer)), name
    assert len(made) > 300
