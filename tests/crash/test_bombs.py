"""Readers of decompression bombs use a bounded amount of memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafkalog import CompressionType
from tests.crash.bombs import MIB, measured, written

SIZE = 24 * MIB
# What a reader may take besides the decompressed batch and the stored one.
MOST_BESIDES = 64 * MIB
# Readers that make something of the records.
WANTED = ("records()", "columns()", "to_arrow()", "by time", "count", "Spark", "dump", "tail", "verify --deep")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the most memory that a process had")
@pytest.mark.parametrize("reader", WANTED)
@pytest.mark.parametrize("kind", ["headers", "headers of many", "records", "messages"])
def test_memory_for_a_batch_is_bounded(tmp_path: Path, kind: str, reader: str) -> None:
    path = written(tmp_path, kind, CompressionType.ZSTD, SIZE)
    stored = sum(each.stat().st_size for each in path.iterdir())
    row = measured(reader, path)
    assert row.peak <= SIZE + stored + MOST_BESIDES, row


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the most memory that a process had")
@pytest.mark.parametrize("reader", ["dump", "dump of an array", "dump of text", "tail", "inspect record"])
@pytest.mark.parametrize("kind", ["escapes", "binary"])
def test_the_text_of_a_large_record_is_written_in_pieces(tmp_path: Path, kind: str, reader: str) -> None:
    path = written(tmp_path, kind, CompressionType.ZSTD, SIZE)
    row = measured(reader, path)
    assert row.outcome == "read"
    # The record is copied once.
    assert row.peak <= 2 * SIZE + MOST_BESIDES // 2, row


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the most memory that a process had")
@pytest.mark.parametrize("codec", CompressionType)
def test_no_codec_takes_more_than_what_it_decompresses_to(tmp_path: Path, codec: CompressionType) -> None:
    path = written(tmp_path, "headers of many", codec, SIZE)
    stored = sum(each.stat().st_size for each in path.iterdir())
    row = measured("columns()", path)
    assert row.outcome == "read"
    assert row.peak <= SIZE + stored + MOST_BESIDES // 2, row


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for the most memory that a process had")
def test_decompressed_bytes_are_given_up_before_the_next_batch(tmp_path: Path) -> None:
    path = written(tmp_path, "headers of many", CompressionType.ZSTD, 2 * SIZE, batches=3)
    for reader in ("records()", "columns()", "Spark", "dump", "dump --skip-damage", "verify --deep"):
        row = measured(reader, path)
        assert row.peak <= 2 * SIZE + MOST_BESIDES // 2, (reader, row)
