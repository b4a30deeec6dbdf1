import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import romco
from romco.__main__ import main
from romco.cluster import Shards, checkpoints
from romco.cluster.files import folder_of, learn
from romco.cluster.partitions import Files, Partition, Position, files_of
from romco.model import Hashed
from romco.sessions import Source
from romco.streams.files import BadRow
from tests.cluster.streams import assert_same, events

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
    paths = files_of([str(folder)])
    return Files(paths, source, ("no", "yes"), Hashed(2**BITS).to_json())


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
    assert last.wrong == wrong.sum()
    assert not folder_of(model).exists()


def test_the_same_call_goes_on_after_a_stop_and_after_more_files_came(tmp_path):
    x, y, task = STREAM
    folder, model = tmp_path / "in", tmp_path / "m.romco"
    write(folder)
    settings = {"n": 3, "every": 20, "checkpoint_every": 5}
    steps = learn(files(folder), model, **settings)
    for _ in range(23):
        next(steps)
    steps.close()  # stopped here: what follows begins at the last checkpoint
    place = checkpoints.find(folder_of(model)).at.place
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
    parts = [Partition(given, 3, k, Position()) for k in range(3)]
    found = [part.read(10**6) for part in parts]
    assert [rows for _, rows in found] == [260] * 3
    assert sum(len(own) for own, _ in found) == 260
    tasks = [{event.task for event in own} for own, _ in found]
    assert sum(map(len, tasks)) == len(set.union(*tasks))
    again = Partition(given, 3, 1, Position())
    own, _ = again.read(101)
    again.close()
    rest, _ = Partition(given, 3, 1, again.position).read(10**6)
    assert own + rest == found[1][0]


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
