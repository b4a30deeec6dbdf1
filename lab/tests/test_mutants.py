"""Changes are found, named and made as told; what is listed as equivalent is still there."""

import pytest

from romco_lab.mutants.__main__ import compiled_tasks, equivalent, python_tasks
from romco_lab.mutants.changes import changes
from romco_lab.mutants.guarded import COMPILED, FILES
from romco_lab.mutants.runs import PACKAGE, ROOT

SOURCE = '''
def act(self, a, b):
    """Not 7, nor min(a, b)."""
    if a < 3 and not b:
        raise ValueError(f"{a + 1} is bad")
    os.fsync(self.file)
    self.size += 1
    return max(a, b) - True
'''


def test_every_kind_of_change_is_made():
    found = {change.name.removeprefix("act: "): change.source for change in changes(SOURCE)}
    expected = {
        "drop os.fsync(self.file)": "    pass\n    self.size",
        "drop self.size += 1": "    pass\n    return",
        "not a < 3": "if a >= 3",
        "a < 3 with another bound": "if a <= 3",
        "a < 3 and (not b) with the other of and, or": "if a < 3 or",
        "a < 3 and (not b) without a < 3": "if not b:",
        "max(a, b) -> min(a, b)": "min(a, b) - True",
        "max(a, b) - True with the other sign": "max(a, b) + True",
        "True -> False in return max(a, b) - True": "- False",
    }
    for name, piece in expected.items():
        assert piece in found[name]
    dropped = [name for name in found if name.startswith("drop raise")]
    assert len(dropped) == 1
    assert "a + 1" not in found[dropped[0]]
    assert not any("7" in name for name in found)  # neither docstrings nor messages


@pytest.mark.parametrize("file", FILES)
def test_files_and_their_tests_are_there(file):
    assert (ROOT / PACKAGE / file).exists()
    assert all((ROOT / test).exists() for test in FILES[file])


def test_names_are_told_apart_and_equivalent_ones_are_still_there():
    names = [task.name for task in [*python_tasks(), *compiled_tasks()]]
    assert len(names) == len(set(names))
    assert equivalent().keys() <= set(names)
    assert all(len(why) > 10 for why in equivalent().values())


def test_each_change_of_a_kernel_is_of_text_that_stands_there_once():
    for change in COMPILED:
        assert (ROOT / PACKAGE / change.file).read_text().count(change.old) == 1, change.old
