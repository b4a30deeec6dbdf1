"""Offsets: a known part of each margin, from rounds to files, shards and the service."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.model import Columns, Hashed
from tests.reference.auto import Auto
from tests.reference.classes import Classes

RNG = np.random.default_rng(3)
N, D, M = 600, 3, 5
X = RNG.normal(size=(N, D))
TASK = RNG.integers(0, M, N)
OFFSET = 1.5 * RNG.normal(size=N)
OWN = RNG.normal(size=M)
Y = np.where(RNG.random(N) < 1.0 / (1.0 + np.exp(-OFFSET - OWN[TASK] - X[:, 0])), 1.0, -1.0)
NUMBER = 40.0 + OFFSET + OWN[TASK] + X[:, 0] + 0.1 * RNG.normal(size=N)
WHO = [f"u{k}" for k in TASK]
ROUNDS = romco.Rounds(TASK, X, Y, np.arange(N + 1), offset=OFFSET)


def model(target=None, **options):
    classes = None if target == "number" else (-1.0, 1.0)
    return romco.Model(features=Columns(D), target=target, classes=classes, **options)


def answers(target):
    return NUMBER if target == "number" else Y


@pytest.mark.parametrize("name", ["romco-auto", "romco-auto-number", "ogd-unique-number"])
def test_without_weights_the_prediction_is_the_offset(name):
    learner = romco.learner(name, D, M)
    np.testing.assert_allclose(learner.predict(ROUNDS.events), OFFSET, rtol=0, atol=1e-12)


def test_agrees_with_the_reference():
    learner, twin, expected = romco.learner("romco-auto", D, M), Auto(D, M), []
    n = 150
    weight = np.random.default_rng(0).choice([0.5, 1.0, 2.0], n)
    rounds = romco.Rounds(TASK[:n], X[:n], Y[:n], np.arange(n + 1), weight, OFFSET[:n])
    for (i,), x, y, h, o in rounds:
        expected.append(twin.predict(i, x[0], o[0]))
        twin.update([i], x, y, h, offsets=o)
    found = [learner.replay(rounds[k : k + 1])[0] for k in range(n)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_late_answers_agree_with_the_reference():
    learner, twin = romco.learner("romco-auto", D, M), Auto(D, M)
    learner.replay(ROUNDS[:60])
    for (i,), x, y, _, o in ROUNDS[:60]:
        twin.update([i], x, y, offsets=o)
    later = ROUNDS[60:160].events
    context = learner.prediction_context(later)
    said = [twin.said(i, x, o) for i, x, o in zip(later.task, later.x, later.offset, strict=True)]
    for k in range(len(said)):
        learner.update_delayed(ROUNDS[60 + k], context[k : k + 1])
        (i,), x, y, _, o = ROUNDS[60 + k]
        twin.update([i], x, y, said=[said[k]], offsets=o)
    found = learner.predict(later)
    expected = [
        twin.predict(i, x, o) for i, x, o in zip(later.task, later.x, later.offset, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["romco-auto-number", "pa-global-number", "arow-unique-number"])
def test_a_number_is_learned_as_what_is_left_of_it(name):
    learner, twin = romco.learner(name, D, M), romco.learner(name, D, M)
    starts = np.arange(0, N + 1, 3)
    found = learner.replay(romco.Rounds(TASK, X, NUMBER, starts, offset=OFFSET))
    rest = twin.replay(romco.Rounds(TASK, X, NUMBER - OFFSET, starts))
    np.testing.assert_allclose(found, rest + OFFSET, rtol=1e-12)
    for part, array in learner.arrays().items():
        np.testing.assert_array_equal(array, twin.arrays()[part])


def test_zeros_change_no_bits():
    learner, twin = romco.learner("romco-auto", D, M), romco.learner("romco-auto", D, M)
    plain = romco.Rounds(TASK, X, Y, np.arange(N + 1))
    zeros = romco.Rounds(TASK, X, Y, np.arange(N + 1), offset=np.zeros(N))
    np.testing.assert_array_equal(learner.replay(plain), twin.replay(zeros))
    for part, array in learner.arrays().items():
        np.testing.assert_array_equal(array, twin.arrays()[part])


def test_what_is_learned_is_what_the_offset_leaves():
    """With the true log-odds as offset nothing is left; without it the same must be learned."""
    rng = np.random.default_rng(0)
    x, task = rng.normal(size=(4000, 1)), rng.integers(0, 4, 4000)
    own = np.array([-2.0, -0.5, 0.5, 2.0])
    odds = 1.5 * x[:, 0] + own[task]
    y = np.where(rng.random(4000) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    starts = np.arange(4001)
    part = romco.learner("romco-auto", 1, 4)
    part.replay(romco.Rounds(task, x, y, starts, offset=1.5 * x[:, 0]))
    probe = romco.Round(np.arange(4), np.zeros((4, 1)), np.empty(0), offset=np.zeros(4))
    np.testing.assert_allclose(part.predict(probe), own, atol=0.45)


@pytest.mark.parametrize("target", [None, "number"])
def test_single_events_are_learned_as_batches(target, tmp_path):
    one, many = model(target), model(target)
    events = zip(X, answers(target).tolist(), WHO, OFFSET.tolist(), strict=True)
    singles = [one.learn_one(x, y, who, offset=o) for x, y, who, o in events]
    np.testing.assert_allclose(singles, many.learn(X, answers(target), WHO, offset=OFFSET))
    romco.save(many, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    margins = many.margins(X, WHO, offset=OFFSET)
    np.testing.assert_array_equal(again.margins(X, WHO, offset=OFFSET), margins)
    events = zip(X, WHO, OFFSET.tolist(), strict=True)
    found = [one.engine.margin_one(x, who, o) for x, who, o in events]
    late = slice(100, None)  # predictions from which on no answer is expected at once
    np.testing.assert_allclose(found[late], margins[late], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        many.margins(X, ["new"] * N, offset=OFFSET) - many.margins(X, ["new"] * N, offset=-OFFSET),
        2.0 * OFFSET,
        rtol=0.3 if target is None else 1e-9,
    )
    if target is None:  # probabilities are those of log-odds
        chances = 1.0 / (1.0 + np.exp(-margins))
        np.testing.assert_allclose(many.predict_proba(X, WHO, offset=OFFSET)[:, 1], chances)
    with pytest.raises(ValueError, match="learned with an offset"):
        again.margins(X, WHO)


def test_the_label_that_is_positive_has_the_offset():
    """Whatever the side of a label is to the learner."""
    one, other = romco.Model(features=Columns(D)), romco.Model(features=Columns(D))
    names, turned = np.where(Y > 0, "spam", "ham"), np.where(Y > 0, "ham", "spam")
    a = one.learn(X, names.tolist(), WHO, offset=OFFSET)
    b = other.learn(X, turned.tolist(), WHO, offset=-OFFSET)
    np.testing.assert_allclose(a, -b, rtol=1e-6, atol=1e-9)
    early = romco.Model(features=Columns(D))
    early.learn_one(X[0], "spam", "ann", offset=1.0)
    with pytest.raises(ValueError, match="name classes or positive"):
        early.learn_one(X[0], "ham", "ann", offset=1.0)
    assert early.classes == ("spam",)


@pytest.mark.parametrize("target", [None, "number"])
@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        ([0.1, np.nan, 0.2], "row 1: the offset is nan"),
        ([0.1, np.inf, 0.2], "row 1: the offset is inf"),
        ([0.1, 0.2], "offset has 2 entries"),
        ([[0.1], [0.2], [0.3]], "one offset per row"),
        (["a", "b", "c"], "one offset per row"),
        (None, "learned with an offset"),
    ],
)
def test_bad_offsets_change_nothing(target, offset, reason):
    made = model(target)
    made.learn(X[:50], answers(target)[:50], WHO[:50], offset=OFFSET[:50])
    before = made.state()
    with pytest.raises(ValueError, match=reason):
        made.learn(X[:3], answers(target)[:3], WHO[:3], offset=offset)
    with pytest.raises(ValueError, match=reason):
        made.margins(X[:3], WHO[:3], offset=offset)
    with pytest.raises(ValueError, match=reason):
        made.learn(X[:3], answers(target)[:3], WHO[:3], weight=[1.0, 0.0, 1.0], offset=offset)
    after = made.state()
    for name, array in before.pop("arrays").items():
        np.testing.assert_array_equal(array, after["arrays"][name])
    after.pop("arrays")
    assert before == after


def test_refused_where_it_was_not_learned():
    plain = model()
    plain.learn(X[:50], Y[:50], WHO[:50])
    with pytest.raises(ValueError, match="learned without an offset"):
        plain.learn(X[:3], Y[:3], WHO[:3], offset=OFFSET[:3])
    for learner in ("romco-nucl", "pa-unique"):
        with pytest.raises(ValueError, match=f"{learner} takes no offset"):
            model(learner=learner).learn(X[:3], Y[:3], WHO[:3], offset=OFFSET[:3])
        with pytest.raises(ValueError, match="takes no offset"):
            romco.learner(learner, D, M).update(ROUNDS[0])
        with pytest.raises(ValueError, match="takes no offset"):
            romco.learner(learner, D, M).predict(ROUNDS[0])


CLASSES = ("bus", "car", "rail")
SCORES = 1.5 * np.random.default_rng(5).normal(size=(N, 3))
HABITS = 2.0 * np.random.default_rng(6).normal(size=(M, 3))
CHOICES = (SCORES + HABITS[TASK] + np.random.default_rng(7).gumbel(size=(N, 3))).argmax(axis=1)


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("form", ["pairs", "rest"])
def test_classes_agree_with_the_reference(form):
    learner = romco.learner("classes", D, M, n_classes=3, form=form)
    first = romco.Round(TASK, X, CHOICES.astype(float), None, SCORES)
    np.testing.assert_allclose(learner.predict(first), log_softmax(SCORES), atol=1e-12)
    twin = Classes(D, M, "romco-auto", learner.pairs(), 3)
    weight = np.random.default_rng(8).choice([0.0, 0.5, 1.0], 200)
    for k in range(200):
        event = slice(k, k + 1)
        round = romco.Round(
            TASK[event], X[event], CHOICES[event].astype(float), weight[event], SCORES[event]
        )
        expected = twin.predict(TASK[k], X[k], SCORES[k])
        np.testing.assert_allclose(learner.predict(round)[0], expected, atol=1e-8)
        learner.update(round)
        twin.update(TASK[k], X[k], CHOICES[k], weight[k], SCORES[k])


def test_classes_in_a_model_learn_what_is_left(tmp_path):
    labels = [CLASSES[k] for k in CHOICES]
    made = romco.Model(features=Columns(D), target="classes", classes=CLASSES)
    np.testing.assert_allclose(made.margins(X, WHO, offset=SCORES), log_softmax(SCORES), atol=1e-12)
    margins = made.learn(X, labels, WHO, offset=SCORES)
    one = romco.Model(features=Columns(D), target="classes", classes=CLASSES)
    alone = [
        one.learn_one(x, label, who, offset=offset)
        for x, label, who, offset in zip(X[:50], labels, WHO, SCORES, strict=False)
    ]
    np.testing.assert_array_equal(alone, margins[:50])
    true = np.arange(300, N), CHOICES[300:]
    best = -log_softmax(SCORES + HABITS[TASK])[true].mean()
    assert best - 0.01 < -margins[true].mean() < best + 0.1 < -log_softmax(SCORES)[true].mean()
    romco.save(made, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    for other in (again, made):
        np.testing.assert_array_equal(
            other.margins(X, WHO, offset=SCORES), made.margins(X, WHO, offset=SCORES)
        )
    row = {"offset": SCORES[0]}
    assert again.predict_one(X[0], "u0", id=7, **row) == made.predict_one(X[0], "u0", **row)
    again.answer(7, "bus")
    made.learn_one(X[0], "bus", "u0", **row)
    np.testing.assert_array_equal(
        again.margins(X, WHO, offset=SCORES), made.margins(X, WHO, offset=SCORES)
    )


@pytest.mark.parametrize("k", [25, 40])
def test_many_classes_learn_what_is_left(k, tmp_path):
    rng = np.random.default_rng(9)
    n, task = 1200, rng.integers(M, size=1200)
    x, scores = rng.normal(size=(n, D)), 2.0 * rng.normal(size=(n, k)) - 0.1 * np.arange(k)[::-1]
    habits, who = 2.0 * rng.normal(size=(M, k)), [f"u{i}" for i in task]
    y = (scores + habits[task] + rng.gumbel(size=(n, k))).argmax(axis=1)
    made, one = (
        romco.Model(features=Columns(D), target="classes", classes=range(k)) for _ in range(2)
    )
    some = x[:50], who[:50]
    found = made.margins(*some, offset=scores[:50])
    np.testing.assert_allclose(found, log_softmax(scores[:50]), atol=1e-9)
    margins = made.learn(x, y.tolist(), who, offset=scores)
    alone = [one.learn_one(x[e], int(y[e]), who[e], offset=scores[e]) for e in range(50)]
    np.testing.assert_array_equal(alone, margins[:50])
    late = np.arange(800, n), y[800:]
    best, base = (-log_softmax(s)[late].mean() for s in (scores + habits[task], scores))
    assert -margins[late].mean() < 0.5 * (best + base)
    romco.save(made, tmp_path / "m.romco")
    np.testing.assert_array_equal(
        romco.load(tmp_path / "m.romco").margins(*some, offset=scores[:50]),
        made.margins(*some, offset=scores[:50]),
    )


@pytest.mark.parametrize(
    ("label", "offset", "reason"),
    [
        ("bus", SCORES[:1, :2], r"per row and class, \(n, 3\)"),
        ("bus", OFFSET[:1], r"per row and class, \(n, 3\)"),
        ("bus", [[0.0, np.nan, 0.0]], "the offset is nan"),
        ("bus", SCORES[:2], "offset has 2 entries"),
        ("bus", None, "learned with an offset"),
        ("ship", SCORES[:1], "a new label"),
    ],
)
def test_bad_offsets_of_classes_change_nothing(label, offset, reason):
    made = romco.Model(features=Columns(D), target="classes", classes=CLASSES)
    made.learn(X[:50], [CLASSES[k] for k in CHOICES[:50]], WHO[:50], offset=SCORES[:50])
    before = made.margins(X, WHO, offset=SCORES)
    with pytest.raises(ValueError, match=reason):
        made.learn(X[:1], [label], WHO[:1], offset=offset)
    if label == "bus":
        with pytest.raises(ValueError, match=reason):
            made.margins(X[:1], WHO[:1], offset=offset)
    np.testing.assert_array_equal(made.margins(X, WHO, offset=SCORES), before)
    assert made.events == 50


def test_classes_in_the_estimator():
    made = romco.ROMCOClassifier()
    labels = np.array(CLASSES)[CHOICES]
    made.fit(X[:400], labels[:400], task=TASK[:400], offset=SCORES[:400])
    loss = -np.log(made.predict_proba(X[400:], TASK[400:], SCORES[400:]))
    true = np.arange(N - 400), CHOICES[400:]
    assert loss[true].mean() < -log_softmax(SCORES[400:])[true].mean() - 0.1


def test_rows_of_weight_zero_are_only_predicted():
    one, other = model(), model()
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], N)
    found = one.learn(X, Y, WHO, weight=weight, offset=OFFSET)
    for k in range(N):
        if weight[k]:
            margin = other.learn_one(X[k], Y[k], WHO[k], weight[k], offset=float(OFFSET[k]))
        elif other.events:
            margin = other.margins(X[k : k + 1], WHO[k : k + 1], offset=OFFSET[k : k + 1])[0]
        else:
            margin = OFFSET[k]
        np.testing.assert_allclose(found[k], margin, rtol=1e-9, atol=1e-12)


def test_pending_events_keep_it():
    one, other = model(), model()
    for made in (one, other):
        made.learn(X[:50], Y[:50], WHO[:50], offset=OFFSET[:50])
    one.predict(X[50:52], WHO[50:52], id=["a", "b"], offset=OFFSET[50:52])
    one.answer("a", Y[50])
    other.learn_one(X[50], Y[50], WHO[50], offset=float(OFFSET[50]))
    probe = X, WHO
    np.testing.assert_allclose(
        one.margins(*probe, offset=OFFSET), other.margins(*probe, offset=OFFSET), atol=1e-9
    )


@pytest.mark.parametrize("number", [False, True])
def test_scikit_learn(number):
    pytest.importorskip("sklearn")
    kind = romco.ROMCORegressor if number else romco.ROMCOClassifier
    y = NUMBER if number else Y
    fitted = kind(shuffle=False).fit(X, y, task=WHO, offset=OFFSET)
    steps = kind()
    for k in range(0, N, 100):
        part = slice(k, k + 100)
        more = {} if number else {"classes": [-1.0, 1.0]}
        steps.partial_fit(X[part], y[part], task=WHO[part], offset=OFFSET[part], **more)
    given = {"task": WHO, "offset": OFFSET}
    np.testing.assert_allclose(fitted.predict(X, **given), steps.predict(X, **given))
    assert fitted.score(X, y, **given) > (0.99 if number else 0.7)
    with pytest.raises(ValueError, match="learned with an offset"):
        fitted.predict(X, task=WHO)
    with pytest.raises(ValueError, match=f"x has {N} rows but offset has 3"):
        kind().fit(X, y, task=WHO, offset=OFFSET[:3])


@pytest.mark.parametrize("number", [False, True])
def test_river(number):
    pytest.importorskip("river")
    from romco.adapters import river

    made = river.ROMCORegressor() if number else river.ROMCOClassifier()
    y = NUMBER.tolist() if number else (Y > 0).tolist()
    for k in range(100):
        made.learn_one({"a": X[k, 0]}, y[k], task=WHO[k], offset=float(OFFSET[k]))
    if number:
        low, high = (made.predict_one({"a": 0.0}, "new", offset=o) for o in (-2.0, 2.0))
        np.testing.assert_allclose(high - low, 4.0)
    else:
        high = made.predict_proba_one({"a": 0.0}, "new", offset=5.0)[True]
        assert high > 0.9 > made.predict_proba_one({"a": 0.0}, "new", offset=0.0)[True]


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_shards(engine):
    with romco.Shards("romco-auto", 2, Columns(D), classes=(-1.0, 1.0), engine=engine) as shards:
        np.testing.assert_allclose(
            shards.margins(X, WHO, offset=OFFSET), OFFSET, rtol=0, atol=1e-12
        )
        for k in range(0, N, 60):
            part = slice(k, k + 60)
            shards.learn(X[part], Y[part], WHO[part], offset=OFFSET[part])
        margins = shards.margins(X, WHO, offset=OFFSET)
        with pytest.raises(ValueError, match="learned with an offset"):
            shards.learn(X, Y, WHO)
        whole = shards.model()
    single = model()
    single.learn(X, Y, WHO, offset=OFFSET)
    expected = single.margins(X, WHO, offset=OFFSET)
    for found in (margins, whole.margins(X, WHO, offset=OFFSET)):
        assert np.sqrt(np.mean((found - expected) ** 2)) < 0.5


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert (result.exit_code != 0) == fails, result.output
    return result.output + str(result.exception or "")


@pytest.mark.parametrize("suffix", [".csv", pytest.param(".jsonl", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "more", [(), pytest.param(("--features", "a"), marks=pytest.mark.slow), ("--threads", "1")]
)
def test_command_line(tmp_path, suffix, more):
    labels = np.where(Y > 0, "yes", "no").tolist()
    names = ("who", "a", "base", "answer")
    cells = zip(WHO, X[:, 0].round(4).tolist(), OFFSET.round(4).tolist(), labels, strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in cells]
    source, file = tmp_path / f"f{suffix}", tmp_path / "m.romco"

    def write(some):
        if suffix == ".csv":
            lines = [",".join("" if v is None else str(v) for v in row.values()) for row in some]
            source.write_text("\n".join([",".join(names), *lines]) + "\n")
        else:
            source.write_text("".join(json.dumps(row) + "\n" for row in some))

    write(rows)
    columns = ("--task", "who", "--label", "answer", "--offset", "base")
    run("learn", source, "--model", file, *columns, *more)
    made = romco.Model(classes=("no", "yes"))
    x = [{"a": row["a"]} for row in rows]
    offset = [row["base"] for row in rows]
    made.learn(x, labels, WHO, offset=offset)
    found = romco.load(file)
    assert found.schema.offset == "base"
    margins = made.margins(x, WHO, offset=offset)
    np.testing.assert_allclose(found.margins(x, WHO, offset=offset), margins, atol=1e-12)
    printed = [json.loads(line) for line in run("predict", source, "--model", file).splitlines()]
    np.testing.assert_allclose([row["margin"] for row in printed], margins, atol=1e-9)
    score = json.loads(run("evaluate", source, "--model", file, "--json"))
    assert score["error"] == np.mean((margins >= 0.0) != (Y > 0))
    before = file.read_bytes()
    write([*rows[:3], {**rows[3], "base": None}])
    assert "offset" in run("predict", source, "--model", file, fails=True)
    run("learn", source, "--model", tmp_path / "other.romco", *columns, *more, fails=True)
    assert file.read_bytes() == before
    if more:  # shards do not depend on it
        return
    write(rows)
    shards = tmp_path / "s.romco"
    run("learn", source, "--model", shards, *columns, "--shards", 1, "--engine", "serial")
    made = romco.Model(features=Hashed(2**18), classes=("no", "yes"))
    made.learn(x, labels, WHO, offset=offset)
    found = romco.load(shards).margins(x, WHO, offset=offset)
    np.testing.assert_allclose(found, made.margins(x, WHO, offset=offset), atol=1e-9)


COLUMNS = ("--task", "who", "--label", "choice")
BY_CLASS = tuple(f"--offset={one}=score_{one}" for one in CLASSES)


def choices(folder, suffix=".csv", rows=range(120), **cells):
    """Write events with a score of each class, and return the file."""
    path, lines = folder / f"choices{len(list(folder.iterdir()))}{suffix}", []
    for i in rows:
        line = {"who": WHO[i], "a": round(X[i, 0], 4), "choice": CLASSES[CHOICES[i]]}
        line |= dict(zip([f"score_{one}" for one in CLASSES], SCORES[i].round(4), strict=True))
        lines.append(line | cells)
    if suffix == ".csv":
        table = [",".join(map(str, line.values())) for line in lines]
        path.write_text("\n".join([",".join(lines[0]), *table]) + "\n")
    else:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_classes_take_a_column_each(tmp_path, suffix):
    """In the order of the first command, whatever the order of a later one is."""
    source, file = choices(tmp_path, suffix), tmp_path / "m.romco"
    run("learn", source, "--model", file, *COLUMNS, *BY_CLASS)
    x, offset = [{"a": round(row[0], 4)} for row in X[:120]], SCORES[:120].round(4)
    made = romco.Model(target="classes", classes=CLASSES)
    made.learn(x, [CLASSES[k] for k in CHOICES[:120]], WHO[:120], offset=offset)
    found = romco.load(file)
    assert found.schema.offset == {one: f"score_{one}" for one in CLASSES}
    assert list(found.schema.offset) == list(CLASSES) == list(found.classes)
    expected = made.margins(x, WHO[:120], offset=offset)
    assert np.ptp(made.margins(x, WHO[:120], offset=0 * offset) - expected, axis=1).max() > 0.1
    np.testing.assert_allclose(found.margins(x, WHO[:120], offset=offset), expected, atol=1e-9)
    chances = made.predict_proba(x, WHO[:120], offset=offset)
    for more in ((), BY_CLASS, BY_CLASS[::-1]):
        lines = run("predict", source, "--model", file, *more).splitlines()
        printed = [json.loads(line)["probabilities"] for line in lines]
        told = [[row[one] for one in CLASSES] for row in printed]
        np.testing.assert_allclose(told, chances, atol=1e-6)
    score = json.loads(run("evaluate", source, "--model", file, "--json"))
    assert score["error"] == np.mean(expected.argmax(axis=1) != CHOICES[:120])
    run("learn", choices(tmp_path, suffix, range(120, 200)), "--model", file)
    assert romco.load(file).events == 200


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ((*BY_CLASS[:2], "--offset=rail=nothing"), "nothing"),
        ((*BY_CLASS, "--offset=car=a"), "each class once"),
        ((*BY_CLASS, "--offset=score"), "CLASS=COLUMN"),
        ((*BY_CLASS[:2], "--offset=rail=score_car"), "cannot be both"),
        (BY_CLASS[:2], "rail"),
        ((*BY_CLASS, "--target", "number"), "is for --target classes"),
        ((*BY_CLASS, "--target", "two-classes"), "is for --target classes"),
        ((*BY_CLASS, "--classes", "bus,car"), "names all of them"),
        (("--offset", "score_car"), "offset"),
    ],
)
def test_bad_columns_of_classes_are_refused(tmp_path, more, why):
    source, file = choices(tmp_path), tmp_path / "m.romco"
    assert why in run("learn", source, "--model", file, *COLUMNS, *more, fails=True)


def test_bad_rows_of_classes_change_nothing(tmp_path):
    file = tmp_path / "m.romco"
    run("learn", choices(tmp_path), "--model", file, *COLUMNS, *BY_CLASS)
    before = file.read_bytes()
    for bad in ({"score_car": ""}, {"score_car": "nan"}, {"choice": "boat"}):
        source = choices(tmp_path, ".csv", range(3), **bad)
        said = run("learn", source, "--model", file, fails=True)
        assert "boat" in said or "the offset is nan" in said
        assert file.read_bytes() == before
    source = choices(tmp_path, ".csv", range(3))
    for wrong in (("--offset", "score_car"), BY_CLASS[:2]):
        run("predict", source, "--model", file, *wrong, fails=True)
    other = tmp_path / "two.romco"
    rows = choices(tmp_path, ".csv", [i for i in range(120) if CHOICES[i] < 2])
    run("learn", rows, "--model", other, *COLUMNS, "--offset", "score_car")
    assert "offset" in run("predict", rows, "--model", other, *BY_CLASS, fails=True)
    assert "offset" in run("compare", source, *COLUMNS, *BY_CLASS, "--out", tmp_path, fails=True)


@pytest.mark.parametrize("damaged", [5, [1], {"car": 5}, {"car": None}])
def test_damaged_columns_of_offsets_are_no_schema(damaged):
    stored = romco.Schema(offset={"bus": "b", "car": "c"}).to_json()
    assert romco.Schema.from_json(stored).offset == {"bus": "b", "car": "c"}
    with pytest.raises(ValueError, match="no schema"):
        romco.Schema.from_json({**stored, "offset": damaged})
