"""Compiled kernels; everything else is in pyproject.toml.

``ROMCO_CHECKED=1`` builds with bounds checks, for a test run that would catch
an index out of range (``make test-checked``). ``CFLAGS=-DROMCO_STANDARD_C`` leaves out what only
GCC and Clang know, as MSVC does (``make test-standard-c``).
"""

import os
import sys
import time
from hashlib import sha256
from pathlib import Path

import Cython
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SHARED = "romco.kernels.memoryviews"  # what Cython would else repeat in every module
LINUX = sys.platform.startswith("linux")
# No long loop over numbers: compiled for size.
SMALL_FILES = "core.counts", "io.history", "memoryviews", "romco.basis_state"
SMALL = tuple(f"romco.kernels.{name}" for name in SMALL_FILES)
cores = os.cpu_count() or 1
checked = os.environ.get("ROMCO_CHECKED") == "1"
sanitized = "-fsanitize" in os.environ.get("CFLAGS", "")

# For compilers with the options of GCC. No -ffast-math: a run must give the same bits again, and
# NaN must stay NaN. MSVC is left at its defaults, which are optimised and precise.
compiling = ["-O1" if sanitized else "-O3", "-fno-math-errno", "-fno-trapping-math"]
compiling += ["-Wno-unreachable-code"]
linking: list[str] = []
if LINUX and not sanitized:  # hardened, without debugging symbols
    compiling += ["-g0", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
    compiling += ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
    linking += ["-Wl,-z,relro,-z,now", "-Wl,--strip-all"]


def kernel(path: Path) -> Extension:
    """Return the extension of one file below src."""
    return Extension(
        ".".join(path.with_suffix("").parts[1:]),
        [path.as_posix()],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        libraries=[] if os.name == "nt" else ["m"],
    )


def generate_c(kernels: list[Extension]) -> None:
    """Translate the kernels to C."""
    generated = cythonize(
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
    by_name = {one.name: one for one in generated}
    for one in kernels:
        one.sources = by_name[one.name].sources
        one.depends = by_name[one.name].depends
    kernels.sort(key=lambda one: -Path(one.sources[0]).stat().st_size)  # no core waits at the end


class BuildKernels(build_ext):
    """Compile kernels and print which of how many is done; unchanged ones are not counted."""

    def build_extensions(self) -> None:
        """Compile all kernels, unless they were built here from the same sources.

        Cython compares files by their age, and its own are new whenever pip makes an environment
        for a build: a second `pip install` of a checkout would compile everything again.
        """
        self.begun = time.time()
        self.compiled = 0
        targets = [Path(self.get_ext_fullpath(one.name)) for one in self.extensions]
        stamp = Path(self.build_temp, "kernels.sha256")
        fingerprint = fingerprint_of_sources()
        same = stamp.exists() and stamp.read_text() == fingerprint
        if same and all(target.exists() for target in targets):
            return
        stamp.unlink(missing_ok=True)
        generate_c(self.extensions)
        for one in self.extensions:
            self.set_flags(one)
        super().build_extensions()
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(fingerprint)

    def set_flags(self, ext: Extension) -> None:
        """Set the options of GCC and Clang; other compilers keep their own."""
        if self.compiler.compiler_type == "msvc":
            return
        small = ["-Os"] if ext.name in SMALL and not sanitized else []
        ext.extra_compile_args = [*compiling, *small]
        ext.extra_link_args = linking

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


def fingerprint_of_sources() -> str:
    """Return a digest of all that compiled kernels depend on."""
    digest = sha256(f"{sys.version} {Cython.__version__}".encode())
    for name in ("CC", "CFLAGS", "LDFLAGS", "ROMCO_CHECKED"):
        digest.update(f"{name}={os.environ.get(name)}\n".encode())
    for path in (Path("setup.py"), *sorted(Path("src/romco").rglob("*.p[yx][xd]"))):
        digest.update(path.as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_newer(built: Path, sources: list[str]) -> bool:
    return all(built.stat().st_mtime >= Path(source).stat().st_mtime for source in sources)


sources = sorted(Path("src/romco").rglob("*.pyx"))
if not sources:
    sys.exit("no kernels (src/romco/**/*.pyx) to compile: this is not a whole checkout or sdist")

if __name__ == "__main__":  # processes that translate kernels import this file, too
    shared = Path("src", *SHARED.split(".")).with_suffix(".c")
    setup(
        ext_modules=[kernel(path) for path in (*sources, shared)],
        cmdclass={"build_ext": BuildKernels},
        options={"build_ext": {"parallel": cores}},
    )
