from __future__ import annotations

import json
import logging
import shutil
import signal
import sqlite3
import zlib

import pytest

import romco
from romco.__main__ import main
from romco.server.protocol import LearnRequest as Lesson
from romco.server.protocol import Settings
from tests.server.conftest import copied, opened
from tests.server.processes import Process
from tests.server.same import assert_same_bits
from tests.server.streams import learned, lessons, model

LESSONS = lessons(60, seed=5)
STREAM = [{"id": e.id, "task": e.task, "x": e.x, "y": e.y} for e in LESSONS]
CLASSES = ("--classes", "no,yes")


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command here, in a folder of its own; gives its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger(), "handlers", logging.getLogger().handlers[:])

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["romco", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0, capsys.readouterr()

    return run


@pytest.fixture
def serve(command):
    """Run `romco serve` where it ends by itself; gives its exit code and what it said."""

    def run(*options, data="d"):
        code, printed = command("serve", "--data", data, "--port", "0", *options)
        return code, printed.err

    return run


def test_killed_restarted_and_stopped_cleanly(tmp_path):
    first = Process(tmp_path / "data", *CLASSES)
    with first.client() as client:
        client.predict([{k: e[k] for k in ("id", "task", "x")} for e in STREAM])
        client.learn(STREAM[:30])
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    second = Process(tmp_path / "data", *CLASSES)
    with second.client() as client:
        told = client.learn([{"id": e["id"], "y": e["y"]} for e in STREAM[20:]])
        assert [o["status"] for o in told] == ["duplicate"] * 10 + ["applied"] * 30
    assert second.end(signal.SIGTERM) == 0
    with opened(tmp_path / "data") as service:
        assert service.served.sequence == 60
        expected = model()
        rows, tasks = [e.x for e in LESSONS], [e.task for e in LESSONS]
        expected.predict(rows, tasks, id=[e.id for e in LESSONS])
        for event in LESSONS:
            expected.answer(event.id, event.y)
        assert_same_bits(service.served.model, expected)


@pytest.mark.slow
def test_beginning_with_a_model_file(tmp_path):
    romco.save(learned(LESSONS), tmp_path / "m.romco")
    server = Process(tmp_path / "data", str(tmp_path / "m.romco"))
    with server.client() as client:
        assert client.tasks()["total"] == len(learned(LESSONS).tasks)
    assert server.end(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--hash", "18", "--columns", "3"], "contradict"),
        (["--actions", "a,b", "--keep-log"], "contradict"),
        (["--actions", "a,b", "--learner", "romco"], "--learner is for models"),
        (["--actions", "a,b", "--target", "number"], "--target is for models"),
        (["--actions", "a,b", "--columns", "3"], "--columns is for models"),
        (["--actions", "a,b,a"], "'a' is offered twice"),
        (["--actions", "a,,b"], "has no name"),
        (["--reward", "number"], "give --actions too"),
        (["--floor", "0.1"], "give --actions too"),
        (["--target", "what"], "auto, two-classes, classes, number"),
        (["--labels", "500"], "give a share"),
        (["--learner", "what"], "unknown learner"),
        (["--durability", "what"], "durable, logged or none"),
        (["--token-file", "missing"], "missing"),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(serve, options, why):
    code, said = serve(*options)
    assert code == 2
    assert why in said
    assert "Traceback" not in said


def test_a_damaged_folder_is_told_in_a_line(tmp_path, serve):
    with opened(tmp_path / "a") as service:
        for lesson in LESSONS[:4]:
            service.learn([lesson]).result()
        copied(service, tmp_path / "d")
    assert "in order" in serve("--check")[1]
    with sqlite3.connect(tmp_path / "d" / "romco.sqlite") as database:
        database.execute("UPDATE change SET crc32 = 7 WHERE sequence = 3")
    database.close()
    code, said = serve()  # it listens already when the log is replayed
    assert code == 2
    assert "change 3 in romco.sqlite is damaged" in said
    assert "Traceback" not in said


def test_check_serves_nothing_and_says_what_is_wrong(tmp_path, serve):
    code, said = serve("--check", *CLASSES)
    assert (code, "in order" in said) == (0, True), said
    romco.save(learned(LESSONS), tmp_path / "other.romco")
    code, said = serve("--check", "other.romco")
    assert code == 2
    assert "other.romco" in said
    assert "--data" in said


def test_options_that_contradict_a_chooser_are_told(tmp_path, serve):
    assert serve("--check", "--actions", "a,b", "--floor", "0.1")[0] == 0
    for option, value in (("--reward", "number"), ("--floor", "0.2")):
        code, said = serve("--check", "--actions", "a,b", option, value)
        assert code == 2
        assert f"{option} " in said
        assert "another folder" in said
    assert serve("--check", "--actions", "c", "--reward", "yes/no")[0] == 0
    assert serve("--check", "--actions", "")[0] == 0
    romco.Chooser().save(tmp_path / "c.romco")
    code, said = serve("--check", "c.romco", data="other")
    assert code == 2
    assert "c.romco holds no model, but a Chooser" in said


@pytest.mark.slow
def test_a_chooser_of_a_file_knows_numbers_by_their_text(tmp_path, serve):
    chooser = romco.Chooser(seed=3)
    for k in range(200):
        drawn = chooser.choose({}, task=k % 2, actions=[1, 2], id=k)
        chooser.reward(k, drawn.action == 1 + k % 2)
    chooser.choose({}, task=1, actions=[1, 2], id=1000)
    chooser.save(tmp_path / "c.romco")
    server = Process(tmp_path / "data", str(tmp_path / "c.romco"), "--actions", "1,2")
    with server.client() as client:
        for task in (0, 1):
            known = client.choose({"task": task})["probabilities"]
            expected = chooser.probabilities({}, task=task, actions=[1, 2])
            assert known == {"1": expected[1], "2": expected[2]}
        assert client.reward({"id": "1000", "reward": 1})["status"] == "applied"
        client.forget(1)
        client.model(tmp_path / "after.romco")
    assert server.end(signal.SIGTERM) == 0
    assert romco.load(tmp_path / "after.romco").tasks == ["0"]
    chooser.choose({}, actions=[1, "1"], id="clash")
    chooser.save(tmp_path / "c.romco")
    code, said = serve("--check", "c.romco", "--actions", "1,2", data="other")
    assert code == 2
    assert "an action is named twice" in said


def test_logs_can_be_json(tmp_path):
    server = Process(tmp_path / "data", "--log-json", *CLASSES)
    with server.client() as client:
        client.learn(STREAM[:3])
    assert server.end(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in server.lines if line.startswith("{")]
    assert any("checkpoint at change 3" in line["message"] for line in lines)
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)


def test_tokens_by_the_command_line(tmp_path, command):
    _, printed = command("token", "tokens", "--scopes", "read")
    secret = printed.out.strip()
    server = Process(tmp_path / "data", "--token-file", str(tmp_path / "tokens"))
    with server.client(token=secret) as client:
        assert client.tasks()["total"] == 0
    server.end(signal.SIGTERM)


@pytest.mark.slow
def test_groupings_of_a_new_model(tmp_path, serve):
    options = ["--classes", "bad,good", "--task", "lecturer", "--task"]
    process = Process(tmp_path / "data", *options, "student")
    with process.client() as client:
        for k in range(20):
            level, y = {"lecturer": "anna", "student": k % 2}, ("bad", "good")[k % 2]
            client.learn({"task": level, "x": {"hour": 9.0}, "y": y})
        asked = [{"task": ["anna", student], "x": {"hour": 9.0}} for student in (0, 1)]
        assert [one["label"] for one in client.predict(asked)] == ["bad", "good"]
        assert [row["task"] for row in client.tasks()["tasks"]] == ["anna"]
    assert process.end(signal.SIGTERM) == 0
    for other, status in (("student", 0), ("room", 2)):
        code, said = serve("--check", *options, other, data="data")
        assert code == status, said
    assert "other groupings" in said


def test_forget_exactly_and_verify(command, tmp_path):
    """Who has a copy of the folder and the certificate verifies that a person is not in it."""
    settings = Settings("none", keep_log=True)
    with opened(tmp_path / "d", model, settings) as service:
        service.learn(LESSONS).result(60.0)
    code, printed = command("forget", "--data", "d", "user3")
    assert code == 2
    assert "exact=true" in printed.err
    code, printed = command("forget", "--data", "d", "--exact", "user3", "--certificate", "c.json")
    assert code == 0, printed.err
    certificate = json.loads((tmp_path / "c.json").read_text())
    left = [lesson for lesson in LESSONS if lesson.task != "user3"]
    assert certificate["removed"]["events"] == len(LESSONS) - len(left)
    assert certificate["base_events"] == 0
    assert "user3" not in json.dumps(certificate)
    shutil.copytree(tmp_path / "d", tmp_path / "copy")
    given = ("verify", "c.json", "--data", "copy", "--task")
    code, printed = command(*given, "user3")
    assert code == 0, printed.err
    assert command(*given, "user4")[0] == 1
    (tmp_path / "c.json").write_text(
        json.dumps({"status": "forgotten", "certificate": certificate})
    )
    assert command(*given, "user3")[0] == 0, "the service's answer holds the certificate"
    for name, other in (("base_events", 1), ("model", certificate["log"])):
        (tmp_path / "other.json").write_text(json.dumps(certificate | {name: other}))
        assert command("verify", "other.json", *given[2:], "user3")[0] == 1
    with opened(tmp_path / "copy", settings=settings) as service:
        assert_same_bits(service.served.model, learned(left))
        service.learn([Lesson(y="no", task="later", x={"f1": 1.0})]).result(60.0)
    assert command(*given, "user3")[0] == 0, "up to the change of the certificate"
    backup = tmp_path / "copy" / "model-backup.romco"
    romco.save(learned(LESSONS), backup)
    code, printed = command(*given, "user3")
    assert code == 1
    assert "no model in the folder knows the task: NO" in printed.err
    backup.unlink()
    with sqlite3.connect(tmp_path / "copy" / "romco.sqlite") as database:
        query = "SELECT file FROM checkpoint ORDER BY sequence DESC"
        served = tmp_path / "copy" / database.execute(query).fetchone()[0]
    database.close()
    content = served.read_bytes()
    romco.save(learned(left[1:]), served)
    code, printed = command(*given, "user3")
    assert code == 1
    assert "the folder's model follows from its log: NO" in printed.err
    served.write_bytes(content)
    with sqlite3.connect(tmp_path / "copy" / "romco.sqlite") as database:
        first, body = database.execute("SELECT sequence, body FROM change").fetchone()
        body = body.replace(b'"yes"', b'"no"', 1)
        row = (body, zlib.crc32(body), first)
        database.execute("UPDATE change SET body = ?, crc32 = ? WHERE sequence = ?", row)
    database.close()
    code, printed = command(*given, "user3")
    assert code == 1
    assert "the log is the same: NO" in printed.err
    assert "the model follows from the log: NO" in printed.err
    with sqlite3.connect(tmp_path / "copy" / "romco.sqlite") as database:
        database.execute("UPDATE change SET body = CAST(body AS TEXT)")
    database.close()
    code, printed = command(*given, "user3")
    assert code == 1
    assert "the folder can be read: NO" in printed.err
    with sqlite3.connect(tmp_path / "copy" / "romco.sqlite") as database:
        database.execute("UPDATE change SET body = 'no change' WHERE sequence = ?", [first])
    database.close()
    code, printed = command(*given, "user3")
    assert code == 1
    assert "the folder can be read: NO, JSON is malformed" in " ".join(printed.err.split())
    (tmp_path / "c.json").write_text("[" * 100_000)
    code, printed = command(*given, "user3")
    assert code == 2
    assert "c.json is no certificate" in printed.err


def test_forget_the_personal_part(command, tmp_path):
    with opened(tmp_path / "d") as service:
        service.learn(LESSONS).result(60.0)
    assert command("forget", "--data", "d", "user3")[0] == 0
    with opened(tmp_path / "d") as service:
        assert "user3" not in service.served.model.tasks
    for given in (("d", "user3"), ("elsewhere", "user4")):
        code, printed = command("forget", "--data", *given)
        assert code == 2
        assert "no task 'user3' is known" in printed.err or "no folder" in printed.err
