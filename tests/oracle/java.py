"""Kafka's own classes, ready to run: finds Java and Maven, fetches the jars once, compiles what drives them once.

Everything lands under `build/oracle` of the project (or `KAFKALOG_ORACLE_DIR`): `jars-<digest of pom.xml>/` and
`classes-<digest of sources>/`. A directory appears complete or not at all, and a file lock lets many processes ask at
the same time. Where Java or Maven is missing, or Maven reaches no repository, `JavaUnavailable` says so; tests skip
with its text. No pytest in here: the benchmarks use it too.
"""

import fcntl
import hashlib
import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
OLDEST_JAVA = 17  # what Kafka 4's server classes are compiled for
MAVEN_SECONDS = 600
ANSWER_SECONDS = 300


class JavaUnavailable(Exception):
    """Kafka's classes cannot be run on this machine; the text says why."""


def directory() -> Path:
    """Where jars and classes are kept."""
    chosen = os.environ.get("KAFKALOG_ORACLE_DIR")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / "build" / "oracle"


def command(source: Path, arguments: Sequence[str] = (), *, options: Sequence[str] = ()) -> list[str]:
    """The command that runs the class of one source file, with Kafka's jars on the class path."""
    return [java(), *options, "-cp", f"{classes(source)}{os.pathsep}{jars()}/*", source.stem, *arguments]


def kafka_command(
    main_class: str, arguments: Sequence[str] = (), *, options: Sequence[str] = (), poms: Sequence[Path] = (POM,)
) -> list[str]:
    """The command that runs a class out of Kafka's jars, with those of other poms beside them."""
    return [java(), *options, "-cp", os.pathsep.join(f"{jars(pom)}/*" for pom in poms), main_class, *arguments]


@cache
def java() -> str:
    """The `java` to run: of `JAVA_HOME`, else of `PATH`."""
    program = _tool("java")
    answer = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise JavaUnavailable(f"Kafka's classes need Java {OLDEST_JAVA} or later: {answer.strip() or program}")
    return program


def _tool(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    program = (home and shutil.which(name, path=f"{home}/bin")) or shutil.which(name)
    if program is None:
        raise JavaUnavailable(f"{name} is not installed: nothing called {name} in JAVA_HOME/bin or on PATH")
    return program


@cache
def jars(pom: Path = POM) -> Path:
    """Return the directory of the jars that a pom names, with all they depend on; Kafka's by default."""
    return once(f"jars-{digest(pom)}", lambda target: _copy_dependencies(pom, target))


def _copy_dependencies(pom: Path, target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JavaUnavailable("mvn is not installed: Kafka's jars cannot be fetched")
    goal = [
        maven,
        "-q",
        "-B",
        "-Dstyle.color=never",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={target}",
    ]
    try:
        subprocess.run(goal, capture_output=True, text=True, check=True, timeout=MAVEN_SECONDS)
    except subprocess.CalledProcessError as error:
        raise JavaUnavailable(f"Maven could not fetch Kafka's jars: {_first_error(error.stdout)}") from error
    except subprocess.TimeoutExpired as error:
        raise JavaUnavailable(f"Maven fetched no jars within {MAVEN_SECONDS} s") from error


def _first_error(output: str) -> str:
    return next((line for line in output.splitlines() if "ERROR" in line), output.strip())[:400]


@cache
def classes(source: Path) -> Path:
    """The directory with the compiled classes of one source file."""

    def compile_into(target: Path) -> None:
        program = [_tool("javac"), "-nowarn", "-proc:none", "-cp", f"{jars()}/*", "-d", str(target), str(source)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"javac refused {source}:\n{done.stderr}")

    jars()  # outside the lock that compiling takes
    return once(f"classes-{source.stem}-{digest(source, POM)}", compile_into)


def digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of this name, made by whoever comes first; the others wait for it."""
    target = directory() / name
    if target.exists():
        return target
    directory().mkdir(parents=True, exist_ok=True)
    with _locked(directory() / ".lock"):
        if not target.exists():
            unfinished = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=directory()))
            try:
                make(unfinished)
                unfinished.rename(target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    return target


def line_from(process: subprocess.Popen[str], asked: str) -> str:
    """Return the line that a process answers; an empty one if it has ended. TimeoutError: it does not answer."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], ANSWER_SECONDS)[0]:
        process.kill()
        raise TimeoutError(f"no answer within {ANSWER_SECONDS} s to: {asked:.200}")
    return process.stdout.readline()


def end(process: subprocess.Popen[str]) -> None:
    """Close the input of a process and wait for its end; kill it if it goes on."""
    try:
        process.communicate(timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
