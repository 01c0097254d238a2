"""The fast tests on other Pythons, and on other builds of the kernels, than those of `.venv`."""

import sys
from pathlib import Path

import nox

PROJECT = nox.project.load_toml("pyproject.toml")
nox.options.error_on_missing_interpreters = False
ASAN = {"CFLAGS": "-fsanitize=address -fno-omit-frame-pointer -g -O1", "LDFLAGS": "-fsanitize=address"}


@nox.session(python=nox.project.python_versions(PROJECT))
def fast(session: nox.Session) -> None:
    """Run the fast tier with kernels compiled for this Python; they lie beside those of the others."""
    session.install("--group", "fast")
    session.install("--no-build-isolation", "--editable", ".[arrow,inspector,remote]")
    session.run("python", "-m", "tests.tiers", "fast", "--", *session.posargs)


@nox.session(venv_backend="none")
def asan(session: nox.Session) -> None:
    """Run the fast tier with the Python that runs nox, on kernels that report invalid memory accesses."""
    library = Path("build", "asan", "lib").absolute()
    build = ["--quiet", "build", "--build-base", "build/asan", "--build-lib", str(library)]
    session.run(sys.executable, "setup.py", *build, env=ASAN)
    libraries = ("libasan.so", "libstdc++.so.6")
    runtimes = [session.run("cc", f"-print-file-name={name}", silent=True, external=True) for name in libraries]
    environment = {
        "LD_PRELOAD": " ".join(str(runtime).strip() for runtime in runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        # The compiled modules of build/asan come before those of the clone.
        "PYTHONPATH": str(library),
        "PYTHONSAFEPATH": "1",
    }
    session.run(sys.executable, "-m", "tests.tiers", "fast", "--", "--capture=sys", *session.posargs, env=environment)
