"""Metrics of what goes out beside the viewers, read back with Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from camera.outputs.target import OutputState
from camera.rtsp.server import RtspState
from camera.stream_metrics import StreamStates, stream_metrics

AWAY = OutputState("whip://media/gate", "waiting", "protected", 3, 40, 4000, 7, "refused")
TAKEN = OutputState("rtsp://media/gate", "publishing", "sealed", 0, 50, 5000, 0, "")


class Streams(Collector):
    """The metrics of one moment."""

    def __init__(self, streams: StreamStates) -> None:
        self.streams = streams

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return stream_metrics("veilcam_", self.streams)


def scraped(streams: StreamStates) -> dict[tuple[str, str], float]:
    registry = CollectorRegistry()
    registry.register(Streams(streams))
    text = generate_latest(registry).decode()
    return {
        (sample.name, sample.labels.get("output", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_every_output_says_whether_it_is_taken_and_what_it_sent() -> None:
    found = scraped(StreamStates((AWAY, TAKEN)))
    assert found["veilcam_output_up", AWAY.name] == 0
    assert found["veilcam_output_up", TAKEN.name] == 1
    assert found["veilcam_output_reconnects_total", AWAY.name] == 3
    assert found["veilcam_output_units_total", TAKEN.name] == 50
    assert found["veilcam_output_bytes_total", AWAY.name] == 4000
    assert found["veilcam_output_skipped_units_total", AWAY.name] == 7
    assert not [name for name, _ in found if "rtsp" in name]


def test_the_rtsp_server_says_whether_it_runs() -> None:
    found = scraped(StreamStates(rtsp=RtspState("rtsp://127.0.0.1:8554/live", True, 2, 90, "")))
    assert found == {
        ("veilcam_rtsp_up", ""): 1,
        ("veilcam_rtsp_restarts_total", ""): 2,
        ("veilcam_rtsp_units_total", ""): 90,
    }


def test_two_outputs_of_one_name_are_two_series() -> None:
    registry = CollectorRegistry()
    registry.register(Streams(StreamStates((TAKEN, TAKEN))))
    lines = generate_latest(registry).decode().splitlines()
    assert len([line for line in lines if line.startswith("veilcam_output_up{")]) == 2
