"""The commands of docs/operators.md print what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers.running import COMMAND

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
HOME = "/data"
"""The directory in which the page's commands run."""
_LAST = f"{2420:020}.log"
_WRONG_EPOCHS = "printf '0\\n1\\nx 0\\n' > kafka/orders-{}/leader-epoch-checkpoint"
_WRONG_TIMES = f"head -c 24 /dev/zero | tr '\\0' x > kafka/orders-0/{1258:020}.timeindex"
_FLIP = f"printf '\\377' | dd of=kafka/orders-{{}}/{0:020}.log bs=1 seek=100 conv=notrunc status=none"
_CRASH = f"rm kafka/.kafka_cleanshutdown; truncate -s -5 kafka/orders-1/{_LAST}"
_ONLY_LOGS = (
    "rm kafka/.kafka* kafka/*checkpoint; find kafka -mindepth 2 -not -name '*.log' -delete;"
    " printf 'version=1\\ncluster.id=DTfjWV3NSqurIbRBugvACg\\nnode.id=1\\n' > kafka/meta.properties"
)
SETUPS = {
    "kafkalog status kafka": ["true", _CRASH, _ONLY_LOGS],
    "kafkalog verify kafka": [_FLIP.format(0)],
    "kafkalog explain kafka": [f"{_CRASH}; {_WRONG_EPOCHS.format(0)}"],
    "kafkalog dump kafka/orders-0 -n 1": ["printf '0\\n1\\norders 0 99999\\n' > kafka/log-start-offset-checkpoint"],
    "kafkalog repair kafka": [
        f"cp -r kafka/orders-0 kafka/orders-0.bak; {_WRONG_EPOCHS.format(1)}; {_WRONG_TIMES}",
    ],
    "kafkalog repair --drop-corrupt kafka/orders-1": [_FLIP.format(1)],
    "kafkalog salvage kafka/orders-0 new/orders-0": [_FLIP.format(0)],
}
"""By the first command of a block: what is done before it on a fresh directory; of several such blocks, in order."""
_VARYING = {
    r"0x[0-9a-f]{8}": "CRC",
    r"\d{4}-\d\d-\d\dT[\d:.]+Z": "TIME",
    r"repair-\d{8}-\d{6}\.\d{6}": "JOURNAL",
    r"in \d+\.\d s(, [\d.]+ \wi?B/s)?": "SECONDS",
}


def blocks() -> list[list[tuple[str, str]]]:
    """The console blocks of the page: commands, each with its output."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        pieces = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
        found.append([_split(piece) for piece in pieces])
    return found


def _split(piece: str) -> tuple[str, str]:
    command = re.match(r"(?:.*\\\n)*.*\n", piece)
    assert command is not None
    return command[0].replace("\\\n", "").strip(), piece[command.end() :]


def plain(text: str) -> list[str]:
    for pattern, name in _VARYING.items():
        text = re.sub(pattern, name, text)
    return [line.rstrip() for line in text.splitlines()]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    program = tmp_path / "bin" / "kafkalog"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "COLUMNS": "200"}


def ran(command: str, home: Path, environment: dict[str, str]) -> str:
    told = subprocess.run(
        ["bash", "-c", f"({command}) 2>&1"], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    return told.stdout.replace(str(home), HOME)


def test_the_commands_print_what_the_page_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    (creation, _), *_ = blocks()[0]
    (tmp_path / "new").mkdir()
    ran(creation, tmp_path / "new", environment)
    occurred = Counter[str]()
    home, wrong = tmp_path / "new", []
    for number, block in enumerate(blocks()[1:]):
        first, _ = block[0]
        # Other blocks go on where the one before ends.
        if first in SETUPS:
            home = tmp_path / f"{number}"
            shutil.copytree(tmp_path / "new", home)
            assert ran(SETUPS[first][occurred[first]], home, environment) == ""
            occurred[first] += 1
        for command, expected in block:
            found = plain(ran(re.sub(r"repair-[-.\d]+", "repair-*", command), home, environment))
            if found != plain(expected):
                wrong.append("\n".join([f"$ {command}", *found]))
    if wrong:
        pytest.fail("\n".join(["these commands print something else than the page shows:", *wrong]))
    assert occurred == {first: len(setups) for first, setups in SETUPS.items()}
