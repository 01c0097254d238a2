"""The extension list. Everything else about the package stands in pyproject.toml."""

import os

from Cython.Build import cythonize
from setuptools import Extension, setup

JOBS = os.cpu_count() or 1
# CFLAGS of the environment come earlier on the compiler's command line: an -O here would overrule theirs.
OPTIMIZE = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"]

setup(
    ext_modules=cythonize(
        [Extension("*", ["kafkalog/_speedups/*.pyx"], extra_compile_args=OPTIMIZE)],
        build_dir="build/cython",
        nthreads=JOBS,
        compiler_directives={
            "language_level": 3,
            # Kernels check every place themselves, once, before they read it.
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "autotestdict": False,
        },
    ),
    options={"build_ext": {"parallel": JOBS}},
)
