import io
import warnings
from collections import Counter

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import romco
from romco import ROMCOClassifier, ROMCORegressor

STREAM = romco.streams.simulated(n_tasks=4, n_features=8, n_events=60, outliers=1)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
X, Y = ROUNDS.x, np.where(ROUNDS.y > 0, "spam", "ham")
TASK = np.array([f"user {i}" for i in ROUNDS.task])

# No check of scikit-learn's is expected to fail with the default learner, nor for numbers.
NO_INTERCEPT = {
    "check_class_weight_classifiers": "asks for one class everywhere, which takes an intercept"
}


def expected_failures(estimator):
    plain = isinstance(estimator, ROMCOClassifier) and estimator.learner != "romco-auto"
    return NO_INTERCEPT if plain else {}


@parametrize_with_checks(
    [ROMCOClassifier(), ROMCORegressor()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
@parametrize_with_checks(
    [
        ROMCOClassifier("romco-nucl"),
        ROMCOClassifier("romco-nucl", loss="logistic"),
        ROMCOClassifier("ogd-unique"),
        ROMCORegressor("arow-unique"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks_of_further_learners(estimator, check):
    passes(estimator, check)


def passes(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks pass odd data on purpose
        check(estimator)


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd", "ogd-unique", "ogd-global"])
def test_estimator_equals_learner(name):
    bare = romco.learner(name, 8, 4)
    estimator = ROMCOClassifier(name, shuffle=False, epochs=1).fit(X, Y, task=ROUNDS.task)
    bare.replay(ROUNDS)
    order = estimator.tasks_
    np.testing.assert_allclose(estimator.coef_, bare.weights().T[order], rtol=1e-9, atol=1e-12)
    margins = estimator.decision_function(X, task=ROUNDS.task)
    np.testing.assert_allclose(margins, bare.predict(ROUNDS.events), rtol=1e-9, atol=1e-12)


def test_partial_fit_equals_learner_to_the_last_bit():
    estimator = ROMCOClassifier("ogd-unique", new_task="zero")
    for begin in range(0, 240, 48):
        part = slice(begin, begin + 48)
        estimator.partial_fit(X[part], Y[part], classes=["ham", "spam"], task=TASK[part])
    bare = romco.learner("ogd-unique", 8, 4)
    bare.replay(ROUNDS)
    numbers = [int(name.split()[1]) for name in estimator.tasks_]
    np.testing.assert_array_equal(estimator.coef_, bare.weights().T[numbers])


@pytest.mark.parametrize("convert", [np.asarray, csr_array, pd.DataFrame, pl.DataFrame])
def test_kinds_of_input_agree(convert):
    columns = {} if convert in (np.asarray, csr_array) else {"columns": list("abcdefgh")}
    if convert is pl.DataFrame:
        columns = {"schema": list("abcdefgh")}
    rows = convert(X, **columns)
    estimator = ROMCOClassifier("romco-nucl", random_state=0).fit(rows, Y, task=pd.Series(TASK))
    expected = ROMCOClassifier("romco-nucl", random_state=0).fit(X, Y, task=TASK)
    np.testing.assert_allclose(
        estimator.decision_function(rows, task=pl.Series(TASK)),
        expected.decision_function(X, task=TASK),
        atol=1e-9,
    )
    if columns:
        assert estimator.feature_names_in_.tolist() == list("abcdefgh")
        assert estimator.model_.features.name(2) == "c"


def test_fitted_attributes():
    estimator = ROMCOClassifier("romco-nucl", random_state=0).fit(X, Y, task=TASK)
    assert estimator.classes_.tolist() == ["ham", "spam"]
    assert sorted(estimator.tasks_) == [f"user {i}" for i in range(4)]
    assert estimator.n_features_in_ == 8
    np.testing.assert_allclose(estimator.coef_, estimator.shared_ + estimator.personal_)
    singular = np.linalg.svd(estimator.shared_, compute_uv=False)
    np.testing.assert_allclose(
        estimator.singular_values_, singular[: len(estimator.singular_values_)]
    )
    norms = np.linalg.norm(estimator.personal_, axis=1)
    np.testing.assert_allclose(estimator.personal_norms_, norms, atol=1e-12)
    probabilities = estimator.predict_proba(X, task=TASK)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert estimator.score(X, Y, task=TASK) > 0.75
    assert estimator.explain().n_tasks == 4
    plain = ROMCOClassifier("ogd-unique").fit(X, Y, task=TASK)
    with pytest.raises(AttributeError, match="shared and personal"):
        _ = plain.shared_
    with pytest.raises(AttributeError, match="not fitted"):
        _ = ROMCOClassifier("romco-nucl").coef_


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * romco.LEARNERS[name].keeps_events)
        for name in romco.LEARNERS
    ],
)
def test_linear_attributes_are_what_is_answered_or_they_are_absent(name):
    method = romco.LEARNERS[name]
    if name == "classes" or "number" in name:
        pytest.skip("of other targets")
    estimator = ROMCOClassifier(name, random_state=0).fit(X, Y, task=TASK)
    if estimator.model_.engine.learner.linear:
        at = np.array([estimator.tasks_.tolist().index(task) for task in TASK])
        told = (X * estimator.coef_[at]).sum(axis=1) + estimator.intercept_[at]
        margins = estimator.decision_function(X, task=TASK)
        np.testing.assert_allclose(told, margins, rtol=1e-9, atol=1e-9)
        return
    assert not hasattr(estimator, "coef_"), method
    for attribute in ("coef_", "intercept_"):
        with pytest.raises(AttributeError, match=r"romco.reasons.*shared_ and personal_"):
            getattr(estimator, attribute)
    assert estimator.shared_.shape == estimator.personal_.shape == (4, 8)


def test_reasons_of_rows_add_up_to_the_margins():
    for rows in (X[:5], csr_array(X[:5])):
        estimator = ROMCOClassifier(random_state=0).fit(X, Y, task=TASK)
        found = estimator.reasons(rows, task=[*TASK[:4], "nobody"])
        margins = estimator.decision_function(rows, task=[*TASK[:4], "nobody"])
        sums = [one.intercept + sum(each.total for each in one.features) for one in found]
        np.testing.assert_allclose(sums, margins, atol=1e-9)
        assert [one.task_known for one in found] == [True] * 4 + [False]
        assert {one.label for one in found} == {"spam"}


def test_without_task_all_rows_are_one_task():
    estimator = ROMCOClassifier("romco-nucl", random_state=0).fit(X, Y)
    assert estimator.tasks_.tolist() == ["all"]
    assert estimator.coef_.shape == (1, 8)
    assert estimator.predict(X).shape == (240,)


def test_new_task_is_predicted():
    estimator = ROMCOClassifier("romco-nucl", random_state=0).fit(X, Y, task=TASK)
    mean = estimator.shared_.mean(axis=0)
    got = estimator.decision_function(X, task=["somebody new"] * len(X))
    np.testing.assert_allclose(got, X @ mean, atol=1e-10)


@pytest.mark.parametrize("learner", ["romco-nucl", "romco-logd"])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic"])
def test_every_loss_reaches_the_learner(learner, loss):
    estimator = ROMCOClassifier(learner, loss=loss, epochs=1, shuffle=False, lambda1=0.01)
    estimator.fit(X, Y, task=TASK)
    assert estimator.model_.engine.learner.parameters["loss"] == loss
    names = list(estimator.tasks_)
    bare = romco.learner(learner, 8, len(names), loss=loss, lambda1=0.01)
    task = np.array([names.index(name) for name in TASK])
    y = np.where(np.asarray(Y) == estimator.classes_[1], 1.0, -1.0)
    bare.replay(romco.Rounds(task, X, y, range(len(y) + 1)))
    np.testing.assert_allclose(estimator.coef_, bare.weights().T, atol=1e-12)
    probabilities = estimator.predict_proba(X, task=TASK)
    assert ((probabilities >= 0.0) & (probabilities <= 1.0)).all()
    chosen = estimator.classes_[(probabilities[:, 1] >= 0.5).astype(int)]
    assert (chosen == estimator.predict(X, task=TASK)).all()
    assert log_loss(Y, probabilities) < np.log(2.0)


def test_a_loss_among_further_parameters_is_left_alone():
    estimator = ROMCOClassifier("romco-nucl", parameters={"loss": "logistic"}).fit(X, Y)
    assert estimator.model_.engine.learner.parameters["loss"] == "logistic"
    assert ROMCOClassifier("trml").fit(X, Y).model_.engine.learner.parameters["loss"] == "logistic"


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="classes="):
        ROMCOClassifier("romco-nucl").partial_fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="unknown learner 'guess'; known are"):
        ROMCOClassifier("guess").fit(X, Y)
    with pytest.raises(ValueError, match="no parameter 'eta1'"):
        ROMCOClassifier("ogd-unique", eta1=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="cannot learn with loss='logistic'"):
        ROMCOClassifier("ogd-unique", loss="logistic").fit(X, Y)
    estimator = ROMCOClassifier("romco-nucl").fit(X, Y, task=TASK)
    with pytest.raises(ValueError, match="task="):
        estimator.predict(X)
    with pytest.raises(ValueError, match="entries"):
        estimator.predict(X, task=TASK[:3])
    with pytest.raises(ValueError, match="first call had"):
        estimator.partial_fit(X, Y, classes=["eggs", "spam"], task=TASK)


def test_parameters_reach_the_learner():
    estimator = ROMCOClassifier("romco-nucl", eta1=0.25, parameters={"max_rank": 2}).fit(
        X, Y, task=TASK
    )
    parameters = estimator.model_.engine.learner.parameters
    assert (parameters["eta1"], parameters["max_rank"]) == (0.25, 2)
    assert clone(estimator).get_params()["eta1"] == 0.25


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_task_travels_through_pipelines_searches_and_cross_validation():
    def requested():
        return (
            ROMCOClassifier("romco-nucl", random_state=0)
            .set_fit_request(task=True)
            .set_predict_request(task=True)
            .set_score_request(task=True)
        )

    pipeline = make_pipeline(StandardScaler(), requested())
    pipeline.fit(X, Y, task=TASK)
    assert len(pipeline[-1].tasks_) == 4
    assert pipeline.predict(X, task=TASK).shape == (240,)
    scores = cross_validate(requested(), X, Y, params={"task": TASK}, cv=3)
    assert scores["test_score"].mean() > 0.7
    search = GridSearchCV(requested(), {"eta1": [0.01, 0.5]}, cv=3).fit(X, Y, task=TASK)
    assert len(search.best_estimator_.tasks_) == 4


NAMES = list("abcdefgh")
FRAME = pd.DataFrame(X, columns=NAMES).assign(user=TASK)


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        (FRAME, "user"),
        (pl.from_pandas(FRAME), "user"),
        (np.column_stack([ROUNDS.task, X]), 0),
        (csr_array(np.column_stack([X, ROUNDS.task])), 8),
    ],
)
def test_task_in_a_column_is_the_task_beside(rows, column):
    beside = ROMCOClassifier("romco-nucl", random_state=0).fit(X, Y, task=TASK)
    within = ROMCOClassifier("romco-nucl", random_state=0, task_column=column).fit(rows, Y)
    assert within.coef_.shape == (4, 8)
    np.testing.assert_array_equal(
        within.decision_function(rows), beside.decision_function(X, task=TASK)
    )
    with pytest.raises(ValueError, match="leave out task="):
        within.predict(rows, task=TASK)


