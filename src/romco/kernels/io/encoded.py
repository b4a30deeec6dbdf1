"""Rows whose features are numbers of names."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.lexicon import Lexicon


class Encoded(NamedTuple):
    """Sparse rows: entry k has ``values[k]`` for the name ``lexicon.names[names[k]]``.

    Row i holds the entries ``starts[i]`` to ``starts[i + 1]``, in the order of its cells; a name
    may occur twice in a row, and its values are then to be added.
    """

    values: NDArray[np.float64]
    names: NDArray[np.int32]
    starts: NDArray[np.int64]
    lexicon: Lexicon

    def rows(self, begin: int, end: int) -> "Encoded":
        """Rows begin to end."""
        first, last = self.starts[begin], self.starts[end]
        starts = self.starts[begin : end + 1] - first
        return Encoded(self.values[first:last], self.names[first:last], starts, self.lexicon)

    def at(self, rows: NDArray[np.intp]) -> "Encoded":
        """Some of the rows, in the order asked for."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.arange(starts[-1]) + np.repeat(self.starts[:-1][rows] - starts[:-1], sizes)
        return Encoded(self.values[entries], self.names[entries], starts, self.lexicon)


def join_encoded(blocks: list[Encoded]) -> Encoded:
    """Return blocks of one lexicon end to end."""
    if len(blocks) == 1:
        return blocks[0]
    values, names, starts, lexicons = zip(*blocks, strict=True)
    sizes = np.concatenate([np.diff(one) for one in starts])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return Encoded(np.concatenate(values), np.concatenate(names), ends, lexicons[0])
