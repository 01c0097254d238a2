"""Decompression: what the libraries' own streams give, up to the limit, and an error for everything else."""

from __future__ import annotations

import random

import cramjam
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kafkalog import CompressionType
from kafkalog._speedups import decompress as kernel
from kafkalog._speedups.decompress import decompress_rows, linked_lz4_rows
from kafkalog.errors import DecompressedSizeError, InvalidRecordError
from tests.helpers.guard import guarded
from tests.helpers.strategies import damaged
from tests.reference.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, decompressed
from tests.reference.encode import FORMATS, LegacyWrapper, V2Batch, compressed, entries, linked_lz4, raw_snappy, records
from tests.reference.framing import scan_headers
from tests.reference.lz4_frames import damaged_frames, sound_frames

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
SIZES = [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, 300_000]


def decompress(codec: int, data: bytes | memoryview, **settings: int) -> bytes:
    return bytes(kernel.decompress(codec, data, **settings))


def some_bytes(size: int) -> bytes:
    """Return bytes of which half can be compressed."""
    return (random.Random(size).randbytes(size // 2) + b"compressible " * size)[:size]


STREAMS = {codec: compressed(some_bytes(5000), codec) for codec in CODECS}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_bytes_of_any_number_come_back(magic: int, codec: int, size: int) -> None:
    data = some_bytes(size)
    if codec == ZSTD and magic < 2:
        with pytest.raises(InvalidRecordError, match=f"zstd exists only in format 2.*found magic {magic}"):
            decompress(codec, compressed(data, codec), magic=magic)
    else:
        assert decompress(codec, guarded(compressed(data, codec, magic)), magic=magic) == data


@pytest.mark.parametrize("codec", CODECS)
def test_streams_end_to_end_are_one(codec: int) -> None:
    """Of LZ4, Kafka reads the first frame."""
    parts = [some_bytes(70_000), b"", b"end", b"x" * 200_000]
    stream = b"".join(compressed(part, codec) for part in parts)
    assert decompress(codec, guarded(stream)) == (parts[0] if codec == LZ4 else b"".join(parts))


@pytest.mark.parametrize("codec", CODECS)
def test_a_stream_that_is_cut_off_is_damage(codec: int) -> None:
    stream = compressed(some_bytes(3000), codec)
    for size in range(len(stream)):
        # A stream of snappy says nothing about its blocks before the first one.
        if codec == SNAPPY and size == 16:
            assert decompress(codec, guarded(stream[:size])) == b""
            continue
        with pytest.raises(InvalidRecordError, match="data is damaged"):
            decompress(codec, guarded(stream[:size]))


@pytest.mark.parametrize("limit", [0, 1, 65_535, 65_536, 65_537, 299_999])
@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_more_bytes_than_the_limit_are_refused(codec: int, limit: int) -> None:
    for data in (some_bytes(limit), bytes(limit)):
        assert decompress(codec, guarded(compressed(data, codec)), limit=limit) == data
    for data in (some_bytes(limit + 1), bytes(limit + 1), bytes(50 * limit + 1000)):
        with pytest.raises(DecompressedSizeError, match=rf"expected at most {limit}\)"):
            decompress(codec, guarded(compressed(data, codec)), limit=limit)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_decompressed_whole(codec: int) -> None:
    """The memory grows several times, beyond the sizes that are recycled."""
    data = bytes(40 << 20)
    assert decompress(codec, compressed(data, codec)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_batches_that_shrink_more_than_was_guessed_are_decompressed_together(codec: int) -> None:
    """The memory grows many times."""
    data = b"".join(entries(records(b"shrinks" * 1000, offset=i), 2, codec) for i in range(500))
    rows, *_ = scan_headers(data)
    found, bounds, error = decompress_rows(guarded(data), rows, 0, 1 << 20, 16 << 20)
    assert error is None
    assert bounds.tolist() == [i * bounds[1] for i in range(501)]
    assert bytes(found).count(b"shrinks" * 1000) == 500


@given(st.sampled_from(CODECS).flatmap(lambda codec: st.tuples(st.just(codec), damaged(st.just(STREAMS[codec])))))
def test_damaged_streams_give_the_bytes_of_the_library_or_an_error(case: tuple[int, bytes]) -> None:
    codec, stream = case
    try:
        found = decompress(codec, guarded(stream), limit=1 << 20)
    except (InvalidRecordError, DecompressedSizeError):
        return
    try:
        expected = decompressed(stream, codec, 2)
    except Exception:  # noqa: BLE001 - the libraries check what Kafka does not: content checksums, bytes at the end
        return
    assert found == expected[: len(found)]


def test_every_codec_but_the_four_is_unknown() -> None:
    for codec in (5, 6, 7):
        with pytest.raises(InvalidRecordError, match=f"unknown codec.*found {codec}"):
            decompress(codec, b"")


# --- lz4


@pytest.mark.parametrize("name", sound_frames(b""))
def test_lz4_frames_with_other_settings_are_read(name: str) -> None:
    data = some_bytes(200_000)
    assert decompress(LZ4, guarded(sound_frames(data)[name])) == data


@pytest.mark.parametrize("name", damaged_frames(b"data"))
def test_lz4_frames_that_kafka_refuses_are_damage(name: str) -> None:
    frame = damaged_frames(some_bytes(500))[name]
    with pytest.raises(InvalidRecordError, match="the lz4 data is damaged: "):
        decompress(LZ4, guarded(frame))


def test_the_header_checksum_of_lz4_does_not_matter_in_format_0() -> None:
    frame = damaged_frames(b"data")["a wrong header checksum"]
    assert decompress(LZ4, guarded(frame), magic=0) == b"data"


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_linked_lz4_blocks_are_read(magic: int) -> None:
    data = some_bytes(300_000)
    frame = linked_lz4(data, magic)
    assert decompress(LZ4, guarded(frame), magic=magic) == data
    with pytest.raises(DecompressedSizeError):
        decompress(LZ4, guarded(frame), magic=magic, limit=len(data) - 1)
    for size in range(5, len(frame), 7919):
        with pytest.raises(InvalidRecordError, match="data is damaged"):
            decompress(LZ4, guarded(frame[:size]), magic=magic)


def test_the_first_bytes_of_a_damaged_lz4_block_are_not_taken_for_its_size() -> None:
    """As a size, they would be that of the ten bytes that follow them, compressed."""
    block = (10).to_bytes(4, "little") + bytes(cramjam.lz4.compress_block(b"x" * 10, store_size=False))
    frame = sound_frames(b"")["the usual settings"][:7] + len(block).to_bytes(4, "little") + block + bytes(4)
    with pytest.raises(InvalidRecordError, match="the lz4 data is damaged"):
        decompress(LZ4, guarded(frame))


@pytest.mark.parametrize("size", range(4))
def test_lz4_blocks_of_less_than_a_size_are_read(size: int) -> None:
    data = b"abc"[:size]
    assert decompress(LZ4, guarded(compressed(data, LZ4))) == data


# --- snappy


def test_a_block_of_no_bytes_in_a_stream_of_snappy_is_damage() -> None:
    """So many of them would take long, and decompress to nothing."""
    with pytest.raises(InvalidRecordError, match="a block claims 0 bytes"):
        decompress(SNAPPY, guarded(compressed(b"", SNAPPY)[:16] + bytes(4 << 20)))


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x01"])
def test_the_length_that_a_snappy_block_claims_is_not_trusted(claim: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="claims to decompress to"):
        decompress(SNAPPY, guarded(claim + b"\0a"))


def test_a_raw_block_of_snappy_is_read() -> None:
    data = some_bytes(100_000)
    assert decompress(SNAPPY, guarded(raw_snappy(data))) == data


# --- rows


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_regions_of_entries_follow_each_other(magic: int, codec: int) -> None:
    parts = [entries(records(b"v" * size, offset=2 * size), magic, codec) for size in (10, 100, 1000)]
    rows, *_ = scan_headers(b"".join(parts))
    found, bounds, error = decompress_rows(guarded(b"".join(parts)), rows, 0, 1 << 20, 1 << 20)
    assert error is None
    assert bounds[0] == 0
    assert len(bounds) == 4
    for i, part in enumerate(parts):
        region = decompress_rows(guarded(part), scan_headers(part)[0], 0, 1 << 20, 1 << 20)[0]
        assert found[bounds[i] : bounds[i + 1]] == region
        assert b"v" * (10, 100, 1000)[i] in bytes(region)


def test_no_further_entry_is_decompressed_when_there_are_enough_bytes() -> None:
    data = b"".join(entries(records(b"v" * 1000, offset=i), 2, ZSTD) for i in range(5))
    rows, *_ = scan_headers(data)
    found, bounds, error = decompress_rows(guarded(data), rows, 0, 1 << 20, 1500)
    assert (len(bounds), error) == (3, None)
    assert 2000 < len(found) < 2100


def test_the_entries_before_damage_are_decompressed() -> None:
    parts = [bytearray(entries(records(b"v" * 1000, offset=i), 2, GZIP)) for i in range(3)]
    parts[1][-10] ^= 0xFF
    data = b"".join(parts)
    rows, *_ = scan_headers(data)
    rows["position"] += 4096
    found, bounds, error = decompress_rows(guarded(data), rows, 4096, 1 << 20, 1 << 20)
    assert isinstance(error, InvalidRecordError)
    assert error.position == 4096 + len(parts[0])
    assert bounds.tolist() == [0, len(found)]


def test_a_batch_that_counts_no_records_is_not_decompressed() -> None:
    data = V2Batch(codec=GZIP, payload=b"no gzip").encoded()
    found, bounds, error = decompress_rows(guarded(data), scan_headers(data)[0], 0, 1 << 20, 1 << 20)
    assert (bytes(found), bounds.tolist(), error) == (b"", [0, 0], None)


def test_rows_outside_the_buffer_are_a_mistake_of_the_caller() -> None:
    data = entries(records(b"v"), 2, LZ4)
    rows, *_ = scan_headers(data)
    for size, position in ((len(data) - 1, 0), (len(data), 100), (len(data), -1)):
        with pytest.raises(ValueError, match="is outside the buffer"):
            decompress_rows(guarded(data[:size]), rows, position, 1 << 20, 1 << 20)
        with pytest.raises(ValueError, match="is outside the buffer"):
            linked_lz4_rows(guarded(data[:size]), rows, position)


def test_entries_with_linked_lz4_blocks_are_found() -> None:
    linked = V2Batch(records(b"v"), LZ4, payload=linked_lz4(b"data")).encoded()
    wrapper = LegacyWrapper(records(b"v"), LZ4, 1)
    parts = [
        entries(records(b"v"), 2, LZ4),
        linked,
        entries(records(b"v"), 2, ZSTD),
        LegacyWrapper(records(b"v"), LZ4, 1, value=linked_lz4(wrapper.inner_bytes(), 1)).encoded(),
        LegacyWrapper(records(b"v"), LZ4, 1, has_value=False).encoded(),
    ]
    data = b"".join(parts)
    assert linked_lz4_rows(guarded(data), scan_headers(data)[0], 0) == [1, 3]


def test_names_of_codecs_are_in_errors() -> None:
    for codec in CompressionType:
        if codec:
            with pytest.raises(InvalidRecordError, match=f"the {codec.name.lower()} data is damaged"):
                decompress(codec, guarded(b"\xff" * 40))


def test_what_is_returned_cannot_be_written() -> None:
    found = kernel.decompress(LZ4, compressed(b"data", LZ4))
    assert found.readonly
    assert np.frombuffer(found, np.uint8).tolist() == list(b"data")


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_a_negative_limit_is_a_mistake_of_the_caller(codec: int) -> None:
    with pytest.raises(ValueError, match="a limit of -1 bytes"):
        decompress(codec, compressed(b"data", codec), limit=-1)


@pytest.mark.parametrize("block", [b"\x04\0\0", b"\x00\x00\x20", b"\x02\x00\x20"], ids=["empty", "stored", "repeated"])
def test_blocks_that_zstd_does_not_have_claim_no_memory(block: bytes) -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"data")
    header = frame[: zstandard.frame_header_size(frame)]
    with pytest.raises(InvalidRecordError, match="the zstd data is damaged: a block claims"):
        decompress(ZSTD, guarded(header + block * 1000 + frame[len(header) :]), limit=2**63 - 1)


def test_a_skippable_frame_is_no_lz4_frame() -> None:
    with pytest.raises(InvalidRecordError, match="does not begin with the header of a frame"):
        decompress(LZ4, guarded(b"\x50\x2a\x4d\x18" + bytes(4)))
