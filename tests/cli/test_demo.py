"""`kafkalog demo DIR`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kafkalog.cli import cli
from tests.fsck.repairs import tree
from tests.helpers.broker_dirs import broker_dir


def test_the_sample_is_what_a_broker_wrote_and_every_command_shown_works(tmp_path: Path) -> None:
    directory = tmp_path / "a sample"
    ran = CliRunner().invoke(cli, ["demo", str(directory)])
    assert (ran.exit_code, ran.stderr) == (0, "")
    (tmp_path / "golden").mkdir()
    golden = broker_dir(tmp_path / "golden", "v2-txn-0", "v2-zstd-0")
    files = {name: facts for name, (_, *facts) in tree(golden).items() if not name.endswith("-offset-checkpoint")}
    assert {name: facts for name, (_, *facts) in tree(directory).items() if name in files and name != "."} == {
        name: facts for name, facts in files.items() if name != "."
    }
    said, *lines = ran.stdout.replace(f"'{directory}'", "DIR").splitlines()
    assert said == "DIR has two partitions that a broker wrote. To try on it:"
    commands = [line.split()[1:] for line in lines]
    assert [command[0] for command in commands] == ["ls", "verify", "dump", "dump", "inspect"]
    for command in commands[:-1]:
        shown = CliRunner().invoke(cli, [word.replace("DIR", str(directory)) for word in command])
        assert (shown.exit_code, bool(shown.stdout)) == (0, True)


def test_the_demo_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    ran = CliRunner().invoke(cli, ["demo", str(tmp_path / "file")])
    assert (ran.exit_code, "it exists already" in ran.stderr) == (3, True)
    assert (tmp_path / "file").read_text() == "mine"
