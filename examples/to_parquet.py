"""Copy all partitions of a data directory to one Parquet file, and ask DuckDB what is in it.

python examples/to_parquet.py /var/lib/kafka/data /tmp/records.parquet
"""

import sys

import duckdb
import pyarrow.parquet

from kafkalog import LogManager

QUERY = """
select topic, count(distinct partition) as partitions, count(*) as records, count(distinct key) as keys,
       max(timestamp)::date as last_day, sum(octet_length(value)) as bytes
from read_parquet(?) group by topic order by bytes desc, topic limit 5
"""


def main(data: str, parquet: str) -> None:
    """Write the file batch by batch: memory does not grow with the data."""
    with LogManager(data) as partitions:
        topics = sorted({name.rpartition("-")[0] for name in partitions} - {"__cluster_metadata"})
        reader = partitions.to_arrow_reader(topics, isolation="read_committed", threads=2)
        with pyarrow.parquet.ParquetWriter(parquet, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
    print(duckdb.sql(QUERY, params=[parquet]))


if __name__ == "__main__":
    main(*sys.argv[1:])
