"""Where the time of a reading goes, by the library that the processor was in: Linux `perf`, by samples.

    lz4   decompression 46 %, copies 9 %, parse 12 %, checksums 3 %, reading 12 %, Python 16 %

The libraries are those of columns of one segment.
"""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

# A library's name contains the text on the left.
PARTS = {
    "_frame.": "decompression",
    "backend_c.": "decompression",
    "cramjam.": "decompression",
    "isal": "decompression",
    "igzip": "decompression",
    "records_v2.": "parse",
    "decode.": "parse",
    "crc32c": "checksums",
    "kernel": "reading",
    "libpython": "Python",
    "python3": "Python",
    "libc.": "copies",
    "libc-": "copies",
}
# Samples are taken after the imports.
STARTED_MS = 1_500
READ = """
import sys, time
from kafkalog import FileMessageSet
until = time.monotonic() + 5
while time.monotonic() < until:
    for _ in FileMessageSet(sys.argv[1], sealed=True).columns():
        pass
"""


def shares(path: Path) -> dict[str, float] | None:
    """Return the part of the time spent in each kind of library, largest first; None without `perf`."""
    if shutil.which("perf") is None:
        return None
    with tempfile.NamedTemporaryFile() as samples:
        perf = ["perf", "record", "-q", "-F", "999", "-e", "cpu-clock", "-D", str(STARTED_MS), "-o", samples.name]
        subprocess.run([*perf, sys.executable, "-c", READ, str(path)], check=True, stderr=subprocess.DEVNULL)
        report = ["perf", "report", "-i", samples.name, "--sort", "dso", "--stdio"]
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    found = Counter[str]()
    for line in text.splitlines():
        share, _, library = line.strip().partition("%")
        if library and not line.startswith("#"):
            name = next((part for text, part in PARTS.items() if text in library), "other")
            found[name] += float(share) / 100
    return dict(found.most_common())
