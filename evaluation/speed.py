"""Speed of the protecting network beside two published ones, same size, same run-time, same run."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from base.errors import MissingDependency
from base.frames import ClearFrame
from evaluation.camera import REFRESH
from evaluation.context import Context
from evaluation.results import Part, Row, Table
from evaluation.statistics import Estimate, mean
from models.session import BACKEND_VARIABLE

SIZE_WH = (640, 480)
HD_WH = (1280, 720)
ROUNDS = 5
STILL, VIDEO = "veilcam, a still", "veilcam, a video's picture"
_LONG_S = 20.0  # of one run of a rival: then there are no more rounds than three


def speed(context: Context) -> Part:
    """The part: seconds per picture, in turns, so that a busy machine slows all alike."""
    if importlib.util.find_spec("onnx") is None:
        raise MissingDependency("building the rivals needs the extra 'train': pip install 'veilcam[train]'")
    from evaluation.train.rivals import cyclegan_generator, open_float, yolov3  # noqa: PLC0415  (an extra)

    width, height = (192, 160) if context.quick else SIZE_WH
    batch = np.random.default_rng(0).random((1, 3, height, width), np.float32)
    runs: dict[str, Callable[[], object]] = {}
    for name, graph in (("CycleGAN", cyclegan_generator(height, width)), ("YOLOv3", yolov3(height, width))):
        runs[name] = _running(open_float(graph, context.threads), batch)
    before = os.environ.get(BACKEND_VARIABLE)
    os.environ[BACKEND_VARIABLE] = "onnxruntime"  # the rivals' run-time
    try:
        scene = _moving(width, height)
        runs[STILL] = _protecting(context.camera.protector().protect, scene)
        runs[VIDEO] = _protecting_all(context.camera.protector(REFRESH).protect, scene)
        seconds = _in_turns(context, runs, 3 if context.quick else ROUNDS)
    finally:
        if before is None:
            del os.environ[BACKEND_VARIABLE]
        else:
            os.environ[BACKEND_VARIABLE] = before
    # Alone it runs as it does in a camera: by the fastest run-time and gates, or those asked for.
    video, stills = context.camera.protector(REFRESH, hold=True), context.camera.protector()
    large = _moving(*HD_WH)
    hd = _rates(context, video.protect, large, context.limit(60, quick=4))
    hd_all = _rates(context, stills.protect, large, context.limit(30, quick=2))
    seconds[VIDEO] = [one / len(scene) for one in seconds[VIDEO]]
    milliseconds = [Row.of(name, mean([1000 * one for one in times])) for name, times in seconds.items()]
    ratios = [
        Row.of(f"{name} by {way}", _ratio(seconds[name], seconds[way]), floor=floor, aim=aim)
        for name, floor, aim in (("CycleGAN", 40.0, 100.0), ("YOLOv3", 60.0, 150.0))
        for way in (STILL, VIDEO)
    ]
    note = (
        f"{width}x{height}, onnxruntime, {context.threads} thread(s), in turns, all in fp32. CycleGAN: the "
        "9-block generator; YOLOv3: Darknet-53 with its three heads; random weights, built from their "
        "papers, batch norm folded. veilcam: everything from clear planes to protected planes, pyramid and "
        "finders included. A still pays for all looks; a camera's video for a look in every "
        f"{REFRESH}nd picture for what must be hidden, with faces and people in turn, all of it drawn."
    )
    hd_rows = [
        Row.of(
            f"as a video (a look in every {REFRESH}nd picture, still blocks held)", hd, floor=25.0, aim=60.0
        ),
        Row.of("a look in every picture", hd_all, floor=25.0, aim=60.0),
    ]
    return Part(
        "speed",
        (
            Table("Times faster than published networks", "times", "rounds", True, tuple(ratios), note),
            Table("Time per picture", "ms", "rounds", False, tuple(milliseconds), note),
            Table(
                f"1280x720, {context.threads} thread(s), protecting alone",
                "fps",
                "pictures",
                True,
                tuple(hd_rows),
                f"{video.backend}, without capture, encoding and sealing. Moving synthetic pictures: half of "
                "the blocks change.",
            ),
        ),
    )


def _running(session: Any, batch: npt.NDArray[np.float32]) -> Callable[[], object]:  # noqa: ANN401
    return lambda: session.run(None, {"picture": batch})


def _protecting(protect: Callable[[ClearFrame], object], frames: list[ClearFrame]) -> Callable[[], object]:
    numbers = iter(range(10**9))
    return lambda: protect(frames[next(numbers) % len(frames)])


def _protecting_all(
    protect: Callable[[ClearFrame], object], frames: list[ClearFrame]
) -> Callable[[], object]:
    return lambda: [protect(frame) for frame in frames]


def _in_turns(context: Context, runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    for run in runs.values():
        run()  # the first one pays for memory and choices
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in context.track("speed", range(rounds)):
        for name, run in runs.items():
            if number < 3 or seconds[name][0] < _LONG_S:
                seconds[name].append(_timed(run))
    return seconds


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _rates(
    context: Context, protect: Callable[[ClearFrame], object], frames: list[ClearFrame], count: int
) -> Estimate:
    """Pictures a second; single pictures are resampled."""
    run = _protecting(protect, frames)
    run()
    run()
    seconds = [_timed(run) for _ in context.track("speed: 720p", range(count))]
    spread = mean(seconds)
    return Estimate(1 / spread.value, 1 / spread.high, 1 / spread.low, spread.n)


def _ratio(theirs: list[float], ours: list[float]) -> Estimate:
    """Median by median; the interval pairs the rounds."""
    ours = ours[: len(theirs)]
    rounds = [one / other for one, other in zip(theirs, ours, strict=True)]
    spread = mean(rounds)
    return Estimate(float(np.median(theirs) / np.median(ours)), spread.low, spread.high, len(rounds))


def _moving(width: int, height: int) -> list[ClearFrame]:
    """A textured scene whose left half moves."""
    rng = np.random.default_rng(1)
    coarse = rng.integers(40, 216, (height // 8 + 1, width // 8 + 1))
    scene = np.kron(coarse, np.ones((8, 8)))[:height, :width].astype(np.uint8)
    grey = np.full((height // 2, width // 2), 128, np.uint8)
    frames = []
    for number in range(8):
        luma = scene.copy()
        luma[:, : width // 2] = np.roll(luma[:, : width // 2], 3 * number, 1)
        frames.append(ClearFrame(luma, grey, grey, number * 40_000))
    return frames
