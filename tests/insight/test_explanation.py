import numpy as np
import pytest

import romco
from romco.insight import explain, explanation
from romco.insight.text import headline
from romco.model import Model, Names

STREAM = romco.streams.simulated(n_tasks=8, n_features=10, n_events=150, outliers=1, seed=2)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
TASKS = [f"user {i}" for i in ROUNDS.task]


def learned(name="romco-nucl"):
    model = Model(name, Names(), classes=(-1, 1))
    rows = [{f"<f{j}>": v for j, v in enumerate(x)} for x in ROUNDS.x.tolist()]
    model.learn(rows, ROUNDS.y.tolist(), TASKS)
    return model


MODEL = learned()


def test_numbers_are_those_of_the_learner():
    found, learner = explain(MODEL), MODEL.learner
    numbers = MODEL.numbers([task.task for task in found.tasks])
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
    assert weight == v[np.argmax(np.abs(v))]
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
    assert explain(MODEL.learner).n_tasks == 8
    empty = explain(Model())
    assert (empty.rank, empty.tasks) == (0, ())
    assert "rank 0" in str(empty)
    assert "Nothing is shared" in empty.page()


def test_large_models_are_explained_without_laying_out_all_weights(monkeypatch):
    small = explain(MODEL)
    monkeypatch.setattr(explanation, "LARGEST", 10)
    monkeypatch.setattr(type(MODEL.learner), "weights", None)
    large = explain(MODEL)
    assert large.spectrum == small.spectrum
    np.testing.assert_allclose(
        [t.personal for t in large.tasks], [t.personal for t in small.tasks], rtol=1e-9
    )
    assert large.tasks[0].shared is None
    assert len(large.tasks[0].features) == 5
    assert "-" in str(large)


def test_text_and_page_tell_the_same_and_escape_names():
    found = explain(MODEL)
    text, page = str(found), found.page()
    assert headline(found) in text
    assert "user 3" in text
    assert "user 3" in page
    assert "<f" not in page.replace("<figure", "")
    assert "&lt;f" in page
    assert "src=" not in page
    assert "href=" not in page
    assert "<script" not in page
    assert found._repr_html_() in page


def test_figures_show_every_task():
    figures = explain(MODEL).figures()
    labels = [label.get_text() for label in figures["tasks"].axes[0].get_yticklabels()]
    assert len(labels) == 8
    assert len(figures["spectrum"].axes[0].patches) == explain(MODEL).rank
