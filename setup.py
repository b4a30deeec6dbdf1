"""Compiled kernels; everything else is in pyproject.toml.

``ROMCO_CHECKED=1`` builds with bounds checks, for a test run that would catch
an index out of range (``make test-checked``).
"""

import os
import sys
import time
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SHARED = "romco.kernels.memoryviews"  # what Cython would else repeat in every module
LINUX = sys.platform.startswith("linux")
cores = os.cpu_count() or 1
checked = os.environ.get("ROMCO_CHECKED") == "1"
sanitized = "-fsanitize" in os.environ.get("CFLAGS", "")

# No -ffast-math: a run must give the same bits again, and NaN must stay NaN.
speed = "-O1" if sanitized else "-O3"
compiling = [speed, "-fno-math-errno", "-fno-trapping-math", "-Wno-unreachable-code"]
# No long loop over numbers: compiled for size.
SMALL_FILES = "core.counts", "io.history", "merge.gaussians", "memoryviews", "romco.basis_state"
SMALL = tuple(f"romco.kernels.{name}" for name in SMALL_FILES)
linking: list[str] = []
if LINUX and not sanitized:  # hardened, without debugging symbols
    compiling += ["-g0", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
    compiling += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
    linking += ["-Wl,-z,relro,-z,now", "-Wl,--strip-all"]


def kernel(path: Path) -> Extension:
    """Return the extension of one file below src."""
    name = ".".join(path.with_suffix("").parts[1:])
    small = ["-Os"] if name in SMALL and not sanitized else []
    return Extension(
        name,
        [path.as_posix()],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=[*compiling, *small],
        extra_link_args=linking,
        libraries=[] if os.name == "nt" else ["m"],
    )


class BuildKernels(build_ext):
    """Compile kernels and print which of how many is done; unchanged ones are not counted."""

    def build_extensions(self) -> None:
        """Count the kernels to compile, then compile them."""
        self.begun = time.time()
        self.compiled = 0
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Compile one kernel; an editable install takes what was built in place, if it is newer."""
        target = Path(self.get_ext_fullpath(ext.name))
        built = Path("src", self.get_ext_filename(ext.name))
        if self.editable_mode and built.exists() and _is_newer(built, ext.sources):
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(built), str(target))
            return
        super().build_extension(ext)
        if target.stat().st_mtime >= self.begun:
            self.compiled += 1
            line = f"[{self.compiled} of at most {len(self.extensions)}] {ext.name}"
            print(line, file=sys.stderr, flush=True)


def _is_newer(built: Path, sources: list[str]) -> bool:
    return all(built.stat().st_mtime >= Path(source).stat().st_mtime for source in sources)


sources = sorted(Path("src/romco").rglob("*.pyx"))
if not sources:
    sys.exit("no kernels (src/romco/**/*.pyx) to compile: this is not a whole checkout or sdist")

kernels = [kernel(path) for path in (*sources, Path("src", *SHARED.split(".")).with_suffix(".c"))]
if not {"egg_info", "dist_info"} & set(sys.argv):  # which ask for names alone
    kernels = cythonize(
        kernels,
        include_path=["src"],
        nthreads=cores,
        shared_utility_qualified_name=SHARED,
        compiler_directives={
            "language_level": "3",
            "boundscheck": checked,
            "wraparound": False,
            "initializedcheck": checked,
            "cdivision": True,
            "freethreading_compatible": True,
        },
    )
    kernels.sort(key=lambda one: -Path(one.sources[0]).stat().st_size)  # no core waits at the end

setup(
    ext_modules=kernels,
    cmdclass={"build_ext": BuildKernels},
    options={"build_ext": {"parallel": cores}},
)
