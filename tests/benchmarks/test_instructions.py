"""Counts are taken from what callgrind and the process printed, whatever the process's end was."""

from subprocess import CompletedProcess

from benchmarks.instructions import compared, dumps, problem, ran, total

SUMMARY = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n"


def test_the_order_is_found_among_other_lines():
    assert ran('note\n[["a, 4 tasks", 20], ["b", 3]]\nlast words\n') == [
        ("a, 4 tasks", 20),
        ("b", 3),
    ]
    assert ran("nothing of the kind\n7\n[]\n") is None
    assert ran("") is None


def test_a_count_does_not_depend_on_how_the_process_ended():
    found = compared([("some case", 20)], [4000])
    assert found["some case"]["per_event"] == 200
    assert found["some case"]["ratio"] is None


def test_a_failure_names_what_the_process_said_and_not_the_count():
    done = CompletedProcess([], 1, "", f"Traceback\nRuntimeError: no answer\n{SUMMARY}")
    told = problem(done, None, [])
    assert "RuntimeError: no answer" in told
    assert "exit 1" in told
    assert "Collected" not in told
    assert "2 cases but 1 counts" in problem(done, [("a", 1), ("b", 1)], [5])


def test_dumps_are_read_in_the_order_they_were_written(tmp_path):
    for number in (10, 2, 1):
        (tmp_path / f"count.{number}").write_text(f"events: Ir\ntotals: {number}00\n")
    (tmp_path / "count").write_text("totals: 0\n")
    assert [total(path) for path in dumps(tmp_path)] == [100, 200, 1000]
