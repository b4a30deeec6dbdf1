"""Values of policies from logs: unbiased, with intervals that hold, and logs that are refused."""

import gzip
import json
import sys

import numpy as np
import pytest
from scipy.stats import t as student

import romco
from romco.cli.main import main
from romco.policies import LoggedChoice, evaluate, read_log

ACTIONS = ["a", "b", "c", "d"]


def likely(action, x):
    """Probability of a reward."""
    return 0.2 + 0.6 * ((x > 0) == (action in "ab")) * (0.5 + 0.5 * (action in "ac"))


def best(event, actions):
    return {"a" if event.context["x"] > 0 else "c": 1.0}


TRUTH = 0.8


def make_log(n, epsilon, seed, whole=True):
    """A log of a policy that likes b and d, and draws uniformly with probability epsilon."""
    rng, log = np.random.default_rng(seed), []
    for _ in range(n):
        x = float(rng.normal())
        probabilities = dict.fromkeys(ACTIONS, epsilon / 4)
        probabilities["b" if x > 0 else "d"] += 1.0 - epsilon
        action = str(rng.choice(ACTIONS, p=list(probabilities.values())))
        reward = float(rng.random() < likely(action, x))
        p = probabilities[action]
        log.append(LoggedChoice({"x": x}, action, reward, p, probabilities if whole else None))
    return log


def test_estimates_are_near_the_truth():
    value = evaluate(make_log(3000, 0.5, 0), best)
    for name in ("IPS", "SNIPS", "doubly robust"):
        one = value.estimates[name]
        assert one.low < TRUTH < one.high, name
        assert one.value == pytest.approx(TRUTH, abs=0.06), name
    assert value.logged < 0.6
    assert value.warnings == ()
    assert value.effective_size == pytest.approx(3000 * 0.125, rel=1e-6)


def test_the_greedy_policy_of_the_log_is_found():
    value = evaluate(make_log(2000, 0.5, 1))
    assert value.estimates["doubly robust"].value > value.logged + 0.1


@pytest.mark.filterwarnings("ignore:only")
@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.02, 0.1])
def test_intervals_hold_the_truth_where_weights_are_rare(epsilon):
    held = {"IPS": 0, "doubly robust": 0}
    for seed in range(25):
        value = evaluate(make_log(400, epsilon, seed), best)
        for name in held:
            one = value.estimates[name]
            held[name] += one.low < TRUTH < one.high
    assert min(held.values()) >= 0.88 * 25, held


@pytest.mark.filterwarnings("ignore:only")
def test_an_interval_of_the_logs_own_policy_is_that_of_student():
    rewards = [0.0, 1.0, 1.0, 4.0, 2.0, 0.5, 3.0, 1.0, 0.0, 2.0, 2.5, 1.5]
    log = [LoggedChoice({}, "a", reward, 1.0, {"a": 1.0}) for reward in rewards]
    one = evaluate(log, "always a").estimates["SNIPS"]
    error = np.std(rewards, ddof=1) / np.sqrt(12)
    expected = student.interval(0.95, 11, np.mean(rewards), error)
    assert (one.low, one.high) == pytest.approx(expected)


def test_logs_with_few_events_that_count_are_warned_of():
    with pytest.warns(UserWarning, match="choices count"):
        value = evaluate(make_log(400, 0.02, 0), best)
    assert value.effective_size == pytest.approx(400 * 0.005)
    assert "choices count" in str(value)


def test_logs_with_the_probability_of_the_chosen_action_alone():
    with pytest.warns(UserWarning, match="chosen actions"):
        value = evaluate(make_log(1000, 0.5, 0, whole=False), best)
    assert value.estimates["IPS"].value == pytest.approx(TRUTH, abs=0.15)


def test_clipped_weights_are_counted():
    value = evaluate(make_log(1000, 0.5, 0), best, max_weight=4.0)
    assert 0.0 < value.clipped < 0.2
    assert value.estimates["IPS"].value < TRUTH - 0.2


def test_a_policy_that_the_log_could_not_draw():
    log = [LoggedChoice({}, "a", float(k % 2), 1.0, {"a": 1.0, "b": 0.0}) for k in range(20)]
    with pytest.warns(UserWarning, match="could never be drawn|count for this"):
        value = evaluate(log, "always b")
    assert "could never be drawn" in str(value)
    assert value.effective_size == 0.0
    for name in ("IPS", "SNIPS", "doubly robust"):  # nothing is known
        assert value.estimates[name].low == -np.inf
        assert value.estimates[name].high == np.inf


