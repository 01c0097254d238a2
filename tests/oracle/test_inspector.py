"""The inspector's model beside a broker at work: its watermarks are those that the broker tells its clients."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkalog import LogConfig
from kafkalog.inspector import headless
from kafkalog.inspector.model.model import Model
from kafkalog.inspector.model.partition import PartitionReader
from kafkalog.inspector.model.types import PartitionState, TopicRow
from tests.oracle import java
from tests.oracle.broker import Broker, Seen, View

pytestmark = [pytest.mark.oracle, pytest.mark.broker]

TOPIC, PARTITION = "looked-at", "looked-at-0"
# How often a broker writes its checkpoints: often, so that the test does not wait for them.
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": 200, "log.flush.offset.checkpoint.interval.ms": 200}
PATIENCE_SECONDS = 180


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    try:
        made = Broker(tmp_path, SETTINGS)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    with made:
        yield made


class Beside:
    """A broker, and the inspector on its directory, which must show what the broker answers to a client."""

    def __init__(self, broker: Broker) -> None:
        self.client = broker.client
        self.model = Model(broker.data)
        self.reader: PartitionReader = self.model.partition(PARTITION)
        self.changed: set[str] = set()

    def look(self) -> tuple[PartitionState, View]:
        """Wait until both say the same, as checkpoints are written a little later; return what they say."""
        view = self.client.view(PARTITION)
        self.until(lambda: self._watermarks() == (view.low, view.stable, view.end, view.end))
        return self.refresh(), view

    def refresh(self) -> PartitionState:
        """Ask the reader, which reports each change once: nothing else may ask it."""
        state = self.reader.refresh()
        self.changed |= state.changed
        return state

    def _watermarks(self) -> tuple[int | None, ...]:
        state = self.refresh()
        assert state.problem is None
        return state.log_start, self.reader.work_out_last_stable(), state.high_watermark, state.log_end

    def until(self, condition: Callable[[], Any]) -> None:
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < give_up, f"after {PATIENCE_SECONDS} s the inspector has {self._watermarks()}"
            time.sleep(0.1)

    def row(self) -> TopicRow:
        """In the list of partitions."""
        return [row for row in self.model.topics() if row.name == PARTITION][-1]

    def values(self) -> list[bytes | None]:
        """Of all records, control records left out."""
        found = []
        for row in self.refresh().segments:
            segment = self.reader.segment(row.base_offset)
            while not segment.index_more().is_done:
                pass
            found += [each.value for each in segment.record_rows(0, segment.records) if each.kind != "control"]
        return found


def records(count: int, name: str) -> list[Seen]:
    now = int(time.time() * 1000)
    return [Seen(-1, now, b"key", f"{name} {i} {'.' * 60}".encode()) for i in range(count)]


def test_watermarks_are_those_of_a_broker_that_writes_rolls_deletes_and_restarts(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    run = broker.start()
    client = broker.client
    client.create({TOPIC: LogConfig(segment_bytes=4096, retention_ms=-1).to_topic_config()})
    client.produce(PARTITION, records(10, "first"))
    beside = Beside(broker)
    state, view = beside.look()
    assert (state.log_end, len(state.segments)) == (10, 1)

    for i in range(12):
        client.produce(PARTITION, records(20, f"round {i}"), codec=("none", "gzip", "zstd", "lz4")[i % 4])
    state, view = beside.look()
    assert beside.changed >= {"grown", "rolled"}
    assert beside.values() == [each.value for each in view.uncommitted]

    client.produce(PARTITION, records(15, "kept"), transaction="keeps", commit=True)
    client.produce(PARTITION, records(15, "dropped"), transaction="drops", commit=False)
    state, view = beside.look()
    assert view.stable == view.end
    found = beside.reader.transactions()
    assert (found.open, found.aborted_count) == ((), 1)

    client.produce(PARTITION, records(5, "open"), transaction="hangs", commit=None)
    client.produce(PARTITION, records(30, "behind it"))
    state, view = beside.look()
    assert view.stable < view.end
    (found_open,) = beside.reader.transactions().open
    assert found_open.first_offset == view.stable
    assert (found_open.producer_id, found_open.producer_epoch, found_open.first_offset) in {
        (each[0], each[1], each[5]) for each in view.producers
    }
    assert beside.values() == [each.value for each in view.uncommitted]

    client.delete_records(PARTITION, 100)
    state, view = beside.look()
    assert (state.log_start, view.low) == (100, 100)
    beside.until(lambda: beside.refresh().segments[0].base_offset > 0)
    assert "deleted" in beside.changed

    run.stop()
    run = broker.start()
    client.produce(PARTITION, records(10, "after the restart"))
    state, view = beside.look()
    assert beside.values()[-10:] == [each.value for each in view.uncommitted][-10:]
    row = beside.row()
    assert (row.log_start, row.last_stable, row.high_watermark, row.log_end, row.health) == (
        view.low, view.stable, view.end, view.end, "unchecked",
    )  # fmt: skip
    capsys.readouterr()
    assert headless.show(broker.data / PARTITION, "segments", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [shown[name] for name in ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")] == [
        view.low, view.stable, view.end, view.end,
    ]  # fmt: skip
    run.kill()
    beside.model.close()
