"""How fast the camera pipeline is on this machine: real footage, the shipped protector, real encoders.

    python -m bench.pipeline [--sealed copy --sealed h264] [--seconds 15] [--pixels low] [--json]

Two runs per sealed mode: *capacity* takes pictures as fast as they go through (sustained frames per second,
time per stage), *live* plays the clip at --rate as a camera would (published rate, drops, and the delay from
capture to publication).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from base.errors import VeilError
from camera.broadcast import WhenFull
from camera.pipeline import Pipeline, PipelineOptions
from camera.publisher import LIVE_H264_PRESET, CodingOptions
from camera.sources import open_source
from camera.sources.uri import parse_size
from camera.stats import PipelineStats
from keys import CameraKey, EpochRing, Recipient
from models import Protector, load_protector

SAMPLE = Path(__file__).parents[1] / "veilcam" / "assets" / "sample.mp4"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured."""

    cpu: str
    cores: int
    load_before: float  # average of the minute before: other work on the machine
    python: str


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement."""

    kind: str
    sealed: str
    pictures: int
    seconds: float
    fps: float
    cpu_ms_per_picture: float  # all threads of the process
    stage_ms: dict[str, float]  # wall time per picture
    stage_share: dict[str, float]  # of the sum over stages
    dropped: int
    delay_ms_p50: float | None  # capture to publication; live runs only
    delay_ms_p95: float | None
    kbit_per_picture: float
    rss_mb: float


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    machine = _machine()
    try:
        protector = load_protector(threads=options.threads, refresh=options.refresh)
        with _clip(options.clip, parse_size(options.size), options.rate) as clip:
            runs = [
                _measure(clip, sealed, kind, protector, options)
                for sealed in options.sealed or ["copy", "h264"]
                for kind in ("capacity", "live")
            ]
    except VeilError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    if options.json:
        report = {
            "machine": asdict(machine),
            "size": options.size,
            "protector": protector.backend,
            "rate": options.rate,
        }
        print(json.dumps(report | {"runs": [asdict(run) for run in runs]}, indent=2))
    else:
        _print(machine, protector, options, runs)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__.splitlines()[0])
    parser.add_argument("--clip", type=Path, default=SAMPLE, help="footage; it is scaled to --size first")
    parser.add_argument("--size", default="1280x720")
    parser.add_argument(
        "--rate", type=int, default=25, help="pictures per second of the clip and the live run"
    )
    parser.add_argument("--seconds", type=float, default=15, help="per run, after one second of warm-up")
    parser.add_argument("--sealed", action="append", choices=["copy", "h264", "hevc", "av1", "ffv1", "none"])
    parser.add_argument(
        "--refresh", type=int, default=2, help="look for faces in every n-th picture (camera run: 2)"
    )
    parser.add_argument("--pixels", choices=["off", "low", "high"], default="off", help="the pixel path")
    parser.add_argument("--threads", type=int, default=None, help="of the protector")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


@contextmanager
def _clip(path: Path, size: tuple[int, int], rate: int) -> Iterator[Path]:
    """The footage as a network camera would send it: H.264, one key frame in two seconds, no B-frames."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "clip.mp4"
        settings = {"preset": "veryfast", "crf": "23", "bf": "0", "g": str(2 * rate), "sc_threshold": "0"}
        with av.open(str(path)) as source, av.open(str(target), "w") as output:
            stream = output.add_stream("libx264", rate=rate, options=settings)
            stream.width, stream.height = size
            stream.pix_fmt = "yuv420p"
            for number, picture in enumerate(source.decode(video=0)):
                scaled = picture.reformat(*size, format="yuv420p")
                scaled.pts, scaled.time_base = number, Fraction(1, rate)
                output.mux(stream.encode(scaled))
            output.mux(stream.encode(None))
        yield target


def _measure(clip: Path, sealed: str, kind: str, protector: Protector, options: argparse.Namespace) -> Run:
    camera = CameraKey.generate("bench")
    recipient, _ = Recipient.generate("bench")
    live = kind == "live"
    source = open_source(str(clip), loop=True, realtime=live)
    coding = CodingOptions(
        sealed=sealed, sealed_preset=LIVE_H264_PRESET if sealed == "h264" else None, pixels=options.pixels
    )
    pipeline = Pipeline(
        source, protector, camera, EpochRing(camera.camera_id, [recipient]), PipelineOptions(coding)
    )
    subscription = pipeline.broadcast.subscribe("bench", when_full=WhenFull.WAIT)
    delays_ms: list[float] = []
    with pipeline:
        first = subscription.get(60)
        warm_s = time.monotonic() + 1.0
        while first is not None and time.monotonic() < warm_s:
            subscription.get(1)
        before, began_s, began_cpu_s = pipeline.stats(), time.monotonic(), time.process_time()
        while time.monotonic() < began_s + options.seconds and not subscription.ended:
            unit = subscription.get(1)
            if unit is not None:
                delays_ms.append(time.time() * 1e3 - unit.unit.pts_us / 1e3)
        after, elapsed_s = pipeline.stats(), time.monotonic() - began_s
        cpu_s = time.process_time() - began_cpu_s
    if pipeline.error is not None:
        raise pipeline.error
    return _summary(
        kind=kind,
        before=before,
        after=after,
        seconds=elapsed_s,
        cpu_s=cpu_s,
        delays_ms=delays_ms if live else [],
    )


def _summary(
    *,
    kind: str,
    before: PipelineStats,
    after: PipelineStats,
    seconds: float,
    cpu_s: float,
    delays_ms: list[float],
) -> Run:
    pictures = max(1, after.frames_out - before.frames_out)
    stage_ms: dict[str, float] = {
        stage: round(1e3 * (times.total_s - before.stages[stage].total_s) / pictures, 2)
        for stage, times in after.stages.items()
    }
    total_ms = sum(stage_ms.values()) or 1.0
    published_bits = 8 * (after.published_bytes - before.published_bytes)
    return Run(
        kind=kind,
        sealed=after.sealed_mode,
        pictures=pictures,
        seconds=round(seconds, 2),
        fps=round(pictures / seconds, 2),
        cpu_ms_per_picture=round(1e3 * cpu_s / pictures, 1),
        stage_ms=stage_ms,
        stage_share={stage: round(ms / total_ms, 3) for stage, ms in stage_ms.items()},
        dropped=sum(after.dropped.values()) - sum(before.dropped.values()),
        delay_ms_p50=round(float(np.percentile(delays_ms, 50)), 1) if delays_ms else None,
        delay_ms_p95=round(float(np.percentile(delays_ms, 95)), 1) if delays_ms else None,
        kbit_per_picture=round(published_bits / 1e3 / pictures, 1),
        rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )


def _machine() -> Machine:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    return Machine(cpu, len(os.sched_getaffinity(0)), os.getloadavg()[0], platform.python_version())


def _print(machine: Machine, protector: Protector, options: argparse.Namespace, runs: list[Run]) -> None:
    load = f"load before {machine.load_before:.1f}"
    print(f"{machine.cpu}, {machine.cores} cores, {load}, Python {machine.python}")
    print(f"{options.size} at {options.rate} pictures/s, protector on {protector.backend}\n")
    for run in runs:
        delay = (
            "" if run.delay_ms_p95 is None else f", delay p50 {run.delay_ms_p50} p95 {run.delay_ms_p95} ms"
        )
        print(
            f"{run.kind:8} sealed {run.sealed:5} {run.fps:6.1f} pictures/s (n = {run.pictures}), "
            f"{run.cpu_ms_per_picture} ms of CPU each, {run.dropped} dropped{delay}"
        )
        shares = (f"{stage} {ms:.1f} ms ({run.stage_share[stage]:.0%})" for stage, ms in run.stage_ms.items())
        print(
            f"         {', '.join(shares)}; {run.kbit_per_picture} kbit per picture, peak {run.rss_mb} MB\n"
        )


if __name__ == "__main__":
    sys.exit(main())
