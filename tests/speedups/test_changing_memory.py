"""Kernels that look twice, at bytes that change in between: other records come out or an error, and nothing is overrun.

count | room is made for so many | others run, and write to the bytes | decode
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from kafkalog import ByteBufferMessageSet
from kafkalog._speedups import decode as columns
from kafkalog._speedups.buffer_pool import Block
from kafkalog._speedups.framing import HEADER_DTYPE, scan_headers
from kafkalog._speedups.record import build_records
from tests.reference.encode import LegacyMessage, PlainRecord, V2Batch, records

TINY = LegacyMessage(PlainRecord(1), magic=0).encoded()


def when_room_is_made(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    def made(size: int) -> Block:
        change()
        return Block(size)

    monkeypatch.setattr(columns, "Block", made)


def test_more_messages_than_were_counted_follow_in_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry, as long as all of them, becomes as many as there is room for in the whole buffer."""
    data = bytearray(TINY * 60_000)
    struct.pack_into(">i", data, 8, len(data) - 12)
    rows = scan_headers(data)[0]
    when_room_is_made(monkeypatch, lambda: struct.pack_into(">i", data, 8, len(TINY) - 12))
    block, _, count, stop = columns.decode_batches(data, rows, np.array([0]), np.array([len(data)]))
    assert (len(rows), count, block.shape) == (1, 2, (8, 3))
    assert stop == (columns.NO_FAULT, 0, 2 * len(TINY), 2, 0)
    _, _, count, stop = columns.decode_batches(data, rows, np.array([0]), np.array([len(data)]), 0, None, stop)
    assert (count, stop) == (59_998, None)


def test_fewer_messages_than_were_counted_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(TINY * 3)
    rows = scan_headers(data)[0][:1]
    when_room_is_made(monkeypatch, lambda: struct.pack_into(">i", data, 8, len(data) - 12))
    _, _, count, fault = columns.decode_batches(data, rows, np.array([0]), np.array([len(data)]))
    assert (count, fault) == (1, None)


def test_more_v2_records_than_were_counted_follow_in_another_part(monkeypatch: pytest.MonkeyPatch) -> None:
    data = V2Batch(records(b"a", b"b", b"c"), records_count=1).encoded()
    rows = scan_headers(data)[0]
    when_room_is_made(monkeypatch, lambda: rows["records_count"].fill(3))
    block, _, count, stop = columns.decode_batches(data, rows, np.array([61]), np.array([len(data)]))
    assert (count, block.shape) == (2, (8, 3))
    assert stop is not None
    assert stop[0] == columns.NO_FAULT
    _, _, count, stop = columns.decode_batches(data, rows, np.array([61]), np.array([len(data)]), 0, None, stop)
    assert (count, stop) == (1, None)


def test_a_set_that_changes_while_it_is_read_gives_other_records(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(TINY * 1000)
    struct.pack_into(">i", data, 8, len(data) - 12)
    when_room_is_made(monkeypatch, lambda: struct.pack_into(">i", data, 8, len(TINY) - 12))
    assert sum(map(len, ByteBufferMessageSet(data).columns(check_crcs=False))) == 1000


def test_pieces_that_move_while_they_are_gathered_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, lengths = np.array([0, 4]), np.array([4, 4])

    def made(size: int) -> Block:
        starts[:], lengths[:] = 2**40, 2**40
        block = Block(size)
        memoryview(block)[:] = bytes(size)
        return block

    monkeypatch.setattr(columns, "Block", made)
    ends, room = columns.gather(b"abcdefgh", starts, lengths)
    assert (ends.tolist(), room.tobytes()) == ([0, 4, 8], bytes(8))


def test_a_header_key_whose_length_turns_negative_is_refused() -> None:
    """Read as a slice with a negative end it would be looked for beyond the buffer."""
    data = b"\x01\x02x" + b"y" * 20
    block = np.array([[0], [0], [0], [-1], [0], [-1], [0], [3]])
    with pytest.raises(ValueError, match="have changed"):
        build_records(data, block, np.array([0], np.int32), np.zeros(1, HEADER_DTYPE))
