"""The list of extension modules and how they are compiled. Everything else about the package is in pyproject.toml."""

import os
import sys

from Cython.Build import cythonize
from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

JOBS = os.cpu_count() or 1
# CFLAGS of the environment come earlier on the compiler's command line: an -O here would overrule theirs.
OPTIMIZE = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3", "-g0"]
# Cython's code for memoryviews, once for all modules: it takes longer to compile than all kernels.
SHARED = "kafkalog._speedups._shared"


class BuildKernels(build_ext):
    """Compile in `build/` for editable installs too: in temporary directories each install would compile all anew."""

    def finalize_options(self) -> None:
        """Choose the directories that `setup.py build_ext --inplace` uses."""
        super().finalize_options()
        if self.editable_mode:
            build = Distribution().get_command_obj("build")
            build.ensure_finalized()
            self.build_lib, self.build_temp = build.build_platlib, build.build_temp


setup(
    cmdclass={"build_ext": BuildKernels},
    ext_modules=cythonize(
        [
            Extension("*", ["kafkalog/_speedups/*.pyx"], extra_compile_args=OPTIMIZE),
            Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"], extra_compile_args=OPTIMIZE),
        ],
        shared_utility_qualified_name=SHARED,
        # A directory for each Python: the Cython of another environment would write all files anew.
        build_dir=f"build/cython-{sys.implementation.cache_tag}",
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
