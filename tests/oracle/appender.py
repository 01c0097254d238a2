"""A program that appends to a partition until it is killed, and says after each append how many records there are."""

import sys
from itertools import count

import kafkalog
from kafkalog import CompressionType, LogConfig, Record

RECORDS_AT_ONCE = 7
APPENDS_TO_A_FLUSH = 10


def main(directory: str) -> None:
    codecs = list(CompressionType)
    with kafkalog.open(directory, "a", LogConfig(segment_bytes=4096, retention_ms=-1)) as log:
        for turn in count():
            first = turn * RECORDS_AT_ONCE
            records = [Record(b"%d" % number) for number in range(first, first + RECORDS_AT_ONCE)]
            log.append(records, compression_type=codecs[turn % len(codecs)])
            if turn % APPENDS_TO_A_FLUSH == 0:
                log.flush()
            print(first + RECORDS_AT_ONCE, flush=True)


main(sys.argv[1])
