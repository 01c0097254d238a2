"""Names, links and modes in a data directory."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from kafkalog.fsck import Consequence, plan_repair
from kafkalog.storage.files.byte_source import ByteSource
from kafkalog.storage.files.open_source import open_source
from tests.helpers.broker_dirs import PLAIN, broker_dir, findings, segments, told

HEX = "0123456789abcdef" * 2


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_dir(tmp_path, PLAIN)


@pytest.mark.parametrize(
    "name",
    [
        *("lost+found", "notes", ".trash", "v2-none-x", "v2-none-4294967296", "v2-none-0.bak", "v2-none-0-delete"),
        f"{0:020}.log",
    ],
)
def test_a_directory_of_no_partitions_name_keeps_a_broker_from_starting(data: Path, name: str) -> None:
    (data / name).mkdir()
    assert told(data) == [("foreign-directory", "no-start", name)]


@pytest.mark.parametrize("name", ["my topic-0", "a\nb-0"])
def test_a_partition_that_no_checkpoint_can_have_lets_a_broker_start_only_once(data: Path, name: str) -> None:
    shutil.copytree(data / PLAIN, data / name)
    (found,) = findings(data, only=frozenset({"layout"}))
    assert (found.code, found.path, found.consequence) == ("foreign-directory", str(data / name), Consequence.NO_START)
    assert "does not start again" in found.rule.clean


def test_a_broker_passes_over_a_partition_whose_name_is_not_utf_8(data: Path) -> None:
    """3.9.1 starts, twice, and no checkpoint has a line of it."""
    name = os.fsdecode(b"orders\xff-0")
    shutil.copytree(data / PLAIN, data / name)
    assert told(data) == [("foreign-directory", "set-aside", name)]


def test_the_cache_of_tiered_storage_is_no_partition(data: Path) -> None:
    (data / "remote-log-index-cache").mkdir()
    assert findings(data) == []


@pytest.mark.parametrize(("mark", "consequence"), [("delete", "harmless"), ("stray", "doubtful")])
def test_a_marked_partition_is_told_and_not_held_against_the_checkpoints(
    data: Path, mark: str, consequence: str
) -> None:
    name = f"{PLAIN}.{HEX}-{mark}"
    shutil.copytree(data / PLAIN, data / name)
    for path in segments(data, name)[-3:]:
        for each in path.parent.glob(f"{path.stem}.*"):
            each.unlink()
    assert (f"directory-{mark}", consequence, name) in told(data)
    assert not {each.code for each in findings(data)} & {"log-too-short", "partition-metadata-missing"}


@pytest.mark.parametrize("name", ["v2-none-00", f"{PLAIN}.{HEX}-future"])
def test_two_directories_of_one_partition_keep_a_broker_from_starting(data: Path, name: str) -> None:
    shutil.copytree(data / PLAIN, data / name)
    assert ("partition-twice", "no-start", name) in told(data)


def test_a_partition_under_an_unusual_name_is_renamed_by_hand(data: Path) -> None:
    renamed = (data / PLAIN).rename(data / "v2-none-00")
    assert told(data) == [("partition-name", "doubtful", "v2-none-00")]
    (found,) = findings(data)
    assert found.mend == f"mv {renamed} {data / PLAIN}"
    plan = plan_repair(data)
    assert not plan.changes
    assert [each.why for each in plan.left] == [found.mend]


def test_of_two_unusual_names_of_a_partition_one_stays(data: Path) -> None:
    (data / PLAIN).rename(data / "v2-none-000")
    shutil.copytree(data / "v2-none-000", data / "v2-none-00")
    assert [(code, name) for code, _, name in told(data)] == [
        ("partition-name", "v2-none-00"),
        ("partition-twice", "v2-none-000"),
    ]


def test_a_partition_that_is_being_moved_here_takes_its_place(data: Path) -> None:
    name = f"{PLAIN}.{HEX}-future"
    (data / PLAIN).rename(data / name)
    assert told(data) == [("directory-future", "rebuilt", name)]


@pytest.mark.parametrize(
    "name",
    [
        *("notes.log", "copy-of-00000000000000000000.index", ".log", "9" * 20 + ".log", ".snapshot", "x.snapshot"),
        *("x.log.cleaned", "x.log.swap", "x.index.swap", f"{2**63}.txnindex", "1_0.timeindex"),
    ],
)
def test_a_file_whose_name_begins_with_no_offset_keeps_a_broker_from_starting(data: Path, name: str) -> None:
    (data / PLAIN / name).touch()
    assert told(data) == [("foreign-log-name", "no-start", f"{PLAIN}/{name}")]
    assert told(data, only=frozenset({"checkpoints"})) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("5.log", 5), ("+5.log", 5), (f"{0:021}.log", 0), (f"{0:020}.copy.log", 0)),
        ("5.timeindex", 5),
    ],
)
def test_a_number_without_20_digits_stands_for_the_file_that_has_them(data: Path, name: str, meant: int) -> None:
    shutil.copy2(segments(data, PLAIN)[0], data / PLAIN / name)
    (found,) = findings(data)
    assert (found.code, str(found.consequence), found.path) == (
        *("foreign-log-name", "served-wrongly"),
        str(data / PLAIN / name),
    )
    assert found.expected == f"{meant:020}{Path(name).suffix}"


@pytest.mark.parametrize("name", ["x.log.deleted", "5.snapshot", "-5.log.cleaned"])
def test_other_files_may_have_a_number_of_fewer_digits_or_be_deleted(data: Path, name: str) -> None:
    (data / PLAIN / name).touch()
    assert "foreign-log-name" not in {each.code for each in findings(data)}


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("only", [None, frozenset({"layout"})])
def test_a_directory_in_the_place_of_a_file_keeps_a_broker_from_starting(
    data: Path, suffix: str, only: frozenset[str] | None
) -> None:
    path = data / PLAIN / f"{0:020}{suffix}"
    path.unlink(missing_ok=True)
    path.mkdir()
    (found,) = findings(data) if only is None else findings(data, only=only)
    assert (found.code, str(found.consequence), found.path) == ("unreadable", "no-start", str(path))
    assert found.mend == f"mv {path} ASIDE"


def test_a_directory_named_like_a_segment_is_passed_over_unless_there_is_no_other(data: Path) -> None:
    log = segments(data, PLAIN)[0]
    log.unlink()
    log.mkdir()
    assert ("not-a-log", "records-lost", f"{PLAIN}/{log.name}") in told(data)
    log.rmdir()
    for path in (data / PLAIN).glob("0*"):
        path.unlink()
    log.mkdir()
    assert ("unreadable", "no-start", f"{PLAIN}/{log.name}") in told(data)


def test_a_swap_file_fills_the_gap_that_it_is_to_fill_unless_it_is_damaged(data: Path) -> None:
    log = segments(data, PLAIN)[4]
    for path in log.parent.glob(f"{log.stem}.*"):
        path.rename(f"{path}.swap")
    assert {code for code, *_ in told(data)} == {"left-over"}
    swap = log.with_name(f"{log.name}.swap")
    swap.write_bytes(swap.read_bytes()[:-3])
    damaged = next(each for each in findings(data) if each.code == "swap-damaged")
    assert (damaged.path, str(damaged.consequence)) == (str(swap), "data-deleted")


@pytest.mark.parametrize("suffix", [".swap", ".cleaned", ".deleted"])
def test_what_an_interrupted_replacement_left_is_harmless(data: Path, suffix: str) -> None:
    log = segments(data, PLAIN)[2]
    for each in (log, log.with_suffix(".index")):
        shutil.copy2(each, f"{each}{suffix}")
    (found,) = findings(data)
    assert (found.code, found.path) == ("left-over", f"{log.with_suffix('.index')}{suffix}")
    assert found.message.endswith("the first of 2")


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_without_a_segment_is_orphaned(data: Path, suffix: str) -> None:
    name = f"{9999:020}{suffix}"
    (data / PLAIN / name).write_bytes(bytes(24))
    assert told(data) == [("orphaned-index", "rebuilt", f"{PLAIN}/{name}")]


def test_a_link_to_nothing_is_no_segment_that_was_deleted(data: Path) -> None:
    log = segments(data, PLAIN)[4]
    log.unlink()
    log.symlink_to(data / "elsewhere.log")
    codes = [code for code, *_ in told(data)]
    assert codes == ["dangling-link", "segment-gap"]
    assert findings(data)[0].found == str(data / "elsewhere.log")


def test_a_link_to_a_segment_is_a_segment(data: Path, tmp_path: Path) -> None:
    log = segments(data, PLAIN)[4]
    shutil.move(log, tmp_path / "elsewhere.log")
    log.symlink_to(tmp_path / "elsewhere.log")
    assert findings(data) == []


def test_a_partition_may_be_a_link_but_not_to_nothing(data: Path, tmp_path: Path) -> None:
    (data / PLAIN).rename(tmp_path / PLAIN)
    (data / PLAIN).symlink_to(tmp_path / PLAIN)
    assert findings(data) == []
    (tmp_path / PLAIN).rename(tmp_path / "other-0")
    assert told(data) == [("dangling-link", "records-lost", PLAIN)]


@pytest.mark.parametrize("name", [f"{PLAIN}/{0:020}.log", PLAIN, "recovery-point-offset-checkpoint"])
def test_what_the_owner_may_not_write_stops_a_broker(data: Path, name: str) -> None:
    mode = (data / name).stat().st_mode
    (data / name).chmod(0o555)
    assert told(data) == [("mode", "no-start", name)]
    (data / name).chmod(mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_file_of_another_user_is_given_to_the_owner_of_its_directory(data: Path) -> None:
    for path in (data, *data.rglob("*")):
        os.chown(path, 1000, 1000)
    log = data / PLAIN / f"{0:020}.log"
    os.chown(log, 0, 0)
    (finding,) = findings(data)
    assert (finding.code, finding.expected, finding.found) == ("mode", 1000, 0)
    subprocess.run(shlex.split(str(finding.mend)), check=True)
    assert findings(data) == []


def test_a_copy_that_nobody_may_write_is_to_be_read(data: Path) -> None:
    paths = [data, *data.rglob("*")]
    for path in paths:
        path.chmod(0o555)
    assert findings(data) == []
    for path in paths:
        path.chmod(0o755)


@pytest.mark.parametrize("only", [{"layout"}, {"layout", "logs"}])
def test_a_file_that_this_user_may_not_read_is_told_of_once(
    data: Path, monkeypatch: pytest.MonkeyPatch, only: set[str]
) -> None:
    log = segments(data, PLAIN)[3]
    name = str(log)

    def refuse(path: Path) -> ByteSource:
        if path == log:
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return open_source(path)

    monkeypatch.setattr("kafkalog.fsck.verifying.open_source", refuse)
    monkeypatch.setattr(os, "access", lambda path, _: os.fspath(path) != name)
    (found,) = findings(data, only=frozenset(only))
    assert (found.code, found.path, found.consequence) == ("unreadable", name, Consequence.DOUBTFUL)
