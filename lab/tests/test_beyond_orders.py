"""The table of three orders, on a small set."""

import gzip

import numpy as np
import pytest

from romco.streams import simulated
from romco_lab.beyond import orders


def test_every_rival_is_measured_in_an_order(monkeypatch, tmp_path):
    pytest.importorskip("vowpalwabbit")
    pytest.importorskip("river")
    stream = simulated(n_tasks=3, n_features=4, n_events=20, outliers=0)
    monkeypatch.setitem(
        orders.SETS, "small", lambda _: orders.Events(stream.task, stream.x, stream.y)
    )
    line = orders.measure("small", "by task", tmp_path)
    assert {"romco-auto", "arow-shared", "VW", "River"} <= set(line["scores"])
    assert (line["events"], line["tasks"]) == (60, 3)
    assert "| small | by task | 3 |" in orders.page([line])


def test_answers_know_what_came_before(tmp_path):
    path = tmp_path / "answers.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("user,skill,item,correct\nann,1,a,1\nann,1,b,0\nbob,1,a,1\n")
    task, x, y = orders.answers(path, n_students=5)
    np.testing.assert_array_equal(task, [0, 0, 1])
    np.testing.assert_array_equal(y, [1.0, -1.0, 1.0])
    entries = np.diff(x.indptr)
    assert entries[0] == entries[2] == 2  # skill and item; nothing came before
    assert entries[1] == 2 + 2 * (1 + len(orders.RATES))  # right answers, of all and of the skill
