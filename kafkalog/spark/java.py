"""A check that Spark finds a Java, in JAVA_HOME or on the PATH. Spark's own error does not name the reason."""

import os
import re
import shutil
import subprocess
from argparse import ArgumentParser
from pathlib import Path

OLDEST = 17
ADVICE = (
    f"Spark 4 runs on Java {OLDEST} or later: install one (Debian, Ubuntu: apt install openjdk-17-jre-headless; "
    "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@17; conda: conda install openjdk=17), "
    "or set JAVA_HOME to an installed one"
)
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')


def missing_java() -> str | None:
    """Return the problem with the Java of this machine and what to install; None if Spark can run."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        return f"there is no java {where}. {ADVICE}"
    run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - the user's own java
    version = _VERSION.search(run.stderr)
    if run.returncode or version is None or int(version[1]) < OLDEST:
        return f"{java} is too old or does not run: {run.stderr.strip()[:200]!r}. {ADVICE}"
    return None


def main() -> None:
    """Run `python -m kafkalog.spark.java`: exit code 1 if Spark cannot run."""
    about = "Says whether Spark will find a Java that it can run on (exit code 0), or what to install (1)."
    ArgumentParser(prog="python -m kafkalog.spark.java", description=about).parse_args()
    wrong = missing_java()
    if wrong is not None:
        raise SystemExit(wrong)
    print("Spark will find a Java that it can run on")


if __name__ == "__main__":
    main()
