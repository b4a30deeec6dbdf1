import pytest
from test_paper import make_experiment, silent, world  # noqa: F401 - a fixture

from romco_lab.paper.readings import MEASURED, SETTLED, Study, study


@pytest.fixture(scope="module")
def page(world, tmp_path_factory):  # noqa: F811
    out = tmp_path_factory.mktemp("choices")
    whole = make_experiment(real=True)
    experiment = type(whole)(whole.sources[:1], shuffles=2, trials=2, tuned_on=0.5)
    return study(Study(experiment), out, 1, "romco paper spam --choices", silent).read_text()


@pytest.mark.slow
def test_every_choice_is_told_and_measured(page):
    for choice in MEASURED:
        section = page.split(f"### {choice.point}\n")[1].split("\n### ")[0]
        assert choice.other in section
        assert section.count(" against ") == len(choice.learners)
    for point, _, _ in SETTLED:
        assert f"| {point} |" in page
    assert "`romco paper spam --choices`; not edited by hand" in page


def test_readings_differ_in_what_they_say_and_in_nothing_else(world):  # noqa: F811
    whole = make_experiment(real=True)
    plan = Study(whole)
    default = plan.tuning_runs(None, whole.sources[0], "romco-logd")
    for choice in MEASURED:
        other = plan.tuning_runs(choice, whole.sources[0], "romco-logd")
        assert other != default
        for one, two in zip(default, other, strict=False):
            changed = {key for key, value in two.parameters if dict(one.parameters)[key] != value}
            units = {"eta1", "eta2", "lambda1", "lambda2"} if choice.unscaled else set()
            assert changed <= set(choice.change) | ({"eta2"} if choice.tied else set()) | units
            assert two.order == choice.order
            assert two.seed == one.seed