def test_task_in_a_column_goes_where_routing_does_not():
    estimator = ROMCOClassifier(random_state=0, task_column="user")
    scores = cross_validate(estimator, FRAME, Y, cv=3, scoring=["roc_auc", "neg_log_loss"])
    assert scores["test_roc_auc"].mean() > 0.7
    assert cross_val_predict(estimator, FRAME, Y, cv=3).shape == (240,)
    assert CalibratedClassifierCV(estimator, cv=3).fit(FRAME, Y).predict(FRAME).shape == (240,)
    scaled = ColumnTransformer(
        [("scaled", StandardScaler(), NAMES)],
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    search = GridSearchCV(
        make_pipeline(scaled, estimator),
        {"romcoclassifier__learner": ["romco-auto", "pa-shared"]},
        scoring="roc_auc",
        cv=3,
    ).fit(FRAME, Y)
    assert search.best_score_ > 0.7
    with pytest.raises(ValueError, match="no column 'user'"):
        estimator.fit(FRAME[NAMES], Y)
    with pytest.raises(ValueError, match="number as task_column"):
        estimator.fit(X, Y)
    with pytest.raises(ValueError, match="none of the columns"):
        ROMCOClassifier(task_column=8).fit(X, Y)


@pytest.mark.parametrize(
    "task",
    [
        pd.Series(TASK, index=range(1000, 1240), dtype="category"),
        pd.Series(TASK, dtype="string[pyarrow]"),
        pd.Index(TASK),
        pd.DataFrame({"user": TASK}),
        pl.Series(TASK, dtype=pl.Categorical),
        TASK.astype(object),
        TASK.tolist(),
        tuple(TASK),
    ],
)
def test_tasks_come_in_any_form(task):
    estimator = ROMCOClassifier("pa-unique").fit(X, Y, task=task)
    assert sorted(estimator.tasks_) == sorted(set(TASK.tolist()))


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame(X, columns=NAMES).convert_dtypes(),
        pd.DataFrame(X, columns=NAMES).convert_dtypes(dtype_backend="pyarrow"),
        pd.DataFrame(X, columns=NAMES).astype(pd.SparseDtype(float, 0.0)),
    ],
)
def test_columns_of_other_kinds_are_numbers_all_the_same(rows):
    estimator = ROMCOClassifier("pa-unique", random_state=0).fit(rows, Y, task=TASK)
    plain = ROMCOClassifier("pa-unique", random_state=0).fit(X, Y, task=TASK)
    np.testing.assert_array_equal(estimator.coef_, plain.coef_)


