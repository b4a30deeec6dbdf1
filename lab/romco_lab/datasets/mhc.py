"""``mhc``: which peptides bind to which human MHC-I molecule."""

import csv
import gzip
import io
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romco.streams.datasets import Dataset, data_directory
from romco.streams.stream import Stream
from romco_lab.datasets.storage import Provenance, first_existing, located, verified
from romco_lab.datasets.weighting import unit_rows

FILE = "mhc/mhc1_binding.csv.gz"
SHA256 = "3d7114231c73524cc777f2b4b79bc3d5d09853e5ca048e96a450a54c62bf1c9c"
AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
LENGTH = 9
ALLELES = (
    *("HLA-A*11:01", "HLA-A*31:01", "HLA-A*68:02", "HLA-A*02:03", "HLA-A*24:02", "HLA-A*02:06"),
    *("HLA-A*02:02", "HLA-A*33:01", "HLA-A*23:01", "HLA-A*24:03", "HLA-A*02:11", "HLA-A*26:02"),
)

PROVENANCE = Provenance(
    origin="the supplement of Scientific Reports 6, srep32115, as a table allele,peptide,binder",
    place=(FILE,),
    terms="the repository that carried it is under the MIT licence",
)

_ALLELES = "the paper's 12 alleles are not known: these are another 12, with 9-mers only"
_SCALE = "the paper does not say how rows are scaled: here they have unit length"


def find(data_dir: Path) -> Path | None:
    """The file, or None if it is not there."""
    return first_existing(data_dir, (FILE,))


def load(data_dir: Path | None = None, normalise: bool = True) -> Stream:
    """Peptides of length 9 offered to 12 alleles; +1 is a binder.

    A peptide is described by its pairs of neighbouring amino acids, 20 x 20 counts,
    scaled to unit length (a log-determinant penalty fixes a scale, so rows need one)
    unless ``normalise=False``. Features use no label and no other peptide: nothing
    looks ahead. ``x`` is (n, 400) dense.

    Raises MissingData where the file is not there, and DamagedData where it is another one.
    """
    data_dir = data_directory(data_dir)
    path = located("mhc", find(data_dir), data_dir, PROVENANCE)
    rows = _rows(verified(path, SHA256))
    counts = pair_counts([peptide for _, peptide, _ in rows])
    return Stream(
        name="mhc",
        task=np.array([task for task, _, _ in rows], dtype=np.int64),
        x=unit_rows(counts) if normalise else counts,
        y=np.array([1.0 if binder else -1.0 for _, _, binder in rows]),
        tasks=ALLELES,
        labels=("non-binder", "binder"),
        notes=(_ALLELES, _SCALE) if normalise else (_ALLELES,),
    )


def pair_counts(peptides: Sequence[str]) -> NDArray[np.float64]:
    """Count each pair of neighbouring amino acids, (n, 400).

    >>> counts = pair_counts(["AAAC"])
    >>> counts.shape, counts[0, :2]  # AA twice, AC once
    ((1, 400), array([2., 1.]))
    """
    place = {letter: i for i, letter in enumerate(AMINO_ACIDS)}
    k = len(AMINO_ACIDS)
    counts = np.zeros((len(peptides), k * k))
    for row, peptide in zip(counts, peptides, strict=True):
        for first, second in pairwise(peptide):
            row[k * place[first] + place[second]] += 1.0
    return counts


def _rows(content: bytes) -> list[tuple[int, str, bool]]:
    """Task, peptide and whether it binds, in the order of the file."""
    task = {allele: i for i, allele in enumerate(ALLELES)}
    table = csv.DictReader(io.StringIO(gzip.decompress(content).decode("ascii")))
    return [
        (task[row["allele"]], row["peptide"], row["binder"] == "1")
        for row in table
        if row["allele"] in task and len(row["peptide"]) == LENGTH
    ]


DATASET = Dataset(
    "mhc",
    "peptides and 12 MHC-I alleles",
    load,
    find,
    PROVENANCE.origin,
    PROVENANCE.place,
    {"unscaled": partial(load, normalise=False)},
)
