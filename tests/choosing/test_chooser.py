"""Choices: their law, their rewards, new actions, files, and input that is refused."""

import copy
import itertools
import json
import pickle
import threading

import numpy as np
import pytest
from scipy.stats import chisquare

import romco
from romco.kernels.choosing import MAX_ACTIONS, MAX_COLUMNS, MAX_NAMES

ACTIONS = ["a", "b", "c"]
DAYS = ["mo", "tu", "we"]


def same(state, other):
    """Whether two states are equal to the last bit."""
    first, second = dict(state), dict(other)
    arrays, others = first.pop("arrays"), second.pop("arrays")
    assert json.dumps(first, default=float) == json.dumps(second, default=float)
    return arrays.keys() == others.keys() and all(
        np.array_equal(arrays[name], others[name]) for name in arrays
    )


def run(chooser, n, reward, start=0, actions=ACTIONS, seed=0):
    """Choose and reward n times; return the actions chosen."""
    rng = np.random.default_rng(seed)
    chosen = []
    for i in range(start, start + n):
        x = {"size": float(rng.normal(100.0, 20.0)), "day": DAYS[i % 3]}
        choice = chooser.choose(x, task=f"person {i % 5}", actions=actions, id=i)
        chooser.reward(i, reward(choice.action, x, rng))
        chosen.append(choice.action)
    return chosen


def clicks(action, x, rng):
    likely = {"a": x["size"] > 100.0, "b": x["size"] <= 100.0}.get(action, x["day"] == "we")
    return bool(rng.random() < (0.8 if likely else 0.2))


def sales(action, x, rng):
    return float({"a": x["size"], "b": 100.0, "c": 200.0 - x["size"]}[action] + rng.normal(0, 5.0))


# Explanations


def test_an_explanation_says_what_earns_for_whom():
    chooser = romco.Chooser()
    for i in range(600):
        x = {"hour": float(i % 24), "device": DAYS[i % 3]}
        choice = chooser.choose(x, task=f"person {i % 5}", actions=ACTIONS, id=i)
        late = i % 24 > 12
        liked = "c" if i % 5 == 3 else ("a" if late else "b")
        chooser.reward(i, choice.action == liked)
    explanation = romco.explain(chooser, top=20)
    by_name = {one.action: one for one in explanation.actions}
    assert set(by_name) == set(ACTIONS)
    assert next(iter(by_name["a"].features)) == "hour"
    assert by_name["a"].features["hour"] > 0.5 > 0.0 > by_name["b"].features["hour"]
    levels = {one.task: one.level for one in explanation.levels if one.action == "c"}
    assert max(levels, key=levels.get) == "person 3"
    assert "person 3: c +" in str(explanation)
    assert str(explanation).startswith("600 rewards, 5 people, 4 features; log-odds")
    scores = [one.score for one in explanation.actions]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("unit", [1e-6, 1e9])
def test_an_explanation_shows_rewards_of_any_size(unit):
    chooser = romco.Chooser("number")
    run(chooser, 100, lambda action, x, rng: unit * sales(action, x, rng))
    explanation = romco.explain(chooser)
    for one in explanation.actions:
        assert f"  {one.action}: {one.score:.4g} ± {one.deviation:.4g}; " in str(explanation)
        assert f"size {one.features['size']:+.4g}" in str(explanation)


def test_an_explanation_counts_one_person():
    chooser = romco.Chooser()
    chooser.choose({"hour": 3}, actions=["a"], id=1, task="ann")
    chooser.reward(1, 1)
    assert str(romco.explain(chooser)).startswith("1 reward, 1 person, 1 feature; ")


def test_an_explanation_names_features_of_actions_and_their_products():
    rng = np.random.default_rng(1)
    chooser = romco.Chooser(reward="number")
    for i in range(400):
        actions = [{"name": f"a{k}", "price": float(rng.normal())} for k in range(3)]
        choice = chooser.choose({"rich": float(i % 2)}, actions=actions, id=i)
        price = next(one["price"] for one in actions if one["name"] == choice.action)
        chooser.reward(i, price * (2.0 * (i % 2) - 1.0) + 0.1 * rng.normal())
    shared = romco.explain(chooser).shared
    assert next(iter(shared)) == "price * rich"
    assert shared["price * rich"] > 0.5


