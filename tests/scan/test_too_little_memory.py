"""Too little memory is an error of its own: it is never taken for damage, which readers may skip.

address space   |<- what the process has ->|<- room ->|     swept from none to more than reading takes
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from kafkalog import CompressionType, LogConfig, Record

BATCHES = 4
RECORDS = 8
# Of two letters, so that codecs shorten it, but do not copy runs of it only.
VALUE = bytes(97 + (i * i >> 7 & 1) for i in range(1 << 18))

SWEEP = """
import json, os, resource, sys
from errno import ENOMEM
from pathlib import Path
import kafkalog
from kafkalog.scan.records import records

damage = []

def scanned(path):
    with kafkalog.open(path) as log:
        return sum(map(len, records(log, report=damage.append)))

def read(path):
    with kafkalog.open(path) as log:
        return sum(1 for record in log)

def in_tasks(path):
    from kafkalog.spark import ReadOptions, plan_splits
    from kafkalog.spark.read.split_reader import split_parts
    options = ReadOptions.parse({"path": str(path), "onCorrupt": "skip"})
    splits = [split for each in plan_splits(options) for split in each.splits]
    return sum(len(part) for split in splits for part in split_parts(split, options))

def held():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

def in_child(reader, room):
    # A process of its own each time: memory that was freed would be used again, within any limit.
    reading, writing = os.pipe()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_AS, (held() + room, resource.RLIM_INFINITY))
        try:
            outcome = reader(Path(sys.argv[2]))
        except MemoryError:
            outcome = "memory"
        except OSError as error:
            outcome = "memory" if error.errno == ENOMEM else repr(error)
        except BaseException as error:
            outcome = repr(error)
        os.write(writing, json.dumps([outcome, *map(str, damage)]).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        told = file.read()
    os.wait()
    return json.loads(told) if told else ["died"]

readers = {"scan": scanned, "read": read, "tasks": in_tasks}
for reader in readers.values():
    reader(Path(sys.argv[1]))  # imports
outcomes = {name: [in_child(reader, room << 20) for room in range(0, 60, 3)] for name, reader in readers.items()}
print(json.dumps(outcomes))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
@pytest.mark.parametrize("codec", CompressionType, ids=lambda codec: codec.name.lower())
def test_readers_give_all_records_or_an_error_about_memory(codec: CompressionType, tmp_path: Path) -> None:
    config = LogConfig(max_message_bytes=1 << 24)
    for name, value in (("small-0", b"v"), ("large-0", VALUE)):
        with kafkalog.open(tmp_path / name, "a", config) as log:
            for _ in range(BATCHES):
                log.append([Record(value) for _ in range(RECORDS)], compression_type=codec)

    command = [sys.executable, "-c", SWEEP, str(tmp_path / "small-0"), str(tmp_path / "large-0")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stderr
    for reader, found in json.loads(ran.stdout).items():
        assert {tuple(each) for each in found} == {(BATCHES * RECORDS,), ("memory",)}, (reader, found)
