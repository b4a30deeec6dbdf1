"""Numbers that were measured become tables, targets and figures."""

import io
import json

import pytest
from rich.console import Console

from benchmarks import figure, instructions, latency, memory, report, workloads
from benchmarks.__main__ import main
from benchmarks.measure import Row
from benchmarks.parts import PARTS
from benchmarks.systems import Calls, Stream
from benchmarks.tables import tables, target_table
from benchmarks.targets import targets


def row(system, *microseconds, **more):
    return {
        **vars(Row("w", system)),
        "microseconds": list(microseconds),
        "cpu": list(microseconds),
        "events": 9,
        **more,
    }


@pytest.fixture
def parts():
    return {
        "a": [
            row("romco-nucl", 10.0, 10.0, error=0.1, rank=4, updates=0.5),
            row("River PA, one per task", 70.0, 90.0),
            row("VW engine on a file, -q tf", 15.0, 15.0),
            row("omtl", skipped="no such learner"),
        ],
        "e": [
            row("romco-nucl", 20.0, 20.0, curve="n_features", at=2**14),
            row("romco-nucl", 40.0, 50.0, curve="n_features", at=2**20),
        ],
        "f": [
            {
                "shape": "large",
                "system": "romco-nucl",
                "peak": 250.0,
                "end": 200.0,
                "events": 9,
                "dense": 4200.0,
            }
        ],
        "g": [
            {
                "system": "romco-nucl, call per event",
                "events": 9,
                "wall": {"p50": 1.0, "p99": 2.0, "p99.9": 3.0, "max": 900.0},
                "cpu": {"p50": 1.0, "p99": 2.0, "p99.9": 3.0, "max": 90.0},
                "growth": 0.0,
            }
        ],
        "h": {"omtl": {"per_event": 120.0, "stored": 100.0, "ratio": 1.2}},
        "i": [
            row("romco-auto, hashed", 20.0, 20.0),
            row("pa-global, hashed", 20.0, 20.0),
            row("VW on its file, -q tf", 10.0, 10.0),
        ],
        "j": [
            {"shape": "400 features, dense", "threads": n, "events": 100, "wall": wall, **times}
            for n, wall in ((1, 8.0), (2, 4.0))
            for times in [{"cpu": 8.0, "merging": 0.0, "locked": 0.8}]
        ],
    }


def test_targets_are_computed(parts):
    found = {(target.what, target.aim): target for target in targets(parts)}
    stream = found["(a) whole stream: times River PA per task", False]
    assert (stream.reached, stream.met) == (8.0, True)
    file = "(i) from a file: romco-auto, hashed: times VW on its file, -q tf"
    assert (found[file, False].reached, found[file, False].met) == (0.5, True)
    assert found["(j) dense: two threads, times one on the clock", False].reached == 2.0
    assert found["(j) dense: share of CPU time under the interpreter's lock", False].met is False
    assert found["(j) dense: times one thread on 16 cores, by that share", False].reached == 6.4
    assert found["(j) 100 non-zeros: two threads, times one on the clock", False].met is None
    wide = found["(e) romco-nucl: cost at d = 2^20 / 2^14", False]
    assert (wide.reached, wide.met) == (2.25, False)
    assert found["(f) 1000 tasks, d = 2^18: peak megabytes", False].met is True
    assert found["(g) romco-nucl: slowest event / median, CPU time", False].reached == 90.0
    assert found["(h) instructions / stored count, worst case", False].met is False
    assert found["(d) rank 8: times River PA per task", False].met is None


def test_tables_and_page(parts, tmp_path):
    results = {"machine": report.machine(), "quick": False, "parts": parts}
    saved = json.loads(report.save(results, tmp_path).read_text())
    page = report.markdown(saved)
    assert "| romco-nucl | 10 | 10-10 | 10 | 8 (7-9) | 9 | 0.100 | 50% | 4 |" in page
    assert "not run (no such learner): omtl" in page
    assert "## In short" in page
    assert "asked" not in page
    assert "| asked | reached |" in report.target_page(saved)
    console = Console(width=200, record=True, file=io.StringIO())
    for table in [*tables(parts), target_table(targets(parts))]:
        report.show(table, console)
    assert "short of the aim" in console.export_text()


def test_a_busy_machine_is_called_busy(parts):
    assert not any("busy" in note for note in tables(parts)[0].notes)
    parts["a"][0]["cpu"] = [5.0, 5.0]
    assert "the machine was busy: wall time up to 2.0" in tables(parts)[0].notes[-1]


@pytest.mark.slow
def test_figures(parts, tmp_path):
    written = figure.draw(parts, tmp_path)
    assert {path.name for path in written} == {"speed.svg", "speed.png", "growth.svg", "growth.png"}
    assert all(path.stat().st_size > 1000 for path in written)


def test_memory_of_a_tiny_model():
    found = memory.grown(workloads.spam(0.01), Stream("romco-nucl"))
    assert found["events"] == len(workloads.spam(0.01).segment(0))
    assert 0 <= found["peak"] < 500


def test_latency_of_few_events(monkeypatch):
    monkeypatch.setattr(latency, "UNCOUNTED", 2)
    found = latency.measured(Calls("romco-nucl"), workloads.spam(0.01), 50)
    assert found["events"] == 48
    assert 0 < found["wall"]["p50"] <= found["wall"]["p99"] <= found["wall"]["max"]


def test_instruction_dumps_are_read_in_order(tmp_path):
    for number, total in ((1, 70), (2, 80), (10, 90)):
        (tmp_path / f"count.{number}").write_text(f"events: Ir\ntotals: {total}\n")
    (tmp_path / "count").write_text("totals: 0\n")
    dumps = instructions.dumps(tmp_path)
    assert [instructions.total(path) for path in dumps] == [70, 80, 90]


def test_unknown_part_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "a,z"])
    message = capsys.readouterr().err
    assert "no part 'z'" in message
    assert ", ".join(PARTS) in message