def test_tasks_of_other_kinds():
    pairs = [("shop", int(i)) for i in ROUNDS.task]
    estimator = ROMCOClassifier("pa-unique").fit(X, Y, task=pairs)
    assert set(estimator.tasks_) == set(pairs)
    named = ROMCOClassifier("pa-unique").fit(X, Y, task=TASK)
    one = named.predict(X, task="user 1")
    np.testing.assert_array_equal(one, named.predict(X, task=["user 1"] * 240))
    for missing in (pd.NA, None, np.nan, pd.NaT):
        with pytest.raises(ValueError, match="task is missing"):
            ROMCOClassifier("pa-unique").fit(X, Y, task=[missing, *TASK[1:]])


def test_fitting_again_forgets_what_was_before():
    estimator = ROMCOClassifier("pa-unique").fit(X, Y, task=TASK)
    assert estimator.fit(X[:, :3], Y).coef_.shape == (1, 3)
    with pytest.raises(ValueError, match="epochs"):
        ROMCOClassifier(epochs=0).fit(X, Y)


def test_a_first_part_that_is_refused_leaves_the_estimator_unfitted():
    estimator = ROMCOClassifier("pa-unique")
    with pytest.raises(ValueError, match="missing"):
        estimator.partial_fit(X, Y, task=[None, *TASK[1:]])
    assert not hasattr(estimator, "model_")


