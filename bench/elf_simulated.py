"""A worker whose time is a formula, for machines without CPU caps: real detections, simulated speed.

python -m bench.elf_simulated --detector SPEC --fixed-ms 10 --pixels-per-s 1.5e6
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time

from analytics.detections import Detections
from analytics.detector import load_detector
from analytics.interface import Detector, DetectorConfig, Image
from analytics.oip import Limits
from analytics.worker.engine import Engine, EngineOptions
from analytics.worker.http_server import WorkerHttp
from analytics.worker.model import DetectorModel
from analytics.worker.rest_api import RestApi
from base.access import ListenAddress


class TimedDetector:
    """Answers when the formula says so, or later where this machine is slower than that."""

    def __init__(self, inner: Detector, fixed_s: float, pixels_per_s: float) -> None:
        self._inner = inner
        self._fixed_s, self._pixels_per_s = fixed_s, pixels_per_s

    @property
    def name(self) -> str:
        """See Detector."""
        return f"simulated {self._inner.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        """See Detector."""
        return self._inner.class_names

    def detect(self, frame_bgr_hwc: Image) -> Detections:
        """See Detector."""
        pixels = frame_bgr_hwc.shape[0] * frame_bgr_hwc.shape[1]
        until_s = time.monotonic() + self._fixed_s + pixels / self._pixels_per_s
        found = self._inner.detect(frame_bgr_hwc)
        time.sleep(max(0.0, until_s - time.monotonic()))
        return found


async def serve(arguments: argparse.Namespace) -> None:
    config = DetectorConfig(min_score=0.05, threads=1, any_size=True)
    detector = TimedDetector(
        load_detector(arguments.detector, config), arguments.fixed_ms / 1000, arguments.pixels_per_s
    )
    engine = Engine([DetectorModel("simulated", detector)], EngineOptions(), default="simulated")
    http = WorkerHttp(RestApi(engine, None, Limits()), ListenAddress("127.0.0.1", 0), None)
    await http.start()
    engine.start()
    await engine.wait_ready()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(json.dumps({"event": "ready", "url": http.url}), flush=True)
    await stop.wait()
    await http.close()
    engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--detector", default="yolox")
    parser.add_argument("--fixed-ms", type=float, default=10.0)
    parser.add_argument("--pixels-per-s", type=float, default=1.5e6)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
