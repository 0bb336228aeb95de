"""Prometheus metrics of detection on edge workers."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from analytics.pool import WorkerState
from camera.edge_detection import EdgeState

_GAUGES = (
    ("load", "Busy share of the worker by this camera's tiles, 0 to 1."),
    ("latency_seconds", "Mean time from sending a tile to its answer."),
    ("pixels_per_second", "Detection speed that planning believes in."),
    ("link_bytes_per_second", "Upload rate that planning believes in."),
    ("frame_share", "Part of the last frame's area that the worker saw, 0 to 1."),
)


def edge_metrics(prefix: str, edge: EdgeState) -> Iterator[Metric]:
    """The families; workers are labelled with their names, which hold no secret."""
    frames = CounterMetricFamily(prefix + "edge_frames", "Frames by what became of them.", labels=["result"])
    frames.add_metric(["detected"], edge.frames)
    frames.add_metric(["skipped"], edge.skipped)
    yield frames
    tiles = CounterMetricFamily(prefix + "edge_tiles", "Tiles by who answered them.", labels=["result"])
    for kind, count in edge.tiles.items():
        tiles.add_metric([kind], count)
    yield tiles
    if edge.latency_s is not None:
        yield GaugeMetricFamily(
            prefix + "edge_latency_seconds", "Mean time from frame to boxes.", value=edge.latency_s
        )
    if edge.sent_share is not None:
        yield GaugeMetricFamily(
            prefix + "edge_sent_share", "Pixels uploaded against the frame's, mean.", value=edge.sent_share
        )
    yield from _worker_metrics(prefix + "worker_", edge)


def _worker_metrics(prefix: str, edge: EdgeState) -> Iterator[Metric]:
    up = GaugeMetricFamily(prefix + "up", "1 while the worker is in use.", labels=["worker"])
    requests = CounterMetricFamily(
        prefix + "requests", "Tiles sent by how it ended.", labels=["worker", "result"]
    )
    sent = CounterMetricFamily(prefix + "sent_bytes", "Bytes of tiles sent.", labels=["worker"])
    for worker in edge.workers:
        up.add_metric([worker.name], float(worker.state == "closed"))
        sent.add_metric([worker.name], worker.sent_bytes)
        for result in ("answered", "late", "failed", "lied"):
            requests.add_metric([worker.name, result], getattr(worker, result))
    yield from (up, requests, sent)
    for name, text in _GAUGES:
        family = GaugeMetricFamily(prefix + name, text, labels=["worker"])
        for worker in edge.workers:
            value = _gauge(name, worker, edge)
            if value is not None:
                family.add_metric([worker.name], value)
        yield family


def _gauge(name: str, worker: WorkerState, edge: EdgeState) -> float | None:
    return {
        "load": worker.load,
        "latency_seconds": worker.latency_s,
        "pixels_per_second": worker.speed_pixels_per_s,
        "link_bytes_per_second": worker.link_bytes_per_s,
        "frame_share": edge.seen_share.get(worker.name, 0.0),
    }[name]
