"""Codes of task names, by which rows are dealt out to shards."""

import numpy as np
import pytest

from romco.shards.reader import TaskCodes, task_owner


def test_every_spelling_of_a_name_has_one_owner():
    tasks = TaskCodes()
    codes = tasks.encode(["ann", 7, "bob", 7.0, "7", ("shop", 7), "ann"])
    np.testing.assert_array_equal(codes, [0, 1, 2, 1, 3, 4, 0])
    spelled = ("ann", "7", "bob", "7", 7, ("shop", "7"), "ann")
    for n in (4, 1, 3):
        assert tasks.owners(codes, n).tolist() == [task_owner(name, n) for name in spelled]
    np.testing.assert_array_equal(tasks.encode(np.array(["bob", "carl"])), [2, 5])


@pytest.mark.parametrize("name", [None, {}, float("nan")])
def test_what_is_no_name_is_refused(name):
    tasks = TaskCodes()
    with pytest.raises(ValueError, match="task"):
        tasks.encode(["ann", name])
    np.testing.assert_array_equal(tasks.encode(["ann", "bob"]), [0, 1])
