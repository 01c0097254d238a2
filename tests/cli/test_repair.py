"""The commands salvage, recover and repair: misuse, failures half-way and interruptions."""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import signal
from pathlib import Path

import pytest

from kafkalog.fsck import recovering
from kafkalog.fsck.repair_journal import Journal
from kafkalog.storage.data_dir.directory_lock import DirectoryLock
from kafkalog.storage.file_names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
)
from tests.helpers.broker_dirs import broker_dir, segments
from tests.helpers.running import Kafkalog, batch, offsets


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


# --- salvage


def test_a_partition_that_fails_does_not_stop_the_others(kafkalog: Kafkalog, data_dir: Path, tmp_path: Path) -> None:
    (data_dir / "empty-0").mkdir()
    (data_dir / "nothing-0" / f"{0:020}.log").mkdir(parents=True)
    failed = kafkalog("salvage", data_dir, tmp_path / "new")
    assert names(tmp_path / "new") == ["billing-0", "orders-0", "orders-10", "orders-2"]
    assert failed.code == 3
    assert "empty-0: no segments" in failed.err
    assert "nothing-0" in failed.err


def test_an_interrupted_salvage_is_continued(kafkalog: Kafkalog, data_dir: Path, tmp_path: Path) -> None:
    assert kafkalog("salvage", data_dir / "billing-0", tmp_path / "new" / "billing-0").code == 0
    # What a process leaves that is killed before the partition is complete, and after that; and a deleted topic.
    for name in ("orders-0", "billing-0", "orders-2"):
        (tmp_path / "new" / f"{name}.{'0' * 32}-delete").mkdir()
    (tmp_path / "new" / f"orders-0.{'0' * 32}-delete" / "orders-0").mkdir()
    (tmp_path / "new" / f"orders-2.{'0' * 32}-delete" / f"{0:020}.log").touch()
    ran = kafkalog("salvage", data_dir, tmp_path / "new")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "billing-0: left as it is, because it is there already" in ran.err
    deleted = f"orders-2.{'0' * 32}-delete"
    assert names(tmp_path / "new") == ["billing-0", "orders-0", "orders-10", "orders-2", deleted]


@pytest.mark.parametrize("topic_id", ["short", "A" * 22, "é" * 22])
def test_a_topic_id_that_is_none_is_wrong_usage(
    kafkalog: Kafkalog, data_dir: Path, tmp_path: Path, topic_id: str
) -> None:
    ran = kafkalog("salvage", "--topic-id", topic_id, data_dir / "billing-0", tmp_path / "new" / "billing-0")
    assert (ran.code, (tmp_path / "new").exists()) == (2, False)
    assert "internal" not in ran.err


def test_one_topic_id_is_not_given_to_several_topics(kafkalog: Kafkalog, data_dir: Path, tmp_path: Path) -> None:
    options = ["--topic-id", "bUPDMCVQRZiKdmIvGGjhHg"]
    ran = kafkalog("salvage", *options, data_dir, tmp_path / "new")
    assert (ran.code, (tmp_path / "new").exists()) == (2, False)
    assert kafkalog("salvage", *options, "--topic", "orders", data_dir, tmp_path / "new").code == 0


@pytest.mark.parametrize("within", ["", "new"])
def test_the_source_is_never_written_to(kafkalog: Kafkalog, data_dir: Path, within: str, tmp_path: Path) -> None:
    """A broker does not start on a directory with another directory than a partition in it."""
    (tmp_path / "link").symlink_to(data_dir)
    before = sorted(data_dir.iterdir())
    ran = kafkalog("salvage", data_dir, tmp_path / "link" / within)
    assert (ran.code, sorted(data_dir.iterdir())) == (2, before)


def test_an_empty_partition_has_no_offsets(kafkalog: Kafkalog, data_dir: Path, tmp_path: Path) -> None:
    (data_dir / "orders-10" / f"{0:020}.log").write_bytes(b"")
    ran = kafkalog("salvage", data_dir / "orders-10", tmp_path / "new" / "orders-10")
    assert "empty, the next offset is 0; nothing left out" in ran.out


# --- recover