@pytest.mark.parametrize("name", list(romco.LEARNERS))
def test_every_learner_fits_and_survives_joblib(name):
    estimator = ROMCOClassifier(name, epochs=1).fit(X, Y, task=TASK)
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    buffer.seek(0)
    again = joblib.load(buffer)
    np.testing.assert_array_equal(again.predict(X, task=TASK), estimator.predict(X, task=TASK))


def test_import_romco_does_not_load_scikit_learn():
    import subprocess
    import sys

    code = "import sys, romco; sys.exit('sklearn' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


RNG = np.random.default_rng(0)
MANY_X = RNG.normal(size=(400, 3))
MODES = np.array(["bus", "car", "train"])[
    (MANY_X @ RNG.normal(size=(3, 3)) + 0.3 * RNG.gumbel(size=(400, 3))).argmax(axis=1)
]
SHOPS = np.tile(["north", "south"], 200)


@pytest.mark.parametrize("learner", ["romco-auto", "arow-shared", "romco-nucl"])
def test_many_classes(learner):
    estimator = ROMCOClassifier(learner, random_state=0).fit(MANY_X, MODES, task=SHOPS)
    assert estimator.classes_.tolist() == ["bus", "car", "train"]
    assert estimator.score(MANY_X, MODES, task=SHOPS) > 0.7
    chances = estimator.predict_proba(MANY_X, task=SHOPS)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    likeliest = estimator.classes_[chances.argmax(axis=1)]
    np.testing.assert_array_equal(likeliest, estimator.predict(MANY_X, task=SHOPS))
    with pytest.raises(AttributeError, match=r"reasons\(X, task\)"):  # answers are coupled
        _ = estimator.coef_
    again = clone(estimator).fit(MANY_X[::-1], MODES[::-1], task=SHOPS[::-1])
    np.testing.assert_allclose(again.predict_proba(MANY_X, task=SHOPS), chances, atol=1e-6)


