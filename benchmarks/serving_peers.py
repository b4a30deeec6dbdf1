"""What ``benchmarks.serving`` compares with; each is a process of its own."""

from __future__ import annotations

import argparse
from functools import partial


def flask(port: int, kept: bool = False) -> None:
    """The design of chantilly: Flask's server, JSON, one River model per user, no log.

    By itself it closes the connection after each answer; if ``kept`` it does not.
    """
    import logging

    from flask import Flask, jsonify, request
    from river import linear_model, preprocessing
    from werkzeug.serving import WSGIRequestHandler

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    if kept:
        WSGIRequestHandler.protocol_version = "HTTP/1.1"
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
    peers = {"flask": flask, "flask-kept": partial(flask, kept=True), "vw": vw}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=peers)
    parser.add_argument("port", type=int)
    asked = parser.parse_args()
    peers[asked.peer](asked.port)
