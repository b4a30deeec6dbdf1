from romco.steps import STEPS


def test_steps_start_at_one_and_fall_as_named():
    assert [step(1) for step in STEPS.values()] == [1.0, 1.0, 1.0]
    assert STEPS["inverse-sqrt"](4) == 0.5
    assert STEPS["constant"](400) == 1.0
    assert STEPS["inverse"](4) == 0.25
