"""Metrics of the service: for Prometheus, and for the page."""

import time
from bisect import bisect_left
from collections import Counter as Count
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from romco.learners.capabilities import Decomposed
from romco.server.routes import ROUTES

if TYPE_CHECKING:
    from romco.server.writer import Writer

OTHER_PATH = "other"
RECENT_REQUESTS = 1000  # of which the page shows median and 99th percentile
OUTCOMES = ("applied", "duplicate", "expired", "refused")
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts requests and predictions; reads the rest from the writer when it is asked."""

    def __init__(self) -> None:
        self.predictions = 0
        self._registry = CollectorRegistry()
        self.writer: Writer | None = None  # on which to report
        self._requests: Count[tuple[str, int]] = Count()
        paths = (*(route.path for route in ROUTES), OTHER_PATH)
        self._buckets = {path: [0] * (len(BUCKETS) + 1) for path in paths}
        self._seconds = dict.fromkeys(paths, 0.0)
        self._recent = {path: deque[float](maxlen=RECENT_REQUESTS) for path in paths}
        self._registry.register(self)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is that of its route."""
        self._requests[path, status] += 1
        self._buckets[path][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[path] += seconds
        self._recent[path].append(seconds)

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self._registry)

    def latency(self, path: str) -> dict[str, float] | None:
        """Return median and 99th percentile of the last requests, in seconds."""
        times = sorted(self._recent[path])
        if not times:
            return None
        return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}

    def status(self, writer: "Writer") -> dict[str, Any]:
        """Return what the page shows."""
        served, store, counts = writer.served, writer.store, writer.counts
        scores, model = served.scores, served.model
        overview = served.overview()
        trouble = "learning is in trouble: see the log of the service"
        return {
            "time": time.time(),
            "learner": model.engine.learner.name,
            "target": served.target,
            "sequence": served.sequence,
            "events": model.events,
            "predicted": self.predictions,
            "durability": writer.settings.durability,
            "pending": store.pending_events,
            "dropped": counts["dropped"],
            "expired": counts["never answered"],
            "trouble": None if writer.trouble is None else trouble,
            "error": scores.total.mean,
            "recent": scores.recent,
            "log_loss": scores.log_loss,
            "judged": scores.total.events,
            "curve": scores.total.curve.points(),
            "calibration": scores.calibration(),
            "predicting": self.latency("/v1/predict"),
            "learning": self.latency("/v1/learn"),
            "tasks": overview.n_tasks,
            "features": overview.n_features,
            "rank": overview.rank,
            "kinds": dict(Count(task.kind for task in overview.tasks)),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield metrics that are read when Prometheus asks."""
        yield CounterMetricFamily("romco_predictions", "Predictions made", self.predictions)
        requests = CounterMetricFamily("romco_requests", "Requests", labels=["path", "status"])
        for (path, status), count in list(self._requests.items()):
            requests.add_metric([path, str(status)], count)
        yield requests
        text = "Time from request to response"
        seconds = HistogramMetricFamily("romco_request_seconds", text, labels=["path"])
        bounds = (*map(str, BUCKETS), "+Inf")
        for path, counts in self._buckets.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            seconds.add_metric([path], buckets, self._seconds[path])
        yield seconds
        writer = self.writer
        if writer is None:
            return
        events = CounterMetricFamily("romco_events", "Events by outcome", labels=["outcome"])
        for outcome in OUTCOMES:
            events.add_metric([outcome], writer.counts[outcome])
        yield events
        dropped, expired = writer.counts["dropped"], writer.counts["never answered"]
        yield CounterMetricFamily("romco_pending_dropped", "Pending events without room", dropped)
        yield CounterMetricFamily("romco_pending_expired", "Pending events never answered", expired)
        for name, text, value in self._gauges(writer):
            if value is not None:
                yield GaugeMetricFamily(f"romco_{name}", text, value)

    def _gauges(self, writer: "Writer") -> Iterator[tuple[str, str, float | None]]:
        served, store, scores = writer.served, writer.store, writer.served.scores
        yield "sequence", "Sequence number of the last change applied", served.sequence
        yield "checkpoint_sequence", "That of the last checkpoint", writer.checkpoint_sequence
        yield "tasks", "Tasks known", len(served.model.tasks)
        yield "pending", "Predicted events that wait for an answer", store.pending_events
        yield "pending_bytes", "Their size", store.pending_bytes
        yield "queued", "Events that wait to be learned", writer.queued
        yield "ids", "Ids remembered", store.ids
        yield "log_bytes", "Size of the database", store.bytes
        yield "sync_seconds", "Time of the last commit", writer.commit_seconds
        yield "broken", "1 while nothing can be learned", writer.failing or writer.broken
        yield "error", "Mean error of the predictions", scores.total.mean
        yield "recent_error", "That of about the last thousand", scores.recent
        yield "log_loss", "Mean log loss of the predictions", scores.log_loss
        with served.model.engine.at_rest() as learner:
            if isinstance(learner, Decomposed):
                yield "rank", "Rank of what tasks share", len(learner.singular_values())
        yield "durable", "1 if answers wait for a sync", writer.settings.durability == "durable"
