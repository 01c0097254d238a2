"""`python -m build` makes an sdist and a wheel, and the wheel works in an environment that has nothing else."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import kafkalog

TREE = Path(__file__).parents[2]
SECONDS = 600
# What the inspector in the terminal does for a check, from an installed package or a clone.
CHECK_IN_A_PROCESS = """
import sys
from pathlib import Path
from kafkalog.inspector.jobs import jobs, process
running = process.Process(jobs.VerifyJob(Path(sys.argv[1]), deep=True))
*_, last = running.frames()
running.close()
print(process.__file__, last.latest, last.ended, last.items)
"""
LOG = TREE / "tests" / "data" / "v2-zstd-0"
RECORDS_OF_LOG = 1200

pytest.importorskip("build", reason="the package build is not installed")

# The tests share one build, so one worker runs them all.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TREE / "setup.py").is_file(), reason="the source tree is not here"),
]


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    """Run a command without the Python settings of this process, and return its output; fail with all it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment | settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def matching(names: set[str], *patterns: str) -> set[str]:
    return {name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)}


@dataclass(frozen=True)
class Built:
    """The source tree that was built, and what came out of it. The wheel was built from the sdist."""

    tree: Path
    sdist: Path
    wheel: Path

    def sources(self, *patterns: str) -> set[str]:
        """The paths of source files in the tree."""
        return {path.relative_to(self.tree).as_posix() for pattern in patterns for path in self.tree.glob(pattern)}

    def inspector(self, kind: str) -> set[str]:
        """The places of the inspector's files of a kind where they are installed."""
        return {f"kafkalog/{path}" for path in self.sources(f"inspector/**/*.{kind}")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    tree = tmp_path_factory.mktemp("source") / "kafkalog"
    shutil.copytree(
        TREE,
        tree,
        symlinks=True,
        ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "*.so", "tests", "asv_bench"),
    )
    # Optimised code takes five times as long to compile and is packed alike.
    run(sys.executable, "-m", "build", "--no-isolation", tree, cwd=tree.parent, CFLAGS="-O0")
    (sdist,) = tree.glob("dist/*.tar.gz")
    (wheel,) = tree.glob("dist/*.whl")
    return Built(tree, sdist, wheel)


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment outside the clone that holds the wheel and what pip installs with it."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "venv", with_pip=True)
    python = home / "venv" / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", built.wheel, cwd=home)
    return python.parent


def test_the_wheel_holds_compiled_modules_with_their_stubs_and_no_source_of_them(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
    kernels = {name.removesuffix(".pyx") for name in built.sources("kafkalog/**/*.pyx")}
    assert kernels
    assert {name.split(".")[0] for name in matching(names, "*.so")} == kernels | {"kafkalog/_speedups/_shared"}
    assert {name.removesuffix(".pyi") for name in matching(names, "*.pyi")} == kernels
    assert matching(names, "*.py") == built.sources("kafkalog/**/*.py", "pyspark_kafkalog/*.py") | built.inspector("py")
    assert matching(names, "*.tar.xz") == {"kafkalog/cli/sample.tar.xz"}
    assert matching(names, "*.tcss") == built.inspector("tcss") != set()
    assert "kafkalog/py.typed" in names
    assert matching(names, "*.dist-info/licenses/LICENSE")
    assert matching(names, "*.c", "*.pyx", "*.pxd") == set()
    packages = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"kafkalog", "pyspark_kafkalog"}


def test_the_sdist_holds_the_sources_of_the_compiled_modules_and_nothing_built(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if member.isfile()}
    kinds = ("py", "pyi", "pyx", "pxd", "typed")
    assert (
        built.sources(*(f"{package}/**/*.{kind}" for package in ("kafkalog", "pyspark_kafkalog") for kind in kinds))
        <= names
    )
    assert built.inspector("py") | built.inspector("tcss") <= names
    assert {"setup.py", "pyproject.toml", "LICENSE", "README.md"} <= names
    assert matching(names, "*.c", "*.so", "build/*", "dist/*", ".*") == set()


def test_the_version_of_the_wheel_is_that_of_the_package(built: Built) -> None:
    assert built.wheel.name.startswith(f"kafkalog-{kafkalog.__version__}-")
    assert built.sdist.name == f"kafkalog-{kafkalog.__version__}.tar.gz"


def test_the_wheel_needs_only_what_the_core_imports(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        text = wheel.read(metadata).decode()
    needed = {name.lower() for name in re.findall(r"^Requires-Dist: ([\w-]+)(?!.*extra ==)", text, re.MULTILINE)}
    assert needed == {"click", "cramjam", "crc32c", "isal", "lz4", "msgspec", "numpy", "xxhash", "zstandard"}
    extras = set(re.findall(r"^Provides-Extra: (.*)$", text, re.MULTILINE))
    assert extras == {"all", "arrow", "inspector", "remote", "schemas", "spark"}


def test_the_installed_command_prints_its_help_and_verifies_and_reads_a_log(installed: Path) -> None:
    home = installed.parent
    assert "Usage: kafkalog" in run(installed / "kafkalog", "--help", cwd=home)
    run(installed / "kafkalog", "verify", "--deep", LOG, cwd=home)
    assert len(run(installed / "kafkalog", "dump", "-o", "jsonl", LOG, cwd=home).splitlines()) == RECORDS_OF_LOG
    run(installed / "kafkalog", "demo", "sample", cwd=home)
    sample = run(installed / "kafkalog", "dump", "-o", "jsonl", "sample/v2-zstd-0", cwd=home)
    assert len(sample.splitlines()) == RECORDS_OF_LOG


def test_the_installed_library_reads_a_log(installed: Path) -> None:
    code = "import sys, kafkalog; print(kafkalog.__file__); print(sum(1 for _ in kafkalog.open(sys.argv[1])))"
    place, count = run(installed / "python", "-c", code, LOG, cwd=installed.parent).splitlines()
    assert Path(place).is_relative_to(installed.parent)
    assert int(count) == RECORDS_OF_LOG


def test_the_inspector_is_a_part_of_the_package_in_a_wheel_and_in_a_clone(installed: Path, tmp_path: Path) -> None:
    # A file of the user with this name is left alone.
    (tmp_path / "inspector.py").write_text("raise SystemExit('not imported')")
    for python, place, settings in (
        (installed / "python", installed.parent, {}),
        (Path(sys.executable), TREE, {"PYTHONPATH": str(TREE)}),
    ):
        shown = run(python, "-m", "kafkalog.cli", "inspect", LOG, "--headless", "segments", cwd=tmp_path, **settings)
        assert f"log_end_offset: {RECORDS_OF_LOG}\n" in shown
        checked = run(python, "-c", CHECK_IN_A_PROCESS, LOG, cwd=tmp_path, **settings)
        assert Path(checked.split()[0]).is_relative_to(place)
        size = sum(path.stat().st_size for path in LOG.glob("*.log"))
        assert checked.endswith(f" Progress(done_bytes={size}, total_bytes={size}) Ended(problem=None) []\n")


def test_spark_finds_the_module_of_its_data_source_among_the_installed_ones(installed: Path) -> None:
    """Spark lists the top-level modules named pyspark_*; a Spark session is started in tests/spark."""
    code = "import pkgutil; print(*(module.name for module in pkgutil.iter_modules()))"
    modules = run(installed / "python", "-c", code, cwd=installed.parent).split()
    assert [name for name in modules if name.startswith("pyspark_")] == ["pyspark_kafkalog"]
