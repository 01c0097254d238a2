"""A conversation with Kafka's own `UnifiedLog` (`UnifiedLogDriver.java`): a command, its answer, the next command.

One virtual machine serves any number of logs, one after the other. A command and its answer are lines; `.` in `open`
stands for the directory, so that the same line can be given to kafkalog.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Self

from tests.oracle import java

DRIVER = Path(__file__).with_name("UnifiedLogDriver.java")

Answer = dict[str, Any]


class KafkaLogs:
    """The virtual machine; a context manager. `directory` is where the next `open` opens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        command = java.command(DRIVER, options=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        java.end(self._process)

    def run(self, line: str) -> Answer:
        """The answer to one command."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.replace("open .", f"open {self.directory}", 1) + "\n")
        self._process.stdin.flush()
        answer: Answer = json.loads(java.line_from(self._process, line))
        return answer

    def abandon(self) -> None:
        """Leave the log as a crash would."""
        self.run("crash")
