"""What ``benchmarks.serving`` compares with; each is a process of its own."""

from __future__ import annotations

import sys


def flask(port: int) -> None:
    """The design of chantilly: Flask's server, JSON, one River model per user, no log."""
    import logging

    from flask import Flask, jsonify, request
    from river import linear_model, preprocessing

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app, models = Flask("peer"), {}

    def model(user):
        if user not in models:
            models[user] = preprocessing.StandardScaler() | linear_model.LogisticRegression()
        return models[user]

    @app.post("/predict")
    def predict():
        event = request.get_json()
        chances = model(event["task"]).predict_proba_one(event["x"])
        return jsonify({"label": max(chances, key=chances.get), "probability": chances})

    @app.post("/learn")
    def learn():
        event = request.get_json()
        model(event["task"]).learn_one(event["x"], bool(event["y"]))
        return jsonify({}), 200

    app.run("127.0.0.1", port, threaded=True)


def vw(port: int) -> None:
    """The daemon of Vowpal Wabbit, run by the library, for one client."""
    from vowpalwabbit import Workspace

    options = f"--daemon --foreground --num_children 1 --port {port} --quiet"
    Workspace(f"{options} --loss_function logistic -q tf -b 22").run_parser()


if __name__ == "__main__":
    {"flask": flask, "vw": vw}[sys.argv[1]](int(sys.argv[2]))
