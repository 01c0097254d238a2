"""kafkalog's `WritableLog`, asked with the lines that Kafka's `UnifiedLog` is asked with (`UnifiedLogDriver.java`).

An answer has the shape of Kafka's. Where Kafka throws, the name of kafkalog's error stands in its place.
"""

from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from kafkalog import ByteBufferMessageSet
from kafkalog.errors import KafkaLogError
from kafkalog.record.log_validator import AppendOrigin
from kafkalog.record.message_set import MessageSet
from kafkalog.storage.fetch_data_info import FetchDataInfo, IsolationLevel, LogAppendInfo
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.log_offset_metadata import LogOffsetMetadata
from kafkalog.storage.unified_log import Opening, WritableLog
from tests.helpers.scheduling import ImmediateScheduler

Answer = dict[str, Any]


class OurLogs:
    """Logs in `directory`, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = 0
        self._log: WritableLog | None = None

    def run(self, line: str) -> Answer:
        """The answer to one command."""
        command, *words = line.split(" ")
        try:
            answer: Answer = {"answer": COMMANDS[command](self, *words)}
        except (KafkaLogError, ValueError) as problem:
            answer = {"error": type(problem).__name__, "message": str(problem)}
        return answer | {"state": None if self._log is None else _state(self._log)}

    def abandon(self) -> None:
        """Lets go of the log, as a crash would."""
        self.crash()

    @property
    def log(self) -> WritableLog:
        assert self._log is not None
        return self._log

    def open(self, _: str, how: str, log_start: str, recovery_point: str, *settings: str) -> bool:
        self.crash()
        config = LogConfig.from_topic_config(dict(each.split("=", 1) for each in settings))
        opening = Opening(
            had_clean_shutdown=how == "clean",
            log_start_offset=int(log_start),
            recovery_point=int(recovery_point),
            clock=lambda: self.now,
            scheduler=ImmediateScheduler(),
        )
        self._log = WritableLog.load(self.directory, config, opening)
        return True

    def close(self) -> bool:
        log, self._log = self.log, None
        log.close()
        return True

    def crash(self) -> bool:
        log, self._log = self._log, None
        if log is not None:
            log.abandon()
        return log is not None

    def set_clock(self, now: str) -> bool:
        self.now = int(now)
        return True

    def leader(self, data: str, epoch: str, origin: str, version: str) -> Any:
        appended = self.log.append_as_leader(
            _messages(data), int(epoch), AppendOrigin[origin], transaction_version=int(version)
        )
        return _append_info(appended)

    def follower(self, data: str, epoch: str) -> Any:
        return _append_info(self.log.append_as_follower(_messages(data), int(epoch)))

    def raise_high_watermark(self, offset: str) -> int | None:
        before = self.log.maybe_increment_high_watermark(LogOffsetMetadata(int(offset)))
        return None if before is None else before.message_offset

    def flush(self, force: str) -> bool:
        self.log.flush(force_active=force == "true")
        return True

    def restart(self, offset: str, log_start: str) -> bool:
        self.log.truncate_fully_and_start_at(int(offset), None if log_start == "-" else int(log_start))
        return True

    def read(self, offset: str, size: str, isolation: str, min_one: str) -> Any:
        return _read(self.log.read(int(offset), int(size), IsolationLevel[isolation], min_one == "true"))

    def time(self, timestamp: str) -> list[int | None] | None:
        found = self.log.offset_for_timestamp(int(timestamp))
        return None if found is None else [found.timestamp, found.offset, found.leader_epoch]

    def epoch_end(self, epoch: str) -> list[int] | None:
        found, end = self.log.leader_epochs.end_offset_for(int(epoch), self.log.log_end_offset)
        return None if end == -1 else [found, end]


def _done(_: object) -> bool:
    return True


COMMANDS: dict[str, Callable[..., Any]] = {
    "open": OurLogs.open,
    "close": OurLogs.close,
    "crash": OurLogs.crash,
    "clock": OurLogs.set_clock,
    "leader": OurLogs.leader,
    "follower": OurLogs.follower,
    "hw": lambda logs, offset: logs.log.update_high_watermark(int(offset)),
    "raise-hw": OurLogs.raise_high_watermark,
    "start": lambda logs, offset: logs.log.maybe_increment_log_start_offset(int(offset)),
    "truncate": lambda logs, offset: logs.log.truncate_to(int(offset)),
    "restart": OurLogs.restart,
    "roll": lambda logs: logs.log.roll().base_offset,
    "flush": OurLogs.flush,
    "retention": lambda logs: logs.log.delete_old_segments(),
    "snapshot": lambda logs: _done(logs.log.producer_state.take_snapshot()),
    "expire": lambda logs: _done(logs.log.remove_expired_producers()),
    "read": OurLogs.read,
    "time": OurLogs.time,
    "epoch-end": OurLogs.epoch_end,
}


def _messages(base64: str) -> ByteBufferMessageSet:
    return ByteBufferMessageSet(b64decode(base64))


def _append_info(info: LogAppendInfo) -> Answer:
    return {
        "first": info.first_offset,
        "last": info.last_offset,
        "epoch": None if info.last_leader_epoch < 0 else info.last_leader_epoch,
        "max_timestamp": info.max_timestamp,
        "append_time": info.log_append_time,
        "log_start": info.log_start_offset,
        "valid_bytes": info.valid_bytes,
        "codec": info.source_compression.name.lower(),
    }


def _read(info: FetchDataInfo) -> Answer:
    at, aborted = info.fetch_offset_metadata, info.aborted_transactions
    return {
        "size": info.message_set.size_in_bytes,
        "checksum": crc32(_bytes_of(info.message_set)),
        "at": [at.message_offset, at.segment_base_offset, at.relative_position_in_segment],
        "first_entry_incomplete": info.first_entry_incomplete,
        "aborted": None if aborted is None else [list(each) for each in aborted],
    }


class _Bytes:
    def __init__(self) -> None:
        self.data = b""

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def _bytes_of(message_set: MessageSet) -> bytes:
    out = _Bytes()
    message_set.write_to(out)
    return out.data


def _state(log: WritableLog) -> Answer:
    return {
        "log_start": log.log_start_offset,
        "log_end": log.log_end_offset,
        "hw": log.high_watermark,
        "lso": log.last_stable_offset,
        "first_unstable": log.first_unstable_offset,
        "recovery_point": log.recovery_point,
        "producer_end": log.producer_state.map_end_offset,
        "segments": [[segment.base_offset, segment.size] for segment in log.segments],
        "epochs": [[entry.epoch, entry.start_offset] for entry in log.leader_epochs.entries],
        "producers": {str(each): _producer(entry) for each, entry in log.producer_state.active_producers.items()},
    }


def _producer(entry: Any) -> list[int]:
    open_since = -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset
    return [entry.producer_epoch, entry.last_seq, entry.last_timestamp, entry.coordinator_epoch, open_since]
