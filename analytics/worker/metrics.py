"""What a worker counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class WorkerMetrics:
    """Counters of one worker, in a registry of its own."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "veilcam_worker_requests",
            "Inference requests by outcome: ok, or why there was no result.",
            ["model", "outcome"],
            registry=self._registry,
        )
        self.inference = Histogram(
            "veilcam_worker_inference_seconds",
            "Decoding and inference of one request.",
            ["model"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.waiting = Histogram(
            "veilcam_worker_queue_seconds",
            "How long a request waited before its inference.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.queued = Gauge("veilcam_worker_queue_length", "Requests that wait.", registry=self._registry)
        self.cameras = Gauge(
            "veilcam_worker_queue_cameras", "Cameras with requests that wait.", registry=self._registry
        )
        self.busy = Counter(
            "veilcam_worker_busy_seconds", "Time the inference thread worked.", registry=self._registry
        )
        self.received = Counter(
            "veilcam_worker_received_bytes", "Bytes of inference requests.", registry=self._registry
        )
        self.unauthorized = Counter(
            "veilcam_worker_unauthorized", "Requests without the token.", registry=self._registry
        )
        self.ready = Gauge("veilcam_worker_ready", "1 while new work is taken.", registry=self._registry)
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The scrape, in Prometheus' text format."""
        return generate_latest(self._registry)
