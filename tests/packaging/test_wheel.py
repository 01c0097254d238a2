"""The wheel holds what a user runs and the sdist what a builder needs, and neither anything else."""

import fnmatch
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
FILES = ["setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"]
FOLDERS = ["kafkalog", "inspector", "pyspark_kafkalog", "build/cython", "build/lib*"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TREE / "setup.py").is_file(), reason="the source tree is not here"),
    pytest.mark.skipif(importlib.util.find_spec("Cython") is None, reason="Cython is not installed"),
]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy with the last build's compiled modules: nothing need be compiled, and no other build is in the way."""
    copy = tmp_path / "tree"
    for folder in (found for pattern in FOLDERS for found in TREE.glob(pattern)):
        shutil.copytree(folder, copy / folder.relative_to(TREE), ignore=shutil.ignore_patterns("__pycache__"))
    for name in filter(lambda name: (TREE / name).is_file(), FILES):
        shutil.copy2(TREE / name, copy / name)
    for left in copy.glob("build/lib*/**/*"):
        if left.is_file() and left.suffix != ".so":
            left.unlink()
    return copy


def build(tree: Path, kind: str) -> Path:
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    run = subprocess.run([sys.executable, "-c", code, "dist"], cwd=tree, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (made,) = (tree / "dist").iterdir()
    return made


def matching(names: list[str], *patterns: str) -> list[str]:
    return [name for name in names if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def test_the_wheel_holds_compiled_modules_with_their_stubs_and_no_source_of_them(tree: Path) -> None:
    with zipfile.ZipFile(build(tree, "wheel")) as wheel:
        names = wheel.namelist()
    kernels = {path.relative_to(tree).with_suffix("").as_posix() for path in tree.glob("kafkalog/**/*.pyx")}
    modules = {path.relative_to(tree).as_posix() for path in tree.glob("kafkalog/**/*.py")}
    assert kernels
    assert {name.split(".")[0] for name in matching(names, "*.so")} == kernels
    assert {name.removesuffix(".pyi") for name in matching(names, "*.pyi")} >= kernels
    assert set(matching(names, "kafkalog/*.py")) == modules
    assert "kafkalog/py.typed" in names
    assert matching(names, "*.dist-info/licenses/LICENSE")
    assert matching(names, "*.c", "*.pyx", "*.pxd", "tests/*", "build/*") == []
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} <= {
        "kafkalog",
        "inspector",
        "pyspark_kafkalog",
    }
    assert "pyspark_kafkalog/__init__.py" in names


def test_the_sdist_holds_the_sources_of_the_compiled_modules_and_nothing_built(tree: Path) -> None:
    with tarfile.open(build(tree, "sdist")) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    patterns = ("*.pyx", "*.pxd", "*.pyi", "py.typed")
    sources = [path for pattern in patterns for path in tree.glob(f"kafkalog/**/{pattern}")]
    assert {path.relative_to(tree).as_posix() for path in sources} <= set(names)
    assert {"setup.py", "pyproject.toml", "LICENSE"} <= set(names)
    assert matching(names, "*.c", "*.so", "build/*") == []
