"""Spark's own Kafka source beside the pyspark that is installed: its jars, through Maven, and a session's environment.

build/oracle/jars-<digest>/        spark-sql-kafka-0-10_2.13 and what it depends on
"""

import os
import sys

from tests.oracle import java

POM = java.POM.with_name("spark_pom.xml")
# What Spark's source needs of its jars that Spark itself has not.
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
# They lead to another Spark.
HIDDEN = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS")


def source_jars() -> str:
    """The value of `spark.jars`. JavaUnavailable: Java or Maven is missing, or Maven reaches no repository."""
    java.java()
    found = sorted(java.jars(POM).glob("*.jar"))
    return ",".join(str(path) for path in found if path.name.startswith(NEEDED))


def variables() -> dict[str, str]:
    """The environment of a process that starts Spark: nothing of another Spark, and workers with this Python."""
    return {name: value for name, value in os.environ.items() if name not in HIDDEN} | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }
