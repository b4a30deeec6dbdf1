import base64
import hashlib

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_array

import romco
from romco.explanations import explain
from romco.explanations.explanation import WEAK_EVIDENCE
from romco.explanations.text import describe_kinds, headline, tasks_table
from romco.learners.capabilities import Decomposed
from romco.model import Hashed, Model, Names
from romco.presentation.page import SCRIPT

STREAM = romco.streams.simulated(n_tasks=8, n_features=10, n_events=150, outliers=1, seed=2)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
TASKS = [f"user {i}" for i in ROUNDS.task]


def learned(name="romco-nucl", features=None):
    model = Model(name, features, classes=(-1, 1))
    rows = [{f"<f{j}>": v for j, v in enumerate(x)} for x in ROUNDS.x.tolist()]
    model.learn(rows, ROUNDS.y.tolist(), TASKS)
    return model


MODEL = learned()


def test_numbers_are_those_of_the_learner():
    found, learner = explain(MODEL), MODEL.engine.learner
    numbers = MODEL.engine.tasks.numbers([task.task for task in found.tasks])
    U, V = learner.shared()[:, numbers], learner.personal()[:, numbers]
    np.testing.assert_allclose([t.shared for t in found.tasks], np.linalg.norm(U, axis=0))
    np.testing.assert_allclose([t.personal for t in found.tasks], np.linalg.norm(V, axis=0))
    np.testing.assert_allclose(found.spectrum, learner.singular_values())
    assert (found.n_tasks, found.n_features, found.events) == (8, 10, 1200)
    personal = [task.personal for task in found.tasks]
    assert personal == sorted(personal, reverse=True)
    assert [t.events for t in found.tasks] == [150] * 8
    first = found.tasks[0]
    v = V[:, 0]
    name, weight = first.features[0]
    assert name == f"<f{np.argmax(np.abs(v))}>"
    assert weight == pytest.approx(v[np.argmax(np.abs(v))])
    W = U + V
    cosines = W[:, 0] @ W / np.linalg.norm(W, axis=0) / np.linalg.norm(W[:, 0])
    assert first.nearest[0][1] == pytest.approx(np.sort(cosines)[-2])
    assert 0.0 <= first.share <= 1.0


def test_learner_without_parts_is_split_at_the_mean():
    found = explain(learned("ogd-unique"))
    assert found.rank == 1
    assert len({task.shared for task in found.tasks}) == 1
    assert "mean" in found.notes[0]


def test_bare_learner_and_fresh_model():
    assert explain(MODEL.engine.learner).n_tasks == 8
    empty = explain(Model())
    assert (empty.rank, empty.tasks) == (0, ())
    assert "rank 0" in str(empty)
    assert "singular values none" in empty.page()


FACTORED = ["romco-nucl", "romco-logd", "romco-auto", "pa-shared", "arow-shared"]


@pytest.mark.parametrize("features", [Names, lambda: Hashed(2**18)])  # dense arrays and tables
@pytest.mark.parametrize("name", FACTORED)
def test_no_dense_weights_are_laid_out(name, features, monkeypatch):
    model = learned(name, features())
    learner, tasks = model.engine.learner, model.engine.tasks.numbers(model.tasks)
    d = min(learner.n_features, 64) if isinstance(model.features, Names) else learner.n_features
    assert d == learner.n_features
    U, V = learner.shared()[:, tasks], learner.personal()[:, tasks]
    singular = learner.singular_values()
    if name == "romco-auto":  # effects per standard deviation of a column
        spread = learner.feature_moments()[1][:, None]
        U, V = spread * U, spread * V
    evidence = learner.difference()
    if evidence is None:
        evidence = np.linalg.norm(V, axis=0)
    else:
        evidence = np.maximum(evidence, WEAK_EVIDENCE)
    order = np.argsort(-evidence, kind="stable")
    for part in ("weights", "shared", "personal"):
        monkeypatch.setattr(type(learner), part, None)
    found = explain(model, top=3)
    assert [task.task for task in found.tasks] == [model.tasks[i] for i in order]
    lengths = np.linalg.norm(U, axis=0)[order]
    np.testing.assert_allclose([t.shared for t in found.tasks], lengths, rtol=1e-9)
    np.testing.assert_allclose(found.spectrum, singular, rtol=1e-8, atol=1e-10)
    W = U + V
    cosines = W.T @ W / np.outer(np.linalg.norm(W, axis=0), np.linalg.norm(W, axis=0))
    np.fill_diagonal(cosines, -2.0)
    for task, i in zip(found.tasks[:3], order, strict=False):
        assert [value for _, value in task.nearest] == pytest.approx(np.sort(cosines[i])[:-4:-1])
        v = np.abs(V[:, i])
        assert [abs(value) for _, value in task.features] == pytest.approx(np.sort(v)[:-6:-1])
    assert found.tasks[3].nearest == ()


def test_a_learner_of_ones_own_with_parts_is_explained():
    class Own(Decomposed, romco.Learner):
        name = "own"
        predict = update = arrays = NotImplemented

        def shared_factors(self):
            return np.ones((3, 1)), np.ones((2, 1))

        def personal_sparse(self):
            return csc_array(np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))

    found = explain(Own(n_features=3, n_tasks=2))
    assert found.tasks[0].task == 1
    assert found.tasks[0].features == ((1, 2.0),)
    np.testing.assert_allclose(found.spectrum, [np.sqrt(6)])
    assert found.tasks[0].nearest[0] == (0, pytest.approx(5 / np.sqrt(33)))


def test_the_page_says_how_often_it_was_looked_at():
    assert "every 1,000" in explain(MODEL).page()
    assert "every 1,000" not in explain(MODEL.engine.learner).page()


def test_text_and_page_tell_the_same_and_escape_names():
    found = explain(MODEL)
    text, page = str(found), found.page()
    assert headline(found) in text
    assert "user 3" in text
    assert "user 3" in page
    assert "<f" not in page.replace("<figure", "").replace("<figcaption", "")
    assert "&lt;f" in page
    assert "src=" not in page
    assert "href=" not in page
    assert "<script" not in found._repr_html_()
    assert "user 3" in found._repr_html_()


def test_no_name_becomes_part_of_the_page_or_its_script():
    bad = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    model = Model("romco-auto")
    model.learn([{bad: 1.0}, {"b": 1.0}] * 9, [bad, "no"] * 9, [bad, "bob"] * 9)
    page = explain(model).page()
    assert page.count("<script>") == 1
    assert f"<script>{SCRIPT}</script>" in page
    assert "<img" not in page
    assert "&lt;img src=x" in page
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page  # a browser runs this one only


def test_the_page_fits_a_phone_and_the_dark_and_names_the_positive_class():
    model = Model("romco-auto", classes=("ham", "spam"))
    model.learn([{"a": 1.0}, {"b": 1.0}], ["spam", "ham"], ["ann", "bob"])
    found = explain(model)
    page = found.page()
    assert '<meta name="viewport" content="width=device-width' in page
    assert "prefers-color-scheme: dark" in page
    assert "sortable stacked" in page
    for told in (str(found), page):
        assert "predicts the label (spam or not)" in told


@pytest.mark.parametrize("seed", [0, 11, 13])
def test_kinds_and_different_tasks_are_one_statement(seed):
    stream = romco.streams.simulated(12, 20, 60, rank=1, outliers=3, seed=seed)
    learner = romco.learner("romco-auto", 20, 12)
    learner.replay(romco.streams.interleaved(stream, seed=0))
    found = explain(learner)
    assert {t.task for t in found.personal} == set(learner.personal_tasks().tolist())
    assert [t.kind == "different" for t in found.tasks] == [t.different for t in found.tasks]
    assert sum(found.kinds.values()) == 12
    [kinds] = describe_kinds(found)
    assert f"{len(found.personal)} different" in kinds
    assert kinds in str(found)
    assert kinds in found.page()
    assert "Different:" not in str(found)


@pytest.mark.parametrize("target", ["number", "two classes", "classes"])
def test_tasks_with_next_to_no_events_do_not_come_first(target):
    rng = np.random.default_rng(0)
    weights = np.tile(rng.normal(size=5), (20, 1))
    weights[:3] *= -1.0  # three that differ from the rest
    task = np.concatenate([np.repeat(np.arange(20), 60), np.arange(20, 60)])
    rng.shuffle(task)
    weights = np.vstack([weights, np.tile(weights[-1], (40, 1))])
    x = rng.normal(size=(len(task), 5))
    y = (weights[task] * x).sum(axis=1)
    y[task >= 20] *= -5.0  # one odd event of each of the others
    if target != "number":
        bounds = {"two classes": [0.0], "classes": [-1.0, 1.0]}[target]
        y = np.array(["a", "b", "c"])[np.digitize(y, bounds)]
    model = Model(target=target)
    rows = [dict(zip("uvwxy", row, strict=True)) for row in x.tolist()]
    model.learn(rows, y.tolist(), task.tolist())
    found = explain(model, top=5).tasks
    assert {t.task for t in found[:3]} == {0, 1, 2}
    kinds = [t.different for t in found]
    assert kinds == sorted(kinds, reverse=True)


@pytest.mark.parametrize("target", ["number", "two classes"])
def test_where_no_task_differs_those_with_most_events_come_first(target):
    rng = np.random.default_rng(1)
    counts = np.repeat([100, 2, 1], [20, 40, 40])
    task = rng.permutation(np.repeat(np.arange(100), counts))
    x = rng.normal(size=(len(task), 4))
    y = x @ rng.normal(size=4) + rng.normal(size=len(task))
    if target != "number":
        y = np.where(y > 0, "a", "b")
    model = Model(target=target)
    rows = [dict(zip("uvwx", row, strict=True)) for row in x.tolist()]
    model.learn(rows, y.tolist(), task.tolist())
    assert [t.events for t in explain(model).tasks[:20]] == [100] * 20


def test_a_single_task_is_not_different_from_others():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3))
    model = Model(target="classes")
    rows = [dict(zip("uvw", row, strict=True)) for row in x.tolist()]
    model.learn(rows, np.array(["a", "b", "c"])[x.argmax(axis=1)].tolist(), ["all"] * len(x))
    found = explain(model)
    assert found.n_tasks == 1
    for text in (str(found), found.page()):
        assert "Kinds of tasks" not in text
        assert "Task by task" not in text


def test_a_different_task_with_a_twin_is_told_so():
    rng = np.random.default_rng(0)
    weights = np.repeat(rng.normal(size=(10, 1)), 12, axis=1)
    weights[:, :2] = rng.normal(size=(10, 1))  # two that are unlike the rest, and the same
    weights[:, 2] = rng.normal(size=10)  # one that is unlike all
    x, task = rng.normal(size=(3600, 10)), np.tile(np.arange(12), 300)
    y = np.where((x * weights[:, task].T).sum(axis=1) > 0, 1.0, -1.0)
    learner = romco.learner("romco-auto", 10, 12)
    learner.replay(romco.Rounds(task, x, y, np.arange(3601)))
    nearest = {one.task: one.nearest[0] for one in explain(learner).personal}
    assert set(nearest) == {0, 1, 2}
    assert (nearest[0][0], nearest[1][0]) == (1, 0)
    assert nearest[0][1] > 0.9 > nearest[2][1]


def test_every_task_is_on_the_page_and_groups_have_members():
    found = explain(learned("romco-auto"))
    page = found.page()
    for task in found.tasks:
        assert f">{task.task}<" in page
    for group in found.groups:
        assert len({task.group for task in group}) == 1
        assert f"Group of {len(group)} similar tasks: {group[0].task}" in str(found)
    assert found.groups


@pytest.mark.parametrize("target", ["two classes", "number"])
def test_tasks_that_mean_nothing_form_no_groups(target):
    random = np.random.default_rng(0)
    x, task = random.normal(size=(600, 4)), random.integers(12, size=600)
    y = x[:, 0] + random.normal(size=600)
    if target == "two classes":
        y = y > 0.0
    model = romco.Model(features=romco.Columns(4), target=target)
    model.learn(x, y.tolist(), task.tolist())
    found = explain(model)
    assert not found.groups
    assert not found.personal


