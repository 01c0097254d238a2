"""A segment in any order of appends, truncations, rolls, stops, crashes and recoveries stays the list of its batches.

The model knows the batches and, by itself, which of them Kafka's rule gives index entries.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafkalog import ByteBufferMessageSet
from kafkalog.storage.log_config import LogConfig
from kafkalog.storage.recovery.recover_segment import recover_segment
from kafkalog.storage.segment.log_segment import LogSegment
from tests.helpers.making import append, batch, producers, segment, together
from tests.stateful.sizes import sized

BASE = 100
INTERVAL = 150
CONFIG = LogConfig(index_interval_bytes=INTERVAL, segment_index_bytes=12_000)
FORMATS = st.sampled_from([0, 1, 2])


class Batch(NamedTuple):
    first: int
    last: int
    timestamp: int
    size: int
    position: int


class SegmentMachine(RuleBasedStateMachine):
    segment: LogSegment

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="segment"))
        self.batches: list[Batch] = []
        self.entries: list[tuple[int, int]] = []
        self.times: list[tuple[int, int]] = []
        self.since = 0
        self.end = BASE

    def teardown(self) -> None:
        if hasattr(self, "segment"):
            self.segment.release()
        shutil.rmtree(self.directory)

    @initialize()
    def begin(self) -> None:
        self.segment = segment(self.directory, BASE, CONFIG)

    # --- operations

    @precondition(lambda self: not self.segment.sealed)
    @rule(
        parts=st.lists(
            st.tuples(FORMATS, st.integers(1, 3), st.integers(0, 80), st.integers(0, 3), st.integers(0, 50)),
            min_size=1,
            max_size=4,
        )
    )
    def append(self, parts: list[tuple[int, int, int, int, int]]) -> None:
        sets = []
        for magic, count, length, gap, timestamp in parts:
            values = [bytes(length)] * (count if magic == 2 else 1)
            first = self.end + gap
            sets.append(batch(first, *values, magic=magic, timestamp=timestamp))
            self.end = first + len(values)
        messages = together(*sets)
        append(self.segment, messages)
        self._remember(messages)

    def _remember(self, messages: ByteBufferMessageSet) -> None:
        for row in messages.headers():
            at = self.batches[-1].position + self.batches[-1].size if self.batches else 0
            first, last, timestamp = int(row["base_offset"]), int(row["last_offset"]), int(row["max_timestamp"])
            self.batches.append(Batch(first, last, timestamp, int(row["size_in_bytes"]), at))
            self.since = self._index(len(self.batches) - 1, self.since)

    def _index(self, i: int, since: int) -> int:
        """The rule of 3.9.1 and later for the i-th batch; returns the bytes since the last entry then."""
        each = self.batches[i]
        if since > INTERVAL:
            self.entries.append((each.last, each.position))
            self._time_entry(self._largest(i + 1))
            since = 0
        return since + each.size

    def _largest(self, count: int) -> tuple[int, int]:
        largest = (-1, BASE)
        for each in self.batches[:count]:
            if each.timestamp > largest[0]:
                largest = (each.timestamp, each.last)
        return largest

    def _time_entry(self, largest: tuple[int, int]) -> None:
        if largest[0] > (self.times[-1][0] if self.times else -1):
            self.times.append(largest)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(BASE, self.end - back)
        self.segment.truncate_to(offset)
        self.batches = [each for each in self.batches if each.last < offset]
        self.entries = [each for each in self.entries if each[0] < offset]
        self.times = [each for each in self.times if each[1] < offset]
        self.end = offset
        self.since = 0

    @precondition(lambda self: not self.segment.sealed)
    @rule()
    def roll(self) -> None:
        self.segment.on_become_inactive_segment()
        self._time_entry(self._largest(len(self.batches)))

    @rule()
    def flush(self) -> None:
        self.segment.flush()

    @rule(ends_in_order=st.booleans(), torn=st.sampled_from([b"", b"\0" * 70, b"\0" * 11 + b"\x50" + b"torn"]))
    def stop_and_begin_again(self, ends_in_order: bool, torn: bytes) -> None:
        """In order: all is there. Else recovery builds what the batches say, whatever the indexes were."""
        sealed = self.segment.sealed
        self.segment.close() if ends_in_order else self.segment.release()
        if ends_in_order:
            self.segment = segment(self.directory, BASE, CONFIG, file_already_exists=True)
            self.segment.sealed = sealed
            self._time_entry(self._largest(len(self.batches)))
            if not sealed:
                self.segment.resize_indexes(CONFIG.segment_index_bytes)
        else:
            with (self.directory / f"{BASE:020d}.log").open("ab") as file:
                file.write(torn)
            self.segment = segment(self.directory, BASE, CONFIG, file_already_exists=True)
            self.segment.sealed = sealed
            assert self._recover() == len(torn)
        self.since = 0

    @rule()
    def recover(self) -> None:
        assert self._recover() == 0

    def _recover(self) -> int:
        cut = recover_segment(self.segment, producers(self.directory), None)
        self.entries, self.times, since = [], [], 0
        for i in range(len(self.batches)):
            since = self._index(i, since)
        self._time_entry(self._largest(len(self.batches)))
        if not self.segment.sealed:
            self.segment.resize_indexes(CONFIG.segment_index_bytes)
        return cut

    # --- what must then hold

    @invariant()
    def the_file_is_the_batches(self) -> None:
        found = self.segment.log.headers()
        assert found["last_offset"].tolist() == [each.last for each in self.batches]
        assert self.segment.size == sum(each.size for each in self.batches)

    @invariant()
    def the_indexes_have_the_entries_of_the_rule(self) -> None:
        assert list(self.segment.offset_index) == self.entries
        assert list(self.segment.time_index) == self.times

    @invariant()
    def every_offset_is_found(self) -> None:
        with self._beside() as beside:
            for each in (self.segment, beside):
                for offset in range(BASE, self.end + 1):
                    expected = next(((b.first, b.position) for b in self.batches if b.last >= offset), None)
                    found = each.translate_offset(offset)
                    assert (found and (found.offset, found.position)) == expected

    @invariant()
    def every_time_is_found(self) -> None:
        with self._beside() as beside:
            for each in (self.segment, beside):
                for timestamp in (0, 10, 49, 51):
                    expected = next((b.first for b in self.batches if b.timestamp >= timestamp), None)
                    found = each.find_offset_by_timestamp(timestamp)
                    assert (found and found.offset) == expected

    @invariant()
    def end_and_largest_timestamp_are_known(self) -> None:
        end = self.batches[-1].last + 1 if self.batches else BASE
        with self._beside() as beside:
            for each in (self.segment, beside):
                assert each.read_next_offset() == end
                assert each.max_timestamp_and_offset_so_far == self._largest(len(self.batches))

    def _beside(self) -> _Beside:
        return _Beside(self.segment)


class _Beside:
    """The same segment as another process reads it."""

    def __init__(self, written: LogSegment) -> None:
        self.segment = LogSegment(written.base_offset, written.path, sealed=written.sealed)

    def __enter__(self) -> LogSegment:
        return self.segment

    def __exit__(self, *_: object) -> None:
        self.segment.close()


TestSegment = SegmentMachine.TestCase
TestSegment.settings = sized(3, steps=15)
