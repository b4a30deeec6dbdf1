"""``movies``: who likes which movie, from MovieLens 100K."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romco.streams.datasets import Dataset, data_directory
from romco.streams.stream import Stream
from romco_lab.datasets.storage import DamagedData, Provenance, first_existing, located, verified
from romco_lab.datasets.weighting import unit_rows

FILE = "movielens100k/u.data"
SHA256 = "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
ORIGINALS = ("ml-100k/u.data", "movielens100k/ml-100k/u.data", "u.data")
RATINGS, USERS, MOVIES = 100_000, 943, 1682
LIKE = 4  # a rating of 4 or 5 of 5

PROVENANCE = Provenance(
    origin="MovieLens 100K of GroupLens, https://grouplens.org/datasets/movielens/100k/",
    place=(FILE, *ORIGINALS),
    terms="research use, no redistribution; see its README",
)

_STANDS_IN = "MovieLens 100K stands in for EachMovie, which its owner has withdrawn"
_FEATURES = (
    "features are ratings by users who are not tasks, so no feature holds the label of any event; "
    "they include ratings given after the event (looks ahead at others' ratings, not at labels)"
)
_SCALE = "ratings are centred by the mean of the user who gave them and rows have unit length"


def find(data_dir: Path) -> Path | None:
    """The ratings file, or None if it is not there."""
    return first_existing(data_dir, (FILE, *ORIGINALS))


def load(
    data_dir: Path | None = None,
    n_users: int = 30,
    n_movies: int = 200,
    seed: int = 0,
    normalise: bool = True,
) -> Stream:
    """``n_users`` random users with at least ``n_movies`` ratings, that many random ones each.

    +1 is a rating of 4 or 5. A movie is described by the ratings of the users who are
    not tasks, less each one's mean, 0 where there is none; rows have unit length
    unless ``normalise=False``. ``x`` is (n_users * n_movies, 943 - n_users) dense and
    events are in order of time.

    Raises MissingData where the file is not there, and DamagedData where it is another one.
    """
    data_dir = data_directory(data_dir)
    ratings = read(located("movies", find(data_dir), data_dir, PROVENANCE))
    tasks, chosen = choose(ratings[:, 0], n_users, n_movies, np.random.default_rng(seed))
    chosen = chosen[np.argsort(ratings[chosen, 3], kind="stable")]
    user, movie, rating = ratings[chosen, :3].T
    x = opinions(ratings, tasks)[movie]
    return Stream(
        name="movies",
        task=np.searchsorted(tasks, user).astype(np.int64),
        x=unit_rows(x) if normalise else x,
        y=np.where(rating >= LIKE, 1.0, -1.0),
        tasks=tuple(f"user {task}" for task in tasks),
        labels=("dislike", "like"),
        notes=(_STANDS_IN, _FEATURES, _SCALE) if normalise else (_STANDS_IN, _FEATURES),
    )


def read(path: Path) -> NDArray[np.int64]:
    """User, movie, rating (1 to 5) and time of every rating, (100000, 4).

    The file in its own folder is verified by checksum, an original by its structure.
    """
    content = path.read_bytes()
    if path.parts[-2:] == tuple(FILE.split("/")):
        content = verified(path, SHA256)
    try:
        ratings = np.array(content.split(), dtype=np.int64).reshape(-1, 4)
    except ValueError as error:
        raise DamagedData(
            f"{path} is not a table of four whole numbers per line ({error}): unpack it again"
        ) from None
    found = (len(ratings), len(np.unique(ratings[:, 0])), len(np.unique(ratings[:, 1])))
    if found != (RATINGS, USERS, MOVIES) or not np.isin(ratings[:, 2], range(1, 6)).all():
        raise DamagedData(
            f"{path} has {found[0]} ratings, {found[1]} users and {found[2]} movies, expected "
            f"{RATINGS}, {USERS} and {MOVIES} with ratings of 1 to 5: unpack it again"
        )
    return ratings


def choose(
    user: NDArray[np.int64], n_users: int, n_events: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random users with at least ``n_events`` ratings (ascending), and that many rows of each.

    >>> user = np.array([7, 7, 8, 9, 9, 9])
    >>> tasks, rows = choose(user, 2, 2, np.random.default_rng(0))
    >>> tasks, np.sort(user[rows])
    (array([7, 9]), array([7, 7, 9, 9]))
    """
    names, n_ratings = np.unique(user, return_counts=True)
    busy = names[n_ratings >= n_events]
    if len(busy) < n_users:
        raise ValueError(f"only {len(busy)} users have {n_events} ratings, {n_users} wanted")
    tasks = np.sort(rng.choice(busy, n_users, replace=False))
    rows = [rng.choice(np.flatnonzero(user == task), n_events, replace=False) for task in tasks]
    return tasks, np.concatenate(rows)


def opinions(ratings: NDArray[np.int64], tasks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean-centred ratings by all users but ``tasks``, (largest movie + 1, other users)."""
    others = np.setdiff1d(ratings[:, 0], tasks)
    user, movie, rating = ratings[np.isin(ratings[:, 0], others), :3].T
    column = np.searchsorted(others, user)
    mean = np.bincount(column, weights=rating) / np.bincount(column)
    table = np.zeros((int(ratings[:, 1].max()) + 1, len(others)))
    table[movie, column] = rating - mean[column]
    return table


DATASET = Dataset(
    "movies",
    "30 users' tastes",
    load,
    find,
    PROVENANCE.origin,
    PROVENANCE.place,
    {"unscaled": partial(load, normalise=False)},
)
