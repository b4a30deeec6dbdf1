import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import romco
from romco.__main__ import main
from romco.io.formats import BadFile, BadRow
from romco.model import Hashed
from romco.runs import Source
from romco.shards import Shards
from romco.shards.checkpoint import merge_histories, split_history
from romco.shards.files import NOTE, learn, read
from romco.shards.reader import EventFiles, FilePosition, ShardReader, list_files, task_owner
from tests.reference.events import reader_events
from tests.shards.streams import assert_same, events, place_of

STREAM = events(260, seed=4)
BITS = 6


def write(folder, stream=STREAM, cuts=(0, 90, 170, 260)):
    """The stream in three files of three formats."""
    x, y, task = stream
    names = sorted({name for row in x for name in row})
    rows = [{"user": t, "spam": label, **row} for row, label, t in zip(x, y, task, strict=True)]
    folder.mkdir(exist_ok=True)
    table = [",".join(["user", "spam", *names])]
    for row in rows[cuts[0] : cuts[1]]:
        table.append(",".join(str(row.get(name, "")) for name in ["user", "spam", *names]))
    (folder / "1.csv").write_text("\n".join(table) + "\n")
    lines = [json.dumps(row) for row in rows[cuts[1] : cuts[2]]]
    (folder / "2.jsonl").write_text("\n".join(lines) + "\n")
    columns = ["user", "spam", *names]
    last = [{name: row.get(name) for name in columns} for row in rows[cuts[2] :]]
    pq.write_table(pa.Table.from_pylist(last), folder / "3.parquet")
    return folder


def files(folder, **options):
    source = Source(str(folder), "user", "spam", **options)
    paths = list_files([str(folder)])
    return EventFiles(paths, source, ("no", "yes"), Hashed(2**BITS).to_json())


def direct(n, stream=STREAM, **schedule):
    shards = Shards("romco-auto", n, Hashed(2**BITS), classes=("no", "yes"), **schedule)
    shards.learn(*stream)
    return shards.state()


def without_section(state):
    return {key: value for key, value in state.items() if key not in ("cluster", "session")}


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_shards_that_read_by_themselves_equal_shards_that_are_fed(tmp_path, engine):
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    *_, last = learn(files(folder), model, n=3, engine=engine, every=20)
    assert (last.rows, last.events, last.skipped) == (260, 260, 0)
    expected = direct(3, every=20)
    got = Shards.load(model).state()
    assert_same(without_section(got), without_section(expected))
    x, y, task = STREAM
    plain = Shards("romco-auto", 3, Hashed(2**BITS), classes=("no", "yes"), every=20)
    wrong = (plain.learn(x, y, task) >= 0) != (np.array(y) == "yes")
    assert last.loss == wrong.sum()


def test_the_same_call_goes_on_after_a_stop_and_after_more_files_came(tmp_path):
    x, y, task = STREAM
    folder, model = tmp_path / "in", tmp_path / "m.romco"
    write(folder)
    settings = {"n": 3, "every": 20, "checkpoint_every": 5}
    steps = learn(files(folder), model, **settings)
    for _ in range(23):
        next(steps)
    steps.close()  # stopped here: what follows begins at the last checkpoint
    place = place_of(model)
    assert 0 < place < 260
    first, *_, last = learn(files(folder), model, **settings)
    assert first.resumed == place
    assert last.events == 260
    more = events(100, seed=9)
    lines = [
        json.dumps({"user": t, "spam": label, **row})
        for row, label, t in zip(*more[:2], more[2], strict=True)
    ]
    (folder / "4.jsonl").write_text("\n".join(lines))
    *_, last = learn(files(folder), model, **settings)
    assert last.events == 360
    whole = direct(3, (x + more[0], y + more[1], task + more[2]), every=20)
    assert_same(without_section(Shards.load(model).state()), without_section(whole))


