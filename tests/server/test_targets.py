"""Many classes, numbers, and labels that cost."""

from __future__ import annotations

import threading
from random import Random

import numpy as np
import pytest

import romco
from romco.model import Columns, Model
from romco.server import ServiceError
from romco.server.protocol import PredictRequest, Settings
from tests.server.same import assert_same_bits


def stream(n, kind):
    random = Random(1)
    made = []
    for k in range(n):
        x = {f"f{j}": round(random.gauss(0, 1), 3) for j in range(3)}
        best = max(x, key=x.get)
        y = best if kind == "classes" else round(sum(x.values()), 3)
        made.append({"id": f"e{k}", "task": f"t{k % 5}", "x": x, "y": y})
    return made


def served(serving, kind, events):
    with serving(new=lambda: Model(target=kind)) as service:
        client = service.client
        client.predict([{name: e[name] for name in ("id", "task", "x")} for e in events])
        client.learn([{"id": e["id"], "y": e["y"]} for e in events])
        whole = Model(target=kind)
        rows, tasks = [e["x"] for e in events], [e["task"] for e in events]
        context = None
        if kind == "number":  # answers that come late are heard as such
            context = whole.engine.prediction_context(rows, tasks)
        whole.learn(rows, [e["y"] for e in events], tasks, context=context)
        assert_same_bits(service.served.model, whole)
        yield service, client


def test_predictions_while_new_classes_come(serving):
    """Their margins were read with more classes than these had, or fewer: 500."""
    done = threading.Event()
    with serving(new=lambda: Model(target="classes")) as service:
        x = {"f1": 1.0, "f2": 2.0}
        service.client.learn({"task": "t", "x": x, "y": "c"})

        def learn():
            service.client.learn([{"task": "t", "x": x, "y": f"c{k}"} for k in range(40)])
            done.set()

        learning = threading.Thread(target=learn)
        learning.start()
        while not done.is_set():
            (told,), _ = service.served.respond([PredictRequest("t", x)])
            assert told.label is not None
            assert 0.0 <= told.probability <= 1.0
        learning.join()


def test_many_classes(serving):
    events = stream(300, "classes")
    for service, client in served(serving, "classes", events):
        told = client.predict({"task": "t1", "x": {"f2": 3.0}})
        assert told["label"] == "f2"
        assert 0.3 < told["probability"] <= 1.0
        fresh = stream(400, "classes")[300:]
        client.learn(fresh)
        assert service.served.scores.total.mean < 0.7
        assert service.status()["target"] == "classes"


def test_numbers(serving):
    events = stream(300, "number")
    for service, client in served(serving, "number", events):
        told = client.predict({"task": "t1", "x": {"f2": 2.0}})
        assert told["probability"] is None
        assert told["label"] == told["margin"] == pytest.approx(2.0, abs=0.5)
        assert told["low"] < told["label"] < told["high"]
        running = service.served.scores.total
        before, counted = running.errors, running.events
        client.learn({"task": "t1", "x": {"f2": 2.0}, "y": 5.0})
        assert running.errors - before == pytest.approx(abs(told["label"] - 5.0), abs=0.1)  # frozen
        assert running.events == counted + 1
        bad = {"task": "t", "x": {"a": 1.0}, "y": "text"}
        with pytest.raises(ServiceError) as caught:
            client.learn([events[0] | {"id": "new"}, bad])
        assert caught.value.index == 1


def test_numbers_have_rmse_and_coverage_of_intervals(serving):
    events = stream(100, "number")
    with serving(new=lambda: Model(target="number")) as service:
        first = service.client.predict({"task": "t1", "x": {"f2": 2.0}})
        assert first["label"] is None
        assert "low" not in first
        told = []
        for event in events:
            asked = {name: event[name] for name in ("id", "task", "x")}
            told.append(service.client.predict(asked))
            service.client.learn({"id": event["id"], "y": event["y"]})
        pairs = list(zip(told, events, strict=True))[1:]
        assert "low" not in told[1]  # the spread of one number is not known
        inside = [one["low"] <= event["y"] <= one["high"] for one, event in pairs[1:]]
        squares = [(one["label"] - event["y"]) ** 2 for one, event in pairs]
        figures = service.status()["figures"]
        assert figures["events"] == len(pairs)
        assert figures["coverage"] == pytest.approx(np.mean(inside))
        assert figures["rmse"] == pytest.approx(np.sqrt(np.mean(squares)))


