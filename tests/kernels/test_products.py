"""Hot loops in C read no array beyond its end and give the same bits on all processors of a family.

Whole products are compiled twice for x86_64, and the loader takes what the processor can run. Each
kind is run here: on an x86_64 machine by itself, elsewhere by a cross compiler and an emulator.
"""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CROSS = "x86_64-linux-gnu-gcc"
EMULATOR = "qemu-x86_64"
MISSING = [tool for tool in (CROSS, EMULATOR) if shutil.which(tool) is None]
FOREIGN = pytest.mark.skipif(
    bool(MISSING),
    reason=f"no {' and no '.join(MISSING)} (apt-get install gcc-x86-64-linux-gnu "
    "libc6-dev-amd64-cross qemu-user)",
)
KERNELS = Path(__file__).resolve().parents[2] / "src" / "romco" / "kernels"
HEAD = """
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
typedef ptrdiff_t Py_ssize_t;
"""
MAIN = """
static double a[80 * 80], b[80 * 80], out[80 * 80];
static unsigned long long mixed(unsigned long long digest) {
    for (int i = 0; i < 80 * 80; i++) {
        unsigned long long bits;
        memcpy(&bits, out + i, sizeof bits);
        digest = (digest ^ bits) * 1099511628211ULL;
        digest ^= digest >> 29;
    }
    return digest;
}
/* n numbers, behind which lies a page that nobody may read. */
static double* guarded(Py_ssize_t n) {
    size_t page = 65536, bytes = (n * sizeof(double) + page - 1) / page * page;
    int all = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    char* start = mmap(NULL, bytes + page, all, own, -1, 0);
    if (start == MAP_FAILED || mprotect(start + bytes, page, PROT_NONE)) exit(1);
    return (double*) (start + bytes) - n;
}
static void read_to_the_end(void) {
    for (int n = 1; n < 12; n++) for (int k = 1; k < 12; k++) for (int w = 1; w < 20; w++) {
        double *first = guarded(n * k), *second = guarded(k * w), *product = guarded(n * w);
        romco_add_products(k, n, w, first, n, second, w, product, w, 0);
        romco_multiply(n, k, w, first, k, second, w, product, w);
        romco_row_times(k, w, first, second, w, product);
        romco_axpy(w, 1.0, second, product);
        product[0] += romco_dot(w, second, product);
    }
}
int main(void) {
    read_to_the_end();
    unsigned long long digest = 1469598103934665603ULL;
    srand(1);
    for (int i = 0; i < 80 * 80; i++) { a[i] = rand() / 1e9 - 1; b[i] = rand() / 1e9 - 1; }
    for (int i = 0; i < 80; i++) if (i % 5 > 2) a[i] = 0.0;
    for (int k = 0; k < 80; k += 9) for (int w = 1; w < 80; w++)
    {
        for (int j = 0; j < 80; j++) out[j] = -1.0;
        romco_row_times(k, w, a, b, 80, out);
        for (int j = 0; j < 80; j++) {
            double sum = j < w ? 0.0 : -1.0;
            for (int p = 0; p < k && j < w; p++) sum += a[p] * b[p * 80 + j];
            if (out[j] != sum) { printf("row of %d, %d columns: %d is wrong", k, w, j); return 0; }
        }
    }
    for (int n = 1; n < 40; n += 3) for (int k = 1; k < 60; k += 7) for (int w = 1; w < 40; w += 2)
    {
        romco_multiply(n, k, w, a, 80, b, 80, out, 80);
        romco_add_products(k, n, w, a, 80, b, 80, out, 80, 0);
        digest = mixed(digest);
    }
    for (int i = 0; i < 4000; i++) {
        romco_axpy(80, 1e-3 * a[i], a, out);
        out[i % 80] += romco_dot(77, a, b + i % 80);
        romco_rotate(40, 0.8, 0.6, out, out + 40);
    }
    digest = mixed(digest);
    printf("%016llx", digest);
    return 0;
}
"""
NARROW = "-D__SANITIZE_ADDRESS__"  # builds with a sanitizer have one kind of each product
# Which of the two the loader takes, told by the processor itself.
WIDE = """
#include <stdio.h>
int main(void) { printf("%d", __builtin_cpu_supports("avx2") != 0); return 0; }
"""


def program():
    """The C of these files, as the compiler sees it, and a digest of what it computes."""
    found = [HEAD]
    for name in ("core/dense.pxd", "core/dense.pyx"):
        text = (KERNELS / name).read_text()
        match = re.search(r'cdef extern from \*:\n    """\n(.*?)\n    """', text, re.S)
        found.append(match.group(1).replace("\\\\", "\\"))
    return "\n".join([*found, MAIN])


def built(folder, source, *options, compiler=None):
    """The program, compiled as kernels are."""
    (folder / "loops.c").write_text(source)
    command = [
        compiler or os.environ.get("CC", "cc"),
        "-O3",
        "-fno-math-errno",
        "-fno-trapping-math",
    ]
    subprocess.run([*command, *options, "-o", folder / "loops", folder / "loops.c"], check=True)
    return folder / "loops"


def printed(*command):
    return subprocess.run(command, capture_output=True, check=True).stdout


def digest(folder, *options):
    return printed(built(folder, program(), *options))


@pytest.fixture
def expected(tmp_path):
    """By the plainest code: one number at a time, each product rounded."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("no C compiler")
    plain = digest(tmp_path, "-O1", "-ffp-contract=off", "-fno-tree-vectorize", NARROW)
    assert b"wrong" not in plain, plain
    return plain


def test_loops_do_not_depend_on_the_width_of_registers(expected, tmp_path):
    if platform.machine() != "x86_64":
        assert digest(tmp_path, "-ffp-contract=off") == expected
    else:  # what the loader takes, then what is for all
        assert digest(tmp_path) == expected
        assert digest(tmp_path, NARROW) == expected


@FOREIGN
@pytest.mark.parametrize(("processor", "wide"), [("Nehalem", b"0"), ("Haswell", b"1")])
def test_loops_compiled_for_x86_64_agree_on_every_processor(expected, tmp_path, processor, wide):
    """Without AVX2, and with it: what the loader takes is what the processor can run."""

    def emulated(source):
        program = built(tmp_path, source, "-static", compiler=CROSS)
        return printed(EMULATOR, "-cpu", processor, program)

    assert emulated(WIDE) == wide
    assert emulated(program()) == expected


@FOREIGN
def test_the_emulated_old_processor_refuses_what_is_for_new_ones(tmp_path):
    """Else the test above could not tell which of the two was taken."""
    wide_only = built(tmp_path, program(), "-static", "-mavx2", compiler=CROSS)
    done = subprocess.run(
        [EMULATOR, "-cpu", "Nehalem", wide_only], capture_output=True, check=False
    )
    assert done.returncode < 0 or done.returncode >= 128
