"""Write golden files for learners by name: once per format and version, never again for the same.

``python -m tests.golden.make romco-auto``; ``romco-auto:number`` and ``romco-auto:classes`` are of
another target.
"""

import json
import sys
from pathlib import Path

import romco
from romco.io.modelfile import FORMAT

HERE = Path(__file__).parent


def answer(kind, i):
    if kind == "number":
        return 20.0 + i % 5
    return ["ham", "spam", "news"][i % 3] if kind == "classes" else "spam" if i % 3 else "ham"


def main(names):
    for name in names:
        name, _, kind = name.partition(":")
        more = {"target": kind} if kind else {"classes": ("ham", "spam")}
        model = romco.Model(name, romco.Hashed(16), **more)
        for i in range(12):
            row = {"word:free": i % 3, "length": 0.1 * i, "town": "Rome" if i % 2 else "Bonn"}
            model.learn_one(row, answer(kind, i), f"user {i % 4}")
        rows = [{"word:free": 1.0, "length": 0.5, "town": "Rome"}, {"length": 1.0}]
        tasks = ["user 1", "somebody new"]
        expected = {
            "rows": rows,
            "tasks": tasks,
            "margins": model.margins(rows, tasks).tolist(),
            "answers": model.predict(rows, tasks).tolist(),
        }
        version = model.engine.learner.version
        file = f"format{FORMAT}-{name}" + (f"-{kind}" if kind else "")
        file = file if version == 1 else f"{file}-version{version}"
        romco.save(model, HERE / f"{file}.romco")
        (HERE / f"{file}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