@pytest.mark.parametrize("n", [1, 3])
def test_weights_in_files_are_those_of_rows(tmp_path, n):
    """A row of weight 0 is not learned; one whose weight cannot be is bad."""
    x, y, task = STREAM
    weight = np.round(np.random.default_rng(3).uniform(0.5, 2.0, len(y)), 3)
    rows = [{**row, "count": one} for row, one in zip(x, weight.tolist(), strict=True)]
    folder, model = write(tmp_path / "in", (rows, y, task)), tmp_path / "m.romco"
    (folder / "4.jsonl").write_text('{"user": "ann", "spam": "no", "f1": 1, "count": 0}\n')
    *_, last = learn(files(folder, weight="count"), model, n=n, every=20)
    assert (last.rows, last.events) == (261, 260)
    shards = Shards("romco-auto", n, Hashed(2**BITS), classes=("no", "yes"), every=20)
    shards.learn(x, y, task, weight=weight)
    found, expected = romco.load(model), shards.model()
    assert (found.events, found.tasks) == (expected.events, expected.tasks)
    np.testing.assert_array_equal(found.margins(x, task), expected.margins(x, task))
    (folder / "5.jsonl").write_text('{"user": "ann", "spam": "no", "f1": 1, "count": -1}\n')
    with pytest.raises(BadRow, match=r"5\.jsonl, line 1, column 'count'"):
        list(learn(files(folder, weight="count"), model, n=n, every=20))


@pytest.mark.parametrize(("n", "engine"), [(1, "serial"), (3, "threads")])
def test_a_history_in_files_is_that_of_rows_also_after_a_stop(tmp_path, n, engine):
    x, y, task = STREAM
    rng = np.random.default_rng(7)
    rows = [{**row, "skill": f"s{k}"} for row, k in zip(x, rng.integers(4, size=260), strict=True)]
    folder, model = write(tmp_path / "in", (rows, y, task)), tmp_path / "m.romco"
    settings = {"n": n, "engine": engine, "every": 20, "checkpoint_every": 2}
    given = files(folder, kinds={"skill": "category"})
    given = replace(given, source=replace(given.source, path=given.paths[0]).resolve())
    past = {"history": ["skill"], "schema": given.source.schema}
    steps = learn(given, model, **past, **settings)
    for _ in range(9):
        next(steps)
    steps.close()
    *_, last = learn(given, model, **settings)  # the checkpoint has the columns of the history
    assert last.events == 260
    past = {"classes": ("no", "yes"), "history": ["skill"]}
    shards = Shards("romco-auto", n, Hashed(2**BITS), every=20, **past)
    shards.learn(rows, y, task)
    found, expected = romco.load(model), shards.model()
    if n == 1:
        np.testing.assert_array_equal(found.margins(rows, task), expected.margins(rows, task))
    tables = []
    for one in (found, expected):
        arrays = one.engine.history.kernel.arrays()
        own = arrays["table"][arrays["task"] >= 0]
        if n > 1:  # of what all tasks share, shards of files know only how it began
            own = np.delete(own, [4, 5], axis=1)
        tables.append(sorted(map(tuple, own)))
    assert tables[0] == tables[1]


def test_a_history_is_split_and_merged_without_loss_and_within_its_limit():
    x, y, task = STREAM
    rows = [{**row, "skill": f"s{k % 4}"} for k, row in enumerate(x)]
    model = romco.Model(classes=("no", "yes"), history=["skill"], history_limit=100)
    model.learn(rows, y, task)
    model.forget("user 3")
    past = model.engine.history
    merged = merge_histories(split_history(past, 3), 100, numeric=False)
    encoded = model.features.encode(rows, False)
    context = (history.context(task, encoded, None) for history in (past, merged))
    np.testing.assert_array_equal(*context)
    few = split_history(past, 20)
    assert all(len(arrays["history.task"]) <= stored["limit"] == 5 for stored, arrays in few)


