"""The `kafkalog` command, whole processes: what an operator waits for."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import path_of

COMMAND = [sys.executable, "-P", "-c", "from kafkalog.cli import main; main()"]


def run(*arguments: str | Path) -> None:
    """The command with its output thrown away."""
    with open(os.devnull, "wb") as nothing:
        subprocess.run([*COMMAND, *map(str, arguments)], stdout=nothing, check=True)


class Command:
    """On an uncompressed segment."""

    timeout = 300.0

    def setup(self) -> None:
        """The segment."""
        self.path = path_of("none")

    def time_help(self) -> None:
        """Nothing but the start."""
        run("--help")

    def time_ls(self) -> None:
        """From headers alone."""
        run("ls", self.path)

    def time_verify(self) -> None:
        """Every CRC."""
        run("verify", self.path)

    def time_verify_deep(self) -> None:
        """Every record."""
        run("verify", "--deep", self.path)

    def time_dump_jsonl(self) -> None:
        """Every record as JSON."""
        run("dump", "-o", "jsonl", self.path)

    def time_dump_batches(self) -> None:
        """Every batch as text."""
        run("dump", "--batches", self.path)
