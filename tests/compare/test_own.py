"""A file of one's own: read as a stream, compared, and answered in a sentence."""

from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.cli.own import own_stream
from romco.compare import own
from romco.compare.sharing import sentence, tasks_table
from romco.runs import Source
from tests.io.helpers import read_blocks


def write(path, stream, seed=0):
    rounds = romco.streams.interleaved(stream, seed)
    names = [f"f{j}" for j in range(stream.n_features)]
    lines = [",".join(["user", "clicked", *names])]
    for task, x, y in zip(rounds.task, rounds.x, rounds.y, strict=True):
        cells = [f"{value:.6g}" for value in x]
        lines.append(",".join([f"u{task}", "yes" if y > 0 else "no", *cells]))
    path.write_text("\n".join(lines) + "\n")
    return rounds


def blocks_of(path, **options):
    with read_blocks(path, "user", "clicked", **options) as blocks:
        while len(block := blocks.take(50)[0]):
            yield block


def test_a_file_is_the_stream_that_was_written(tmp_path):
    made = romco.streams.simulated(n_tasks=5, n_features=4, n_events=30, outliers=1)
    rounds = write(tmp_path / "my.csv", made)
    stream = own.gather("my.csv", blocks_of(tmp_path / "my.csv"))
    own.keep(stream, tmp_path / "streams")
    again = own.found("my.csv", tmp_path / "streams")
    assert again.labels == ("no", "yes")
    np.testing.assert_allclose(again.x.toarray(), rounds.x, rtol=1e-5)
    np.testing.assert_array_equal(again.y, rounds.y)
    assert [again.tasks[k] for k in again.task] == [f"u{k}" for k in rounds.task]
    turned = own.gather("my.csv", blocks_of(tmp_path / "my.csv"), positive="no")
    np.testing.assert_array_equal(turned.y, -rounds.y)
    assert own.found("other.csv", tmp_path / "streams") is None
    assert own.found("my.csv", None) is None


def test_one_label_is_not_enough(tmp_path):
    (tmp_path / "my.csv").write_text("user,clicked,a\nann,yes,1\n")
    with pytest.raises(ValueError, match="expected events of two labels"):
        own.gather("my.csv", blocks_of(tmp_path / "my.csv"))


def test_compare_answers_whether_sharing_helps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "my.csv", romco.streams.simulated(n_tasks=12, n_features=8, n_events=25))
    columns = ["--task", "user", "--label", "clicked", "--shuffles", "2", "--jobs", "1"]
    learners = ["--learners", "romco-auto,pa-unique,pa-global"]
    done = CliRunner().invoke(app, ["compare", "my.csv", *columns, *learners])
    assert done.exit_code == 0, done.output
    assert "Sharing " in done.output
    assert "each task alone" in done.output
    assert "one model for all" in done.output
    page = tmp_path / "results" / "compare" / "my.csv" / "index.html"
    assert "Sharing " in page.read_text()
    assert "positive: yes" in page.read_text()
    missing = CliRunner().invoke(app, ["compare", "nothing.csv"])
    assert "and no such file" in str(missing.exception)


class Fake:
    failed = None

    def __init__(self, learner, errors, tasks=("ann", "bob")):
        self.learner = self.title = learner
        self.runs = [SimpleNamespace(stream={"tasks": list(tasks)})]
        self.errors = np.array(errors)

    def macro(self, measure):
        return self.errors


@pytest.mark.parametrize(
    ("ours", "alone", "same", "told"),
    [
        (
            [0.1, 0.1],
            [0.2, 0.2],
            [0.125, 0.125],
            "than each task alone, 20% fewer",
        ),
        ([0.1, 0.1], [0.2, 0.2], [0.08, 0.08], "50% fewer mistakes than each task alone, 25% more"),
        ([0.1, 0.1], [0.2, 0.2], [0.05, 0.15], "no clear difference to one model for all"),
        ([0.1, 0.3], [0.2, 0.2], [0.2, 0.2], "Sharing makes no clear difference here."),
        ([0.3, 0.3], [0.2, 0.2], [0.2, 0.2], "Sharing does not help here: 50% more mistakes"),
    ],
)
def test_the_sentence_says_what_was_measured(ours, alone, same, told):
    outcomes = [Fake("romco-auto", ours), Fake("pa-unique", alone), Fake("pa-global", same)]
    outcomes += [Fake("arow-unique", [0.9, 0.9]), Fake("romco-nucl", [0.0, 0.0])]  # not the best
    assert told in sentence(outcomes)
    assert sentence(outcomes[:1]) is None


def test_one_task_has_nobody_to_share_with(tmp_path, monkeypatch):
    alone = [Fake("romco-auto", [0.3, 0.3], ["all"]), Fake("pa-unique", [0.2, 0.2], ["all"])]
    assert sentence(alone) == "There is nothing to share between: all events are of one task."
    assert tasks_table(alone) is None
    monkeypatch.chdir(tmp_path)
    rows = [f"ann,{i % 7},{'yes' if i % 7 > 3 else 'no'}" for i in range(80)]
    (tmp_path / "one.csv").write_text("\n".join(["who,a,bought", *rows]) + "\n")
    given = ["--task", "who", "--label", "bought", "--learners", "romco-auto,pa-unique,pa-global"]
    done = CliRunner().invoke(app, ["compare", "one.csv", *given, "--shuffles", "1", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "nothing to share between" in done.output
    assert "Sharing " not in done.output


def test_compare_reads_columns_as_asked(tmp_path, capsys):
    lines = ["user,code,when,note,clicked"]
    for i in range(60):
        lines.append(f"u{i % 3},{i % 4},2024-0{1 + i % 9}-01,note {i},{'yes' if i % 4 else 'no'}")
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    columns = {"code": "category", "when": "date", "note": "ignored"}
    source = Source(str(path), "user", "clicked", kinds=columns)
    assert own_stream(source, "yes", tmp_path / "streams") == 1
    stream = own.found("clicks.csv", tmp_path / "streams")
    assert stream.x.shape[1] >= 4  # each code is a feature of its own, with months and weekdays
    assert set(np.unique(stream.x.data)) == {1.0}
    told = capsys.readouterr().err
    assert "code" in told
    assert "as asked" in told


def test_columns_of_a_file_are_no_options_of_a_data_set():
    result = CliRunner().invoke(app, ["compare", "simulated", "--numeric", "age"])
    assert "no such file" in str(result.exception)
