"""What Kafka's own classes read: any number of logs, one start of the virtual machine (`Decode.java`).

An answer has Kafka's words: `{"batches": [{…, "records": […], "error": …}], "error": …}`. `None` as an error: the
iteration came to its end. Answers are kept beside the jars, by the digest of what was asked, so the processes of one
test run ask once.
"""

import hashlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.oracle import java

DECODE = Path(__file__).with_name("Decode.java")
FILE, MEMORY, SEARCH = "file", "memory", "search"

Answer = dict[str, Any]


class Part(NamedTuple):
    """A log to be read: its bytes, and by which of Kafka's two readers; or a log to be searched as a file."""

    mode: str
    data: bytes


def answers(parts: Sequence[Part]) -> list[Answer]:
    """Kafka's answer to each part."""
    pack = b"".join(part.data for part in parts)
    lines = "".join(_lines(parts))
    digest = hashlib.sha256(DECODE.read_bytes() + lines.encode() + pack).hexdigest()[:16]
    command = java.command(DECODE, options=["-Xmx512m", "-XX:+UseSerialGC"])

    def ask(directory: Path) -> None:
        (directory / "pack").write_bytes(pack)
        (directory / "parts").write_text(lines)
        files = [str(directory / name) for name in ("pack", "parts", "answers")]
        subprocess.run([*command, *files], check=True, capture_output=True, text=True, timeout=1200)

    with (java.once(f"answers-{digest}", ask) / "answers").open("rb") as file:
        return [json.loads(line) for line in file]


def _lines(parts: Sequence[Part]) -> list[str]:
    lines, start = [], 0
    for part in parts:
        lines.append(f"{part.mode} {start} {len(part.data)}\n")
        start += len(part.data)
    return lines


def answers_or_skip(parts: Sequence[Part]) -> list[Answer]:
    """The same, for a fixture: the tests are skipped where Kafka cannot be asked."""
    try:
        return answers(parts)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
