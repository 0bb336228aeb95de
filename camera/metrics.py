"""Prometheus metrics of one camera, collected from its counters at the moment of the scrape.

Names follow the conventions of Prometheus; every camera has a registry of its own, so two cameras in one
process (or two tests) do not share counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from base.version import __version__
from camera.stats import BUCKETS_S, PipelineStats, Stage, StageTimes
from camera.stream_metrics import StreamStates, stream_metrics
from camera.webrtc.viewers import LiveCamera, Viewers

PREFIX = "veilcam_"


class CameraMetrics:
    """The registry of one camera and its text."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(
        self, camera: LiveCamera, viewers: Viewers, streams: Callable[[], StreamStates] = StreamStates
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_CameraCollector(camera, viewers, streams))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The scrape, in Prometheus' text format."""
        return generate_latest(self._registry)


class _CameraCollector(Collector):
    """Reads the counters once per scrape."""

    def __init__(self, camera: LiveCamera, viewers: Viewers, streams: Callable[[], StreamStates]) -> None:
        self._camera = camera
        self._viewers = viewers
        self._streams = streams

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: registering must not need a running pipeline."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The families of this moment."""
        stats = self._camera.stats()
        yield from _pipeline_counters(stats)
        yield _stage_seconds(stats.stages)
        yield from _gauges(stats)
        yield from _viewer_metrics(self._viewers)
        yield from stream_metrics(PREFIX, self._streams())


def _pipeline_counters(stats: PipelineStats) -> Iterator[Metric]:
    frames = CounterMetricFamily(PREFIX + "frames", "Frames by stage.", labels=["stage"])
    frames.add_metric(["capture"], stats.frames_in)
    for stage in ("protect", "encode"):
        if stage in stats.stages:
            frames.add_metric([stage], stats.stages[stage].count)
    frames.add_metric(["send"], stats.frames_out)
    yield frames
    dropped = CounterMetricFamily(
        PREFIX + "dropped_frames", "Frames that were not protected and published.", labels=["reason"]
    )
    for reason, count in sorted(stats.dropped.items()):
        dropped.add_metric([reason], count)
    yield dropped
    for name, text, value in (
        ("key_frames", "Key frames published.", stats.key_frames),
        ("keyframe_requests", "Key frames asked for by viewers.", stats.key_frame_requests),
        ("segments", "Segments finished.", stats.segments),
        ("published_bytes", "Bytes published, video and SEI.", stats.published_bytes),
        ("recovery_bytes", "Bytes of the camera's coded original that were sealed.", stats.sealed_bytes),
        ("source_reconnects", "Times the source was opened again.", stats.reconnects),
    ):
        yield CounterMetricFamily(PREFIX + name, text, value=value)


def _stage_seconds(stages: Mapping[Stage, StageTimes]) -> Metric:
    family = HistogramMetricFamily(
        PREFIX + "stage_seconds", "Busy seconds per frame and stage.", labels=["stage"]
    )
    for stage, times in stages.items():
        cumulative, buckets = 0, []
        for bound_s, count in zip((*map(str, BUCKETS_S), "+Inf"), times.bucket_counts, strict=True):
            cumulative += count
            buckets.append((bound_s, cumulative))
        family.add_metric([stage], buckets, times.total_s)
    return family


def _gauges(stats: PipelineStats) -> Iterator[Metric]:
    if stats.source_age_s is not None:
        yield GaugeMetricFamily(
            PREFIX + "camera_age_seconds", "Seconds since the last captured frame.", value=stats.source_age_s
        )
    yield GaugeMetricFamily(
        PREFIX + "frames_per_second", "Published frames per second of wall clock.", value=stats.fps
    )
    yield GaugeMetricFamily(
        PREFIX + "bits_per_second", "Published bits per second, video and SEI.", value=stats.bitrate_bps
    )
    yield GaugeMetricFamily(
        PREFIX + "up", "1 while the pipeline runs.", value=float(stats.state == "running")
    )
    epoch = GaugeMetricFamily(PREFIX + "key_epoch", "1, labelled with the short id.", labels=["epoch"])
    if stats.epoch:
        epoch.add_metric([stats.epoch], 1.0)
    yield epoch
    info = GaugeMetricFamily(
        PREFIX + "info", "1, labelled with what runs.", labels=["version", "protector", "sealed_mode"]
    )
    info.add_metric([__version__, stats.protector, stats.sealed_mode], 1.0)
    yield info


def _viewer_metrics(viewers: Viewers) -> Iterator[Metric]:
    yield GaugeMetricFamily(PREFIX + "viewers", "Open WHEP sessions.", value=len(viewers))
    yield GaugeMetricFamily(PREFIX + "max_viewers", "Limit of sessions.", value=viewers.max_viewers)
    yield CounterMetricFamily(
        PREFIX + "viewer_keyframe_requests",
        "Picture losses reported by viewers, before they are coalesced.",
        value=viewers.num_key_frame_requests,
    )