@pytest.mark.parametrize("n", [1, 3])
def test_nested_tasks_in_files_are_those_of_rows(tmp_path, n):
    rng, folder, model = np.random.default_rng(2), tmp_path / "in", tmp_path / "m.romco"
    rows = [
        {"school": "ABC"[school], "class": int(number), "age": float(age)}
        for school, number, age in rng.integers((3, 4, 20), size=(120, 3))
    ]
    y = np.where(rng.random(120) < 0.5, "no", "yes").tolist()
    folder.mkdir()
    events = [{**row, "spam": label} for row, label in zip(rows, y, strict=True)]
    (folder / "1.csv").write_text(
        "school,class,age,spam\n"
        + "".join(f"{e['school']},{e['class']},{e['age']},{e['spam']}\n" for e in events[:40])
    )
    (folder / "2.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events[40:80]))
    pq.write_table(pa.Table.from_pylist(events[80:]), folder / "3.parquet")
    source = Source(str(folder), "school/class", "spam")
    given = EventFiles(list_files([str(folder)]), source, ("no", "yes"), Hashed(2**BITS).to_json())
    *_, last = learn(given, model, n=n, every=10)
    assert last.events == 120
    tasks = [f"{row['school']}/{row['class']}" for row in rows]
    features = [{"age": row["age"], "school": row["school"]} for row in rows]
    shards = Shards("romco-auto", n, Hashed(2**BITS), classes=("no", "yes"), every=10)
    shards.learn(features, y, tasks)
    found = romco.load(model)
    assert set(found.tasks) == set(tasks)
    np.testing.assert_allclose(
        found.margins(rows, ["school/class"]), shards.model().margins(features, tasks), atol=1e-12
    )


@pytest.mark.parametrize("n", [1, 3])
def test_offsets_in_files_are_learned_as_those_of_rows(tmp_path, n):
    """Also after a stop; one shard is the model. A row without an offset is bad."""
    x, y, task = STREAM
    offset = np.round(np.random.default_rng(3).normal(size=len(y)), 3)
    rows = [{**row, "base": base} for row, base in zip(x, offset.tolist(), strict=True)]
    folder, model = write(tmp_path / "in", (rows, y, task)), tmp_path / "m.romco"
    settings = {"n": n, "every": 20, "checkpoint_every": 2}
    steps = learn(files(folder, offset="base"), model, **settings)
    for _ in range(9):
        next(steps)
    steps.close()
    *_, last = learn(files(folder, offset="base"), model, **settings)
    assert last.events == 260
    shards = Shards("romco-auto", n, Hashed(2**BITS), classes=("no", "yes"), every=20)
    shards.learn(x, y, task, offset=offset)
    assert_same(without_section(Shards.load(model).state()), without_section(shards.state()))
    if n == 1:
        plain = romco.Model("romco-auto", Hashed(2**BITS), classes=("no", "yes"))
        plain.learn(x, y, task, offset=offset)
        found = romco.load(model).margins(x, task, offset=offset)
        np.testing.assert_array_equal(found, plain.margins(x, task, offset=offset))
    (folder / "4.jsonl").write_text('{"user": "ann", "spam": "no", "f1": 1}\n')
    with pytest.raises(BadRow, match=r"4\.jsonl, line 1, column 'base'"):
        list(learn(files(folder, offset="base"), model, **settings))


def test_a_model_without_offsets_takes_none_from_files(tmp_path):
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    list(learn(files(folder), model, n=2))
    (folder / "4.jsonl").write_text('{"user": "ann", "spam": "no", "f1": 1, "base": 2}\n')
    with pytest.raises(ValueError, match="learned with offset None"):
        list(learn(files(folder, offset="base"), model, n=2))


def test_files_that_were_learned_must_stay_in_front(tmp_path):
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    list(learn(files(folder), model, n=2))
    (folder / "0.jsonl").write_text("{}")
    with pytest.raises(ValueError, match=r"has learned .*1\.csv, .* in this order"):
        list(learn(files(folder), model, n=2))


def test_bad_rows_stop_at_their_place_or_are_skipped_and_counted(tmp_path):
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    with (folder / "2.jsonl").open("a") as file:
        file.write('{"user": "user 3", "spam": "maybe", "f1": 1}\n')
        file.write('{"user": "user 4"\n{"spam": "yes", "f1": 1}\n')
    with pytest.raises(BadRow, match=r"2\.jsonl, line 8[123]"):
        list(learn(files(folder), model, n=3))
    results = []
    for engine in ("serial", "threads"):
        model = tmp_path / f"{engine}.romco"
        *_, last = learn(files(folder, skip_bad=True), model, n=3, engine=engine)
        assert (last.rows, last.events, last.skipped) == (263, 260, 3)
        results.append(Shards.load(model).state())
    assert_same(*results)


def test_a_partition_holds_its_own_tasks_and_goes_on_from_a_position(tmp_path):
    given = files(write(tmp_path / "in"))
    parts = [ShardReader(given, 3, k, FilePosition()) for k in range(3)]
    found = [part.read(10**6) for part in parts]
    assert [rows for _, rows in found] == [260] * 3
    tasks = [[task for one in own for task in one.task] for own, _ in found]
    assert sum(map(len, tasks)) == 260
    assert sum(len(set(own)) for own in tasks) == len({task for own in tasks for task in own})
    for at in (5, 90, 101, 200):
        again = ShardReader(given, 3, 1, FilePosition())
        own, _ = again.read(at)
        again.close()
        rest, _ = ShardReader(given, 3, 1, again.position).read(10**6)
        assert [task for one in own + rest for task in one.task] == tasks[1]
        whole = [np.concatenate([one.y for one in part]) for part in (own + rest, found[1][0])]
        np.testing.assert_array_equal(*whole)


def test_command_line_in_shards_and_on_threads(tmp_path, monkeypatch, capsys):
    folder = write(tmp_path / "in")
    command = ["romco", "learn", "--task", "user", "--label", "spam", "--hash", str(BITS)]

    def run(*options):
        monkeypatch.setattr("sys.argv", [*command, *options])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code, capsys.readouterr().err

    model = tmp_path / "shards.romco"
    run(str(folder), "--model", str(model), "--shards", "3", "--engine", "serial", "--every", "20")
    said = capsys.readouterr().err
    assert "260 events learned" in said
    assert "of the time in merges" in said
    expected = direct(3, every=20)
    assert_same(without_section(Shards.load(model).state()), without_section(expected))
    threaded = tmp_path / "threads.romco"
    source = str(folder / "2.jsonl")
    run(source, "--model", str(threaded), "--threads", "2", "--checkpoint-every", "30")
    assert romco.load(threaded).events == 80
    run(source, "--model", str(threaded), "--threads", "2")
    assert romco.load(threaded).events == 80
    x, y, task = (part[90:170] for part in STREAM)
    whole = Shards("romco-auto", 2, Hashed(2**BITS), classes=("no", "yes"))
    whole.learn(x, y, task)
    np.testing.assert_array_equal(
        romco.load(threaded).margins(x, task), whole.model().margins(x, task)
    )


def test_command_line_with_several_sources(tmp_path, monkeypatch, capsys):
    folder = write(tmp_path / "in")
    sources = [str(folder / name) for name in ("1.csv", "2.jsonl", "3.parquet")]
    command = ["romco", "learn", *sources, "--task", "user", "--label", "spam", "--hash", str(BITS)]

    def run(*options):
        monkeypatch.setattr("sys.argv", [*command, *options])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().err

    model = tmp_path / "shards.romco"
    options = ("--model", str(model), "--shards", "3", "--engine", "serial", "--every", "20")
    assert not run(*options)[0]
    assert_same(without_section(Shards.load(model).state()), without_section(direct(3, every=20)))
    for name, more in (("threads", ("--threads", "2", "--every", "20")), ("plain", ())):
        path = tmp_path / f"{name}.romco"
        for _ in range(2):  # what was learned is not learned again
            code, said = run("--model", str(path), *more)
            assert not code, said
            assert romco.load(path).events == 260
    x, _, task = STREAM
    fed = Shards.of(direct(2, every=20))
    np.testing.assert_array_equal(
        romco.load(tmp_path / "threads.romco").margins(x, task), fed.model().margins(x, task)
    )
    code, said = run("--model", str(tmp_path / "new"), "--shards", "3", "--target", "classes")
    assert code
    assert "--shards with more than two labels needs all of them" in said
    code, said = run("--model", str(model), "--predictions", str(tmp_path / "p.jsonl"))
    assert code
    assert "of one SOURCE" in said


def shares(given, n, piece=7):
    """What each of n shards finds, piece by piece: tasks with sides, rows passed, bad rows."""
    found = []
    for k in range(n):
        part, tasks, sides, rows = ShardReader(given, n, k, FilePosition()), [], [], 0
        while not part.ended:
            own, passed = part.read(piece)
            rows += passed
            for one in own:
                tasks += one.task
                sides += one.y.tolist()
        found.append((list(zip(tasks, sides, strict=True)), rows, part.skipped))
    return found


ODD = {
    "quotes.csv": 'user,spam,f1\nann,yes,1\n"bob, the",no,2\n"li\nu",yes,3\nann,no,4\n',
    "spaces.csv": "f1,spam, user \r\n1,yes, ann \r\n\r\n2,no,7.0\r\n3,no,7\r\n",
    "short.tsv": "f1\tspam\tuser\n1\tyes\tann\n2\n3\tno\tbob\t9\n4\tno\t\n5\tyes\tann",
    "names.jsonl": '{"user": 7, "spam": "no", "f1": 1}\n\n{"spam": "yes", "user": "7.0"}\n'
    '{"\\u0075ser": "ann", "spam": "yes", "in": {"user": "bob"}}\n'
    '{"kind": "user", "spam": "no", "user": "ann", "f1": 2}\n{"user": ["x"], "spam": "no"}\n'
    '{"user": "dan", "spam": "no"\n{"in": {"user": "eve"}, "spam": "no"}\n',
    "plain.svm": "+1 qid:3 1:2 # user\n-1 qid:4 1:1\n",
}


@pytest.mark.parametrize("name", sorted(ODD))
def test_what_a_line_tells_cheaply_is_what_reading_it_tells(tmp_path, name):
    """Every row is found by one shard, which is the owner of the task that is really there."""
    path = tmp_path / name
    path.write_text(ODD[name], newline="")
    columns = (None, None) if name.endswith("svm") else ("user", "spam")
    source = Source(str(path), *columns, skip_bad=True)
    classes = ("-1", "1") if name.endswith("svm") else ("no", "yes")
    given = EventFiles((str(path),), source, classes, Hashed(2**BITS).to_json())
    expected = list(reader_events(source.open()))
    (everything, rows, skipped), *_ = shares(given, 1)
    assert [task for task, _ in everything] == [event.task for event in expected]
    for n in (2, 3):
        parts = shares(given, n)
        assert {count for _, count, _ in parts} == {rows}
        assert sum(bad for _, _, bad in parts) == skipped == rows - len(everything)
        for k, (own, _, _) in enumerate(parts):
            assert own == [one for one in everything if task_owner(one[0], n) == k]
    if skipped:
        with pytest.raises(BadRow) as alone:
            list(reader_events(replace(source, skip_bad=False).open()))
        strict = replace(given, source=replace(source, skip_bad=False))
        with pytest.raises(BadRow) as sharded:
            shares(strict, 1)
        assert (sharded.value.line, sharded.value.column) == (alone.value.line, alone.value.column)


def test_a_partition_that_cannot_be_read_is_an_error_and_the_last_checkpoint_stays(tmp_path):
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    whole = (folder / "3.parquet").read_bytes()
    (folder / "3.parquet").write_bytes(whole[: len(whole) // 2])
    settings = {"n": 3, "every": 20, "checkpoint_every": 3}
    for engine in ("serial", "threads"):
        with pytest.raises(BadFile, match=r"3\.parquet: damaged or not Parquet"):
            list(learn(files(folder), model, engine=engine, **settings))
        place = place_of(model)
        assert 0 < place <= 170
    (folder / "3.parquet").unlink()
    missing = replace(files(folder), paths=(*files(folder).paths, str(folder / "3.parquet")))
    with pytest.raises(FileNotFoundError, match=r"3\.parquet"):
        list(learn(missing, model, **settings))
    assert place_of(model) == place
    (folder / "3.parquet").write_bytes(whole)
    *_, last = learn(files(folder), model, **settings)
    assert last.resumed == place
    assert_same(without_section(Shards.load(model).state()), without_section(direct(3, every=20)))


@pytest.mark.parametrize(
    "told",
    [
        *(None, [], 7, {}, {"position": [0, 0]}),
        {"position": [0, 1, 2], "paths": [], "loss": 0, "skipped": 0},
        {"position": [-1, 0], "paths": [], "loss": 0, "skipped": 0},
        {"position": [0, 2**0.5], "paths": ["1.csv"], "loss": 0, "skipped": 0},
        {"position": [9, 0], "paths": [], "loss": 0, "skipped": 0},
        {"position": [0, 0], "paths": [["1.csv"]], "loss": 0, "skipped": 0},
        {"position": [0, 0], "paths": "1.csv", "loss": 0, "skipped": 0},
        {"position": [0, 0], "paths": [], "loss": "many", "skipped": 0},
        {"position": [0, 0], "paths": [], "loss": 0, "skipped": -1},
    ],
    ids=str,
)
def test_what_a_file_says_of_files_is_not_trusted(tmp_path, told):
    given = files(write(tmp_path / "in"))
    with Shards("romco-auto", 2, Hashed(2**BITS), classes=("no", "yes")) as shards:
        shards.coordinator.notes[NOTE] = told
        with pytest.raises(ValueError, match="remembers of its sources"):
            list(read(shards, given))


def test_bad_rows_of_parquet_are_skipped_by_their_shard_alone(tmp_path):
    rows = [
        {"user": f"u{i % 7}", "spam": "yes" if i % 3 else "no", "a": float(i)} for i in range(90)
    ]
    rows[11]["user"] = None
    rows[47]["spam"] = None
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "1.parquet")
    source, path = Source("", "user", "spam", skip_bad=True), (str(tmp_path / "1.parquet"),)
    given = EventFiles(path, source, ("no", "yes"), Hashed(2**BITS).to_json())
    readers = [ShardReader(given, 3, k, FilePosition()) for k in range(3)]
    read = [reader.read(60) for reader in readers]
    read += [reader.read(60) for reader in readers]
    tasks = [
        [task for rows, _ in read[k::3] for part in rows for task in part.task] for k in range(3)
    ]
    assert [done for _, done in read] == [60] * 3 + [30] * 3
    assert sum(map(len, tasks)) == 88
    assert all(task_owner(task, 3) == k for k in range(3) for task in tasks[k])
    assert sum(reader.skipped for reader in readers) == 2
    for reader in readers:
        reader.close()
    strict = replace(given, source=replace(source, skip_bad=False))
    for k in range(3):
        reader = ShardReader(strict, 3, k, FilePosition(0, 12 if k == 0 else 0))
        if task_owner("u5", 3) == k:
            with pytest.raises(BadRow, match="48"):
                reader.read(90)
        else:
            assert reader.read(90)[1] == (78 if k == 0 else 90)
        reader.close()
