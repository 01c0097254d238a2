"""The comparison that `make bench` prints: kafkalog beside Kafka's own Java, aiokafka and kafka-python.

    python asv_bench/peers.py [--codec lz4] [--scale 0.06] [--rounds 5] [--only columns] [-o json]

An entry only; what it does is in `comparison`. The tree goes to the end of the module path, so that the installed
kafkalog is measured.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from asv_bench.comparison.command import main  # noqa: E402

if __name__ == "__main__":
    main()