def test_reasons_rank_as_the_probabilities_do():
    chooser = romco.Chooser()
    run(chooser, 300, clicks)
    x = {"size": 130.0, "day": "mo"}
    found = chooser.reasons(x, task="person 1", actions=[*ACTIONS, "new"])
    expected = chooser.probabilities(x, task="person 1", actions=[*ACTIONS, "new"])
    ranked = sorted(found, key=lambda name: -found[name].index)
    assert ranked == sorted(expected, key=lambda name: -expected[name])
    assert found["new"].own == found["new"].personal == 0.0
    assert found["new"].index == found["new"].curiosity > found["a"].curiosity


# The law of a choice


def drawn_from(chooser, actions, draws=30_000):
    """Counts of the actions over many ids, and the probabilities of each draw."""
    counts = dict.fromkeys(actions, 0)
    kept = None
    for i in range(draws):
        choice = chooser.choose({"size": 110.0}, actions=actions, id=f"draw {i}")
        counts[choice.action] += 1
        assert kept is None or choice.probabilities == kept
        kept = choice.probabilities
        assert choice.probability == kept[choice.action]
    return np.array(list(counts.values())), np.array(list(kept.values()))


def test_frequencies_follow_the_probabilities():
    chooser = romco.Chooser(floor=0.05, seed=3)
    run(chooser, 40, clicks)
    for i in range(3):  # the units of columns, which change with rewards only, are what they are
        chooser.choose({"size": 110.0}, actions=ACTIONS, id=f"before {i}")
    counts, probabilities = drawn_from(chooser, [*ACTIONS, "new"])
    assert probabilities.sum() == pytest.approx(1.0)
    assert probabilities.min() >= 0.05 / 4
    assert chisquare(counts, counts.sum() * probabilities).pvalue > 1e-3


def test_ties_are_drawn_alike():
    counts, probabilities = drawn_from(romco.Chooser(), list("abcde"))
    np.testing.assert_allclose(probabilities, 0.2)
    assert chisquare(counts).pvalue > 1e-3


def test_actions_that_tie_for_the_best_share_what_is_left():
    chooser = romco.Chooser("number")
    for i in range(60):
        choice = chooser.choose({}, actions=["bad"], id=i)
        chooser.reward(i, -1.0 - (i % 3))
    probabilities = chooser.choose({}, actions=["bad", "x", "y"], id="now").probabilities
    assert probabilities["x"] == probabilities["y"] > 0.45
    assert probabilities["bad"] < 0.05
    assert choice.probability == 1.0


