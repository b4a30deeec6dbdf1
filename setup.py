"""Compiled kernels; everything else is in pyproject.toml.

``ROMCO_CHECKED=1`` builds with bounds checks, for a test run that would catch
an index out of range (``make test-checked``).
"""

import os
from pathlib import Path

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

cores = os.cpu_count() or 1
checked = os.environ.get("ROMCO_CHECKED") == "1"
kernels = sorted(Path("src/romco/kernels").rglob("*.pyx"))
extensions = [
    Extension(
        ".".join(path.with_suffix("").parts[1:]),
        [path.as_posix()],
        include_dirs=[numpy.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        # No -ffast-math: a run must give the same bits again, and NaN must stay NaN.
        extra_compile_args=[
            "-O3",
            "-fno-math-errno",
            "-fno-trapping-math",
            "-Wno-unreachable-code",
        ],
        libraries=[] if os.name == "nt" else ["m"],
    )
    for path in kernels
]
setup(
    ext_modules=cythonize(
        extensions,
        include_path=["src"],
        nthreads=cores,
        compiler_directives={
            "language_level": "3",
            "boundscheck": checked,
            "wraparound": False,
            "initializedcheck": checked,
            "cdivision": True,
            "freethreading_compatible": True,
        },
    ),
    options={"build_ext": {"parallel": cores}},
)
