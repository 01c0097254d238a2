"""Kafka's answer and kafkalog's, side by side: `differences` lists what is not alike, and here stands what need not be.

Where kafkalog means to differ:

- A batch whose CRC does not hold gives no records. Kafka's iterators do not look at the CRC: its callers ask
`ensureValid` first. - A tail of nothing but zero bytes is an end (ZEROED), where Kafka finds a size of 0 and calls it
corrupt. So is, in memory, one   of 12 to 16 bytes with an impossible size (TORN), as in a file; there Kafka lets go
of one of 17, too. - In a file, Kafka reads a magic above 2 as format 2 and one below 0 as format 0, and the header of
an entry too short for   one from whatever follows it. kafkalog refuses both when the batch is checked or read;
position, size and magic are alike. - A batch is decompressed whole before its first record is given out, and a
wrapper read whole before its base offset is known.   Where the damage lies behind, Kafka gives out what comes before
it, kafkalog nothing of the batch. - Where bytes are left after the last record, kafkalog gives out the last record
before it says so, Kafka does not. - A message inside a wrapper is of format 0 or 1; Kafka reads any number there as
format 1. - Kafka may run out of memory over a length that cannot be; that is no answer.
"""

from collections.abc import Iterator, Sequence
from typing import Any

Answer = dict[str, Any]

FRAMING = ("position", "size", "magic")
NOT_FIELDS = (*FRAMING, "base_offset", "records", "error", "valid")
SMALLEST_SIZE = {0: 26, 1: 26, 2: 61}
NO_ANSWER = "OutOfMemoryError"
BYTES_LEFT = "Incorrect declared batch size, records still remaining in file"
OTHER_MAGIC_INSIDE = "a message's magic is none of 0, 1"


def differences(kafka: Answer, ours: Answer, data: bytes) -> list[str]:
    """What Kafka and kafkalog do not agree about in the log `data`."""
    return [*_ends(kafka, ours, data), *_batches(kafka["batches"], ours["batches"])]


def _ends(kafka: Answer, ours: Answer, data: bytes) -> Iterator[str]:
    batches = ours["batches"]
    tail = data[batches[-1]["position"] + batches[-1]["size"] :] if batches else data
    if len(tail) == 17 and kafka["error"] is None:
        return
    is_an_end = len(tail) < 17 or not any(tail)
    if not (is_an_end and ours["error"] is None):
        yield from _errors("the end", kafka["error"], ours["error"])


def _batches(kafka: list[Answer], ours: list[Answer]) -> Iterator[str]:
    if len(kafka) != len(ours):
        yield f"Kafka finds {len(kafka)} batches, kafkalog {len(ours)}"
    for number, (theirs, mine) in enumerate(zip(kafka, ours, strict=False)):
        for text in _batch(theirs, mine):
            yield f"batch {number}: {text}"


def _batch(kafka: Answer, ours: Answer) -> Iterator[str]:
    yield from _fields(FRAMING, kafka, ours)
    if kafka["size"] < SMALLEST_SIZE.get(kafka["magic"], 2**31):
        yield from _refused(ours)
        return
    yield from _fields([name for name in kafka if name not in NOT_FIELDS], kafka, ours)
    if not (_is_error(ours["base_offset"]) or _no_answer(kafka["base_offset"])):
        yield from _fields(["base_offset"], kafka, ours)
    yield from _errors("valid", kafka["valid"], ours["valid"])
    yield from _refused(ours) if kafka["valid"] else _content(kafka, ours)


def _refused(ours: Answer) -> Iterator[str]:
    if ours["valid"] is None:
        yield "kafkalog finds it valid"
    if ours["error"] is None or ours["records"]:
        yield f"kafkalog reads {len(ours['records'])} records and says {ours['error']}"


def _content(kafka: Answer, ours: Answer) -> Iterator[str]:
    """The records of a batch whose CRC holds."""
    if _no_answer(kafka["error"]):
        return
    if ours["error"] and OTHER_MAGIC_INSIDE in ours["error"]["message"]:
        return
    yield from _errors("records", kafka["error"], ours["error"])
    if ours["error"] is None and _is_error(ours["base_offset"]):
        yield f"base_offset: Kafka {kafka['base_offset']}, kafkalog {ours['base_offset']}"
    if ours["records"] not in _records_allowed(kafka, ours):
        yield f"records: Kafka {_some(kafka)}, kafkalog {_some(ours)}"


def _records_allowed(kafka: Answer, ours: Answer) -> Sequence[list[Any]]:
    allowed = [kafka["records"]]
    if ours["error"] and kafka["codec"] != "none":
        allowed.append([])
    if kafka["error"] and kafka["error"]["message"] == BYTES_LEFT:
        allowed.append([*kafka["records"], *ours["records"][-1:]])
    return allowed


def _some(answer: Answer) -> str:
    return f"{len(answer['records'])} {answer['records'][:3]}"


def _fields(names: Sequence[str], kafka: Answer, ours: Answer) -> Iterator[str]:
    for name in names:
        both_fail = _is_error(kafka[name]) and _is_error(ours[name])
        if kafka[name] != ours[name] and not both_fail:
            yield f"{name}: Kafka {kafka[name]}, kafkalog {ours[name]}"


def _errors(what: str, kafka: Answer | None, ours: Answer | None) -> Iterator[str]:
    if (kafka is None) != (ours is None):
        yield f"{what}: Kafka {kafka}, kafkalog {ours}"


def _is_error(value: Any) -> bool:
    return isinstance(value, dict)


def _no_answer(value: Any) -> bool:
    return isinstance(value, dict) and value["error"] == NO_ANSWER