def test_another_seed_draws_otherwise_and_the_same_seed_alike():
    chosen = [run(romco.Chooser(seed=seed), 100, clicks) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_it_learns_for_yes_and_no_and_for_numbers():
    for kind, reward in (("yes/no", clicks), ("number", sales)):
        chooser = romco.Chooser(kind)
        run(chooser, 600, reward)
        for size, best in ((150.0, "a"), (50.0, {"yes/no": "b", "number": "c"}[kind])):
            x = {"size": size, "day": "mo"}
            choice = chooser.choose(x, task="person 1", actions=ACTIONS, id=f"size {size}")
            assert max(choice.probabilities, key=choice.probabilities.get) == best, kind


@pytest.mark.parametrize(("factor", "shift"), [(8.0, 0.0), (0.25, 512.0), (1.0, -4096.0)])
def test_rewards_in_another_unit_lead_to_the_same_choices(factor, shift):
    def scaled(*event):
        return factor * sales(*event) + shift

    assert run(romco.Chooser("number"), 400, sales) == run(romco.Chooser("number"), 400, scaled)


def test_columns_in_another_unit_lead_to_the_same_choices():
    chosen = []
    for factor, shift in ((1.0, 0.0), (1024.0, 0.0), (1.0, 512.0)):
        chooser, rng, actions = romco.Chooser(), np.random.default_rng(5), []
        for i in range(300):
            size = rng.normal(100.0, 20.0)
            x = {"size": float(factor * size + shift)}
            actions.append(chooser.choose(x, actions=ACTIONS, id=i).action)
            chooser.reward(i, clicks(actions[-1], {"size": size, "day": ""}, rng))
        chosen.append(actions)
    assert chosen[0] == chosen[1]
    assert np.mean([a == b for a, b in zip(chosen[0], chosen[2], strict=True)]) > 0.97


def joined_by(reward, times=5):
    """Share of the next 200 choices in which an action that joins is chosen."""
    shares = []
    for seed in range(times):
        chooser = romco.Chooser(seed=seed)
        run(chooser, 500, clicks, seed=seed)

        def with_new(action, x, rng):
            return rng.random() < reward if action == "new" else clicks(action, x, rng)

        chosen = run(chooser, 200, with_new, start=500, actions=[*ACTIONS, "new"], seed=seed + 100)
        shares.append(chosen.count("new") / 200)
    return np.mean(shares)


def test_a_good_action_that_joins_is_chosen_soon_and_a_bad_one_seldom():
    assert joined_by(0.95) > 0.4
    assert joined_by(0.05) < 0.1


def test_features_of_actions_help_an_action_that_is_new():
    chooser, rng = romco.Chooser("number"), np.random.default_rng(0)
    names = itertools.count()
    for i in range(400):  # a new action each time: only its price says anything
        prices = rng.uniform(1.0, 9.0, 4)
        actions = [{"name": f"n{next(names)}", "price": float(p)} for p in prices]
        choice = chooser.choose({}, actions=actions, id=i)
        price = next(a["price"] for a in actions if a["name"] == choice.action)
        chooser.reward(i, -price + rng.normal(0.0, 0.3))
    offers = [{"name": "cheap", "price": 1.0}, {"name": "dear", "price": 8.0}]
    assert chooser.choose({}, actions=offers, id="now").probabilities["cheap"] > 0.8


def test_a_person_has_a_level_of_their_own():
    chooser = romco.Chooser()
    for i in range(400):
        task = "likes a" if i % 2 else "likes b"
        choice = chooser.choose({}, task=task, actions=["a", "b"], id=i)
        chooser.reward(i, task.endswith(choice.action))
    for task in ("likes a", "likes b"):
        chosen = chooser.choose({}, task=task, actions=["a", "b"], id=task).probabilities
        assert max(chosen, key=chosen.get) == task[-1]


# Ids, rewards and files


def test_the_same_id_gets_the_same_choice_and_a_reward_counts_once(tmp_path):
    chooser = romco.Chooser()
    run(chooser, 50, clicks)
    first = chooser.choose({"size": 1.0}, task="ann", actions=ACTIONS, id="r")
    chooser.reward("r", 1)
    assert chooser.choose({"size": 9.0}, task="ann", actions=ACTIONS, id="r") == first
    with pytest.raises(KeyError, match="reward already"):
        chooser.reward("r", 1)
    chooser.save(tmp_path / "c.romco")
    loaded = romco.load(tmp_path / "c.romco")
    assert loaded.choose({"size": 9.0}, task="ann", actions=ACTIONS, id="r") == first
    with pytest.raises(KeyError, match="reward already"):
        loaded.reward("r", 1)
    with pytest.raises(ValueError, match="among other actions"):
        chooser.choose({}, actions=["x", "y"], id="r")
    with pytest.raises(ValueError, match="no name"):
        chooser.choose({}, actions=[{"price": 3}], id="r")


@pytest.mark.parametrize(("kind", "reward"), [("yes/no", clicks), ("number", sales)])
def test_a_loaded_one_goes_on_with_the_same_bits(tmp_path, kind, reward):
    chooser = romco.Chooser(kind, floor=0.02, seed=9)
    featured = [{"name": "a"}, {"name": "b", "price": 3.0, "brand": "x"}, {"name": "c", "price": 4}]
    run(chooser, 70, reward, actions=featured)
    for i in range(5):
        choice = chooser.choose({"size": 90.0 + i}, task=("t", i), actions=featured, id=("late", i))
    chooser.forget("person 3")
    romco.save(chooser, tmp_path / "c.romco")
    loaded = romco.load(tmp_path / "c.romco")
    assert same(chooser.state(), loaded.state())
    assert romco.peek(tmp_path / "c.romco")["kind"] == "chooser"
    assert loaded.pending == chooser.pending == [("late", i) for i in range(5)]
    assert loaded.choose({}, task=("t", 4), actions=ACTIONS, id=("late", 4)) == choice
    kept = loaded.state()
    copied = romco.Chooser.from_state(kept)
    copied.reward(("late", 3), 0)
    assert same(kept, loaded.state())  # nobody learns in a state
    for one in (chooser, loaded):
        for k in range(5):
            one.reward(("late", k), k % 2)
        run(one, 80, reward, start=1000, actions=[*featured, "d"][:3])
    assert same(chooser.state(), loaded.state())


def pickled(chooser):
    return pickle.loads(pickle.dumps(chooser))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_goes_on_by_itself(duplicate):
    chooser = romco.Chooser("number", seed=3)
    run(chooser, 40, sales)
    chooser.choose({"size": 7.0}, task="ann", actions=ACTIONS, id="late")
    before = chooser.state()
    other = duplicate(chooser)
    assert same(other.state(), before)
    other.reward("late", 2.0)
    assert same(chooser.state(), before)
    assert chooser.pending == ["late"]


def test_rewards_come_late_in_any_order():
    chooser = romco.Chooser()
    for i in range(30):
        chooser.choose({"size": i}, actions=ACTIONS, id=i)
    assert chooser.rewards == 0
    for i in reversed(range(30)):
        chooser.reward(i, i % 2)
    assert (chooser.rewards, chooser.pending) == (30, [])


def test_the_oldest_choices_are_dropped_and_counted():
    chooser = romco.Chooser(pending=3)
    for i in range(5):
        chooser.choose({}, actions=ACTIONS, id=i)
        if i == 1:
            chooser.reward(1, 1)
    assert (chooser.dropped, chooser.pending) == (1, [2, 3, 4])
    with pytest.raises(KeyError, match="dropped, or never made"):
        chooser.reward(0, 1)


def test_a_forgotten_person_is_nowhere():
    chooser, without = romco.Chooser(), romco.Chooser()
    run(chooser, 60, clicks)
    chooser.choose({}, task="person 2", actions=ACTIONS, id="mine")
    chooser.forget("person 2")
    assert "person 2" not in repr(chooser.state())
    assert "mine" not in repr(chooser.state())
    assert chooser.choose({}, task="person 2", actions=ACTIONS, id="new").probabilities == (
        chooser.choose({}, task="nobody yet", actions=ACTIONS, id="other").probabilities
    )
    with pytest.raises(KeyError, match="no person"):
        without.forget("person 2")


def test_who_is_known():
    chooser = romco.Chooser()
    chooser.choose({}, actions=ACTIONS, id="nobody's")
    assert not chooser.knows("ann")
    chooser.choose({}, actions=ACTIONS, id="hers", task="ann")
    assert chooser.knows("ann")
    for bad in (None, ["ann"]):
        with pytest.raises(ValueError, match="task"):
            chooser.knows(bad)


def test_errors_cut_long_names():
    chooser, long = romco.Chooser(), "x" * 10_000
    chooser.choose({}, actions=[long], id=long)
    chooser.reward(long, 1)
    for refused in (
        lambda: chooser.reward(long, 1),
        lambda: chooser.reward(long[1:], 1),
        lambda: chooser.choose({}, actions=["other"], id=long),
        lambda: chooser.forget(long),
    ):
        with pytest.raises((KeyError, ValueError)) as caught:
            refused()
        assert len(str(caught.value)) < 300


def test_more_names_than_columns_share_columns(tmp_path):
    chooser = romco.Chooser()
    for i in range(MAX_NAMES + 40):
        chooser.choose({"town": f"t{i}"}, actions=["a", "b"], id=i)
        if i % 50 == 0:
            chooser.reward(i, i % 2)
    arrays = chooser.state()["arrays"]
    assert len(arrays["context_columns"]) == MAX_COLUMNS + 1
    chooser.save(tmp_path / "c.romco")
    assert same(romco.load(tmp_path / "c.romco").state(), chooser.state())


@pytest.mark.parametrize("factor", [1.0, 1024.0])
def test_what_a_choice_will_be_can_be_asked_where_columns_are_new(factor):
    laws = []
    for unit in (1.0, factor):
        chooser = romco.Chooser()
        run(chooser, 40, clicks)
        chooser.choose({"late": 0.0}, actions=ACTIONS, id="late")
        x = {"size": 1.0, "late": 3.0 * unit, "new": "text", "newer": -2.0 * unit}
        offered = [*ACTIONS, {"name": "new", "price": 7.0 * unit}]
        laws.append(chooser.probabilities(x, actions=offered, task="ann"))
        drawn = chooser.draw(x, actions=offered, id="next", task="ann")
        assert chooser.choose(x, actions=offered, id="next", task="ann") == drawn
        assert drawn.probabilities == laws[-1]
    assert laws[0] == laws[1]


# Input that is refused

BAD_CHOICES = {
    "no actions": ({}, [], "at least one"),
    "actions that are text": ({}, "ab", "a list"),
    "no list of actions": ({}, None, "a list"),
    "an action alone": ({}, {"name": "a"}, "a list"),
    "an action twice": ({}, ["a", "b", {"name": "a"}], "offered twice"),
    "a million actions": ({}, (f"n{i}" for i in range(10**6)), f"at most {MAX_ACTIONS:,}"),
    "NaN": ({"size": float("nan")}, ACTIONS, "finite number"),
    "infinite": ({"size": float("inf")}, ACTIONS, "finite number"),
    "too large": ({"size": 10**400}, ACTIONS, "finite number"),
    "a list": ({"size": [1, 2]}, ACTIONS, "number or text"),
    "no mapping": ([1.0], ACTIONS, "mapping"),
    "a name that is no text": ({3: 1.0}, ACTIONS, "text"),
    "an action without a name": ({}, [{"price": 3}], "no name"),
    "an action with a bad feature": ({}, [{"name": "z", "price": float("nan")}], "finite number"),
    "an action that is missing": ({}, ["a", None], "missing"),
    "an action that is a list": ({}, ["a", ["b"]], "cannot be a name"),
}


@pytest.mark.parametrize("what", BAD_CHOICES)
def test_a_bad_choice_is_refused_and_changes_nothing(what):
    chooser = romco.Chooser()
    run(chooser, 20, clicks)
    before = chooser.state()
    x, actions, message = BAD_CHOICES[what]
    with pytest.raises(ValueError, match=message):
        chooser.choose(
            {"new name": 1.0, **x} if isinstance(x, dict) else x, actions=actions, id="b"
        )
    assert same(chooser.state(), before)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2, -1, 0.5, "1", None, [1]])
