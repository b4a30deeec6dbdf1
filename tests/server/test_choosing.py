"""A served chooser: choices and rewards over HTTP, restarts, forgetting, the log."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from romco import Chooser
from romco.choosing_service import ChoosingApplication, ChoosingService
from romco.policies import evaluate, read_log
from romco.server import Client, ServiceError
from romco.server.app import Server
from romco.server.protocol import Settings
from romco.server.routes import Access
from romco.server.sources import SourceReader
from tests.server.browsers import browser
from tests.server.conftest import copied, started
from tests.server.test_page import NASTY, wait
from tests.server.test_sources import Flaky, until

ACTIONS = ["news", "music", "sport"]


@contextmanager
def choosing(folder, settings=None, actions=ACTIONS, new=lambda: Chooser(seed=3)):
    """A server of a chooser, and a client."""
    service = ChoosingService(folder, new, settings or Settings(), "", actions)
    server = Server(service, Access(None), "127.0.0.1", application=ChoosingApplication)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with Client(server.url, retries=0, timeout=60.0).wait(60.0) as client:
            client.service, client.application = service, server.application
            yield client
    finally:
        server.uvicorn.should_exit = True
        thread.join(60.0)


def live(client, first, last):
    """Choose and reward; return the actions."""
    chosen = []
    for k in range(first, last):
        event = {"id": f"r{k}", "task": f"p{k % 3}", "x": {"hour": k % 24}}
        action = client.choose(event)["action"]
        outcome = client.reward({"id": f"r{k}", "reward": action == "music"})
        assert outcome["status"] == "applied"
        chosen.append(action)
    return chosen


def same_state(one, other):
    first, second = one.state(), other.state()
    arrays, others = first.pop("arrays"), second.pop("arrays")
    assert first == second
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in others.items()
    }


def test_it_learns_what_earns(tmp_path):
    with choosing(tmp_path / "data") as client:
        chosen = live(client, 0, 150)
        assert chosen[-30:].count("music") > 25
        status = client.application.metrics.status()
        rows = {row["action"]: row for row in status["actions"]}
        assert rows["music"]["chosen"] == chosen.count("music") == rows["music"]["earned"]
        assert rows["sport"]["offered"] == 150
        assert (status["rewards"], status["choices"], status["pending"]) == (150, 150, 0)


def test_a_choice_repeats_and_a_reward_counts_once(tmp_path):
    with choosing(tmp_path / "data") as client:
        event = {"id": "a", "x": {}, "actions": ["x", {"name": "y", "price": 3}]}
        first = client.choose(event)
        again = client.choose(event)
        assert first["status"] == "applied"
        assert again == {**first, "status": "duplicate"}
        assert sum(first["probabilities"].values()) == pytest.approx(1.0)
        assert client.reward({"id": "a", "reward": 1}) == {"status": "applied", "sequence": 2}
        twice = [{"id": "a", "reward": 1}, {"id": "a", "reward": 0}]
        same, other = client.reward(twice)
        assert same == {"status": "duplicate", "sequence": 2}
        assert other == {"status": "duplicate", "sequence": 2, "differs": True}
        assert client.reward({"id": "b", "reward": 1})["status"] == "expired"
        assert client.choose(event) == again
        assert client.service.served.model.rewards == 1


def test_a_list_may_name_an_id_twice(tmp_path):
    with choosing(tmp_path / "data") as client:
        first, second = client.choose([{"id": "a"}, {"id": "a"}])
        assert second == {**first, "status": "duplicate"}
        rewards = [{"id": "a", "reward": 1}, {"id": "a", "reward": 1}]
        assert [one["status"] for one in client.reward(rewards)] == ["applied", "duplicate"]


BAD = [
    ({"id": "r", "actions": ["a", "a"]}, "offered twice"),
    ({"id": "r", "actions": []}, "actions"),
    ({"id": "r", "actions": [{"price": 3}]}, "name"),
    ({"id": "r", "actions": [{"name": 3}]}, "text"),
    ({"id": "r", "actions": [f"a{k}" for k in range(1001)]}, "actions"),
    ({"id": "", "actions": ["a"]}, "id"),
    ({"id": "kept", "actions": ["other"]}, "among other actions"),
]


def test_bad_requests_change_nothing(tmp_path):
    with choosing(tmp_path / "data") as client:
        client.choose({"id": "kept"})
        for request, reason in BAD:
            with pytest.raises(ServiceError, match=reason) as refused:
                client.choose(request)
            assert refused.value.status == 422
        with pytest.raises(ServiceError, match="0 or 1"):
            client.reward([{"id": "kept", "reward": 1}, {"id": "kept", "reward": 2}])
        assert client.service.served.sequence == 1
        assert client.service.served.model.rewards == 0


def test_no_actions_at_all(tmp_path):
    refused = pytest.raises(ServiceError, match="--actions")
    with choosing(tmp_path / "data", actions=()) as client, refused:
        client.choose({"id": "r"})


def test_room_for_actions(tmp_path):
    with choosing(tmp_path / "data", Settings(model_actions=3), actions=()) as client:
        client.choose({"id": "r", "actions": ["a", "b"]})
        with pytest.raises(ServiceError, match="room for 3 actions"):
            client.choose({"id": "s", "actions": ["c", "d"]})
        client.choose({"id": "s", "actions": ["c", "a"]})


def test_a_model_is_not_a_chooser(tmp_path, serving):
    with choosing(tmp_path / "chooser") as client, serving() as other:
        with pytest.raises(ServiceError, match="no model") as refused:
            client.predict({"task": "ann", "x": {}})
        assert refused.value.status == 404
        with pytest.raises(ServiceError, match="no model"):
            client.stored("ann")
        with pytest.raises(ServiceError, match="no chooser"):
            other.client.choose({"id": "r"})
    with pytest.raises(ValueError, match="holds a model"):
        ChoosingService(tmp_path / "data", Chooser, Settings())


def test_a_copy_goes_on_as_the_first(tmp_path):
    with choosing(tmp_path / "data") as client:
        live(client, 0, 40)
        client.checkpoint()
        live(client, 40, 60)
        waiting = client.choose({"id": "waits", "task": "p1", "x": {"hour": 3}})
        copied(client.service, tmp_path / "copy")
        expected = live(client, 60, 80)
        with choosing(tmp_path / "copy") as other:
            repeated = other.choose({"id": "waits", "task": "p1", "x": {"hour": 3}})
            assert repeated == {**waiting, "status": "duplicate"}
            assert live(other, 60, 80) == expected
            same_state(other.service.served.model, client.service.served.model)
            assert other.service.served.scores == client.service.served.scores


def test_a_person_is_forgotten(tmp_path):
    with choosing(tmp_path / "data") as client:
        live(client, 0, 9)
        client.choose({"id": "waits", "task": "p1", "x": {}})
        with pytest.raises(ServiceError, match="cannot forget exactly") as refused:
            client.forget("p1", exact=True)
        assert refused.value.status == 409
        client.forget("p1")
        assert client.service.served.model.tasks == ["p0", "p2"]
        assert client.reward({"id": "waits", "reward": 1})["status"] == "expired"
        client.choices(tmp_path / "log.jsonl")
        lines = (tmp_path / "log.jsonl").read_text().splitlines()
        assert {json.loads(line)["task"] for line in lines} == {"p0", "p2"}
        with pytest.raises(ServiceError, match="no task 'p1' is known"):
            client.forget("p1")
    assert b"p1" not in (tmp_path / "data" / "romco.sqlite").read_bytes()


def test_the_log_is_one_that_can_be_evaluated(tmp_path):
    with choosing(tmp_path / "data", new=lambda: Chooser(floor=0.3)) as client:
        live(client, 0, 200)
        client.choose({"id": "waits", "x": {"hour": 1}})
        client.choices(tmp_path / "log.jsonl")
    log = read_log(tmp_path / "log.jsonl", task="task", ignore=["id"])
    assert len(log) == 200
    assert evaluate(log, "always music").estimates["doubly robust"].value > 0.9


def test_features_may_be_named_as_columns_of_the_log(tmp_path):
    x = {"probability": 0.25, "action": "buy", "hour": 3}
    with choosing(tmp_path / "data") as client:
        drawn = client.choose({"id": "a", "x": x})
        client.reward({"id": "a", "reward": 1})
        client.choices(tmp_path / "log.jsonl")
    (one,) = read_log(tmp_path / "log.jsonl", task="task", ignore=["id"])
    assert one.probabilities == drawn["probabilities"]
    assert one.action == drawn["action"]
    assert one.context == {"x.probability": 0.25, "x.action": "buy", "hour": 3.0}


def test_it_draws_as_a_chooser_does(tmp_path):
    alone = Chooser(seed=3)
    with choosing(tmp_path / "data") as client:
        for k in range(40):
            x = {"hour": k % 24, f"new {k % 7}": "text", "late": max(k - 20, 0)}
            served = client.choose({"id": f"r{k}", "x": x})
            choice = alone.choose(x, actions=ACTIONS, id=f"r{k}")
            assert served["probabilities"] == choice.probabilities
            assert served["action"] == choice.action
            client.reward({"id": f"r{k}", "reward": choice.action == "music"})
            alone.reward(f"r{k}", choice.action == "music")


def test_it_begins_with_a_chooser_of_a_file(tmp_path):
    before = Chooser()
    drawn = before.choose({}, actions=ACTIONS, id="early", task="ann")
    with choosing(tmp_path / "data", new=lambda: before) as client:
        assert client.choose({"id": "early"})["action"] == drawn.action
        assert client.reward({"id": "early", "reward": 1})["status"] == "applied"
        assert client.reward({"id": "early", "reward": 1})["status"] == "duplicate"


def test_the_page_shows_what_was_chosen(tmp_path, chromium):
    with choosing(tmp_path / "data", actions=["music", NASTY]) as client, browser(chromium) as page:
        chosen = live(client, 0, 60)
        page.get(client._url)
        row = wait(page, "document.querySelector('#actions tbody tr')?.innerText")
        assert row.split()[:3] == ["music", "60", str(chosen.count("music"))]
        assert page.title == "romco"
        assert [entry for entry in page.get_log("browser") if entry["level"] != "INFO"] == []


@pytest.mark.slow
@pytest.mark.parametrize("unit", [-2.0, 1e-7])
def test_the_page_shows_rewards_of_any_unit(tmp_path, chromium, unit):
    new = partial(Chooser, "number")
    with choosing(tmp_path / "data", new=new) as client, browser(chromium) as page:
        for k in range(40):
            client.choose({"id": f"r{k}"})
            client.reward({"id": f"r{k}", "reward": unit * (1 + k % 7)})
        page.get(client._url)
        wait(page, "document.querySelector('#reward-chart .curve')")
        drawn = "document.querySelector('#reward-chart .curve').getBBox()"
        top, height = page.execute_script(f"const {{y, height}} = {drawn}; return [y, height];")
        assert top >= 12.0
        assert height > 30.0
        assert top + height <= 128.0 + 1e-3
        shown = page.execute_script("return document.querySelector('#mean-reward').innerText")
        mean = client.service.served.scores.total.mean
        assert float(shown) == pytest.approx(mean, rel=0.01)


def test_rewards_of_a_stream(tmp_path):
    with choosing(tmp_path / "data") as client:
        client.choose([{"id": f"r{k}"} for k in range(60)])
        broker = Flaky([json.dumps({"id": f"r{k}", "reward": k % 2}) for k in range(60)])
        reader = SourceReader(broker, client.service)
        until(lambda: broker.acknowledged == 60)
        reader.stop()
        assert client.service.served.model.rewards == 60
        total = client.service.served.scores.total
        assert (total.events, total.errors) == (60, 30.0)


def test_a_request_that_comes_alone_is_answered(tmp_path):
    """A queue that waits beyond its timeout keeps the first of a group until another comes."""
    settings = Settings(group_ms=0.006)
    with started(ChoosingService(tmp_path / "data", Chooser, settings)) as service:
        for _ in range(2000):
            first = service.call_in_writer(lambda _: service.call_in_writer(lambda _: True))
            assert first.result(60.0).result(60.0)


def test_too_many_wait(tmp_path):
    with choosing(tmp_path / "data", new=lambda: Chooser(pending=2)) as client:
        client.choose([{"id": f"r{k}"} for k in range(3)])
        rewards = [{"id": f"r{k}", "reward": 1} for k in range(3)]
        statuses = [one["status"] for one in client.reward(rewards)]
        assert statuses == ["expired", "applied", "applied"]
