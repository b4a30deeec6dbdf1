import numpy as np
import pytest
from numpy.testing import assert_allclose

from romco_lab.datasets import movies
from romco_lab.datasets.storage import DamagedData, MissingData

USERS, MOVIES, RATINGS = 60, 90, 3000


def made_up_ratings():
    """A table as that of MovieLens, but smaller; the first 20 users rate most."""
    rng = np.random.default_rng(0)
    weight = np.repeat(np.where(np.arange(USERS) < 20, 4.0, 1.0), MOVIES)
    pairs = rng.choice(USERS * MOVIES, RATINGS, replace=False, p=weight / weight.sum())
    user, movie = np.divmod(pairs, MOVIES)
    return np.column_stack(
        [user + 1, movie + 1, rng.integers(1, 6, RATINGS), rng.permutation(RATINGS)]
    )


def write(data_dir, ratings):
    path = data_dir / "ml-100k" / "u.data"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in ratings.tolist()))
    return path


@pytest.fixture(scope="module")
def ratings():
    with pytest.MonkeyPatch.context() as patch:
        for name in ("USERS", "MOVIES", "RATINGS"):
            patch.setattr(movies, name, globals()[name])
        yield made_up_ratings()


def load(data_dir, n_users=6, n_movies=40, **choices):
    return movies.load(data_dir, n_users, n_movies, **choices)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory, ratings):
    root = tmp_path_factory.mktemp("data")
    write(root, ratings)
    return root


def test_original_layout(data_dir):
    stream = load(data_dir)
    assert (stream.n_tasks, stream.n_events, stream.n_features) == (6, 240, USERS - 6)
    np.testing.assert_array_equal(np.bincount(stream.task), 40)
    assert stream.labels == ("dislike", "like")
    lengths = np.linalg.norm(stream.x, axis=1)
    assert_allclose(lengths[lengths > 0], 1.0)


def test_the_seed_chooses_the_users(data_dir):
    assert load(data_dir).tasks == load(data_dir).tasks
    assert load(data_dir).tasks != load(data_dir, seed=1).tasks


def test_no_feature_holds_a_label(data_dir, ratings, tmp_path):
    """Turn every rating of every task user over: all labels change, no feature does."""
    before = load(data_dir, normalise=False)
    tasks = [int(name.split()[1]) for name in before.tasks]
    turned = ratings.copy()
    mine = np.isin(ratings[:, 0], tasks)
    turned[mine, 2] = np.where(ratings[mine, 2] >= movies.LIKE, 1, 5)
    write(tmp_path, turned)
    after = load(tmp_path, normalise=False)
    np.testing.assert_array_equal(after.x, before.x)
    np.testing.assert_array_equal(after.y, -before.y)


def test_opinions_are_the_centred_ratings_of_others():
    ratings = np.array([[1, 1, 5, 0], [2, 1, 4, 0], [2, 3, 2, 0], [4, 2, 3, 0]])
    expected = np.zeros((4, 2))  # movie 0 does not exist; the others are users 2 and 4
    expected[1, 0], expected[3, 0] = 1.0, -1.0
    np.testing.assert_array_equal(movies.opinions(ratings, np.array([1])), expected)


def test_events_are_in_order_of_time(data_dir, ratings):
    stream = load(data_dir, n_users=1, n_movies=20)
    mine = ratings[ratings[:, 0] == int(stream.tasks[0].split()[1])]
    likes = np.where(mine[np.argsort(mine[:, 3]), 2] >= movies.LIKE, 1.0, -1.0).tolist()
    remaining = iter(likes)  # the chosen events are a subsequence of the user's, by time
    assert all(y in remaining for y in stream.y.tolist())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2].rsplit("\n", 1)[0], "has .* ratings"),
        (lambda text: text.rsplit("\t", 1)[0], "four whole numbers"),
        (lambda text: text.replace("\t", ";", 1), "four whole numbers"),
        (lambda text: "", "has 0 ratings"),
        (lambda text: text.replace("\t3\t", "\t9\t"), "ratings of 1 to 5"),
    ],
    ids=["half", "last cell gone", "semicolon", "empty", "rating of 9"],
)
def test_damaged_originals_are_refused(data_dir, tmp_path, change, message):
    text = (data_dir / "ml-100k" / "u.data").read_text()
    (tmp_path / "u.data").write_text(change(text))
    with pytest.raises(DamagedData, match=message):
        load(tmp_path)


def test_too_few_busy_users(data_dir):
    with pytest.raises(ValueError, match="users have 89 ratings, 6 wanted"):
        load(data_dir, n_movies=89)


def test_no_data(tmp_path):
    with pytest.raises(MissingData, match="grouplens"):
        load(tmp_path)
