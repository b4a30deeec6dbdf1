"""The one noun that travels: events that are predicted together and then learned together."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

# scipy.sparse doubles the time `import romco` takes: it is loaded when sparse rows come.
if TYPE_CHECKING:
    from scipy.sparse import csr_array

Features: TypeAlias = "NDArray[np.float64] | csr_array"


class Round(NamedTuple):
    """Events that are predicted together and then learned together.

    One event is a round of length 1, a micro-batch a round of length n, and the
    paper's synchronous setting a round with one event per task. ``offset`` is added to the margin
    and never learned: log-odds of +1, or a number in the target's unit.

    >>> import numpy as np
    >>> Round(np.array([2]), np.array([[0.5, 1.0]]), np.array([1.0])).task
    array([2])
    """

    task: NDArray[np.int64]  # (n,)   which task each event belongs to
    x: Features  # (n, d) float64
    y: NDArray[np.float64]  # (n,)   -1 or +1, or what else the learner takes; NaN if not known yet
    weight: NDArray[np.float64] | None = None  # (n,) how much each event counts; None: all 1
    offset: NDArray[np.float64] | None = None  # (n,) known part of margins; classes: (n, K)


class Rounds(Sequence[Round]):
    """A sequence of rounds held in single arrays, end to end, as compiled code wants them.

    ``rounds[i]`` is a :class:`Round`, ``rounds[i:j]`` again :class:`Rounds`; both are views. Round
    i has the events ``starts[i]`` to ``starts[i + 1] - 1``; ``starts`` is (T + 1,).

    >>> import numpy as np
    >>> rounds = Rounds([0, 1, 0], np.eye(3), [1.0, -1.0, 1.0], starts=[0, 2, 3])
    >>> len(rounds), rounds[0].task
    (2, array([0, 1]))
    """

    def __init__(
        self,
        task: ArrayLike,
        x: Features,
        y: ArrayLike,
        starts: ArrayLike,
        weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> None:
        self.task = np.ascontiguousarray(task, dtype=np.int64)
        self.x = x if is_sparse(x) else np.ascontiguousarray(x, dtype=np.float64)
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.weight = None if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
        self.offset = None if offset is None else np.ascontiguousarray(offset, dtype=np.float64)

    @classmethod
    def pack(cls, rounds: Iterable[Round]) -> "Rounds":
        """Join rounds end to end; rounds that are packed already are returned as they are."""
        if isinstance(rounds, Rounds):
            return rounds
        parts = list(rounds)
        if not parts:
            raise ValueError("no rounds to pack: give at least one")
        sizes = [len(part.y) for part in parts]
        return cls(
            np.concatenate([part.task for part in parts]),
            _stacked([part.x for part in parts]),
            np.concatenate([part.y for part in parts]),
            np.concatenate([[0], np.cumsum(sizes)]),
            _joined(parts, "weight", 1.0),
            _joined(parts, "offset", 0.0),
        )

    @property
    def events(self) -> Round:
        """All events as if they were one round, in the order of the stream."""
        return self._between(self.starts[0], self.starts[-1])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> "Rounds": ...
    def __getitem__(self, index: int | slice) -> "Round | Rounds":
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                raise ValueError("rounds can only be sliced without a step")
            starts = self.starts[first : max(first, last) + 1]
            return Rounds(self.task, self.x, self.y, starts, self.weight, self.offset)
        if not -len(self) <= index < len(self):
            raise IndexError(f"round {index} of {len(self)}")
        at = index % len(self)
        return self._between(self.starts[at], self.starts[at + 1])

    def _between(self, begin: int, end: int) -> Round:
        weight = None if self.weight is None else self.weight[begin:end]
        offset = None if self.offset is None else self.offset[begin:end]
        x = _rows(self.x, begin, end)
        return Round(self.task[begin:end], x, self.y[begin:end], weight, offset)


def chosen(round: Round, at: NDArray[np.bool_] | NDArray[np.int64]) -> Round:
    """Some events of a round, by a mask (n,) or by their numbers."""
    if at.dtype == np.bool_ and at.all():
        return round
    return round._replace(
        **{name: part[at] for name, part in round._asdict().items() if part is not None}
    )


def select(
    values: NDArray[np.float64] | None, at: "NDArray[np.int64] | slice"
) -> NDArray[np.float64] | None:
    """Return some entries of an array; None where there is none."""
    if values is None:
        return None
    return values[at]


def is_sparse(x: object) -> bool:
    """Return True for a SciPy sparse array or matrix."""
    return not isinstance(x, np.ndarray) and hasattr(x, "tocsr")


def _stacked(parts: Sequence[Features]) -> Features:
    if not any(is_sparse(part) for part in parts):
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(part) for part in parts], format="csr")


def _joined(parts: Sequence[Round], name: str, missing: float) -> NDArray[np.float64] | None:
    """Weights or offsets of all events; ``missing`` where a round has none, None if all lack it."""
    values = [getattr(part, name) for part in parts]
    if all(value is None for value in values):
        return None
    pairs = zip(parts, values, strict=True)
    return np.concatenate([np.full(len(p.y), missing) if v is None else v for p, v in pairs])


def _rows(x: Features, begin: int, end: int) -> Features:
    """Rows begin to end of x, without copying."""
    if isinstance(x, np.ndarray):
        return x[begin:end]
    if begin == 0 and end == x.shape[0]:
        return x
    from scipy.sparse import csr_array

    first, last = x.indptr[begin], x.indptr[end]
    parts = (x.data[first:last], x.indices[first:last], x.indptr[begin : end + 1] - first)
    return csr_array(parts, shape=(end - begin, x.shape[1]))
