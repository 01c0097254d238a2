"""`kafkalog verify`: a line a finding, a summary, and an exit code to rely on."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.broker_dirs import METADATA, broker_dir
from tests.helpers.golden import unpacked
from tests.helpers.running import Kafkalog, batch, segment


def damaged(path: Path, at: int = 65) -> Path:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    return path


def torn(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-3])
    return path


@pytest.mark.parametrize("options", [(), ("--deep",)])
def test_the_logs_of_brokers_are_sound(kafkalog: Kafkalog, options: tuple[str, ...]) -> None:
    ran = kafkalog("verify", *sorted(unpacked().glob("*/data")), *options)
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    assert ran.out.endswith(": 0 errors, 0 warnings\n")
    assert ran.err == ""


def test_a_finding_is_a_line_with_file_position_and_offsets(kafkalog: Kafkalog, data_dir: Path) -> None:
    path = damaged(data_dir / "orders-0" / f"{3:020}.log")
    ran = kafkalog("verify", data_dir)
    assert ran.code == 1
    finding, *_, summary = ran.out.splitlines()
    assert finding.startswith(f"{path}:0: error crc-mismatch: ")
    assert "offsets 3..3" in finding
    assert summary.startswith("5 files, ")
    assert summary.endswith(": 1 error, 0 warnings")


def test_a_verdict_on_each_partition_and_on_the_directory_tells_what_a_broker_does(
    kafkalog: Kafkalog, data_dir: Path
) -> None:
    damaged(data_dir / "orders-0" / f"{3:020}.log")
    torn(data_dir / "billing-0" / f"{7:020}.log")
    told = kafkalog("verify", data_dir).out.splitlines()[2:-1]
    assert [line for line in told if not line.startswith(" ")] == [
        f"{data_dir}/billing-0: rebuilt: 1 warning: torn-tail",
        f"{data_dir}/orders-0: records-lost: 1 error: crc-mismatch",
        f"{data_dir}: records-lost: 1 error, 1 warning: crc-mismatch, torn-tail",
    ]
    assert told[-3].startswith("  started after a clean stop, a broker serves ")
    assert told[-2].startswith("  started after an unclean stop, it cuts ")
    assert told[-1].startswith(f"  to mend it: kafkalog salvage {data_dir}/orders-0 ")


def test_what_a_broker_does_with_the_only_damaged_partition_is_told_once(kafkalog: Kafkalog, data_dir: Path) -> None:
    damaged(data_dir / "orders-0" / f"{3:020}.log")
    told = kafkalog("verify", data_dir).out
    assert f"{data_dir}: records-lost: 1 error: crc-mismatch\n" in told
    assert told.count("  started after a clean stop, a broker serves ") == 1


@pytest.mark.parametrize("where", ["orders-0", f"orders-0/{3:020}.log", "."])
def test_a_path_is_a_data_directory_a_partition_or_a_file(kafkalog: Kafkalog, data_dir: Path, where: str) -> None:
    damaged(data_dir / "orders-0" / f"{3:020}.log")
    assert kafkalog("verify", data_dir / where).code == 1
    assert kafkalog("verify", data_dir / "billing-0").code == 0


def test_a_torn_tail_of_the_active_segment_is_sound_unless_strict(kafkalog: Kafkalog, data_dir: Path) -> None:
    path = torn(data_dir / "orders-0" / f"{3:020}.log")
    ran = kafkalog("verify", path)
    assert (ran.code, ran.out.count("warning torn-tail")) == (0, 1)
    assert kafkalog("verify", "--strict", path).code == 1


def test_a_torn_tail_of_another_segment_is_a_finding(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("verify", torn(data_dir / "orders-0" / f"{0:020}.log"))
    assert (ran.code, ran.out.count("error torn-tail")) == (1, 1)


def test_unreadable_files_do_not_hide_the_others(kafkalog: Kafkalog, data_dir: Path) -> None:
    (data_dir / "billing-0" / f"{7:020}.log").unlink()
    (data_dir / "billing-0" / f"{7:020}.log").mkdir()
    damaged(data_dir / "orders-2" / f"{0:020}.log")
    ran = kafkalog("verify", "nowhere", data_dir)
    assert ran.code == 3
    *told, summary = ran.out.splitlines()
    findings = [line for line in told if ": error " in line]
    assert [line.split(": ")[1].split()[1] for line in findings] == ["unreadable", "unreadable", "crc-mismatch"]
    assert summary.endswith(": 3 errors, 0 warnings, 2 unreadable")


def test_a_segment_that_begins_with_damage_is_still_a_log(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = segment(tmp_path / "t-0", 0, b"\xff" * 100 + batch(b"v", offset=4))
    ran = kafkalog("verify", path, "-o", "jsonl")
    assert ran.code == 1
    finding = json.loads(ran.out.splitlines()[0])
    assert (finding["code"], finding["position"], finding["length"]) == ("lost-bytes", 0, 100)
    assert (finding["first_offset"], finding["last_offset"]) == (0, 3)


def test_a_file_that_is_no_log_is_unreadable(kafkalog: Kafkalog, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Certainly nothing that a broker has ever written.")
    ran = kafkalog("verify", tmp_path / "notes.txt")
    assert (ran.code, ran.out.count("error not-a-log")) == (3, 1)


@pytest.mark.parametrize("sound", [True, False])
def test_json_is_one_document(kafkalog: Kafkalog, data_dir: Path, sound: bool) -> None:
    if not sound:
        for name in ("orders-2", "orders-10"):
            damaged(data_dir / name / f"{0:020}.log")
    ran = kafkalog("verify", "-o", "json", "--deep", data_dir)
    document: dict[str, Any] = json.loads(ran.out)
    assert document["version"] == 2
    assert [each["code"] for each in document["findings"]] == ([] if sound else ["crc-mismatch"] * 2)
    assert document["summary"]["errors"] == len(document["findings"])
    assert document["summary"]["files"] == 5
    assert document["summary"]["deep"] is True
    assert ran.code == (0 if sound else 1)


def test_jsonl_is_a_line_a_finding_and_one_for_the_summary(kafkalog: Kafkalog, data_dir: Path) -> None:
    path = damaged(data_dir / "orders-2" / f"{0:020}.log")
    finding, summary = map(json.loads, kafkalog("verify", "-o", "jsonl", data_dir).out.splitlines())
    assert (finding["version"], finding["type"], finding["severity"]) == (2, "finding", "error")
    assert (finding["path"], finding["position"], finding["first_offset"]) == (str(path), 0, 0)
    assert (summary["version"], summary["type"], summary["codes"]) == (2, "summary", {"crc-mismatch": 1})


def test_quiet_prints_nothing(kafkalog: Kafkalog, data_dir: Path) -> None:
    damaged(data_dir / "orders-2" / f"{0:020}.log")
    assert kafkalog("verify", "-q", data_dir) == (1, "", "")
    assert kafkalog("verify", "-q", data_dir / "orders-0") == (0, "", "")
    assert kafkalog("verify", "-q", "-o", "json", data_dir / "nowhere") == (3, "", "")


def test_topics_can_be_chosen(kafkalog: Kafkalog, data_dir: Path) -> None:
    damaged(data_dir / "orders-2" / f"{0:020}.log")
    assert kafkalog("verify", data_dir, "--topic", "billing").code == 0
    assert kafkalog("verify", data_dir, "--topic", "orders").code == 1


def test_subjects_can_be_chosen(kafkalog: Kafkalog, data_dir: Path) -> None:
    damaged(data_dir / "orders-2" / f"{0:020}.log")
    (data_dir / "lost+found").mkdir()

    def codes(*options: str) -> set[str]:
        lines = map(json.loads, kafkalog("verify", data_dir, "-o", "jsonl", *options).out.splitlines())
        return {line["code"] for line in lines if line["type"] == "finding"}

    assert codes() == {"crc-mismatch", "foreign-directory"}
    assert codes("--only", "logs") == {"crc-mismatch"}
    assert codes("--only", "indexes,state,layout") == {"foreign-directory"}
    assert codes("--only", "checkpoints") == set()
    assert codes("--only", "logs", "--partition", "orders-1*") == set()


@pytest.mark.parametrize("arguments", [(), ("--depth", "."), ("-o", "yaml", "."), ("--only", "logs,all", ".")])
def test_wrong_usage(kafkalog: Kafkalog, arguments: tuple[str, ...]) -> None:
    ran = kafkalog("verify", *arguments)
    assert (ran.code, ran.out) == (2, "")


@pytest.mark.slow
def test_colour_only_on_a_terminal(on_a_terminal: Kafkalog, kafkalog: Kafkalog, data_dir: Path) -> None:
    damaged(data_dir / "orders-2" / f"{0:020}.log")
    assert "\x1b[31m" in on_a_terminal("verify", data_dir).out
    assert "\x1b[" not in kafkalog("verify", data_dir).out


def test_a_name_cannot_steer_the_terminal(kafkalog: Kafkalog, tmp_path: Path) -> None:
    path = damaged(segment(tmp_path / "\x1b[31mred-0", 0, batch(b"v")))
    ran = kafkalog("verify", path)
    assert "\x1b" not in ran.out
    assert "\\x1b[31mred-0" in ran.out


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_an_interrupted_check_is_reported_as_incomplete(
    kafkalog: Kafkalog, data_dir: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    from kafkalog.fsck import verifying as verify
    from kafkalog.storage.files.readable_file import ReadableFile

    class Interrupted(ReadableFile):
        def view(self, position: int, length: int) -> memoryview:
            if "orders" in str(self.path):
                time.sleep(0.05)
                raise KeyboardInterrupt
            return super().view(position, length)

    monkeypatch.setattr(verify, "open_source", Interrupted)
    ran = kafkalog("verify", data_dir, "-o", form)
    assert (ran.code, ran.err) == (130, "kafkalog: interrupted\n")
    if form == "text":
        assert ran.out.startswith("INCOMPLETE, so far: 2 files, ")
        return
    found = json.loads(ran.out)
    summary = found if form == "jsonl" else found["summary"]
    assert summary["complete"] is False
    assert summary["seconds"] >= 0.05


def test_records_are_counted_only_by_a_deep_check(kafkalog: Kafkalog, data_dir: Path) -> None:
    shallow, deep = (json.loads(kafkalog("verify", data_dir, "-o", "jsonl", *more).out) for more in ((), ("--deep",)))
    assert (shallow["records"], deep["records"]) == (None, 7)
    assert (shallow["complete"], deep["complete"]) == (True, True)


def test_for_version_tells_what_another_version_of_kafka_refuses(kafkalog: Kafkalog) -> None:
    golden = unpacked() / "kafka-3.9" / "data"
    assert kafkalog("verify", "--for-version", "3.9", "--only", "layout", golden).code == 0
    ran = kafkalog("verify", "--for-version", "4.2", "--only", "layout", golden)
    assert ran.code == 1
    assert "setting-refused: topic v2-zstd: Kafka 4.2 refuses this value of segment.bytes" in ran.out


def test_a_version_that_is_not_known_is_wrong_usage(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("verify", "--for-version", "5.0", data_dir)
    assert ran.code == 2
    assert "'5.0' is none of 3.9, 4.0, 4.1, 4.2" in ran.err


def test_a_partition_that_is_not_there_is_an_error_and_nothing_is_checked(kafkalog: Kafkalog, data_dir: Path) -> None:
    ran = kafkalog("verify", data_dir / "orders-0", data_dir, "--partition", "nothing-*")
    assert (ran.code, ran.out) == (2, "")
    assert "no partition in" in ran.err


def with_wrong_log_start(data: Path, *topics: str) -> None:
    """Move the log start of these topics up, within their logs."""
    lines = [f"{topic} 0 600" for topic in topics]
    (data / "log-start-offset-checkpoint").write_text("\n".join(["0", f"{len(lines)}", *lines, ""]))


def test_if_several_partitions_need_a_repair_the_command_is_that_for_the_directory(
    kafkalog: Kafkalog, tmp_path: Path
) -> None:
    data = broker_dir(tmp_path, "v2-none-0", "v2-zstd-0", METADATA)
    with_wrong_log_start(data, "v2-none")
    mends = [line for line in kafkalog("verify", data).out.splitlines() if line.startswith("  to mend it: ")]
    assert mends == [f"  to mend it: kafkalog repair {data}/v2-none-0"]
    with_wrong_log_start(data, "v2-none", "v2-zstd")
    mends = [line for line in kafkalog("verify", data).out.splitlines() if line.startswith("  to mend it: ")]
    assert mends == [f"  to mend it: kafkalog repair {each}" for each in (data / "v2-none-0", data / "v2-zstd-0", data)]
    assert kafkalog("repair", "--apply", data).code == 0
    assert kafkalog("verify", data).code == 0


def test_a_directory_that_a_broker_would_delete_has_its_own_verdict_with_its_remedy(
    kafkalog: Kafkalog, tmp_path: Path
) -> None:
    data = broker_dir(tmp_path, "v2-none-0", "v2-zstd-0", METADATA)
    renamed = (data / "v2-none-0").rename(data / f"v2-none-0.{'0' * 32}-delete")
    told = kafkalog("verify", data).out.splitlines()
    at = told.index(f"{renamed}: data-deleted: 1 error: directory-delete")
    assert told[at + 3] == f"  to mend it: mv {renamed} {data}/v2-none-0"
