import numpy as np
import pytest
from sklearn.metrics import f1_score

import romco
from romco import Round
from romco_lab.metrics import Confusion, MeanLoss, Structure


def test_zero_predicts_plus_one():
    confusion = Confusion(3)
    round = Round(np.arange(3), np.zeros((3, 1)), np.array([-1.0, 1.0, 1.0]))
    confusion.add(round, np.array([-1e-300, 0.0, -0.0]))
    assert confusion.error().tolist() == [0.0, 0.0, 0.0]


def test_confusion_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    task, scores = rng.integers(0, 3, 500), rng.standard_normal(500)
    y, answers = np.where(rng.random(500) < 0.2, 1.0, -1.0), np.where(scores >= 0.0, 1.0, -1.0)
    confusion = Confusion(4)  # the last task never comes
    for part in np.array_split(np.arange(500), 7):
        confusion.add(Round(task[part], np.zeros((len(part), 1)), y[part]), scores[part])
    for i in range(3):
        mine = task == i
        truth, answer = y[mine], answers[mine]
        assert confusion.error()[i] == np.mean(truth != answer)
        for label in (1, -1):
            expected = f1_score(truth, answer, pos_label=label)
            assert confusion.f1(label)[i] == pytest.approx(expected)
    value = confusion.value()
    assert value["error_per_task"][3] is None
    assert value["error"] == pytest.approx(np.nanmean(confusion.error()))
    assert value["error_micro"] == np.mean(answers != y)


def test_f1_of_a_class_never_seen_or_said_is_zero():
    confusion = Confusion(1)
    confusion.add(Round(np.array([0]), np.zeros((1, 1)), np.array([1.0])), np.array([1.0]))
    assert confusion.f1(-1)[0] == 0.0


def test_mean_loss():
    loss = MeanLoss()
    loss.add(Round(np.array([0, 0]), np.zeros((2, 1)), np.array([1.0, -1.0])), np.array([0.5, 1.0]))
    assert loss.value() == pytest.approx((0.5 + 2.0) / 2)


def test_structure_of_an_empty_model():
    learner = romco.learner("romco-nucl", 10, 4)
    value = Structure(learner).value()
    assert value["rank"] == 0
    assert value["shared_share"] == 0.0
    assert np.sum(value["personal_norms"]) == 0.0
