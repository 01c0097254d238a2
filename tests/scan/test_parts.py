"""Every reader returns the same if a batch is read in parts, because it has many or large records, or at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkalog import CompressionType, IsolationLevel, Record
from kafkalog import open as open_log
from kafkalog.cli import cli
from kafkalog.fsck import Options, verify_path
from kafkalog.record import decoding
from kafkalog.scan.records import Damage, records
from tests.helpers.golden import checked_partitions
from tests.helpers.spark_logs import rows as spark_rows
from tests.reference.encode import LegacyMessage, LegacyWrapper, PlainRecord, V2Batch, compressed

TIME = 1_700_000_000_000
PARTS = ((1, 1 << 40), (3, 1 << 40), (1 << 40, 50))


def _plain(first: int, *deltas: int) -> list[PlainRecord]:
    return [PlainRecord(first + delta, TIME + delta, b"k", b"value", ((b"h", b"1"),)) for delta in deltas]


def _v1(first: int, *deltas: int, codec: int = CompressionType.GZIP, broken: int = -1) -> bytes:
    made = [PlainRecord(first + delta, TIME + delta, b"k", b"value") for delta in deltas]
    inner = b"".join(
        LegacyMessage(
            PlainRecord(i, each.timestamp, each.key, each.value), checksum=7 if i == broken else None
        ).encoded()
        for i, each in enumerate(made)
    )
    return LegacyWrapper(made, codec, value=compressed(inner, codec, 1)).encoded()


def _truncated(batch: V2Batch) -> bytes:
    """Encode a batch whose last record is not whole."""
    return V2Batch(batch.records, batch.codec, region=batch.plain_region()[:-3]).encoded()


DAMAGED = {
    "sound": b"",
    "falling offsets": V2Batch(_plain(100, 0, 1, 2, 2, 1, 5, 6, 6, 8)).encoded(),
    "offsets out of range": V2Batch(_plain(100, 0, 1, 2, 3, 900, 5, 6, 7, 8), last_offset_delta=8).encoded(),
    "wrong time": V2Batch(_plain(100, *range(9)), max_timestamp=TIME).encoded(),
    "broken off": _truncated(V2Batch(_plain(100, *range(9)), CompressionType.ZSTD)),
    "broken inner checksum": _v1(100, *range(9), broken=7),
    "broken inner offsets": LegacyWrapper(_plain(100, *range(9)), magic=0, offset=150).encoded(),
}


@pytest.fixture(params=DAMAGED)
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    batches = [
        V2Batch(_plain(0, *range(20))).encoded(),
        V2Batch(_plain(20, *range(20)), CompressionType.ZSTD).encoded(),
        _v1(40, *range(20)),
        DAMAGED[request.param],
        V2Batch(_plain(200, 0, 2, 3, 7, 19), CompressionType.LZ4).encoded(),
    ]
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(batches))
    return directory


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - an error is an answer too
        return type(error), str(error)


def _columns(path: Path, **given: Any) -> Any:
    found: list[Record] = []

    def read() -> None:
        for part in open_log(path).columns(**given):
            found.extend(part)

    return _outcome(read), found


def _survivors(path: Path) -> Any:
    damage: list[Damage] = []
    found = [record for part in records(open_log(path), report=damage.append) for record in part]
    return found, [(each.position, each.message, each.left_out) for each in damage]


def _printed(*arguments: str) -> Callable[[Path], Any]:
    def run(path: Path) -> Any:
        ran = CliRunner().invoke(cli, [arguments[0], str(path), *arguments[1:]])
        return ran.exit_code, ran.stdout, ran.stderr

    return run


READERS: dict[str, Callable[[Path], Any]] = {
    "records": lambda path: list(open_log(path)),
    "from an offset": lambda path: [_columns(path, start=start, end=start + 7) for start in (1, 18, 27, 38, 45, 203)],
    "committed": lambda path: _columns(path, isolation=IsolationLevel.TXN_COMMITTED),
    "threads": lambda path: _columns(path, threads=2),
    "arrow": lambda path: [row for part in open_log(path).columns() for row in part.to_arrow().to_pylist()],
    "batches": lambda path: [(list(each), list(each.columns()), each.base_offset) for each in open_log(path).batches()],
    "count": lambda path: [open_log(path).count(start, start + 9) for start in range(0, 60, 7)],
    "by time": lambda path: [open_log(path).offset_for_timestamp(TIME + i) for i in range(0, 21, 4)],
    "statistics": _printed("inspect", "--headless", "statistics", "-o", "json"),
    "survivors": _survivors,
    "verify": lambda path: list(verify_path(path, Options(deep=True))),
    "dump": _printed("dump", "-o", "jsonl"),
    "dump as text": _printed("dump", "--limit", "50"),
    "dump of all": _printed("dump", "--control", "-o", "jsonl"),
    "tail": _printed("tail", "-n", "25"),
    "ls": _printed("ls"),
    "Spark": lambda path: spark_rows(path, includeHeaders=True, includeMetadata=True, onCorrupt="permissive"),
    "inspector": _printed("inspect", "--headless", "hex", "-o", "json"),
}


def in_parts() -> Iterator[pytest.MonkeyPatch]:
    """Let batches be read in smaller and smaller parts."""
    for count, weight in PARTS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decoding, "RECORDS_A_PIECE", count)
            patch.setattr(decoding, "WEIGHT_A_PIECE", weight)
            yield patch


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_gives_the_same_of_parts(damaged: Path, reader: str) -> None:
    whole = _outcome(lambda: READERS[reader](damaged))
    for _ in in_parts():
        assert _outcome(lambda: READERS[reader](damaged)) == whole


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["committed", "arrow", "count", "verify", "dump"])
def test_every_reader_gives_the_same_of_the_parts_of_brokers_batches(reader: str) -> None:
    for partition in checked_partitions()[::5]:
        whole = _outcome(lambda: READERS[reader](partition.directory))  # noqa: B023 - called at once
        for _ in in_parts():
            assert _outcome(lambda: READERS[reader](partition.directory)) == whole  # noqa: B023 - called at once
