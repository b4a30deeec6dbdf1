"""The compiled chooser and the one in NumPy give the same probabilities."""

import numpy as np
import pytest

import romco
from tests.reference.choosing import ReferenceChooser

N, PERSONS, ACTIONS = 150, 4, 3


@pytest.mark.parametrize(
    ("n_features", "sparse", "kind"),
    [
        (2, False, "yes/no"),
        (2, True, "number"),
        (0, True, "yes/no"),
        (0, False, "number"),
    ],
)
def test_probabilities_agree(n_features, sparse, kind):
    rng = np.random.default_rng(1)
    numeric = kind == "number"
    chooser = romco.Chooser(kind, floor=0.1)
    reference = ReferenceChooser(numeric, 3, n_features, PERSONS, ACTIONS, floor=0.1)
    waiting = []
    for i in range(N):
        row = rng.normal([0.0, 50.0, -3.0], [1.0, 5.0, 0.01])
        features = rng.normal(2.0, 1.0, (ACTIONS, n_features))
        if sparse and i:  # every name is known after the first
            row *= rng.random(3) < 0.3
        task = int(rng.integers(PERSONS))
        actions = [f"a{k}" for k in range(ACTIONS)]
        if n_features:
            named = zip(actions, features.tolist(), strict=True)
            actions = [{"name": name, "f": f, "g": g} for name, (f, g) in named]
        x = dict(zip("abc", row.tolist(), strict=True))
        choice = chooser.choose(x, task=task, actions=actions, id=i)
        expected = reference.choose(row, task, features)
        np.testing.assert_allclose(
            list(choice.probabilities.values()), expected, rtol=1e-6, atol=1e-9
        )
        waiting.append((i, row, task, int(choice.action[1:]), features))
        for _ in range(int(rng.integers(3))):  # late, and in any order
            if waiting:
                id, *event, features = waiting.pop(int(rng.integers(len(waiting))))
                reward = (
                    float(rng.random() < 0.5)
                    if not numeric
                    else float(rng.normal(5.0 + 4.0 * row[0], 2.0))
                )
                chooser.reward(id, reward)
                reference.learn(*event, features[event[2]], reward)
    assert len(reference.rewards) == chooser.rewards > 100
