"""Counts are taken from what callgrind and the process printed, whatever the process's end was."""

from subprocess import CompletedProcess

import pytest

from benchmarks.instructions import compared, dumps, problem, ran, total

SUMMARY = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n"

# What callgrind writes on request: by 3.19 on aarch64, where kernels have no names, and in the form
# it has on x86_64, with calls into libraries that have; the summary counts from another moment on.
DUMPS = {
    "aarch64": """# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 16260
cmd:  python -m benchmarks.instructions signals.so
part: 1


desc: I1 cache:
desc: D1 cache:
desc: LL cache:

desc: Timerange: Basic block 0 - 1002
desc: Trigger: Client Request

positions: line
events: Ir
summary: 7019


ob=(1) /somewhere/changes.cpython-311-aarch64-linux-gnu.so
fl=(1) ???
fn=(0) 0x0000000000004a10
0 7019

totals: 7019
""",
    "x86_64": """# callgrind format
version: 1
creator: callgrind-3.22.0
pid: 31
cmd:  python -m benchmarks.instructions signals.so
part: 2


desc: I1 cache:
desc: D1 cache:
desc: LL cache:

desc: Timerange: Basic block 1002 - 1904
desc: Trigger: Client Request

positions: line
events: Ir
summary: 18446744073709544597


ob=(2) /somewhere/dense.cpython-311-x86_64-linux-gnu.so
fl=(1) ???
fn=(0) 0x00000000001091c0
0 6000
cob=(3) /usr/lib/x86_64-linux-gnu/libc.so.6
cfi=(2) ./string/../sysdeps/x86_64/multiarch/memset-vec-unaligned-erms.S
cfn=(4) __memset_avx2_unaligned_erms
calls=4 0
0 1019

totals: 7019
""",
}


@pytest.mark.parametrize("family", DUMPS)
def test_a_dump_is_read_by_its_last_line(tmp_path, family):
    (tmp_path / "count.1").write_text(DUMPS[family])
    assert total(tmp_path / "count.1") == 7019
    (tmp_path / "count.2").write_text(DUMPS[family].replace("totals", "total"))
    assert total(tmp_path / "count.2") == 0


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
