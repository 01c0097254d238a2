"""A script played by kafkalog, laid beside what Kafka answered and wrote; and the few lines that show a difference.

After every line the answers, the states and all files have to be the same. An error is the same if it has the same
name; where Kafka stumbles over its own feet (`ANY_ERROR`), any error will do. And what is found for a time in a damaged
batch is nobody's business: Kafka reads it without a look at the checksum, and even where it lies before the log's
start; kafkalog refuses to, and does not read what nobody gets.
"""

import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kafkalog import ByteBufferMessageSet
from kafkalog.errors import KafkaLogError
from tests.oracle.kafka_log import Answer, KafkaLogs
from tests.oracle.log_files import Contents, changes, contents, damage
from tests.oracle.scripts import Step, is_half_done

SHRINKING_SECONDS = 15.0
ERRORS: dict[str, tuple[str, ...]] = {
    "IllegalArgumentException": ("ValueError",),
    "KafkaException": ("LogStateError",),
    "KafkaStorageException": ("LogStateError", "CorruptCheckpointError"),
    "LogSegmentOffsetOverflowException": ("SegmentOffsetOverflowError",),
    "UnsupportedCompressionTypeException": ("UnsupportedCompressionError",),
}
ANY_ERROR = ("IllegalStateException", "NullPointerException", "IndexOutOfBoundsException", "BufferUnderflowException")

DAMAGE = ("CorruptRecordException", "InvalidRecordException")

WATERMARKS = ("hw", "lso", "first_unstable")


class Logs(Protocol):
    """Kafka or kafkalog: takes lines, answers."""

    directory: Path

    def run(self, line: str) -> Answer: ...

    def abandon(self) -> None: ...


class Difference(NamedTuple):
    """The first line that Kafka and kafkalog do not agree about, and in what."""

    at: int
    line: str
    what: dict[str, tuple[Any, Any]]

    def __str__(self) -> str:
        rows = [f"{name}:\n    Kafka     {kafka}\n    kafkalog  {ours}" for name, (kafka, ours) in self.what.items()]
        return "\n".join([f"line {self.at}: {described(self.line)}", *rows])


def difference(steps: Sequence[Step], ours: Logs) -> Difference | None:
    """Plays the script in `ours`' empty directory until something is not as it was with Kafka."""
    try:
        for at, (step, answer, files) in enumerate(_played(steps, ours)):
            if what := _unlike(step, answer, files):
                return Difference(at, step.line, what)
    finally:
        ours.abandon()
    return None


def _played(steps: Sequence[Step], ours: Logs) -> Iterator[tuple[Step, Answer, Contents]]:
    ours.directory.parent.mkdir(parents=True, exist_ok=True)
    before: Contents = {}
    for step in steps:
        answer = _step(ours, step.line)
        after = contents(ours.directory)
        yield step, answer, changes(before, after)
        before = after


def _step(logs: Logs, line: str) -> Answer:
    if line.startswith("damage"):
        damage(logs.directory, line)
        return {"answer": True, "state": None}
    return logs.run(line)


def _unlike(step: Step, answer: Answer, files: Contents) -> dict[str, tuple[Any, Any]]:
    is_watermark = step.line.startswith("raise-hw")
    kafka, answer = (_with_invariants(each, is_watermark) for each in (step.answer, answer))
    damaged = "CorruptRecordError" in answer.values() or kafka.get("error") in DAMAGE
    excused = step.line.startswith("time") and (damaged or _goes_on(step.line, kafka, answer))
    pairs = {"answer": (_said(kafka), _said(answer))} if not (excused or _alike(kafka, answer)) else {}
    pairs |= _unlike_parts("state", kafka["state"] or {}, answer["state"] or {})
    return pairs | _unlike_parts("file", step.files, files)


def _goes_on(line: str, kafka: Answer, ours: Answer) -> bool:
    """Kafka stops at the first segment with a time as late, be its record deleted; kafkalog goes on to the next."""
    if "error" in kafka or kafka["answer"] is not None or not ours.get("answer"):
        return False
    timestamp, offset, _ = ours["answer"]
    return bool(timestamp >= int(line.split(" ")[1]) >= 0 and offset >= ours["state"]["log_start"])


def _with_invariants(answer: Answer, is_watermark: bool) -> Answer:
    """An answer with no watermark before the log's start, no recovery point after its end: Kafka may have them there.

    Where the start lies within a batch, 4.2 takes the batch's base for the first unstable offset; and a segment that
    was rolled behind a gap, for what was refused then, is flushed up to its base.
    """
    state = answer.get("state")
    if not state:
        return answer
    raised = {name: max(state[name], state["log_start"]) for name in WATERMARKS if state.get(name) is not None}
    raised["recovery_point"] = min(state["recovery_point"], state["log_end"])
    said = answer.get("answer")
    if is_watermark and isinstance(said, int):
        answer = answer | {"answer": max(said, state["log_start"])}
    return answer | {"state": state | raised}


def _unlike_parts(what: str, kafka: Answer, ours: Answer) -> dict[str, tuple[Any, Any]]:
    names = [name for name in {**kafka, **ours} if kafka.get(name, "as before") != ours.get(name, "as before")]
    return {f"{what} {name}": (kafka.get(name, "as before"), ours.get(name, "as before")) for name in names}


