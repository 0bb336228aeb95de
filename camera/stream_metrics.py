"""What goes out beside the viewers, at one moment, and its Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from camera.edge_detection import EdgeState
from camera.edge_metrics import edge_metrics
from camera.outputs.target import OutputState
from camera.rtsp.server import RtspState

_OUTPUT_COUNTERS = (
    ("reconnects", "Times the media server was lost and connected to again."),
    ("units", "Access units sent to the media server."),
    ("bytes", "Bytes sent to the media server."),
    ("skipped_units", "Access units not sent: the server was away or too slow."),
)


@dataclass(frozen=True, slots=True)
class StreamStates:
    """The media servers that are published to; the RTSP server and the edge workers where there are any."""

    publish: tuple[OutputState, ...] = ()
    rtsp: RtspState | None = None
    edge: EdgeState | None = None


def stream_metrics(prefix: str, streams: StreamStates) -> Iterator[Metric]:
    """The families. Outputs are labelled with their number and their name, which holds no secret."""
    labels = [(str(number), output.name) for number, output in enumerate(streams.publish)]
    up = GaugeMetricFamily(
        prefix + "output_up", "1 while the media server takes the stream.", labels=["number", "output"]
    )
    for label, output in zip(labels, streams.publish, strict=True):
        up.add_metric(label, float(output.phase == "publishing"))
    yield up
    for field, text in _OUTPUT_COUNTERS:
        family = CounterMetricFamily(f"{prefix}output_{field}", text, labels=["number", "output"])
        for label, output in zip(labels, streams.publish, strict=True):
            family.add_metric(label, getattr(output, field))
        yield family
    if streams.rtsp is not None:
        yield GaugeMetricFamily(
            prefix + "rtsp_up", "1 while the RTSP server runs.", value=float(streams.rtsp.serving)
        )
        yield CounterMetricFamily(
            prefix + "rtsp_restarts", "Times the RTSP server was started again.", value=streams.rtsp.restarts
        )
        yield CounterMetricFamily(
            prefix + "rtsp_units", "Access units given to the RTSP server.", value=streams.rtsp.units
        )
    if streams.edge is not None:
        yield from edge_metrics(prefix, streams.edge)
