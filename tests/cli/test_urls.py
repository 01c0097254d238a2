"""Commands read logs in a store as those on a disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import golden
from tests.helpers.running import Kafkalog
from tests.helpers.stores import MemoryStore

pytest.importorskip("fsspec", reason="fsspec is missing: pip install 'kafkalog[remote]'")
DATA = golden.unpacked() / "kafka-3.9" / "data"
TXN, FILE = "v2-txn-0", f"v2-none-0/{0:020d}.log"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    made = MemoryStore(monkeypatch)
    yield made
    made.clear()


@pytest.fixture
def url(store: MemoryStore) -> str:
    return store.put(DATA, "data")


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", ""),
        ("ls", "-o", "json", f"/{TXN}"),
        ("ls", f"/{FILE}"),
        ("verify", "--deep", ""),
        ("verify", "-o", "jsonl", f"/{FILE}"),
        ("dump", "-o", "jsonl", f"/{TXN}"),
        ("dump", "-t", "v2-txn", ""),
        ("dump", "--batches", f"/{FILE}"),
        ("dump", "--skip-damage", f"/{TXN}"),
        ("dump", "--from", "@1969-01-01T00:00Z", f"/{TXN}"),
        ("tail", f"/{TXN}"),
        ("status", "/v2-none-0"),
    ],
    ids=" ".join,
)
def test_a_command_prints_the_same_of_a_url(kafkalog: Kafkalog, url: str, arguments: tuple[str, ...]) -> None:
    *options, path = arguments
    local, far = (kafkalog(*options, f"{place}{path}") for place in (DATA, url))
    assert far.code == local.code == 0
    # The time that a check took.
    times = re.compile(r'in [\d.]+ s(, [\d.]+ \w+/s)?|"seconds":[\d.]+')
    assert times.sub("", far.out.replace(url, str(DATA))) == times.sub("", local.out)
    assert far.err == local.err
    assert all("transactions that are not committed" in line for line in local.err.splitlines())
    assert far.out


@pytest.mark.parametrize("command", ["ls", "dump", "verify"])
def test_damage_in_a_store_is_told_as_on_a_disk(
    kafkalog: Kafkalog, store: MemoryStore, url: str, command: str, tmp_path: Path
) -> None:
    def change(data: bytes) -> bytes:
        return data[:8] + bytes(4) + data[12:]

    store.change(f"{url}/{FILE}", change)
    local = tmp_path / FILE
    local.parent.mkdir()
    for each in (DATA / FILE).parent.iterdir():
        (local.parent / each.name).write_bytes(each.read_bytes())
    local.write_bytes(change(local.read_bytes()))
    found = kafkalog(command, f"{url}/v2-none-0"), kafkalog(command, tmp_path / "v2-none-0")
    assert found[0].code == found[1].code == 1
    assert found[0].err.replace(url, str(tmp_path)) == found[1].err
    assert found[0].out.count("\n") == found[1].out.count("\n")


@pytest.mark.parametrize("command", ["ls", "dump", "verify", "tail"])
def test_a_url_that_leads_nowhere_is_named(kafkalog: Kafkalog, store: MemoryStore, command: str) -> None:
    ran = kafkalog(command, "memory://data/none-0")
    assert ran.code == 3
    assert "memory:///data/none-0: " in ran.err + ran.out
    assert "does not exist" in ran.err + ran.out


def test_a_url_of_no_known_store_is_wrong_usage(kafkalog: Kafkalog) -> None:
    ran = kafkalog("ls", "nosuch://backup")
    assert ran.code == 2
    assert "Protocol not known: nosuch" in ran.err


def test_a_store_is_neither_appended_to_nor_inspected(kafkalog: Kafkalog, url: str, tmp_path: Path) -> None:
    ran = kafkalog("append", f"{url}/new-0", stdin=b"a\n")
    assert ran.code == 3
    assert "is in a store" in ran.err
    ran = kafkalog("inspect", url, "--headless", "topics")
    assert ran.code == 2
    assert "files of this machine" in ran.err