def test_romco_auto_says_what_it_found():
    stream = romco.streams.simulated(n_tasks=12, n_features=20, n_events=150, rank=1, outliers=2)
    learner = romco.learner("romco-auto", 20, 12)
    learner.replay(romco.streams.interleaved(stream, seed=0))
    found = explain(learner)
    [kinds] = describe_kinds(found)
    assert "2 different (" in kinds
    assert [len(group) for group in found.groups] == [10, 2]
    for told in (kinds, "Group of 10 similar tasks"):
        assert told in found.page()
        assert told in str(found)


def test_many_classes_are_explained_too():
    model = romco.Model(target="classes")
    rows = [{name: 1.0} for name in "abc"] * 6
    model.learn(rows, ["a", "b", "c"] * 6, ["ann", "bob"] * 9)
    found = explain(model, task="ann").tasks[0]
    assert [name for name, _ in found.nearest] == ["bob"]
    names = {f"{feature} for {label}" for feature in "abc" for label in "abc"}
    assert {name for name, _ in found.features} <= names
    assert len(romco.explain(model).tasks) == 2


def test_which_features_speak_for_which_class():
    rng = np.random.default_rng(0)
    x = [{"left": a, "up": b} for a, b in rng.normal(size=(300, 2)).tolist()]
    y = ["up" if r["up"] > 0.5 else "left" if r["left"] > 0 else "none" for r in x]
    model = romco.Model(target="classes")
    model.learn(x, y, [f"u{i % 4}" for i in range(300)])
    found = explain(model)
    told = str(found)
    assert "For up: up +" in told
    assert "For left: left +" in told
    assert sum(found.kinds.values()) == 4
    assert found.kinds["different"] == 0  # all answer alike
    assert any(" for " in str(name) for name, _ in found.tasks[0].features)


def test_which_features_move_a_number():
    rng = np.random.default_rng(0)
    x = [{"a": a, "b": b} for a, b in rng.normal(size=(100, 2)).tolist()]
    model = romco.Model("romco-nucl", target="number")
    model.learn(x, [90.0 + 4.0 * r["b"] for r in x], ["ann"] * 100)
    lines = str(explain(model)).splitlines()
    at = lines.index("Common to all tasks: the largest effects")
    assert lines[at + 1].startswith("column  change of the prediction per ")
    name, effect = lines[at + 2].split()
    assert (name, effect[0]) == ("b", "+")


def rats(n=1500, m=8, seed=0):
    """Tasks differ in their level and in the slope of a column in grams."""
    rng = np.random.default_rng(seed)
    model = romco.Model(classes=("no", "yes"))
    grams, plot = rng.normal(180.0, 40.0, n), rng.integers(3, size=n)
    task = rng.integers(m, size=n)
    level = np.linspace(-3.0, 3.0, m)
    slope = np.where(np.arange(m) % 2, 1.5, -1.5)
    margin = level[task] + slope[task] * (grams - 180.0) / 40.0 + 0.1 * (plot == 1)
    y = np.where(margin + rng.logistic(size=n) > 0, "yes", "no")
    rows = [{"grams": g, "plot": f"p{p}"} for g, p in zip(grams.tolist(), plot, strict=True)]
    model.learn(rows, y.tolist(), [f"t{k}" for k in task])
    return model, task, y


def test_effects_are_per_standard_deviation_of_a_column():
    model, _, _ = rats()
    found = explain(model)
    assert found.per_spread
    largest = [task.features[0][0] for task in found.tasks if abs(task.features[0][1]) > 0.5]
    assert largest.count("grams") > len(largest) // 2  # not the kind of plot
    twice = romco.Model(classes=("no", "yes"))
    assert explain(twice).effects == ()
    mean, spread = model.engine.learner.feature_moments()
    at = model.features.read([{"grams": 1.0}]).columns[0]
    assert mean[at] == pytest.approx(180.0, abs=4.0)
    assert spread[at] == pytest.approx(40.0, abs=3.0)