def _said(answer: Answer) -> Any:
    return f"{answer['error']}: {answer['message']}" if "error" in answer else answer["answer"]


def _alike(kafka: Answer, ours: Answer) -> bool:
    is_bad_epoch = ours.get("error") == "ValueError" and "leader_epoch" in ours["message"]
    if is_bad_epoch and "error" not in kafka:
        return isinstance(kafka["answer"], dict) and kafka["answer"].get("valid_bytes") == 0
    if "error" not in kafka or "error" not in ours:
        return bool(_said(kafka) == _said(ours))
    if is_bad_epoch:
        return True  # an invalid argument is reported before an invalid batch
    name = kafka["error"]
    names = ERRORS.get(name, (name.replace("Exception", "Error"),))
    return name in ANY_ERROR or ours["error"] in (name, *names)


# --- making it short


class Shrinker:
    """Leaves out of a script what a difference does not need."""

    def __init__(self, kafka: KafkaLogs, ours: Callable[[Path], Logs], directory: Path) -> None:
        self._kafka = kafka
        self._ours = ours
        self._directory = directory
        self._numbers = count()

    def shrunk(self, steps: Sequence[Step], found: Difference) -> tuple[list[Step], Difference]:
        """The shortest script that could be found in a few seconds with a difference in the same things."""
        best, deadline = (list(steps[: found.at + 1]), found), time.monotonic() + SHRINKING_SECONDS
        size = max(1, len(best[0]) // 2)
        while time.monotonic() < deadline:
            shorter = self._shorter(best, size, deadline)
            if shorter is None and size == 1:
                break
            best, size = shorter or best, size if shorter else size // 2
        return best

    def _shorter(
        self, best: tuple[list[Step], Difference], size: int, deadline: float
    ) -> tuple[list[Step], Difference] | None:
        lines = [step.line for step in best[0]]
        kinds = {name.rsplit(".", 1)[-1] for name in best[1].what}
        for end in range(len(lines) - 1, 1, -size):  # the first line sets the clock
            left = lines[: max(1, end - size)] + lines[end:]
            found = self._tried(left) if time.monotonic() < deadline else None
            if found is not None and kinds & {name.rsplit(".", 1)[-1] for name in found[1].what}:
                return found
        return None

    def _tried(self, lines: list[str]) -> tuple[list[Step], Difference] | None:
        try:
            steps = self._kafka_steps(lines)
            found = difference(steps, self._ours(self._new_directory()))
        except (OSError, IndexError):  # a file to be damaged is not there any more, or is shorter
            return None
        return None if found is None else (steps[: found.at + 1], found)

    def _kafka_steps(self, lines: list[str]) -> list[Step]:
        self._kafka.directory = self._new_directory()
        steps: list[Step] = []
        files: Contents = {}
        for line in sensible(lines):
            answer = _step(self._kafka, line)
            before, files = files, contents(self._kafka.directory)
            if "error" in answer and is_half_done(line, before, files):
                break
            steps.append(Step(line, answer, changes(before, files)))
        self._kafka.abandon()
        return steps

    def _new_directory(self) -> Path:
        path = self._directory / str(next(self._numbers)) / "topic-0"
        path.parent.mkdir(parents=True)
        return path


def sensible(lines: Sequence[str]) -> Iterator[str]:
    """The lines that can follow the ones before: nothing is asked of a log that is not open, and so on."""
    is_open, closed = False, True
    for line in lines:
        command = line.split(" ", 2)[0]
        if command == "open":
            fits = not is_open and (closed or not line.startswith("open . clean"))
        else:
            fits = command == "clock" or is_open != (command == "damage")
        if fits:
            is_open = command == "open" or (is_open and command not in ("close", "crash"))
            closed = command == "close" or (closed and command != "crash")
            yield line


# --- for the eye


def report(seed: str, steps: Sequence[Step], found: Difference) -> str:
    """What to read when a script of this seed differs."""
    lines = [f"{at:3} {described(step.line)}" for at, step in enumerate(steps[: found.at + 1])]
    return "\n".join([f"script {seed} differs; played so far:", *lines, "", str(found)])


def described(line: str) -> str:
    """The line, with what is in the batches that it appends."""
    command, *words = line.split(" ")
    if command not in ("leader", "follower"):
        return line
    return " ".join([command, *words[1:], *_batches(b64decode(words[0]))])


def _batches(data: bytes) -> Iterator[str]:
    yield f"<{len(data)} bytes:"
    try:
        for batch in ByteBufferMessageSet(data).batches():
            producer = f" pid {batch.producer_id}/{batch.producer_epoch} seq {batch.base_sequence}"
            kind = "control " if batch.is_control else "txn " if batch.is_transactional else ""
            yield f"{kind}v{batch.magic} {batch.compression_type.name.lower()} {batch.base_offset}..{batch.last_offset}"
            yield f"epoch {batch.partition_leader_epoch} ts {batch.max_timestamp}" + producer * (batch.producer_id >= 0)
    except KafkaLogError as problem:
        yield f"and then {problem}"
    yield ">"


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A directory for logs; in memory where there is such a place, because logs are flushed often."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="kafkalog-", dir=memory if memory.is_dir() else None)
