"""The comparison that `make bench` prints: kafkalog beside Kafka's own Java, aiokafka and kafka-python.

    python asv_bench/peers.py [--codec lz4] [--scale 0.06] [--rounds 5] [--only columns] [-o json]
    python asv_bench/peers.py --only columns --only objects --page docs/performance/readings.md
    python asv_bench/peers.py --only writing        building batches; without --only, after all readings
    python asv_bench/peers.py --only log            the log beside Kafka's UnifiedLog; without --only, after those
    python asv_bench/peers.py --only spark          the data source beside Spark's own; without --only, last
    python asv_bench/peers.py --only growth         time and memory as logs grow; only if asked for, needs 17 GB of disk

An entry only; what it does is in `comparison`. The tree goes to the end of the module path, so that the installed
kafkalog is measured. In JSON, readings, writings and the log are a document each.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from asv_bench.comparison import command, growth, log, spark, writing  # noqa: E402

OTHERS = {writing.GROUP: writing.main, log.GROUP: log.main, spark.GROUP: spark.main}
IF_ASKED = {growth.GROUP: growth.main}


def main(arguments: list[str]) -> None:
    """What is asked for: readings, writings, the log, or one after the other."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--only", action="append", default=[])
    options, shared = parser.parse_known_args(arguments)
    others = OTHERS | IF_ASKED
    readings = [word for name in options.only if name not in others for word in ("--only", name)]
    if readings or not options.only:
        command.main([*readings, *shared])
    for name, run in others.items():
        if name in options.only or (not options.only and name in OTHERS):
            run(shared)


if __name__ == "__main__":
    main(sys.argv[1:])
