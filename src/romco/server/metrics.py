"""Metrics of the service: for Prometheus, and for the page."""

import time
from bisect import bisect_left
from collections import Counter as Count
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from prometheus_client import Metric, core

from romco.learners.capabilities import Decomposed
from romco.server.routes import ROUTES

if TYPE_CHECKING:
    from romco.server.writer import Service

OTHER_PATH = "other"
RECENT_REQUESTS = 1000  # of which the page shows median and 99th percentile
OUTCOMES = ("applied", "duplicate", "expired", "refused")
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts requests and predictions; reads the rest from the service when it is asked."""

    def __init__(self, service: "Service") -> None:
        self.predictions, self._service = 0, service
        self._requests: Count[tuple[str, int]] = Count()
        paths = (*(route.path for route in ROUTES), OTHER_PATH)
        self._buckets = {path: [0] * (len(BUCKETS) + 1) for path in paths}
        self._seconds = dict.fromkeys(paths, 0.0)
        self._recent = {path: deque[float](maxlen=RECENT_REQUESTS) for path in paths}

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is that of its route."""
        self._requests[path, status] += 1
        self._buckets[path][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[path] += seconds
        self._recent[path].append(seconds)

    def latency(self, path: str) -> dict[str, float] | None:
        """Return median and 99th percentile of the last requests, in seconds."""
        times = sorted(self._recent[path])
        if not times:
            return None
        return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}

    def status(self) -> dict[str, Any]:
        """Return what the page shows."""
        service = self._service
        scores, counts, overview = service.served.scores, service.counts, service.served.overview()
        trouble = "learning is in trouble: see the log of the service"
        return {name: value for name, _, value in self._gauges()} | {
            "time": time.time(),
            "learner": service.served.model.engine.learner.name,
            "target": service.served.target,
            "events": service.served.model.events,
            "predicted": self.predictions,
            "durability": service.settings.durability,
            "dropped": counts["dropped"],
            "expired": counts["never answered"],
            "trouble": None if service.trouble is None else trouble,
            "judged": scores.total.events,
            "curve": scores.total.points(),
            "calibration": scores.score.calibration_bins(),
            "predicting": self.latency("/v1/predict"),
            "learning": self.latency("/v1/learn"),
            "features": overview.n_features,
            "rank": overview.rank,
            "kinds": dict(Count(task.kind for task in overview.tasks)),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield metrics that are read when Prometheus asks."""
        yield core.CounterMetricFamily("romco_predictions", "Predictions made", self.predictions)
        requests = core.CounterMetricFamily("romco_requests", "Requests", labels=["path", "status"])
        for (path, status), count in list(self._requests.items()):
            requests.add_metric([path, str(status)], count)
        yield requests
        name, text = "romco_request_seconds", "Time from request to response"
        seconds = core.HistogramMetricFamily(name, text, labels=["path"])
        for path, counts in self._buckets.items():
            sums = list(zip([*map(str, BUCKETS), "+Inf"], accumulate(counts), strict=True))
            seconds.add_metric([path], sums, self._seconds[path])
        yield seconds
        service = self._service
        events = core.CounterMetricFamily("romco_events", "Events by outcome", labels=["outcome"])
        for outcome in OUTCOMES:
            events.add_metric([outcome], service.counts[outcome])
        yield events
        dropped, expired = service.counts["dropped"], service.counts["never answered"]
        yield core.CounterMetricFamily(
            "romco_pending_dropped", "Pending events without room", dropped
        )
        yield core.CounterMetricFamily(
            "romco_pending_expired", "Pending events never answered", expired
        )
        for name, text, value in self._gauges():
            if value is not None:
                yield core.GaugeMetricFamily(f"romco_{name}", text, value)

    def _gauges(self) -> Iterator[tuple[str, str, float | None]]:
        service, served, store = self._service, self._service.served, self._service.store
        scores = served.scores
        yield "sequence", "Sequence number of the last change applied", served.sequence
        yield "checkpoint_sequence", "That of the last checkpoint", service.checkpoint_sequence
        yield "tasks", "Tasks known", len(served.model.tasks)
        yield "pending", "Predicted events that wait for an answer", store.pending_events
        yield "pending_bytes", "Their size", store.pending_bytes
        yield "queued", "Events that wait to be learned", service.queued
        yield "ids", "Ids remembered", store.ids
        yield "log_bytes", "Size of the database", store.bytes
        yield "sync_seconds", "Time of the last commit", service.commit_seconds
        yield "broken", "1 while nothing can be learned", service.failing or service.broken
        score, recent = scores.score, scores.score.recent() if scores.score.events else {}
        yield "error", "Mean error of the predictions", scores.total.mean
        yield (
            "recent_error",
            "That of the last thousand",
            recent.get("error", recent.get("absolute")),
        )
        yield (
            "log_loss",
            "Mean log loss of the predictions",
            score.log_loss if "error" in recent else None,
        )
        with served.model.engine.at_rest() as learner:
            if isinstance(learner, Decomposed):
                yield "rank", "Rank of what tasks share", len(learner.singular_values())
        yield "durable", "1 if answers wait for a sync", service.settings.durability == "durable"