def test_a_bad_reward_is_refused_and_changes_nothing(value):
    chooser = romco.Chooser()
    run(chooser, 20, clicks)
    chooser.choose({}, actions=ACTIONS, id="waits")
    before = chooser.state()
    with pytest.raises(ValueError, match="reward"):
        chooser.reward("waits", value)
    with pytest.raises(KeyError, match="never made"):
        chooser.reward("unknown", 1)
    assert same(chooser.state(), before)
    chooser.reward("waits", 1)


@pytest.mark.parametrize(
    "settings",
    [{"reward": "clicks"}, {"floor": -0.1}, {"floor": 1.5}, {"seed": -1}, {"pending": 0}],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        romco.Chooser(**settings)


def damaged(state, what):
    """The state with one part that does not hold together."""
    arrays = dict(state["arrays"])
    state = {**state, "arrays": arrays}
    if what == "column":
        arrays["choice_context_column"] = arrays["choice_context_column"] + 10**6
    elif what == "action":
        arrays["choice_offered"] = arrays["choice_offered"] + 7
    elif what == "level":
        arrays["level_action"] = arrays["level_action"] - 1
    elif what == "width":
        arrays["posterior_mean_length"] = arrays["posterior_mean_length"] + 1
    elif what == "unit":
        arrays["context_columns"] = 0.0 * arrays["context_columns"]
    elif what == "pairs":
        arrays["pairs"] = arrays["pairs"] + 900
    elif what == "name":
        state["features"] = [["size"] * len(state["features"][0]), []]
    return state


@pytest.mark.parametrize("what", ["column", "action", "level", "width", "unit", "pairs", "name"])
def test_a_state_that_does_not_hold_together_is_refused(what):
    chooser = romco.Chooser()
    run(chooser, 20, clicks)
    chooser.choose({"size": 1.0}, actions=ACTIONS, id="waits")
    with pytest.raises(ValueError, match=r"\w"):
        romco.Chooser.from_state(damaged(chooser.state(), what))


def test_threads_choose_and_reward_at_once():
    chooser = romco.Chooser()

    def work(who):
        for i in range(150):
            chooser.choose({"size": i}, task=who, actions=ACTIONS, id=(who, i))
            chooser.reward((who, i), i % 2)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (chooser.rewards, len(chooser.tasks), chooser.pending) == (600, 4, [])


# What is known about an action


def test_reasons_add_up_and_change_nothing():
    chooser = romco.Chooser("number")
    run(chooser, 200, sales, actions=["a", {"name": "b", "price": 2.0}, "c"])
    before = chooser.state()
    x = {"size": 130.0, "day": "mo"}
    found = chooser.reasons(x, task="person 1", actions=[*ACTIONS, "never seen"])
    assert same(chooser.state(), before)
    a = found["a"]
    assert a.index == pytest.approx(a.shared + a.own + a.personal + a.curiosity)
    assert a.score == pytest.approx(130.0, abs=5.0)
    assert next(iter(a.features)) == "size"
    assert found["never seen"].curiosity > 2.0 * a.curiosity
    assert found["never seen"].features == {}


def coverage(kind, often):
    """Share of true scores within two standard deviations of their mean."""
    within = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scale = np.sqrt(10.0 / 4.0)
        weights = rng.normal(0.0, scale, (3, 4))
        chooser = romco.Chooser(kind, floor=1.0, seed=seed)
        actions = [0, 1, 2]
        for i in range(often):
            row = rng.normal(size=3)
            x = dict(zip("abc", row.tolist(), strict=True))
            choice = chooser.choose(x, actions=actions, id=i)
            score = weights[choice.action] @ [1.0, *row]
            if kind == "number":
                chooser.reward(i, score + rng.normal())
            else:
                chooser.reward(i, rng.random() < 1.0 / (1.0 + np.exp(-score)))
        row = rng.normal(size=3)
        x = dict(zip("abc", row.tolist(), strict=True))
        for action, reasons in chooser.reasons(x, actions=actions).items():
            truth = weights[action] @ [1.0, *row]
            within.append(abs(truth - reasons.score) < 2.0 * reasons.deviation)
    return np.mean(within)


@pytest.mark.parametrize("kind", ["yes/no", "number"])
@pytest.mark.parametrize("often", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_scores_lie_within_two_standard_deviations(kind, often):
    assert coverage(kind, often) > 0.85


def others_regret(seed, known):
    """Regret of 32 honest people where 8 report the opposite, with and without their names."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(3, 3))
    chooser, regret = romco.Chooser(seed=seed), 0.0
    for i in range(1000):
        row, person = rng.normal(size=3), int(rng.integers(40))
        x = dict(zip("abc", row.tolist(), strict=True))
        task = person if known else None
        action = chooser.choose(x, task=task, actions=[0, 1, 2], id=i).action
        likely = 1.0 / (1.0 + np.exp(-2.0 * weights @ row))
        reward = rng.random() < likely[action]
        chooser.reward(i, reward != (person < 8))
        if person >= 8:
            regret += likely.max() - likely[action]
    return regret


def test_rewards_of_people_who_report_the_opposite_count_less():
    known, unknown = (sum(others_regret(seed, who) for seed in range(4)) for who in (True, False))
    assert known < 0.9 * unknown


def regret_beside(seed, opposite):
    """Regret of 80 honest people, beside twenty of whom all report the opposite or none does."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0.0, 0.7, (5, 5))
    levels = rng.normal(0.0, 0.5, 5)
    personal = rng.normal(0.0, 0.5, (100, 5))
    chooser = romco.Chooser(seed=seed)
    regret = 0.0
    for i in range(6000):
        row = rng.normal(size=5)
        person = int(rng.integers(100))
        x = {f"x{j}": value for j, value in enumerate(row.tolist())}
        action = int(chooser.choose(x, task=person, actions=list("01234"), id=i).action)
        likely = 1.0 / (1.0 + np.exp(-(weights @ row + levels + personal[person])))
        reward = bool(rng.random() < likely[action])
        chooser.reward(i, reward != (opposite and person < 20))
        if person >= 20:
            regret += likely.max() - likely[action]
    return regret


@pytest.mark.slow
def test_people_who_report_the_opposite_hardly_harm_the_others():
    seeds = range(1000, 1003)
    honest = sum(regret_beside(seed, False) for seed in seeds)
    assert sum(regret_beside(seed, True) for seed in seeds) < 1.3 * honest


def test_a_person_of_opposite_taste_gets_what_they_like():
    chooser = romco.Chooser()
    rng = np.random.default_rng(0)
    for i in range(1500):
        person = int(rng.integers(15))
        liked = "b" if person == 7 else "a"
        choice = chooser.choose({}, task=person, actions=["a", "b"], id=i)
        chooser.reward(i, rng.random() < (0.9 if choice.action == liked else 0.1))
    chosen = chooser.probabilities({}, task=7, actions=["a", "b"])
    assert chosen["b"] > 0.8


def test_the_command_line_explains_a_chooser(tmp_path):
    from typer.testing import CliRunner

    from romco.cli.main import app

    chooser = romco.Chooser()
    run(chooser, 60, clicks)
    path = tmp_path / "news.romco"
    chooser.save(path)
    shown = CliRunner().invoke(app, ["explain", str(path)])
    assert shown.output.strip() == str(romco.explain(chooser))