def test_the_level_of_a_task_is_given_first():
    model, task, y = rats()
    found = explain(model)
    level = {int(one.task[1:]): one.level for one in found.tasks}
    rate = [np.mean(y[task == k] == "yes") for k in range(8)]
    for k in range(8):
        assert level[k] == pytest.approx(rate[k], abs=0.12)
    lines = str(found).splitlines()
    assert lines[1].startswith("Probability of yes for an average event: from ")
    page = found.page()
    assert page.index("Probability of yes for an average event") < page.index("Kinds of tasks")
    assert "one bar for each task" in page
    one = explain(model, top=1, task="t5")
    (row,) = tasks_table(one, one.tasks[:1]).rows
    assert [cell.text for cell in row[:3]] == ["t5", f"{np.sum(task == 5)}", f"{level[5]:.0%}"]


def test_no_term_of_the_learner_is_in_the_sentences():
    text = str(explain(rats()[0]))
    for term in ("global margin", "alone logistic", "Heard most", "direction 1"):
        assert term not in text


def test_the_page_names_the_label_and_the_data(tmp_path):
    from typer.testing import CliRunner

    from romco.cli.main import app

    rows = [f"u{k % 4},{k % 9},{'yes' if k % 9 > 4 else 'no'}" for k in range(80)]
    (tmp_path / "orders.csv").write_text("\n".join(["user,size,returned", *rows]) + "\n")
    given = ["--task", "user", "--label", "returned", "--model", str(tmp_path / "m.romco")]
    done = CliRunner().invoke(app, ["learn", str(tmp_path / "orders.csv"), *given])
    assert done.exit_code == 0, done.output
    page = explain(romco.load(tmp_path / "m.romco")).page()
    assert "<h1>What predicts returned in orders.csv</h1>" in page
    assert "predicts returned (yes or not)" in page


def people_and_days(target):
    """Rows of people: age, home and member are theirs, sun, day and open change from row to row."""
    rng = np.random.default_rng(4)
    n, people = 1200, 30
    person = rng.integers(people, size=n)
    frame = pd.DataFrame(
        {
            "age": 20.0 + person,
            "home": np.array(["Rome", "Oslo", "Bern"])[person % 3],
            "member": person % 2,
            "sun": rng.normal(size=n),
            "day": np.array(["Mon", "Tue"])[rng.integers(2, size=n)],
            "open": rng.integers(2, size=n),
        }
    )
    slope = np.where(person % 2, 1.0, -1.0)
    margin = slope * (frame["sun"] + (frame["day"] == "Tue") + frame["open"]) + 0.3 * (person - 15)
    margin += rng.logistic(size=n)
    if target == "number":
        return frame, margin.tolist(), person.astype(str)
    if target == "classes":
        return frame, np.digitize(margin, [-1.0, 1.0]).astype(str).tolist(), person.astype(str)
    return frame, np.where(margin > 0, "yes", "no").tolist(), person.astype(str)


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("target", ["two classes", "number", "classes"])
def test_a_task_differs_only_in_columns_that_vary_within_it(tmp_path, target, fitted):
    frame, labels, person = people_and_days(target)
    model = romco.Model(**({} if target == "two classes" else {"target": target}))
    if fitted:
        model.fit(frame, labels, person)
    else:
        model.learn(frame, labels, person)
    romco.save(model, tmp_path / "m.romco")
    found = explain(romco.load(tmp_path / "m.romco"), top=30)
    named = {name.partition(" for ")[0] for task in found.tasks for name, _ in task.features}
    assert named == {"sun", "day=Mon", "day=Tue", "open"}


def test_gaps_are_no_zeros_in_the_spread_of_a_column():
    rng = np.random.default_rng(0)
    year = rng.integers(1977, 1983, size=600).astype(float)
    y = 500.0 + 10.0 * (year - 1980.0) + rng.normal(size=600)
    frame = pd.DataFrame({"born": np.where(np.arange(600) % 50 == 7, np.nan, year)})
    model = romco.Model(target="number")
    model.learn(frame, y.tolist(), ["a", "b"] * 300)
    ((name, effect),) = explain(model).effects
    assert name == "born"
    assert effect == pytest.approx(10.0 * np.nanstd(frame["born"]), rel=0.1)