def test_classes_are_named_before_they_come():
    estimator = ROMCOClassifier()
    estimator.partial_fit(MANY_X[:1], MODES[:1], classes=["train", "car", "bus"], task="north")
    assert estimator.classes_.tolist() == ["bus", "car", "train"]
    with pytest.raises(ValueError, match="'boat' is not one of the classes"):
        estimator.partial_fit(MANY_X[:1], ["boat"], task="north")
    with pytest.raises(ValueError, match="but the first call had"):
        estimator.partial_fit(MANY_X[:1], MODES[:1], classes=["bus", "car"], task="north")
    assert estimator.model_.events == 1


def test_weights_of_rows_and_classes():
    plain = ROMCOClassifier(random_state=0).fit(MANY_X, MODES)
    heavy = ROMCOClassifier(random_state=0, class_weight={"bus": 5.0}).fit(MANY_X, MODES)
    both = ROMCOClassifier(random_state=0).fit(
        MANY_X, MODES, sample_weight=np.where(MODES == "bus", 5.0, 1.0)
    )
    np.testing.assert_array_equal(heavy.predict(MANY_X), both.predict(MANY_X))
    assert (heavy.predict(MANY_X) == "bus").sum() > (plain.predict(MANY_X) == "bus").sum()
    ROMCOClassifier(class_weight="balanced").fit(MANY_X, MODES)
    weight = np.random.default_rng(1).random(400)
    part = ROMCOClassifier().partial_fit(MANY_X, MODES, sample_weight=weight)
    assert part.model_.events == 400
    for bad in ("equal", 3, {"bus": -1.0}):
        with pytest.raises(ValueError, match=r"class_weight|positive"):
            ROMCOClassifier(class_weight=bad).fit(MANY_X, MODES)
    with pytest.raises(ValueError, match="needs all rows"):
        ROMCOClassifier(class_weight="balanced").partial_fit(MANY_X, MODES)
    with pytest.raises(ValueError, match="at least one non-zero"):
        ROMCOClassifier().fit(MANY_X, MODES, sample_weight=np.zeros(400))
    with pytest.raises(ValueError, match="romco-nucl cannot"):
        ROMCOClassifier("romco-nucl").partial_fit(
            MANY_X[:9], MODES[:9] == "bus", [True, False], sample_weight=np.full(9, 0.5)
        )