def test_a_chooser_is_a_policy_as_it_is():
    chooser = romco.Chooser()
    for i, event in enumerate(make_log(500, 1.0, 5)):
        chooser.choose(event.context, actions=[event.action], id=i)
        chooser.reward(i, event.reward)
    before = chooser.state()
    value = evaluate(make_log(1500, 1.0, 6), chooser)
    assert value.estimates["doubly robust"].value > 0.65
    assert repr(chooser.state()) == repr(before)


def test_a_chooser_knows_numbers_that_the_log_has_as_text(tmp_path):
    chooser = romco.Chooser(floor=0.2)
    log = []
    for k in range(300):
        drawn = chooser.choose({}, task=k % 3, actions=[1, 2], id=k)
        reward = float(drawn.action == 1 + (k % 3 == 0))
        chooser.reward(k, reward)
        log.append(LoggedChoice({}, drawn.action, reward, *drawn[1:], k % 3))
    as_text = []
    for one in log:
        law = {str(action): p for action, p in one.probabilities.items()}
        texts = {"action": str(one.action), "probabilities": law, "task": str(one.task)}
        as_text.append(one._replace(**texts))
    value = evaluate(log, chooser)
    assert value.estimates["doubly robust"].value > 0.8
    assert evaluate(as_text, chooser) == value


def test_a_chooser_that_tells_a_number_from_its_text():
    chooser = romco.Chooser()
    for k in range(200):
        drawn = chooser.choose({}, actions=[7, "7"], id=k)
        chooser.reward(k, drawn.action == 7)
    log = []
    for k in range(100):
        action = [7, "7"][k % 2]
        log.append(LoggedChoice({}, action, float(k % 2 == 0), 0.5, {7: 0.5, "7": 0.5}))
    assert evaluate(log, chooser).estimates["IPS"].value > 0.8


BAD_LOGS = {
    "no probability": ({"probability": None}, "nobody can know"),
    "NaN": ({"probability": float("nan")}, "nobody can know"),
    "0": ({"probability": 0.0}, "above 0"),
    "2": ({"probability": 2.0}, "above 0"),
    "two probabilities": ({"probability": 0.9}, "two probabilities"),
    "total": ({"probabilities": {"a": 0.5, "b": 0.1}, "probability": 0.5, "action": "a"}, "add up"),
    "reward": ({"reward": float("nan")}, "reward"),
    "reward in text": ({"reward": "1"}, "choice 7: the reward is '1'"),
    "probability in text": ({"probability": "0.5"}, "choice 7 .* but '0.5'"),
    "another action": ({"action": "z"}, "'z' is not among the actions with a probability"),
    "NaN among all": ({"probabilities": {"a": 0.5, "b": float("nan")}, "action": "a"}, "add up"),
}


@pytest.mark.parametrize("what", BAD_LOGS)
def test_a_bad_log_is_refused(what):
    log = make_log(30, 0.5, 0)
    change, message = BAD_LOGS[what]
    log[7] = log[7]._replace(**change)
    with pytest.raises(ValueError, match=message):
        evaluate(log, "uniform")


@pytest.mark.parametrize("log", ["log.csv", [{"action": "a", "reward": 1}] * 20])
def test_what_is_no_log_is_refused(log):
    with pytest.raises(ValueError, match=r"a LoggedChoice for each choice.*read_log"):
        evaluate(log)


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan")])
def test_a_bad_largest_weight_is_refused(weight):
    with pytest.raises(ValueError, match="max_weight must be a positive number"):
        evaluate(make_log(30, 0.5, 0), best, max_weight=weight)


