"""What the service tells of itself: for Prometheus, and for the page."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from romco.learners.capabilities import Decomposed
from romco.server.stores import Store
from romco.server.times import Times
from romco.server.views import Views


@final
class Meters:
    """Counts requests and predictions; asks the store for the rest when it is asked."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store, self._views = store, views
        self.predicted = 0
        self.requests: dict[tuple[str, int], int] = {}
        self._times: dict[str, Times] = {}
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._began = time.time()

    def add(self, path: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests[path, status] = self.requests.get((path, status), 0) + 1
        self.times(path).add(seconds)

    def times(self, path: str) -> Times:
        """How long the requests of a path took."""
        found = self._times.get(path)
        if found is None:
            found = self._times[path] = Times()
        return found

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def latency(self, path: str) -> dict[str, float] | None:
        """Median and 99th percentile of the last requests, in seconds."""
        times = sorted(self._times[path].recent()) if path in self._times else []
        if not times:
            return None
        return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}

    def status(self) -> dict[str, Any]:
        """What the page shows, as of now."""
        store, live, writer = self._store, self._store.live, self._store.writer
        running, model = live.running, live.model
        whole = self._views.whole()
        return {
            "time": time.time(),
            "up": time.time() - self._began,
            "learner": model.engine.learner.name,
            "target": model.engine.target.kind,
            "classes": [str(label) for label in model.classes],
            "sequence": live.sequence,
            "events": model.events,
            "predicted": self.predicted,
            "durability": store.settings.durability,
            "outcomes": dict(writer.counts),
            "pending": len(live.pending),
            "dropped": live.pending.dropped,
            "expired": live.pending.expired,
            "queued": writer.queued,
            "checkpoint": writer.checkpoint_sequence,
            "trouble": _public(writer.trouble),
            "error": running.whole.error,
            "recent": running.recent,
            "log_loss": running.log_loss,
            "judged": running.whole.events,
            "curve": running.whole.curve.points(),
            "calibration": running.calibration(),
            "predicting": self.latency("/v1/predict"),
            "learning": self.latency("/v1/learn"),
            "sync": writer.sync_seconds,
            "tasks": whole.n_tasks,
            "features": whole.n_features,
            "rank": whole.rank,
            "kinds": dict(Counter(task.kind for task in whole.tasks)),
        }

    def collect(self) -> Iterator[Metric]:
        """Called by Prometheus' registry."""
        live, writer = self._store.live, self._store.writer
        learned = CounterMetricFamily("romco_events", "Events by outcome", labels=["outcome"])
        for outcome in ("applied", "duplicate", "expired", "refused"):
            learned.add_metric([outcome], writer.counts[outcome])
        yield learned
        asked = CounterMetricFamily("romco_requests", "Requests", labels=["path", "status"])
        for (path, status), n in list(self.requests.items()):
            asked.add_metric([path, str(status)], n)
        yield asked
        text = "Time from request to answer"
        took = HistogramMetricFamily("romco_request_seconds", text, labels=["path"])
        for path, times in list(self._times.items()):
            took.add_metric([path], times.buckets(), times.sum)
        yield took
        yield CounterMetricFamily("romco_predictions", "Predictions made", self.predicted)
        yield CounterMetricFamily(
            "romco_pending_dropped", "Pending events dropped for want of room", live.pending.dropped
        )
        yield CounterMetricFamily(
            "romco_pending_expired", "Pending events never answered in time", live.pending.expired
        )
        for name, text, value in self._gauges():
            if value is not None:
                yield GaugeMetricFamily(f"romco_{name}", text, value)

    def _gauges(self) -> Iterator[tuple[str, str, float | None]]:
        store, live, writer = self._store, self._store.live, self._store.writer
        yield "sequence", "Sequence number of the last change applied", live.sequence
        yield "checkpoint_sequence", "That of the last checkpoint", writer.checkpoint_sequence
        yield "tasks", "Tasks known", len(live.model.tasks)
        yield "pending", "Predicted events that wait for an answer", len(live.pending)
        yield "pending_bytes", "Memory they take", live.pending.bytes
        yield "queued", "Events that wait to be learned", writer.queued
        yield "ids", "Ids remembered", len(live.seen)
        yield "log_bytes", "Size of the log", writer.journal.size()
        yield "sync_seconds", "Time of the last sync", writer.sync_seconds
        yield "broken", "1 if learning has stopped until a restart", float(writer.broken)
        yield "error", "Share of wrong predictions", live.running.whole.error
        yield "recent_error", "Among about the last thousand", live.running.recent
        yield "log_loss", "Mean log loss of the predictions", live.running.log_loss
        with live.model.engine.at_rest() as learner:
            if isinstance(learner, Decomposed):
                yield "rank", "Rank of what is shared", len(learner.singular_values())
        yield "durable", "1 if answers wait for a sync", store.settings.durability == "durable"


def _public(trouble: str | None) -> str | None:
    """What went wrong, without any path."""
    if trouble is None:
        return None
    return "learning is in trouble: see the log of the service"