def test_what_a_row_teaches_does_not_depend_on_weights_beside_it():
    weight = np.array([2.0, 1.0, 0.5, 3.0])
    one, several = ROMCOClassifier(), ROMCOClassifier()
    several.partial_fit(MANY_X[:4], MODES[:4], list(set(MODES)), sample_weight=weight)
    for k in range(4):
        row = slice(k, k + 1)
        one.partial_fit(MANY_X[row], MODES[row], list(set(MODES)), sample_weight=weight[row])
    np.testing.assert_array_equal(one.decision_function(MANY_X), several.decision_function(MANY_X))


LEVEL = MANY_X @ np.array([3.0, -1.0, 0.5]) + np.where(SHOPS == "north", 40.0, 60.0)


@pytest.mark.parametrize("learner", ["romco-auto", "arow-unique", "ogd-unique", "pa-unique"])
def test_numbers(learner):
    estimator = ROMCORegressor(learner, random_state=0).fit(MANY_X, LEVEL, task=SHOPS)
    assert estimator.score(MANY_X, LEVEL, task=SHOPS) > 0.9
    if learner == "romco-auto":  # features are centred
        with pytest.raises(AttributeError, match="reasons"):
            _ = estimator.coef_
    else:
        at = (estimator.tasks_[None, :] == SHOPS[:, None]).argmax(axis=1)
        told = (MANY_X * estimator.coef_[at]).sum(axis=1) + estimator.intercept_[at]
        np.testing.assert_allclose(told, estimator.predict(MANY_X, task=SHOPS), rtol=1e-9)
    scaled = clone(estimator).fit(MANY_X, 1000.0 * LEVEL - 7.0, task=SHOPS)
    np.testing.assert_allclose(
        scaled.predict(MANY_X, task=SHOPS),
        1000.0 * estimator.predict(MANY_X, task=SHOPS) - 7.0,
        rtol=1e-6,
    )


def test_intervals_of_numbers():
    estimator = ROMCORegressor(random_state=0).fit(MANY_X, LEVEL, task=SHOPS)
    low, high = estimator.predict_interval(MANY_X, task=SHOPS, level=0.8).T
    predicted = estimator.predict(MANY_X, task=SHOPS)
    assert ((low < predicted) & (predicted < high)).all()
    assert np.isfinite(estimator.predict_interval(MANY_X[:2], task="new")).all()
    part = ROMCORegressor(epochs=1, shuffle=False).fit(MANY_X, LEVEL, task=SHOPS)
    again = ROMCORegressor().partial_fit(MANY_X, LEVEL, task=SHOPS)
    np.testing.assert_array_equal(
        part.predict(MANY_X, task=SHOPS), again.predict(MANY_X, task=SHOPS)
    )


@pytest.mark.parametrize("frame", [False, True])
def test_save_and_load_give_the_estimator_back(frame, tmp_path):
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(40, 3)), rng.choice(["no", "yes"], 40), rng.choice(["a", "b"], 40)
    X = pd.DataFrame(X, columns=["u", "v", "w"]) if frame else X
    first = ROMCOClassifier("romco-nucl", eta1=0.3, epochs=2, random_state=3).fit(X, y, task=task)
    romco.save(first, tmp_path / "e.romco")
    again = romco.load(tmp_path / "e.romco")
    assert type(again) is ROMCOClassifier
    assert again.get_params() == first.get_params()
    np.testing.assert_array_equal(
        again.predict_proba(X, task=task), first.predict_proba(X, task=task)
    )
    np.testing.assert_array_equal(again.classes_, first.classes_)
    for estimator in (first, again):
        estimator.partial_fit(X, y, task=task)
    np.testing.assert_array_equal(again.coef_, first.coef_)
    assert romco.peek(tmp_path / "e.romco")["summary"]["learner"] == "romco-nucl"


