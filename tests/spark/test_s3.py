"""Golden logs in an S3-compatible store are read by ranges, and errors of the store name its URL."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import kafkalog
from kafkalog import IsolationLevel
from kafkalog.spark import ReadOptions, plan_splits, read_split
from kafkalog.spark.read.discover import discover
from kafkalog.spark.read.split import Split
from kafkalog.storage.files import remote_file
from kafkalog.storage.files.open_source import open_source
from kafkalog.storage.remote_path import to_path
from tests.helpers import golden
from tests.helpers.s3_server import BUCKET, S3Server, answers, hangs
from tests.helpers.spark_rows import expected_rows, of_arrow

fsspec = pytest.importorskip("fsspec", reason="fsspec is missing: pip install 'kafkalog[remote]'")
s3fs = pytest.importorskip("s3fs", reason="s3fs is missing: pip install s3fs")
pytest.importorskip("moto.server", reason="moto is missing: pip install 'moto[server]'")

PATIENCE_SECONDS = 180
NAME = "v2-txn-0"
URL = f"s3://{BUCKET}/data/{NAME}"
# Sockets of its own are left to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def started() -> Iterator[S3Server]:
    server = S3Server()
    server.put(golden.unpacked() / "kafka-3.9" / "data" / NAME, f"data/{NAME}")
    yield server
    server.close()


def lead_to(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """`s3://` is this server, which is asked once."""
    monkeypatch.setitem(fsspec.config.conf, "s3", server.options)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    for name in ("connect_timeout", "read_timeout"):
        monkeypatch.setattr(s3fs.S3FileSystem, name, PATIENCE_SECONDS)
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def server(started: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The server holds a golden log, and `s3://` leads to it."""
    lead_to(started, monkeypatch)
    started.requests.clear()
    yield started
    started.fault = None


def parsed(path: str = URL, **options: Any) -> ReadOptions:
    return ReadOptions.parse({"path": path, "includeHeaders": True, **options})


def planned(options: ReadOptions) -> list[Split]:
    return [split for group in plan_splits(options) for split in group.splits]


def rows(options: ReadOptions) -> list[Any]:
    return of_arrow(batch for split in plan_splits(options) for batch in read_split(split, None, options))


@pytest.mark.parametrize(
    ("path", "level"),
    [
        (URL, "read_committed"),
        (f"s3://{BUCKET}/data", "read_uncommitted"),
        (f"s3://{BUCKET}/*/v2-t*", "read_uncommitted"),
    ],
)
def test_a_golden_log_is_read_as_from_a_disk(server: S3Server, path: str, level: str) -> None:
    partition = next(each for each in golden.checked_partitions() if each.id == f"kafka-3.9/{NAME}")
    local = parsed(str(partition.directory), **{"kafka.isolation.level": level})
    found = rows(parsed(path, splitBytes=8000, **{"kafka.isolation.level": level}))
    assert found == rows(local)
    assert (found == expected_rows(partition)) == (level == "read_uncommitted")


