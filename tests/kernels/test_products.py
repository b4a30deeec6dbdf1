"""The products that are compiled twice for x86_64 give the same bits for every processor."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).resolve().parents[2] / "src" / "romco" / "kernels"
HEAD = """
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
typedef ptrdiff_t Py_ssize_t;
"""
MAIN = """
static double a[80 * 80], b[80 * 80], out[80 * 80];
int main(void) {
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
        for (size_t i = 0; i < sizeof out; i++) {
            digest ^= ((unsigned char*) out)[i];
            digest *= 1099511628211ULL;
        }
    }
    printf("%016llx", digest);
    return 0;
}
"""


def program():
    """The C of both files, as the compiler sees it, and a digest of many products."""
    found = [HEAD]
    for name in ("dense.pxd", "dense.pyx"):
        text = (KERNELS / name).read_text()
        match = re.search(r'cdef extern from \*:\n    """\n(.*?)\n    """', text, re.S)
        found.append(match.group(1).replace("\\\\", "\\"))
    return "\n".join([*found, MAIN])


def digest(folder, *options):
    (folder / "products.c").write_text(program())
    command = [os.environ.get("CC", "cc"), "-O3", "-fno-math-errno", "-fno-trapping-math", *options]
    subprocess.run([*command, "-o", folder / "products", folder / "products.c"], check=True)
    return subprocess.run([folder / "products"], capture_output=True, check=True).stdout


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler")
def test_products_do_not_depend_on_the_width_of_registers(tmp_path):
    expected = digest(tmp_path, "-O1", "-ffp-contract=off", "-fno-tree-vectorize")
    assert b"wrong" not in expected, expected
    assert digest(tmp_path, "-ffp-contract=off") == expected
    if platform.machine() == "x86_64":  # what the loader takes, then each kind by itself
        assert digest(tmp_path) == expected
        assert digest(tmp_path, "-DROMCO_PRODUCT=static void") == expected
