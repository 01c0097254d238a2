"""The comparison that `make bench` prints: kafkalog beside Kafka's own Java, aiokafka and kafka-python.

    python asv_bench/peers.py [--codec lz4] [--scale 0.06] [--rounds 5] [--only columns] [-o json]
    python asv_bench/peers.py --only writing        building batches; without --only, after all readings

An entry only; what it does is in `comparison`. The tree goes to the end of the module path, so that the installed
kafkalog is measured. In JSON, readings and writings are a document each.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from asv_bench.comparison import command, writing  # noqa: E402


def main(arguments: list[str]) -> None:
    """What is asked for: readings, writings, or first the ones and then the others."""
    of_reading, of_writing = writing.asked(arguments)
    if of_reading is not None:
        command.main(of_reading)
    if of_writing is not None:
        writing.main(of_writing)


if __name__ == "__main__":
    main(sys.argv[1:])