def test_a_golden_log_is_opened_by_its_url_as_from_a_disk(server: S3Server) -> None:
    directory = golden.unpacked() / "kafka-3.9" / "data" / NAME
    with kafkalog.open(URL) as far, kafkalog.open(directory) as local:
        assert (far.log_start_offset, far.log_end_offset) == (local.log_start_offset, local.log_end_offset)
        assert far.last_stable_offset == local.last_stable_offset
        for isolation in (IsolationLevel.LOG_END, IsolationLevel.TXN_COMMITTED):
            assert list(far.records(isolation=isolation)) == list(local.records(isolation=isolation))
        time = next(iter(local.records(local.log_end_offset // 2))).timestamp
        assert far.offset_for_timestamp(time) == local.offset_for_timestamp(time)
        server.fault = answers("403 Forbidden")
        with pytest.raises(PermissionError, match=f"{URL}/.* may not be read"):
            list(far)


def test_planning_fetches_no_segment_and_a_task_no_byte_of_another_ones(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_file, "MOST_BYTES", 3000)
    monkeypatch.setattr("kafkalog.fsck.walk.RUN_BYTES", 2000)
    options = parsed(splitBytes=10_000)
    splits = planned(options)
    fetched = {each.key for each in server.requests if each.method == "GET" and each.key.endswith(".log")}
    # Of the last segment, the end.
    assert {f"s3://{BUCKET}/{key}" for key in fetched} == {splits[-1].path}
    assert len(splits) > 10
    several = 0
    for split in splits:
        server.requests.clear()
        assert list(read_split(split, None, options))
        assert {f"s3://{BUCKET}/{each.key}" for each in server.requests} == {split.path}
        ranges = sorted(
            (each.bytes.start, each.bytes.stop) for each in server.requests if each.method == "GET" and each.bytes
        )
        assert len(ranges) == sum(each.method == "GET" for each in server.requests)
        assert (ranges[0][0], max(stop for _, stop in ranges)) == (split.start_pos, split.end_pos)
        assert all(start <= stop for (_, stop), (start, _) in pairwise(ranges))
        several += len(ranges) > 1
    assert several


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        (answers("403 Forbidden"), PermissionError, "may not be read"),
        (answers("500 Internal Server Error"), OSError, "cannot be read: .*Internal Server Error"),
        (answers("404 Not Found"), FileNotFoundError, "does not exist"),
    ],
    ids=["refused", "an error of the server", "gone"],
)
def test_an_error_of_the_store_while_a_task_reads_names_the_url(
    server: S3Server, fault: Any, kind: type[OSError], message: str
) -> None:
    options = parsed()
    first = planned(options)[0]
    server.fault = fault
    with pytest.raises(kind, match=rf"{first.path}.*{message}|{message}.*{first.path}"):
        list(read_split(first, None, options))


def test_a_timeout_while_a_task_reads_names_the_url(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    options = parsed()
    first = planned(options)[0]
    monkeypatch.setattr(s3fs.S3FileSystem, "read_timeout", 1)
    s3fs.S3FileSystem.clear_instance_cache()
    gives_up = threading.Event()
    server.fault = hangs(gives_up, PATIENCE_SECONDS)
    try:
        with pytest.raises(OSError, match=f"{first.path}.* cannot be read: .*[Tt]imeout"):
            list(read_split(first, None, options))
    finally:
        gives_up.set()


def test_a_refusal_while_planning_names_the_url(server: S3Server) -> None:
    server.fault = answers("403 Forbidden")
    with pytest.raises(PermissionError, match=f"s3://{BUCKET}/data/.*may not be read"):
        planned(parsed())


def test_a_missing_path_is_named(server: S3Server) -> None:
    for path in (f"s3://{BUCKET}/missing", "s3://another/orders-0"):
        with pytest.raises(FileNotFoundError, match=f"{path} does not exist"):
            discover(parsed(path))
    with pytest.raises(FileNotFoundError, match=r"nothing matches 's3://backup/data/x\*'"):
        discover(parsed(f"s3://{BUCKET}/data/x*"))


def test_a_store_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = S3Server()
    gone.close()
    lead_to(gone, monkeypatch)
    with pytest.raises(OSError, match=rf"{URL} cannot be read: .*{gone.url}"):
        discover(parsed())


def test_the_size_of_a_file_is_its_present_one_after_an_earlier_listing(server: S3Server, tmp_path: Path) -> None:
    name, directory = f"{0:020d}.log", f"s3://{BUCKET}/live/orders-0"
    for size in (1000, 2000):
        (tmp_path / name).write_bytes(bytes(size))
        server.put(tmp_path, "live/orders-0")
        with closing(open_source(f"{directory}/{name}")) as file:
            assert file.size == size
        # read_committed lists the directory, and fsspec remembers the sizes.
        assert [path.name for path in to_path(directory).iterdir()] == [name]
