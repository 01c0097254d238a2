"""The steps of `Producers.java` taken by kafkalog, and long random sequences of them.

A sequence is mostly what a log does: sequences that follow, offsets that rise, a snapshot now and then. What is out of
order, too old or too late comes in between, and snapshots are cut short behind the manager's back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kafkalog.errors import KafkaLogError
from kafkalog.record.control import ControlRecordType, EndTransactionMarker
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.record_batch import increment_sequence
from kafkalog.storage.file_names import SNAPSHOT_SUFFIX, offset_file
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.producer.producer_append_info import ProducerAppendInfo
from kafkalog.storage.producer.producer_snapshot import read_snapshot
from kafkalog.storage.producer.producer_state_entry import BatchMetadata, CompletedTxn, ProducerStateEntry
from kafkalog.storage.producer.producer_state_manager import ProducerStateManager

EXPIRATION_MS = 86_400_000


class Ours:
    """Takes a step as `Producers.java` does and answers in its words."""

    def __init__(self) -> None:
        self.manager: ProducerStateManager
        self.info: ProducerAppendInfo | None = None
        self.completed: list[CompletedTxn] = []
        self.directory = Path()

    def answer(self, line: str) -> list[str]:
        """What came of the step, and all that is known after it."""
        word, *arguments = line.split(" ")
        refused = self.info is None and word in ("data", "marker", "update")
        answer = "refused before" if refused else self._tried(word, arguments)
        return ["-" if answer is None else str(answer), "" if word == "read" else self._state()]

    def _tried(self, word: str, arguments: list[str]) -> object:
        try:
            return getattr(self, f"_{word}")(*arguments)
        except ValueError:
            self.info = None
            return "IllegalArgumentException"
        except KafkaLogError as error:
            self.info = None
            return type(error).__name__.removesuffix("Error") + "Exception"

    def _open(self, directory: str) -> None:
        self.directory = Path(directory)
        self.manager = ProducerStateManager(self.directory, "topic-0", producer_id_expiration_ms=EXPIRATION_MS)

    def _prepare(self, producer_id: str, origin: str) -> None:
        self.info = self.manager.prepare_update(int(producer_id), AppendOrigin[origin])
        self.completed = []

    def _data(self, *words: str) -> None:
        epoch, first_seq, last_seq, timestamp, first, last, transactional = map(int, words)
        metadata = BatchMetadata(last_seq, last, last - first, timestamp)
        assert self.info is not None
        self.info.append_data_batch(epoch, first_seq, metadata, LogOffsetMetadata(first, 0, 7), transactional == 1)

    def _marker(self, *words: str) -> str | None:
        epoch, coordinator_epoch, offset, timestamp, aborts, version = map(int, words)
        kind = ControlRecordType.ABORT if aborts else ControlRecordType.COMMIT
        marker = EndTransactionMarker(kind, coordinator_epoch)
        assert self.info is not None
        ended = self.info.append_end_txn_marker(marker, epoch, offset, timestamp, version)
        if ended is None:
            return None
        self.completed.append(ended)
        return " ".join(str(int(each)) for each in ended)

    def _update(self) -> str:
        assert self.info is not None
        self.manager.update(self.info)
        stable = ["-"]
        for each in self.completed:
            stable.append(str(self.manager.last_stable_offset(each)))
            self.manager.complete_txn(each)
        return " ".join(stable)

    def _end(self, offset: str) -> None:
        self.manager.update_map_end_offset(int(offset))

    def _watermark(self, offset: str) -> None:
        self.manager.on_high_watermark_updated(int(offset))

    def _start(self, offset: str) -> None:
        self.manager.on_log_start_offset_incremented(int(offset))

    def _expire(self, now: str) -> None:
        self.manager.remove_expired_producers(int(now))

    def _reload(self, start: str, end: str, now: str) -> None:
        self.manager.truncate_and_reload(int(start), int(end), int(now))

    def _fully(self, offset: str) -> None:
        self.manager.truncate_fully_and_start_at(int(offset))

    def _snapshot(self) -> str | None:
        path = self.manager.take_snapshot(sync=False)
        return None if path is None else path.name

    def _mark(self, offset: str) -> str | None:
        path = self.manager.remove_and_mark_for_deletion(int(offset))
        return None if path is None else path.name

    def _strays(self, *bases: str) -> None:
        self.manager.remove_stray_snapshots([int(base) for base in bases])

    def _damage(self, kept: str) -> str | None:
        offset = self.manager.latest_snapshot_offset
        if offset is None:
            return None
        path = offset_file(self.directory, offset, SNAPSHOT_SUFFIX)
        data = path.read_bytes()
        path.write_bytes(data[: max(0, min(int(kept), len(data) - 1))])
        return path.name

    def _read(self, path: str) -> str:
        return entries_text(read_snapshot(Path(path)))

    def _state(self) -> str:
        manager, unstable = self.manager, self.manager.first_unstable_offset
        undecided = _or_dash(manager.first_undecided_offset)
        place = unstable and f"{unstable.message_offset}@{unstable.relative_position_in_segment}"
        names = sorted(path.name for path in self.directory.iterdir())
        return (
            f"end {manager.map_end_offset} unstable {_or_dash(place)} undecided {undecided}"
            f" snapshots {_or_dash(manager.oldest_snapshot_offset)}..{_or_dash(manager.latest_snapshot_offset)}"
            f" empty {int(manager.is_empty)} files {','.join(names)}"
            f" producers{entries_text(manager.active_producers.values())}"
        )


def entries_text(entries: Iterable[ProducerStateEntry]) -> str:
    return "".join(sorted(_entry_text(entry) for entry in entries))


def _entry_text(entry: ProducerStateEntry) -> str:
    head = f" [{entry.producer_id} {entry.producer_epoch} {entry.coordinator_epoch} {entry.last_timestamp} "
    batches = (
        f" | {each.first_seq}..{each.last_seq}@{each.first_offset}..{each.last_offset}@{each.timestamp}"
        for each in entry.batch_metadata
    )
    return head + _or_dash(entry.current_txn_first_offset) + "".join(batches) + "]"


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


class RandomSteps:
    """A random log: few producers, so that they meet themselves again."""

    def __init__(self, seed: int, length: int) -> None:
        self._draw = random.Random(seed)
        self._length = length
        self._end = self._start = 0
        self._now = 1_700_000_000_000
        self._epochs: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        self._snapshots = [0]

    def steps(self) -> Iterator[str]:
        kinds: list[tuple[int, Callable[[], Iterator[str]]]] = [
            (40, self._append),
            (12, self._mark_end),
            (8, self._snapshot),
            (6, self._watermark),
            (3, self._reload),
            (4, self._housekeeping),
        ]
        weights, makers = zip(*kinds, strict=True)
        for _ in range(self._length):
            self._now += self._draw.choice([0, 1, 1000, 30_000])
            yield from self._draw.choices(makers, weights)[0]()

    def _producer(self) -> tuple[int, int]:
        producer_id = self._draw.choice([0, 1, 1, 2, 2, 2, 9, 2**63 - 1])
        epoch = self._epochs.setdefault(producer_id, self._draw.choice([0, 0, 5]))
        if self._draw.random() < 0.12:
            epoch = max(0, epoch + self._draw.choice([-1, 1, 1, 2]))
            self._epochs[producer_id] = epoch
        return producer_id, epoch

    def _prepare(self, producer_id: int) -> str:
        origins = ["CLIENT", "CLIENT", "CLIENT", "COORDINATOR", "REPLICATION", "RAFT_LEADER"]
        return f"prepare {producer_id} {self._draw.choice(origins)}"

    def _append(self) -> Iterator[str]:
        producer_id, epoch = self._producer()
        yield self._prepare(producer_id)
        for _ in range(self._draw.choice([1, 1, 1, 2, 7])):
            yield self._data(producer_id, epoch)
        yield "update"
        yield f"end {self._end}"

    def _data(self, producer_id: int, epoch: int) -> str:
        draw, first = self._draw, self._end
        follows = increment_sequence(self._sequences.get(producer_id, -1), 1)
        first_seq = draw.choice([0, follows + 1, 2**31 - 3, -1]) if draw.random() < 0.2 else follows
        count = draw.choice([1, 1, 2, 3, 10])
        last_seq = -1 if first_seq == -1 else increment_sequence(first_seq, count - 1)
        self._sequences[producer_id] = last_seq
        self._end = first + count
        transactional = int(draw.random() < 0.5) if producer_id < 2 else int(producer_id == 2)
        timestamp = draw.choice([self._now, self._now, self._now - EXPIRATION_MS, -1])
        return f"data {epoch} {first_seq} {last_seq} {timestamp} {first} {self._end - 1} {transactional}"

    def _mark_end(self) -> Iterator[str]:
        producer_id, epoch = self._producer()
        draw = self._draw
        yield self._prepare(producer_id)
        for _ in range(draw.choice([1, 1, 2])):
            epoch += draw.choice([0, 0, 1])
            self._epochs[producer_id], self._sequences[producer_id] = epoch, -1
            coordinator_epoch, version = draw.choice([0, 1, 1, 2]), draw.choice([-1, 0, 1, 2, 2])
            yield f"marker {epoch} {coordinator_epoch} {self._end} {self._now} {draw.choice('01')} {version}"
            self._end += 1
        yield "update"
        yield f"end {self._end}"

    def _snapshot(self) -> Iterator[str]:
        self._snapshots.append(self._end)
        yield "snapshot"

    def _watermark(self) -> Iterator[str]:
        yield f"watermark {self._some_offset()}"

    def _reload(self) -> Iterator[str]:
        if self._draw.random() < 0.3:
            yield f"damage {self._draw.choice([0, 1, 5, 9, 10, 30, 60])}"
        self._end = self._draw.choice([self._end, self._some_offset(), self._draw.choice(self._snapshots)])
        self._start = min(self._start, self._end)
        yield f"reload {self._start} {self._end} {self._now}"
        yield f"end {self._end}"

    def _housekeeping(self) -> Iterator[str]:
        some = self._some_offset
        step = self._draw.choice(["start", "expire", "mark", "strays", "fully"])
        if step == "start":
            self._start = max(self._start, min(some(), some()))
            yield f"start {self._start}"
        elif step == "expire":
            yield f"expire {self._now + self._draw.choice([0, 1000, EXPIRATION_MS])}"
        elif step == "mark":
            yield f"mark {self._draw.choice(self._snapshots)}"
        elif step == "strays":
            bases = {str(self._draw.choice(self._snapshots)) for _ in range(self._draw.choice([1, 3, 6]))}
            yield f"strays {' '.join(sorted(bases))}"
        elif self._draw.random() < 0.2:
            yield f"fully {some()}"

    def _some_offset(self) -> int:
        return self._draw.randint(0, self._end)
