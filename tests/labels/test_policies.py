"""What every policy promises, whatever the margins."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import romco
from romco import labels
from romco.rounds import chosen

SHARES = (0.01, 0.2, 1.0)


def round_of(n, tasks=5):
    return romco.Round(np.arange(n) % tasks, np.zeros((n, 1)), np.full(n, np.nan))


def part_of(n, begin, end):
    which = np.arange(n)
    return chosen(round_of(n), (begin <= which) & (which < end))


def hostile(n):
    t = np.arange(n)
    return {
        "constant": np.full(n, 0.3),
        "zero": np.zeros(n),
        "infinite": np.full(n, np.inf),
        "alternating": np.where(t % 2, 1e9, 0.0),
        "drifting": np.linspace(-20.0, 20.0, n),
        "sure, then not": np.where(t < n // 2, 50.0, 0.1),
    }


def made(name, share, advance=0):
    return labels.policy(name, share, advance=advance, seed=7)


def spent_is_within(policy, asked):
    t = np.arange(1, len(asked) + 1)
    limit = np.maximum(policy.advance, policy.share * t + 1.0)
    return bool((np.cumsum(asked) <= limit + 1e-9).all())


@pytest.mark.parametrize("name", labels.POLICIES)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("advance", [0, 100])
def test_never_above_the_budget(name, share, advance):
    for margins in hostile(1500).values():
        policy = made(name, share, advance)
        asked = policy.ask(round_of(1500), margins)
        assert spent_is_within(policy, asked)
        assert policy.spent == asked.sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", labels.POLICIES)
@pytest.mark.parametrize("kind", hostile(1))
def test_never_above_the_budget_in_a_million_events(name, kind):
    policy = made(name, 0.05, 100)
    asked = policy.ask(round_of(10**6), hostile(10**6)[kind])
    assert spent_is_within(policy, asked)


@pytest.mark.parametrize("name", labels.POLICIES)
def test_never_silent_for_ever(name):
    policy = made(name, 0.05)
    asked = policy.ask(round_of(30_000), np.full(30_000, np.inf))
    assert asked[10_000:].any()
    assert asked[20_000:].any()


@pytest.mark.parametrize("name", labels.POLICIES)
def test_a_seed_decides_all_and_labels_nothing(name):
    round, margins = round_of(500), 9 * np.sin(np.arange(500.0))
    first = made(name, 0.2).ask(round, margins)
    told = round._replace(y=np.sign(margins + 0.5))
    np.testing.assert_array_equal(made(name, 0.2).ask(told, margins), first)
    other = labels.policy(name, 0.2, seed=8).ask(round, margins)
    assert (other != first).any()


@pytest.mark.parametrize("name", labels.POLICIES)
def test_goes_on_bit_for_bit(name):
    margins = np.sin(np.arange(600.0)) * 3
    whole = made(name, 0.2).ask(round_of(600), margins)
    policy = made(name, 0.2)
    first = policy.ask(part_of(600, 0, 250), margins[:250])
    again = labels.restore(json.loads(json.dumps(policy.state())))
    rest = again.ask(part_of(600, 250, 600), margins[250:])
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)


def test_one_event_at_a_time_is_the_same():
    round, margins = round_of(300), np.sin(np.arange(300.0))
    policy = made("budget", 0.3)
    singly = [policy.ask(part_of(300, e, e + 1), margins[e : e + 1])[0] for e in range(300)]
    np.testing.assert_array_equal(singly, made("budget", 0.3).ask(round, margins))


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="share"):
        labels.Budget(0.0)
    with pytest.raises(ValueError, match="share must be at most 1"):
        labels.Budget(1.5)
    with pytest.raises(ValueError, match="audit"):
        labels.Budget(0.5, audit=1.0)
    for share in (5e-324, 1e-320, 1e-200):  # no event in any life would be audited
        with pytest.raises(ValueError, match=r"share \* audit must be at least"):
            labels.Budget(share)
    with pytest.raises(ValueError, match="unknown policy"):
        labels.policy("oracle", 0.1)
    with pytest.raises(ValueError, match="not a number"):
        labels.Budget(0.5, seed=0).ask(round_of(1), np.array([np.nan]))
    with pytest.raises(ValueError, match="3 margins for a round of 2"):
        labels.Budget(0.5, seed=0).ask(round_of(2), np.zeros(3))
    for broken in ({}, {"policy": "budget"}, {**labels.Budget(0.5, seed=0).state(), "memory": []}):
        with pytest.raises(ValueError, match="state of a policy"):
            labels.restore(broken)


def test_another_package_adds_a_policy_by_an_entry_point(tmp_path):
    (tmp_path / "evens.py").write_text(
        "from romco.labels import Policy\n"
        "class Evens(Policy):\n"
        "    name = 'evens'\n"
        "    def wants(self, task, doubt, left):\n"
        "        return self.events % 2 == 0\n"
    )
    info = tmp_path / "evens-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evens\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[romco.label_policies]\nevens = evens:Evens\n")
    code = (
        "import json, numpy as np, romco\n"
        "made = romco.labels.policy('evens', 0.5, seed=1)\n"
        "made.choose(np.zeros(10, dtype=int), np.zeros(10))\n"
        "again = romco.labels.restore(json.loads(json.dumps(made.state())))\n"
        "print(list(romco.labels.POLICIES)[-1], again.name, again.spent, again.settings())\n"
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    settings = {"share": 0.5, "advance": 0, "seed": 1, "total": None}
    assert done.stdout.strip() == f"evens evens 5 {settings}"