def test_bad_policies_are_refused():
    log = make_log(30, 0.5, 0)
    for policy, message in (
        ("best", "no policy"),
        (lambda event, actions: {"a": 0.4}, "add up"),
        (lambda event, actions: {"z": 1.0}, "not among"),
        (lambda event, actions: {"a": float("nan")}, "add up"),
        (lambda event, actions: {"a": "1"}, "add up"),
        (lambda event, actions: {}, "add up"),
        (lambda event, actions: "a", "expected probabilities by action; got 'a'"),
        (3, "no policy 3"),
        ("lost.romco", "or a chooser"),
        ("always z", "not among"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(log, policy)
    with pytest.raises(ValueError, match="too short"):
        evaluate(log[:3], "uniform")


# Files


def write_csv(path, log):
    lines = ["who,x,shown,clicked,p"]
    for k, event in enumerate(log):
        cells = json.dumps(event.probabilities).replace('"', '""')
        lines.append(f'u{k % 5},{event.context["x"]!r},{event.action},{event.reward},"{cells}"')
    path.write_text("\n".join(lines) + "\n")


COLUMNS = {"action": "shown", "reward": "clicked", "probability": "p", "task": "who"}


def test_a_csv_file_is_read(tmp_path):
    log = make_log(50, 0.5, 0)
    write_csv(tmp_path / "log.csv", log)
    read = read_log(tmp_path / "log.csv", **COLUMNS)
    assert [one._replace(task=None) for one in read] == log
    assert read[7].task == "u2"


def test_a_log_without_probabilities_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("action,reward\na,1\nb,0\n")
    with pytest.raises(ValueError, match=r"'probability' is empty or not there.* nobody can know"):
        read_log(tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text("action,reward,probability\na,1,\nb,0,0.5\n")
    with pytest.raises(ValueError, match=r"line 2.*probability"):
        read_log(tmp_path / "log.csv")


def test_logs_of_vowpal_wabbit_are_read(tmp_path):
    path = tmp_path / "log.vw"
    path.write_text("1:2.5:0.4 |user age:3 b | c\n2:-1:0.5 |user b\n")
    first, second = read_log(path)
    assert first == LoggedChoice({"user^age": 3.0, "user^b": 1.0, "c": 1.0}, "1", -2.5, 0.4)
    assert (second.action, second.reward) == ("2", 1.0)
    path.write_text("shared |u a\n0:1:0.3 |f x\n|f y\n\nshared |u b\n|f x\n0:0:0.7 |f y\n")
    first, second = read_log(path)
    offered = ["f x", "f y"]
    assert first == LoggedChoice({"u^a": 1.0}, "f x", -1.0, 0.3, offered=offered)
    assert second == LoggedChoice({"u^b": 1.0}, "f y", -0.0, 0.7, offered=offered)
    path.write_text("1 | a b\n")
    with pytest.raises(ValueError, match="line 1: expected action:cost:probability"):
        read_log(path)


BAD_LINES = {
    "a cost": "1:1e:0.5 | a\n",
    "a probability": "1:0.5:e | a\n",
    "a value": "1:0.5:0.5 | a:x\n",
    "two values": "1:0.5:0.5 |n a:1:2\n",
    "no label": "shared | u\n| a\n| b\n",
    "two labels": "shared | u\n0:1:0.5 | a\n0:1:0.5 | b\n",
    "actions that are alike": "shared | u\n0:1:0.5 | a\n| a\n",
}


@pytest.mark.parametrize("what", BAD_LINES)
def test_bad_lines_of_vowpal_wabbit_are_refused_by_their_number(tmp_path, what):
    path = tmp_path / "log.vw"
    path.write_text("1:0.5:0.5 | a\n\n" + BAD_LINES[what])
    with pytest.raises(ValueError, match=r"log\.vw, line 3"):
        read_log(path)


def test_files_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "log.vw"
    path.write_text("1:0.5:0.5 | a\n", encoding="utf-8-sig")
    assert read_log(path) == [LoggedChoice({"a": 1.0}, "1", -0.5, 0.5)]


def test_text_that_spells_a_number_stays_text_in_json(tmp_path):
    path = tmp_path / "log.jsonl"
    row = {"action": "a", "reward": 1, "probability": 0.5, "zip": "10115", "word": "nan", "n": 3}
    path.write_text(json.dumps(row))
    (one,) = read_log(path)
    assert one.context == {"zip": "10115", "word": "nan", "n": 3.0}


def test_ids_are_no_context_and_rewards_may_be_true_or_false(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("id,action,reward,probability,x\nr1,a,True,0.5,2\nr2,b,False,0.5,3\n")
    first, second = read_log(path)
    assert first == LoggedChoice({"x": 2.0}, "a", 1.0, 0.5)
    assert second.reward == 0.0
    (one, _) = read_log(path, task="id")
    assert one.task == "r1"


def test_a_column_that_is_ignored_must_be_there(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action,reward,probability,x\na,1,0.5,3\n")
    assert read_log(path, ignore=["x"]) == [LoggedChoice({}, "a", 1.0, 0.5)]
    with pytest.raises(ValueError, match="no column 'y'"):
        read_log(path, ignore=["y"])


def test_a_packed_log_of_vowpal_wabbit_is_read(tmp_path):
    text = b"1:-1:0.5 | h:3\n"
    path = tmp_path / "log.vw.gz"
    path.write_bytes(gzip.compress(text))
    (one,) = read_log(path)
    assert one == LoggedChoice({"h": 3.0}, "1", 1.0, 0.5)
    for damaged in (gzip.compress(text)[:-9], text, gzip.compress(b"\xff")):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"log\.vw\.gz: "):
            read_log(path)


def test_a_column_has_one_role(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("action,reward,probability\na,1,0.5\n")
    with pytest.raises(ValueError, match="a column has one role"):
        read_log(path, action="reward")


def test_a_chosen_action_needs_a_probability_among_those_of_all(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('action,reward,probability\na,1,"{""b"": 1.0}"\n')
    with pytest.raises(ValueError, match=r"line 2, column 'probability': no probability of 'a'"):
        read_log(path)


def test_bad_probabilities_of_all_actions_are_refused_by_their_line(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('action,reward,probability\na,1,"{""a"": 0.5"\n')
    with pytest.raises(ValueError, match=r"line 2, column 'probability'"):
        read_log(path)


def dsjson(chosen, cost, **more):
    return {
        "_label_cost": cost,
        "_label_Action": chosen,
        "a": [2, 1],
        "p": [0.75, 0.25],
        "c": {
            "User": {"age": 3, "likes": ["a", 2.5], "_odd": 1},
            "_multi": [{"_tag": "news"}, {"Item": {"topic": "sport", "size": 2}}],
        },
        **more,
    }


def test_json_logs_of_vowpal_wabbit_are_read(tmp_path):
    path = tmp_path / "log.dsjson"
    rows = [dsjson(1, -2.0), {"RewardValue": 1.0, "EventId": "late"}, dsjson(2, 0.5)]
    path.write_text("\n\n".join(map(json.dumps, rows)))
    first, second = read_log(path)
    context = {"User^age": 3, "User^likes^0": "a", "User^likes^1": 2.5}
    law = {"news": 0.25, "Item^topic=sport Item^size=2": 0.75}
    assert first == LoggedChoice(context, "news", 2.0, 0.25, law)
    assert (second.action, second.reward, second.probability) == (list(law)[1], -0.5, 0.75)
    log = read_log(path, format="dsjson") * 20
    with pytest.warns(UserWarning, match="count for this"):
        assert evaluate(log, "always news").estimates["SNIPS"].value == pytest.approx(2.0)


@pytest.mark.parametrize(
    "row",
    [
        dsjson(0, 1.0),
        dsjson(3, 1.0),
        dsjson(1, None),
        dsjson(1, 1.0, p=[1.0]),
        dsjson(1, 1.0, pdrop=0.5),
        3,
    ],
)
def test_bad_json_logs_are_refused(tmp_path, row):
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(row))
    with pytest.raises(ValueError, match=r"line 1: .*(dsjson|pdrop)"):
        read_log(path)


@pytest.mark.filterwarnings("ignore:the log has only")
def test_a_policy_has_only_the_actions_of_a_block_of_vowpal_wabbit(tmp_path):
    path = tmp_path / "log.vw"
    blocks = ["shared |u a\n0:0:0.5 |f x\n|f y\n", "shared |u a\n0:-1:0.5 |f z\n|f y\n"] * 120
    path.write_text("\n".join(blocks))
    seen = set()

    def first(event, actions):
        seen.add(tuple(actions))
        return {actions[0]: 1.0}

    value = evaluate(read_log(path), first)
    assert seen == {("f x", "f y"), ("f z", "f y")}
    assert value.estimates["SNIPS"].value == pytest.approx(0.5)
    odd = read_log(path)[0]._replace(action="f q")
    with pytest.raises(ValueError, match="not among the actions offered"):
        evaluate([odd] * 20)


def test_logs_of_open_bandit_are_read(tmp_path):
    path = tmp_path / "random.csv"
    path.write_text(
        ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
        "0,2019-11-24 00:00:00,14,3,1,0.0125,cef3\n"
    )
    (one,) = read_log(path, format="open-bandit")
    assert one == LoggedChoice({"position": 3.0, "user_feature_0": "cef3"}, "14", 1.0, 0.0125)


def test_the_command(tmp_path, monkeypatch, capfd):
    write_csv(tmp_path / "log.csv", make_log(300, 0.5, 0))
    named = [text for name, column in COLUMNS.items() for text in (f"--{name}", column)]

    def run(log, *options):
        monkeypatch.setattr(
            sys, "argv", ["romco", "evaluate-policy", str(tmp_path / log), *options]
        )
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, *capfd.readouterr()

    code, printed, told = run("log.csv", *named, "--policy", "always a")
    assert code == 0
    assert "doubly robust" in printed
    assert "weights clipped: 0.0%" in printed + told
    code, printed, _ = run("log.csv", *named, "--json")
    assert code == 0
    assert json.loads(printed)["estimates"]["doubly robust"]["value"] > 0.5
    row = {"action": "a", "reward": 1, "probability": {"a": 1.0, "b": 0.0}}
    (tmp_path / "log.jsonl").write_text((json.dumps(row) + "\n") * 12)
    code, printed, _ = run("log.jsonl", "--json", "--policy", "always b")
    assert code == 0
    found = json.loads(printed, parse_constant=pytest.fail)  # JSON has no NaN
    assert found["estimates"]["SNIPS"] == {"value": None, "low": None, "high": None}
    code, _, told = run("log.csv", "--action", "nothing")
    assert code == 2
    assert "nothing" in told