def test_estimators_of_other_targets_come_back(tmp_path):
    for first, y in (
        (ROMCOClassifier(random_state=0), MODES),
        (ROMCORegressor(task_column=0, random_state=0), LEVEL),
    ):
        rows = np.column_stack([SHOPS == "north", MANY_X])
        romco.save(first.fit(rows, y), tmp_path / "e.romco")
        again = romco.load(tmp_path / "e.romco")
        assert type(again) is type(first)
        np.testing.assert_array_equal(again.predict(rows), first.predict(rows))


def test_an_estimator_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        romco.save(ROMCOClassifier(), tmp_path / "e.romco")
    assert not list(tmp_path.iterdir())


def test_fit_of_the_default_learner_is_one_pass_and_explain_counts_rows():
    estimator = ROMCOClassifier(shuffle=False).fit(X, Y, task=TASK)
    model = romco.Model("romco-auto", romco.Columns(X.shape[1]), classes=("ham", "spam"))
    model.learn(X, Y.tolist(), TASK.tolist())
    expected = model.margins(X, TASK.tolist())
    np.testing.assert_array_equal(estimator.decision_function(X, TASK), expected)
    with pytest.raises(ValueError, match="leave epochs out"):
        ROMCOClassifier(epochs=2).fit(X, Y, task=TASK)
    for name in ("romco-auto", "romco-nucl"):  # the second goes over them five times
        found = ROMCOClassifier(name).fit(X, Y, task=TASK).explain()
        assert found.events == len(X)
        assert {task.task: task.events for task in found.tasks} == Counter(TASK)


def test_more_passes_are_learned_where_they_are_allowed():
    twice = ROMCOClassifier("pa-unique", epochs=2, shuffle=False, new_task="zero")
    twice.fit(X, Y, task=TASK)
    by_hand = ROMCOClassifier("pa-unique", new_task="zero").partial_fit(X, Y, task=TASK)
    by_hand.partial_fit(X, Y, task=TASK)
    np.testing.assert_array_equal(twice.coef_, by_hand.coef_)


def test_rows_that_need_no_check_are_learned_as_checked_ones():
    checked, plain = ROMCOClassifier(), ROMCOClassifier()
    for one in (checked, plain):
        one.partial_fit(X[:50], Y[:50], task=TASK[:50])
    for i in range(50, 90):
        checked.partial_fit(X[i : i + 1].tolist(), [Y[i]], task=[TASK[i]])
        plain.partial_fit(X[i : i + 1], np.asarray(Y[i : i + 1]), task=TASK[i : i + 1])
    np.testing.assert_array_equal(checked.shared_, plain.shared_)
    np.testing.assert_array_equal(checked.personal_, plain.personal_)
    bad = X[:1].copy()
    bad[0, 0] = np.nan
    new = np.array(["never seen"])
    for refused, y, why in ((bad, Y, "NaN"), (X[:1, :2], Y, "2 features"), (X[:1], new, "never")):
        with pytest.raises(ValueError, match=why):
            plain.partial_fit(refused, y[:1], task=TASK[:1])
    np.testing.assert_array_equal(checked.shared_, plain.shared_)


def test_tasks_given_by_position_are_told():
    with pytest.raises(ValueError, match=r"write partial_fit\(X, y, task=...\)"):
        ROMCOClassifier().partial_fit(X, Y, TASK)
    estimator = ROMCOClassifier("pa-unique").fit(X, Y, TASK)  # here it is the third argument
    with pytest.raises(ValueError, match=r"write score\(X, y, task=...\)"):
        estimator.score(X, Y, TASK)


