"""Made activity recognition, as in WISDM: 36 people, 6 activities, windows of ten seconds."""

import numpy as np
import pytest

import romco

ACTIVITIES = ("walking", "jogging", "upstairs", "downstairs", "sitting", "standing")
SHARES = (0.38, 0.30, 0.11, 0.09, 0.06, 0.06)
PEOPLE, WINDOWS, FEATURES, FIRST = 36, 120, 43, 6  # people from FIRST on are scored


def windows(seed):
    """Windows of people who come one after the other, each with offsets and habits of their own."""
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(6, FEATURES))
    centre[2:4] = centre[0] + 0.4 * rng.normal(size=(2, FEATURES))  # stairs are like walking
    centre[5] = centre[4] + 0.3 * rng.normal(size=FEATURES)
    rows, labels, people = [], [], []
    for person in range(PEOPLE):
        offset = 0.7 * rng.normal(size=FEATURES)
        own = centre + 0.45 * rng.normal(size=centre.shape)
        scale = np.exp(0.25 * rng.normal(size=FEATURES))
        for activity in rng.choice(6, size=WINDOWS, p=SHARES):
            row = offset + scale * (own[activity] + rng.normal(size=FEATURES))
            rows.append({f"f{j}": float(value) for j, value in enumerate(row)})
            labels.append(ACTIVITIES[activity])
            people.append(f"person {person}")
    return rows, labels, people


def errors(seed, learner, task=None, new_task="mean"):
    """Errors of the people scored, by person and window."""
    rows, labels, people = windows(seed)
    tasks = people if task is None else [task] * len(people)
    model = romco.Model(learner, target="classes", classes=ACTIVITIES, new_task=new_task)
    best = np.array(ACTIVITIES)[model.learn(rows, labels, tasks).argmax(axis=1)]
    return (best != np.array(labels)).reshape(PEOPLE, WINDOWS)[FIRST:]


@pytest.mark.slow
def test_below_the_personal_and_the_impersonal_model_from_the_first_minute_on():
    def mean(*given, **more):
        wrong = np.mean([errors(seed, *given, **more) for seed in range(16)], axis=(0, 1))
        return np.array([wrong[a:b].mean() for a, b in ((0, 6), (6, 12), (12, 30), (30, 120))])

    together = mean("romco-auto")
    assert (together < mean("romco-auto", "all")).all()
    assert (together < mean("arow-unique", new_task="zero")).all()
