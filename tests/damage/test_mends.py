"""The commands that findings name work: they exist, and accept the path that they are told with."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkalog.cli import cli
from kafkalog.fsck import Finding, verify_path
from kafkalog.storage.file_names import parse_partition_dir
from tests.damage.kinds import BY_NAME, KINDS, PLAIN, Kind
from tests.helpers.broker_dirs import broker_dir

# Of so many kinds one is in the fast tier.
FEW = 60


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=() if number % FEW == 0 else pytest.mark.slow)
        for number, kind in enumerate(KINDS)
    ],
)
def test_the_command_that_mends_a_finding_accepts_its_path(kind: Kind, tmp_path: Path, golden_logs: Path) -> None:
    data, source = tmp_path / "with a space" / "data", golden_logs / "kafka-3.9" / "data"
    kept = {kind.partition, "v2-empty-0"}
    shutil.copytree(source, data, ignore=lambda _, names: {n for n in names if n.startswith("v2-")} - kept)
    kind.damage(data, kind.partition)
    found = {each.mend: each for place in (data, data / kind.partition) for each in verify_path(place) if each.mend}
    for number, (command, finding) in enumerate(found.items()):
        ensure_works(command, finding, tmp_path / f"copy-of-{number}")


def ensure_works(command: str, finding: Finding, copies: Path) -> None:
    program, *arguments = shlex.split(command, comments=True)
    assert program == "kafkalog" or shutil.which(program), command
    paths = [each for each in arguments if each.startswith("/")]
    assert paths
    path = Path(finding.path)
    known = {path, path.parent, path.parent / str(parse_partition_dir(path.name))}
    assert all(Path(each) in known for each in paths), command
    if program == "kafkalog":
        ran = CliRunner().invoke(cli, [each.replace("COPY", str(copies)) for each in arguments])
        assert ran.exit_code in {0, 1}, (command, ran.output)


def test_an_emptied_partition_is_not_mended_by_moving_its_data_directory(tmp_path: Path, golden_logs: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(golden_logs / "kafka-3.9" / "data" / PLAIN, data / PLAIN)
    for path in (data / PLAIN).iterdir():
        path.unlink()
    (data / "replication-offset-checkpoint").write_text(f"0\n1\n{PLAIN.replace('-0', ' 0')} 1200\n")
    (found,) = verify_path(data / PLAIN)
    assert found.code == "log-too-short"
    assert shlex.split(str(found.mend), comments=True) == ["mv", str(data / PLAIN), "ASIDE"]


def test_what_is_missing_after_a_crash_is_first_taken_from_other_replicas_and_then_recovered(tmp_path: Path) -> None:
    data = broker_dir(tmp_path, PLAIN)
    (data / ".kafka_cleanshutdown").unlink()
    BY_NAME["log-torn-active"].damage(data, PLAIN)
    found = next(each for each in verify_path(data) if each.code == "log-too-short")
    command, _, otherwise = str(found.mend).partition("    # ")
    assert command == f"mv {data / PLAIN} ASIDE"
    assert otherwise.index("replicas") < otherwise.index("kafkalog recover") < otherwise.index("--drop-corrupt")


@pytest.mark.slow
def test_records_that_are_gone_are_accepted_by_the_command_that_the_finding_names(
    tmp_path: Path, golden_logs: Path
) -> None:
    data = broker_dir(tmp_path, PLAIN)
    BY_NAME["log-emptied-active"].damage(data, PLAIN)
    found = next(each for each in verify_path(data) if each.code == "log-too-short")
    command = str(found.mend).rpartition("; else ")[2]
    assert command == f"kafkalog repair {data / PLAIN} --drop-corrupt"
    arguments = shlex.split(command)[1:]
    assert CliRunner().invoke(cli, [*arguments, "--apply"]).exit_code == 0
    assert [each.code for each in verify_path(data) if each.severity != "info"] == []