@pytest.mark.parametrize("output", ["json", "text"])
def test_an_interrupted_recovery_tells_what_it_changed(
    kafkalog: Kafkalog, data_dir: Path, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("billing-0", "orders-2"):
        with max((data_dir / each).glob("*.log")).open("ab") as file:
            file.write(bytes(30))
    recover_one, done = recovering._recover_partition, list[object]()

    def until_two(task: object, advance: object) -> object:
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        done.append(task)
        return recover_one(task, advance)  # type: ignore[arg-type]

    monkeypatch.setattr(recovering, "_recover_partition", until_two)
    ran = kafkalog("recover", "-j", "1", "-o", output, data_dir)
    assert ran.code == 128 + signal.SIGTERM
    assert not (data_dir / CLEAN_SHUTDOWN_FILE).exists()
    if output == "json":
        assert json.loads(ran.out)["summary"]["partitions"] == 2
    else:
        assert "bytes removed" in ran.out or "truncated" in ran.out
    assert "ended by SIGTERM" in ran.err


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("notes/", "foreign-directory"),
        ("meta.properties", "meta-properties-format"),
        ("orders-2/x.snapshot", "foreign-log-name"),
    ],
)
def test_a_recovery_names_what_else_keeps_a_broker_from_starting(
    kafkalog: Kafkalog, data_dir: Path, name: str, code: str
) -> None:
    (data_dir / name).mkdir() if name.endswith("/") else (data_dir / name).write_text("x\n")
    for partitions in (4, 0):
        ran = kafkalog("recover", "-j", "1", "-o", "json", data_dir)
        report = json.loads(ran.out)
        assert (ran.code, report["summary"]["partitions"]) == (1, partitions)
        assert [each["code"] for each in report["obstacles"]] == [code]
        assert f"a broker does not start: {data_dir / name}" in ran.err


def test_a_recovery_ends_before_a_damaged_checkpoint_unless_the_directory_is_locked(
    kafkalog: Kafkalog, data_dir: Path
) -> None:
    (data_dir / "replication-offset-checkpoint").write_text("x\n")
    with DirectoryLock(data_dir).acquire():
        assert "it is open in this process" in kafkalog("recover", data_dir).err
    ran = kafkalog("recover", "-j", "1", "-o", "json", data_dir)
    assert (ran.code, json.loads(ran.out)["partitions"]) == (3, [])
    assert "replication-offset-checkpoint: line 1" in ran.err
    assert f"kafkalog repair {data_dir} mends it" in ran.err
    assert kafkalog("repair", "--apply", data_dir).code == 0
    assert kafkalog("recover", "-j", "1", data_dir).code == 0


# --- repair


def test_a_repair_is_planned_made_and_undone(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "notes").mkdir()
    planned = kafkalog("repair", data_dir)
    assert (planned.code, (data_dir / "notes").exists()) == (1, True)
    assert "notes: move it aside" in planned.out
    assert "nothing was changed" in planned.out
    made = kafkalog("repair", "--apply", data_dir)
    assert (made.code, (data_dir / "notes").exists()) == (0, False)
    journal = made.out.split()[-1]
    assert f"repair --undo {journal}" in made.out
    assert kafkalog("repair", data_dir).code == 0
    undone = kafkalog("repair", "--undo", journal)
    assert (undone.code, (data_dir / "notes").exists(), Path(journal).exists()) == (0, True, False)
    assert kafkalog("repair", "--undo", journal).code == 3