def test_labels_are_asked_for_within_the_budget(serving):
    events = stream(1000, "classes")
    for share in (0.1, 0.1):  # the second goes on with what the first has spent
        with serving(settings=Settings(budget=share), new=lambda: Model(classes=(0, 1))) as service:
            asked = service.client.predict(
                [{name: e[name] for name in ("id", "task", "x")} for e in events]
            )
            assert "ask" not in service.client.predict({"task": "t", "x": {"a": 1.0}})
            policy = service.served.model.labels
            spent, seen = policy.spent, policy.events
    assert seen == 2000
    assert 100 <= spent <= 201
    assert {told["ask"] for told in asked} == {True, False}


def test_offsets_of_classes(serving):
    classes, known = ("a", "b", "c"), [1.0, -0.5, 0.0]
    event = {"task": "t1", "x": {"f0": 1.0}, "offset": known}

    def new():
        return Model(target="classes", classes=classes)

    whole = new()
    with serving(new=new) as service:
        first = service.client.predict({**event, "id": "1"})
        found = new().predict_proba([event["x"]], ["t1"], offset=[known])
        assert first["probability"] == pytest.approx(found.max(), abs=1e-12)
        service.client.learn({"id": "1", "y": "c"})
        service.client.learn([{**event, "y": "b"}] * 5)
        for y in "cbbbbb":
            whole.learn_one(event["x"], y, "t1", offset=known)
        for bad in (None, 1.0, [1.0, 2.0]):
            for other in ([], [event]):
                with pytest.raises(ServiceError, match="offset"):
                    service.client.predict([{**event, "offset": bad}, *other])
    with serving(new=new) as service:  # from the log
        expected = whole.predict_proba([event["x"]], ["t1"], offset=[known]).max()
        found = service.client.predict(event)
        assert found["probability"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", ["two classes", "number"])
def test_offsets(serving, kind):
    """Kept with a pending event, learned as by the model, refused where they lack, replayed."""
    events = stream(200, "number")
    for k, event in enumerate(events):
        event["offset"] = 0.5 * ((k % 7) - 3)
        event["y"] = event["y"] + event["offset"] if kind == "number" else event["y"] > 0.0
    classes = None if kind == "number" else (False, True)

    def new():
        return Model(target=kind, classes=classes)

    whole = new()
    given = [[event[name] for event in events] for name in ("x", "y", "task", "offset")]
    x, y, task, offset = given
    with serving(new=new) as service:
        client = service.client
        first = client.predict({"task": "t1", "x": {"f0": 1.0}, "offset": 1.25})
        assert first["margin"] == pytest.approx(1.25, abs=1e-12)
        client.predict([{n: e[n] for n in ("id", "task", "x", "offset")} for e in events[:100]])
        client.learn([{"id": e["id"], "y": e["y"]} for e in events[:100]])
        client.learn(events[100:])
        whole.learn(x, y, task, offset=offset)
        asked = {"task": "t1", "x": {"f0": 1.0}, "offset": -0.5}
        before = client.predict([asked] * 200)[-1]["margin"]
        expected = whole.margins([asked["x"]] * 200, ["t1"] * 200, offset=[-0.5] * 200)[-1]
        assert before == pytest.approx(expected, abs=0.2)
        for bad in ({}, {"offset": "a"}, {"offset": 1e300}):
            with pytest.raises(ServiceError, match="offset"):
                client.predict({"task": "t1", "x": {"f0": 1.0}, **bad})
            with pytest.raises(ServiceError, match="offset"):
                client.learn({"task": "t1", "x": {"f0": 1.0}, "y": y[0], **bad})
        assert service.served.model.events == 200
    with serving(new=new) as service:  # from the log
        assert service.served.model.engine.with_offset
        after = service.client.predict([asked] * 200)[-1]["margin"]
        assert after == pytest.approx(before, abs=1e-9)


def ratings(n):
    """Ratings of lecturers by students, with rows as a table has them."""
    random = Random(1)
    rows, y = [], []
    for _ in range(n):
        lecturer, student = random.randrange(5), random.randrange(8)
        rows.append({"age": random.gauss(0.0, 1.0), "lecturer": f"l{lecturer}", "student": student})
        y.append("good" if lecturer + student + random.gauss(0.0, 2.0) > 6.0 else "bad")
    return rows, y


@pytest.mark.parametrize("nested", [pytest.param(False, marks=pytest.mark.slow), True])
def test_levels_of_several_groupings(serving, tmp_path, nested):
    """As a list, as an object, or the further ones in the row: as a model reads its table."""
    rows, y = ratings(300)
    task = ["lecturer/student"] if nested else ["lecturer", "student"]
    whole = Model(classes=("bad", "good"))
    whole.learn(rows[:100], y[:100], task)
    romco.save(whole, tmp_path / "m.romco")

    def event(row, listed):
        levels = {name: row[name] for name in ("lecturer", "student")}
        return {
            "task": list(levels.values()) if listed else levels,
            "x": {"age": row["age"]},
        }

    asked = [event(row, k % 2 == 0) for k, row in enumerate(rows)]
    whole.learn(rows[100:], y[100:], task)
    margins = whole.margins(rows, task)
    with serving(new=lambda: romco.load(tmp_path / "m.romco")) as service:
        client = service.client
        ids = [{**one, "id": str(k)} for k, one in enumerate(asked[100:200])]
        client.predict(ids)
        client.learn([{**one, "y": label} for one, label in zip(ids, y[100:200], strict=True)])
        client.learn([{**one, "y": b} for one, b in zip(asked[200:], y[200:], strict=True)])
        made = client.predict(asked)
        assert [one["margin"] for one in made] == pytest.approx(margins.tolist(), abs=1e-9)
        assert client.explain(asked[0])["margin"] == pytest.approx(margins[0])
        for bad in (["l1"], ["l1", 2, 3], {"lecturer": "l1"}, {"lecturer": "l1", "other": 2}, []):
            with pytest.raises(ServiceError, match="task"):
                client.predict({"task": bad, "x": {"age": 1.0}})
            with pytest.raises(ServiceError, match="task"):
                client.learn({"task": bad, "x": {"age": 1.0}, "y": "good"})
        assert service.served.model.events == 300
    with serving() as service:  # from the checkpoint
        made = service.client.predict(asked)
        assert [one["margin"] for one in made] == pytest.approx(margins.tolist(), abs=1e-9)
    with serving("other") as service, pytest.raises(ServiceError, match="expected one task"):
        service.client.predict({"task": ["l1", "s1"], "x": {"age": 1.0}})


def test_rows_without_names(serving):
    """Lists of numbers; a request of duplicates alone brings no row to check."""
    with serving(new=lambda: Model(features=Columns(2), classes=("no", "yes"))) as service:
        client = service.client
        events = [{"id": str(k), "task": "t", "x": [k % 2, 1.0], "y": "yes"} for k in range(6)]
        client.learn(events)
        assert {one["status"] for one in client.learn(events)} == {"duplicate"}
        rows = [event["x"] for event in events]
        margins = service.served.model.margins(rows, ["t"] * 6).tolist()
        asked = [{"task": "t", "x": row} for row in rows]
        assert [one["margin"] for one in client.predict(asked)] == margins
        for bad in ([1.0], {"a": 1.0}):
            with pytest.raises(ServiceError) as caught:
                client.learn([*events, {"task": "t", "x": bad, "y": "no"}])
            assert caught.value.index == 6
            with pytest.raises(ServiceError):
                client.predict([*asked, {"task": "t", "x": bad}])
