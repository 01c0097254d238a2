"""pyspark 4.0.0 and Spark's own Kafka source, in a place of their own: no other pyspark is touched.

    build/oracle/pyspark-4.0.0/        first on the module path of `command`; all else is that of this Python
    build/oracle/jars-<digest>/        spark-sql-kafka-0-10_2.13 4.0.0 and what it depends on, through Maven

pyspark is a download of 455 MB, so it is fetched only when that is asked for: `make oracle-spark`, or the variable
KAFKALOG_ORACLE_SPARK=1. Where it has been fetched once, it is used.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.oracle import java

POM = Path(__file__).with_name("spark_pom.xml")
VERSION = "4.0.0"
PACKAGES = (f"pyspark=={VERSION}", "py4j==0.10.9.9")
WANTED = "KAFKALOG_ORACLE_SPARK"
# What Spark's source needs of its jars that Spark itself has not.
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")


class SparkUnavailable(Exception):
    """Spark's own source cannot be asked; the text says why, and what to do."""


def pyspark() -> Path:
    """The directory that pyspark is in, fetched now if the variable asks for it. SparkUnavailable: it is not there."""
    name = f"pyspark-{VERSION}"
    found = java.directory() / name
    if found.exists():
        return found
    if os.environ.get(WANTED, "") in ("", "0"):
        raise SparkUnavailable(
            f"pyspark {VERSION} has not been fetched (a download of 455 MB): make oracle-spark, or {WANTED}=1"
        )
    return java.once(name, _install)


def _install(target: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    done = subprocess.run([*command, "--target", str(target), *PACKAGES], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(target, ignore_errors=True)
        raise SparkUnavailable(f"pip could not fetch pyspark {VERSION}: {done.stderr.strip()[-400:]}")


def source_jars() -> str:
    """The value of `spark.jars`. JavaUnavailable: Java or Maven is missing, or Maven reaches no repository."""
    java.java()
    found = sorted(java.jars(POM).glob("*.jar"))
    return ",".join(str(path) for path in found if path.name.startswith(NEEDED))


def command(program: Path, arguments: Sequence[str] = ()) -> list[str]:
    """The command that runs a program of Python, in `variables()`."""
    return [sys.executable, str(program), *arguments]


def variables() -> dict[str, str]:
    """The environment of such a program: its own pyspark, everything else as here. SparkUnavailable: as `pyspark`."""
    path = [str(pyspark()), *(each for each in sys.path if each)]
    hidden = ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS")
    return {name: value for name, value in os.environ.items() if name not in hidden} | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }


if __name__ == "__main__":
    os.environ[WANTED] = "1"
    print(pyspark())