def test_a_repair_tells_what_is_in_a_directory_that_it_moves_aside(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "orders-0").rename(data_dir / "orders-0.bak")
    shutil.copytree(data_dir / "orders-2", data_dir / "backup" / "orders-2")
    planned = kafkalog("repair", data_dir)
    sizes = [
        sum(each.stat().st_size for each in (data_dir / name).rglob("*.log")) for name in ("orders-0.bak", "backup")
    ]
    assert f"orders-0.bak: move it aside, into the journal; it holds 2 log files of {sizes[0]} bytes" in planned.out
    assert (
        f"backup: move it aside, into the journal; it holds 1 log file of {sizes[1]} bytes with 1 record\n"
        in planned.out
    )
    moved, name = data_dir / "orders-0.bak", data_dir / "orders-0"
    assert f"mv {moved} {name}, if that is not there, or kafkalog salvage {moved} COPY/orders-0\n" in planned.out
    changes = json.loads(kafkalog("repair", "-o", "json", data_dir).out)["changes"]
    assert [change["holds"]["records"] for change in changes] == [1, 4]
    assert [change["holds"]["partition"] for change in changes] == [None, "orders-0"]
    made = kafkalog("repair", "--apply", data_dir)
    assert "records were moved into the journal: do not delete it" in made.out
    (moved,) = Path(made.out.split()[-1]).glob("old/1")
    assert kafkalog("salvage", moved, data_dir / "orders-0").code == 0
    assert offsets(kafkalog, data_dir / "orders-0") == [0, 1, 2, 3]


def test_a_repair_tells_what_is_in_a_file_that_it_moves_aside(kafkalog: Kafkalog, data_dir: Path) -> None:
    log = data_dir / "orders-0" / f"{3:020}.log"
    log.rename(log.with_name("copy.log"))
    (data_dir / "orders-0" / "notes.log").write_text("all is well")
    planned = kafkalog("repair", data_dir).out.splitlines()
    aside = sorted(line for line in planned if "move it aside" in line)
    assert "it holds 1 log file" in aside[0]
    assert aside[1].endswith("notes.log: move it aside, into the journal")
    (command,) = [line.partition(": kafkalog ")[2] for line in planned if "to keep" in line]
    assert "offset 3 " in kafkalog(*command.split()).out


def test_a_repair_tells_what_is_in_left_over_files_that_are_the_only_copy(kafkalog: Kafkalog, tmp_path: Path) -> None:
    data = broker_dir(tmp_path, "v2-none-0")
    log = segments(data, "v2-none-0")[4]
    swap = log.rename(f"{log}.swap")
    log.with_name(f"{log.name}.cleaned").touch()
    told = kafkalog("repair", data).out
    assert swap.name in told
    assert " records\n  to keep its records: move the files out of the directory before, or " in told


def test_a_repair_names_the_lines_of_a_checkpoint_that_it_drops(kafkalog: Kafkalog, data_dir: Path) -> None:
    checkpoint = data_dir / HIGH_WATERMARK_CHECKPOINT
    checkpoint.write_bytes(b"0\n4\norders 0 4\norders 2 x\norders 0 3\norders 10 1\norder\xff 0 1\n")
    planned = kafkalog("repair", data_dir).out
    assert f"{checkpoint}: write it anew from the lines that can be read; without the lines 'orders 2 x', " in planned
    (change,) = json.loads(kafkalog("repair", "-o", "json", data_dir).out)["changes"]
    assert change["dropped_lines"] == ["orders 2 x", "orders 0 3", "order\ufffd 0 1"]
    assert kafkalog("repair", "--apply", data_dir).code == 0
    assert checkpoint.read_text() == "0\n2\norders 0 4\norders 10 1\n"


def test_a_repair_names_the_offset_of_a_checkpoint_that_it_corrects(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\norders 2 9\n")
    assert "correct the offsets of orders-2 (found 9)" in kafkalog("repair", data_dir).out


def test_a_file_that_this_user_may_not_read_is_named_with_its_owner(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = pwd.getpwuid(data_dir.stat().st_uid).pw_name

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("kafkalog.fsck.verifying.open_source", refuse)
    monkeypatch.setattr(os, "geteuid", lambda: data_dir.stat().st_uid + 1)
    ran = kafkalog("repair", data_dir)
    assert ran.code == 3
    assert f".log: warning unreadable: Permission denied (its owner may access it: sudo -u {owner})" in ran.out
    ran = kafkalog("explain", data_dir)
    assert (ran.code, ran.out.splitlines()[-1]) == (
        3, f"{data_dir}: once the directory is formatted, a broker starts, and nothing is lost, as far as could be read"
    )  # fmt: skip


def test_a_journal_that_cannot_be_read_is_named_with_what_to_do(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "notes").mkdir()
    journal = kafkalog("repair", "--apply", data_dir).out.split()[-1]
    (Path(journal) / "journal.json").write_text("{")
    told = kafkalog("repair", data_dir)
    assert (told.code, told.out) == (0, "nothing to change\n")
    assert f"{journal}/journal.json: no journal of a repair" in told.err
    assert "restore it from a copy" in told.err
    (Path(journal) / "journal.json").unlink()
    ran = kafkalog("repair", "-o", "json", data_dir)
    assert f"{journal}: without journal.json" in ran.err
    assert [each["path"] for each in json.loads(ran.out)["stray_journals"]] == [journal]
    # A directory of another name, or of a partition whose topic is called so, is none.
    Path(journal).rename(data_dir.with_name("other.repair-20261123-101500.123456"))
    data_dir.with_name(f"{data_dir.name}.repair-0").mkdir()
    assert kafkalog("repair", data_dir).err == ""


@pytest.mark.parametrize("path", ["", "orders-0", "billing-0"])
@pytest.mark.parametrize("repaired", ["", "orders-0"])
def test_an_interrupted_repair_of_a_bare_directory_is_found_from_each_of_its_paths(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch, repaired: str, path: str
) -> None:
    log = data_dir / "orders-0" / f"{3:020}.log"
    whole = log.read_bytes()
    log.write_bytes(whole + batch(b"e", offset=4)[:20])
    monkeypatch.setattr(Journal, "_take", lambda *_: (data_dir / "full").stat())
    assert kafkalog("repair", "--apply", data_dir / repaired).code == 3
    monkeypatch.undo()
    assert "a repair was interrupted" in kafkalog("repair", data_dir / path).out
    assert kafkalog("repair", "--apply", data_dir / path).code in {0, 1}
    assert log.read_bytes() == whole
    # A broker would not start with the journal of the one partition; but it is not moved into another journal.
    (data_dir / "notes").mkdir()
    journals = sorted(data_dir.glob("*.repair-*"))
    assert kafkalog("repair", "--apply", data_dir).code == bool(journals)
    assert sorted(data_dir.glob("*.repair-*")) == journals
    assert not (data_dir / "notes").exists()


def test_a_journal_in_the_data_directory_is_not_moved_into_another_one(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "notes").mkdir()
    journal = Path(kafkalog("repair", "--apply", data_dir).out.split()[-1])
    journal.rename(data_dir / journal.name)
    (data_dir / "more").mkdir()
    told = kafkalog("repair", "--apply", data_dir)
    assert (told.code, (data_dir / "more").exists()) == (1, False)
    assert "the journal of a repair: move it out of the data directory" in told.out
    assert (data_dir / journal.name / "journal.json").exists()


def test_wrong_usage_of_repair(kafkalog: Kafkalog, data_dir: Path) -> None:
    assert kafkalog("repair").code == 2
    assert kafkalog("repair", data_dir, "--topic-id", "bUPDMCVQRZiKdmIvGGjhHg").code == 2
    assert kafkalog("repair", data_dir / "billing-0", "--topic-id", "short").code == 2
    assert kafkalog("repair", data_dir / "orders-0" / f"{3:020}.log").code == 3


def test_an_interrupted_repair_is_told_and_finished(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data_dir / "notes").mkdir()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "notes")

    monkeypatch.setattr(Journal, "_take", full)
    failed = kafkalog("repair", "--apply", data_dir)
    monkeypatch.undo()
    assert failed.code == 3
    assert "not complete" in failed.err
    told = kafkalog("repair", data_dir)
    assert told.code == 1
    assert "interrupted" in told.out
    assert "--undo" in told.out
    assert kafkalog("repair", "--apply", data_dir).code == 0
    assert not (data_dir / "notes").exists()


def test_a_checkpoint_that_is_no_text_is_repaired(kafkalog: Kafkalog, tmp_path: Path) -> None:
    data = broker_dir(tmp_path, "v2-none-0")
    (data / "replication-offset-checkpoint").write_bytes(b"\xff\xfe\x00\x81abc")
    assert kafkalog("repair", "--apply", data).code == 0
    assert kafkalog("verify", "--strict", data).code == 0
