"""A short run of the fuzzer in the default suite, a long one as slow; `make fuzz` runs more."""

import os

import pytest

from romco_lab.fuzz.__main__ import tried
from romco_lab.fuzz.files import put_together, taken_apart
from romco_lab.fuzz.seeds import bare, seeds

SEED = int(os.environ.get("ROMCO_FUZZ_SEED", "1"))


def test_taking_apart_and_putting_together_changes_nothing(tmp_path):
    import romco

    romco.save(bare("romco-nucl", 4, 3), tmp_path / "l.romco")
    whole = (tmp_path / "l.romco").read_bytes()
    (tmp_path / "again.romco").write_bytes(put_together(taken_apart(whole)))
    again = romco.load(tmp_path / "again.romco")
    assert (again.weights() == romco.load(tmp_path / "l.romco").weights()).all()


@pytest.mark.parametrize(
    ("kind", "n"),
    [
        ("files", 60),
        ("arrays", 60),
        ("folders", 15),
        ("requests", 150),
        pytest.param("files", 20_000, marks=pytest.mark.slow),
        pytest.param("strangers", 20_000, marks=pytest.mark.slow),
        pytest.param("liars", 20_000, marks=pytest.mark.slow),
        pytest.param("folders", 1000, marks=pytest.mark.slow),
        pytest.param("arrays", 20_000, marks=pytest.mark.slow),
        pytest.param("sources", 1000, marks=pytest.mark.slow),
        pytest.param("memories", 1000, marks=pytest.mark.slow),
        pytest.param("requests", 20_000, marks=pytest.mark.slow),
    ],
)
def test_nothing_breaks_it(kind, n):
    counts, findings = tried(kind, n, SEED)
    assert not findings, "\n\n".join(findings)
    assert sum(counts.values()) == n
    assert counts["refused"] > n // 10  # the mutations bite
    assert counts["used"] > n // 50  # and not all of them


@pytest.mark.slow
def test_every_learner_is_among_the_seeds():
    from romco.learners.registry import GIVEN

    states = [file.header["state"] for file in seeds()]
    names = {
        s["learner"]["learner"] if isinstance(s["learner"], dict) else s["learner"] for s in states
    }
    assert names == set(GIVEN)