def test_frames_of_numbers_and_dates_have_the_fitted_columns():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(240), unit="D")
    frame = pd.DataFrame({"size": X[:, 0], "day": days, "band": pd.cut(X[:, 1], 3)})
    one_kind = ROMCOClassifier().fit(frame[["size", "day"]], Y)
    assert len(one_kind.predict(frame[["size", "day"]])) == 240
    fitted = ROMCOClassifier().fit(frame, Y)
    turned = fitted.predict(frame[["band", "day", "size"]])
    np.testing.assert_array_equal(fitted.predict(frame), turned)
    with pytest.raises(ValueError, match="X lacks columns that were fitted: day"):
        fitted.predict(frame[["size", "band"]])
    with pytest.raises(ValueError, match="X has columns that were not fitted: hue"):
        fitted.partial_fit(frame.assign(hue=1.0), Y)


def test_a_task_column_that_a_transformer_hides_is_told():
    frame = pd.DataFrame({"user": TASK, "size": X[:, 0], "colour": ["red", "blue", "green"] * 80})
    parts = [("size", StandardScaler(), ["size"]), ("user", "passthrough", ["user"])]
    plain = make_pipeline(ColumnTransformer(parts), ROMCOClassifier(task_column="user"))
    with pytest.raises(ValueError, match=r"set_output\(transform='pandas'\)"):
        plain.fit(frame, Y)
    named = ColumnTransformer(parts).set_output(transform="pandas")
    with pytest.raises(ValueError, match="task_column='user__user'"):
        make_pipeline(named, ROMCOClassifier(task_column="user")).fit(frame, Y)
    make_pipeline(named, ROMCOClassifier(task_column="user__user")).fit(frame, Y)
    told = ColumnTransformer(parts, verbose_feature_names_out=False)
    told.set_output(transform="pandas")
    fitted = make_pipeline(told, ROMCOClassifier(task_column="user")).fit(frame, Y)
    assert set(fitted[-1].tasks_) == set(TASK)
    sparse = ColumnTransformer([("colour", OneHotEncoder(), ["colour"])], sparse_threshold=1.0)
    with pytest.raises(ValueError, match="sparse_threshold=0"):
        make_pipeline(sparse, ROMCOClassifier(task_column="user")).fit(frame, Y)


def test_gaps_in_an_array_are_answered_by_what_takes_them():
    X, y = np.array([[1.0, 2.0], [0.0, 1.0]] * 5), [0, 1] * 5
    gaps = np.where(X == 2.0, np.nan, X)
    model = ROMCOClassifier().fit(X, y)
    for refuse in (
        lambda: ROMCOClassifier().fit(gaps, y),
        lambda: model.partial_fit(gaps, y),
        lambda: model.predict(gaps),
    ):
        with pytest.raises(ValueError, match=r"X contains NaN: give a data frame.*or impute"):
            refuse()


def test_the_last_column_may_be_the_task():
    X = np.array([[1.0, 0.0, 7.0], [0.0, 1.0, 8.0]] * 5)
    last = ROMCOClassifier(task_column=-1).fit(X, [0, 1] * 5)
    assert last.tasks_.tolist() == [7.0, 8.0]
    assert last.n_features_in_ == 2
    with pytest.raises(ValueError, match="task_column=-4 is none of the columns"):
        ROMCOClassifier(task_column=-4).fit(X, [0, 1] * 5)


@pytest.mark.parametrize("make", [np.asarray, csr_array])
def test_columns_of_very_different_size_are_named_to_who_does_not_scale(make):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(40, 3)) * [1.0, 10.0, 1e5], ["ann", "bob"] * 20
    y = np.where(X[:, 0] > 0.0, "yes", "no")
    with pytest.warns(UserWarning, match=r"times larger than others, and 'pa-unique' takes them"):
        romco.ROMCOClassifier("pa-unique").fit(make(X), y, task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        romco.ROMCOClassifier().fit(make(X), y, task=task)
        romco.ROMCOClassifier("pa-unique").fit(make(X / [1.0, 10.0, 1e5]), y, task=task)
