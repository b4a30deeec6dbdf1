"""States of ROMCO that were tampered with by somebody who knows the checks.

``python -m tests.kernels.mutations FIRST LAST`` mutates, loads and uses one state for each number
of that range, and prints one line for each before it is tried, so that a crash can be named.
"""

import sys

import numpy as np
from scipy.sparse import csr_array

import romco
from romco.kernels.romco import personal
from romco.learners import romco as learners

STEPS = {"eta1": 0.3, "eta2": 0.2, "lambda1": 0.02, "lambda2": 0.01}
KINDS = {  # name: learner, features, tasks, most tasks with a column each, parameters
    "few": ("romco-nucl", 40, 3, 64, {}),
    "few hashed": ("romco-nucl", 40, 3, 64, {}),
    "many": ("romco-nucl", 40, 9, 0, {}),
    "many hashed": ("romco-nucl", 40, 9, 0, {}),
    "logdet": ("romco-logd", 30, 5, 64, {}),
}
SIZES = (
    0,
    1,
    2,
    3,
    15,
    16,
    17,
    63,
    64,
    65,
    255,
    256,
    257,
    2**31 - 1,
    2**31,
    2**32,
    2**62,
    2**63 - 1,
)


def stream(rng, d, m, n=40):
    """Sparse rows of few features, most of which are left alone for long."""
    nnz = 3
    columns = np.sort(np.argsort(rng.random((n, d)), axis=1)[:, :nnz], axis=1)
    x = csr_array(
        (rng.standard_normal(n * nnz) / 2, columns.ravel(), np.arange(n + 1) * nnz), (n, d)
    )
    starts = np.concatenate([np.arange(0, n // 2), np.arange(n // 2, n + 1, 4)])
    return romco.Rounds(rng.integers(0, m, n), x, rng.choice([-1.0, 1.0], n), starts)


def choose(kind):
    """Set both limits at which learners of that kind store things another way."""
    learners.MAX_ONE_SIDED_TASKS = KINDS[kind][3]
    personal.DENSE_NUMBERS = 0 if "hashed" in kind else 4_000_000


def honest(kind):
    """A state as a learner gives it, after enough events to have closed blocks of epochs."""
    choose(kind)
    name, d, m, _, more = KINDS[kind]
    learner = romco.learner(name, d, m, **STEPS, **more)
    learner.replay(stream(np.random.default_rng(7), d, m, n=700))
    return learner.state()


def mutate(rng, arrays):
    """Change one to three things, often so that what is compared with them changes too."""
    for _ in range(rng.integers(1, 4)):
        CHANGES[rng.integers(len(CHANGES))](rng, arrays)


def change_number(rng, arrays):
    """One entry of any array."""
    name = rng.choice(sorted(arrays))
    flat = arrays[name].reshape(-1).copy()
    if flat.size == 0:
        return
    at = rng.integers(min(flat.size, 64)) if rng.random() < 0.7 else rng.integers(flat.size)
    if flat.dtype.kind == "i":
        most = np.iinfo(flat.dtype).max
        old, near = int(flat[at]), int(rng.integers(-3, 4))
        wish = (old + near, min(int(rng.choice(SIZES)), most), -1, 2 * old, old // 2, -old)
        flat[at] = np.clip(wish[rng.integers(len(wish))], -most, most)
    else:
        flat[at] = rng.choice([0.0, -1.0, 1e-300, 1e300, -1e150, flat[at] * 2, np.nan])
    arrays[name] = flat.reshape(arrays[name].shape)


def change_shape(rng, arrays):
    """Cut an array, lengthen it, drop it, or give it an axis so long that it holds nothing."""
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    axis = rng.integers(array.ndim)
    way = rng.integers(6)
    if way == 0 and len(arrays) > 1:
        del arrays[name]
    elif way == 1:
        arrays[name] = np.take(array, range(array.shape[axis] // 2), axis)
    elif way == 2:
        arrays[name] = np.concatenate(
            [array, np.take(array, range(array.shape[axis] // 2), axis)], axis
        )
    elif way == 3 and array.ndim == 2:
        shape = [0, 0]
        shape[axis] = int(rng.choice([2**32, 3_435_973_837, 2**40, 2**59]))
        arrays[name] = np.empty(shape, dtype=array.dtype)
    elif way == 4:
        arrays[name] = np.take(array, range(max(0, array.shape[axis] - 1)), axis)
    else:
        arrays[name] = array.astype(rng.choice(["f8", "i8", "i4", "f4"]))


def side(rng, arrays):
    return "right_" if "right_counts" in arrays and rng.random() < 0.5 else "left_"


def change_transform(rng, arrays):
    """Another shape for one transform, and often the same change for its neighbours."""
    name = side(rng, arrays) + "shapes"
    if name not in arrays or arrays[name].ndim != 2 or len(arrays[name]) < 64:
        return
    if arrays[name].shape[1] < 2:  # another change took it away
        return
    shapes = arrays[name].copy()
    axis, by = rng.integers(2), rng.choice([-1, 1, 3, 30, 300, 2**20, 2**32, 2**62])
    first = rng.integers(0, 40)
    shapes[first : first + rng.choice([1, 1, 2, 16, 64]), axis] += by
    arrays[name] = shapes


def change_counts(rng, arrays):
    """Counts that move together: epochs, columns, the ring."""
    name = side(rng, arrays) + "counts"
    if name not in arrays or arrays[name].shape != (10,):
        return
    counts = arrays[name].copy()
    groups = (
        [0],
        [1],
        [2],
        [3],
        [4],
        [5],
        [6],
        [7],
        [8],
        [9],
        [0, 1],
        [1, 2],
        [0, 1, 2],
        [3, 5],
        [3, 5, 6],
        [5, 6],
    )
    which = groups[rng.integers(len(groups))]
    with np.errstate(over="ignore"):
        counts[which] += rng.choice([-64, -16, -1, 1, 2, 5, 16, 48, 2**20, 2**31, 2**62])
    arrays[name] = counts


def change_heads(rng, arrays):
    """Ages and counts of rows."""
    name = side(rng, arrays) + "heads"
    if (
        name not in arrays
        or arrays[name].ndim != 2
        or arrays[name].shape[1] != 3
        or not len(arrays[name])
    ):
        return
    heads = arrays[name].copy()
    rows = rng.integers(0, len(heads), rng.choice([1, len(heads)]))
    heads[rows, rng.integers(3)] += rng.choice([-16, -3, -1, 1, 3, 16])
    arrays[name] = heads


def change_tables(rng, arrays):
    """Sizes of hash tables that still add up, or do so by wrapping around."""
    if "personal_rooms" not in arrays or arrays["personal_rooms"].size < 2:
        return
    rooms = arrays["personal_rooms"].copy()
    i, j = rng.permutation(len(rooms))[:2]
    if rng.random() < 0.5:
        rooms[i], rooms[j] = rooms[j], rooms[i]
    else:
        rooms[i], rooms[j] = 2**62, 2**62
    arrays["personal_rooms"] = rooms


CHANGES = (
    change_number, change_number, change_shape, change_transform, change_transform,
    change_counts, change_counts, change_heads, change_tables,
)  # fmt: skip


def use(state, rng):
    """What a program does with a learner that it loaded."""
    with np.errstate(all="ignore"):
        learner = romco.restore(state)
        d, m = learner.n_features, learner.n_tasks
        rounds = stream(rng, d, m, n=120)
        try:
            learner.predict(next(iter(rounds)))
            learner.replay(rounds)
            dense = romco.Round(rounds.task[:6], rounds.x[:6].toarray(), rounds.y[:6])
            for _ in range(20):
                learner.update(dense)
            learner.weights()
            romco.restore(learner.state()).predict(dense)
        except (FloatingPointError, RuntimeError, np.linalg.LinAlgError):
            return


def attempt(seed, states):
    """True where the state was taken."""
    rng = np.random.default_rng(seed)
    kind = sorted(KINDS)[seed % len(KINDS)]
    choose(kind)
    state = states[kind]
    arrays = dict(state["arrays"])
    mutate(rng, arrays)
    try:
        use({**state, "arrays": arrays}, rng)
    except ValueError:
        return False
    return True


def main(first, last):
    states = {kind: honest(kind) for kind in KINDS}
    taken = 0
    for seed in range(first, last):
        print(seed, flush=True)
        taken += attempt(seed, states)
    print("taken", taken, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
