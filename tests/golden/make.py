"""Writes golden files, for the learners named: once per format, never again for the same one."""

import json
import sys
from pathlib import Path

import romco

HERE = Path(__file__).parent


def main(names):
    for name in names:
        model = romco.Model(name, romco.Hashed(16), classes=("ham", "spam"))
        for i in range(12):
            row = {"word:free": i % 3, "length": 0.1 * i, "town": "Rome" if i % 2 else "Bonn"}
            model.learn_one(row, "spam" if i % 3 else "ham", f"user {i % 4}")
        rows = [{"word:free": 1.0, "length": 0.5, "town": "Rome"}, {"length": 1.0}]
        tasks = ["user 1", "somebody new"]
        expected = {
            "rows": rows,
            "tasks": tasks,
            "margins": model.margins(rows, tasks).tolist(),
            "answers": model.predict(rows, tasks).tolist(),
        }
        version = model.engine.learner.version
        file = f"format1-{name}" if version == 1 else f"format1-{name}-version{version}"
        romco.save(model, HERE / f"{file}.romco")
        (HERE / f"{file}.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
