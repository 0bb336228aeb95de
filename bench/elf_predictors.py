"""Which region predictor finds most with fewest pixels: the planner's loop on boxes of whole frames.

    veilcam detect clip.mp4 -o clip.jsonl
    python -m bench.elf_predictors clip.jsonl other.jsonl [--videos clip.mp4 other.mp4]

What a detector found in every whole frame stands for what is there. Each frame is planned, the planner is
told only what its tiles (and looks) would have shown, and it is counted whether the boxes of the frame lie
whole within one tile. ``known`` counts only objects that were in the last result that the planner was told.
What a detector finds in a tile is taken to be what it finds in the whole frame. Pictures are needed only for
what changed in them (--videos): then still objects are not sent, and count if what stands for them fits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from analytics.detections import Detections
from analytics.elf import FramePlan, Planner, Policy, WorkerView, merge
from analytics.elf.attention_lstm import AttentionLstmPredictor
from analytics.elf.changes import Plane
from analytics.elf.geometry import Boxes, Rows, areas, overlaps, whole_within
from analytics.elf.planner import Padding
from analytics.elf.prediction import KalmanPredictor, LastBoxPredictor, Prediction, Predictor
from analytics.interface import DetectorConfig

WORKERS = tuple(WorkerView(f"w{index}", 1e6, 12.5e6, 0.002, 0.003) for index in range(4))
LOOK_SEES_PX = 10  # sides of what a look can show, in its own pixels
STILL_IOU = 0.6  # with what is carried for an object that is not sent
TRUTH_SCORE = 0.4  # a box of the whole frame that counts; what is told to the planner may be weaker


@dataclass(frozen=True, slots=True)
class Clip:
    """Size and detections of every frame of a clip."""

    name: str
    frame_wh: tuple[int, int]
    frames: tuple[Detections, ...]

    @classmethod
    def read(cls, path: Path) -> Clip:
        """From JSON Lines of `veilcam detect`."""
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        names = tuple(sorted({each["label"] for row in rows for each in row["detections"]}))
        frames = [
            Detections(
                np.array([each["box_xyxy"] for each in row["detections"]]).reshape(-1, 4),
                np.array([each["score"] for each in row["detections"]]),
                np.array([names.index(each["label"]) for each in row["detections"]], np.int64),
                names,
            ).clipped(row["width"], row["height"])
            for row in rows
        ]
        return cls(path.stem, (rows[0]["width"], rows[0]["height"]), tuple(frames))


class ElfPadding:
    """A predictor with the padding of Elf's public code: 6 %, to at least 10 % of the frame's side."""

    def __init__(self, inner: Predictor) -> None:
        self._inner = inner
        self.name = f"{inner.name}, Elf's padding"

    def start(self, frame_index: int, slots: Rows, boxes: Boxes) -> None:
        """See Predictor."""
        self._inner.start(frame_index, slots, boxes)

    def observe(self, frame_index: int, slots: Rows, boxes: Boxes, expected: Boxes) -> None:
        """See Predictor."""
        self._inner.observe(frame_index, slots, boxes, expected)

    def predict(self, frame_index: int, slots: Rows, frame_wh: tuple[int, int]) -> Prediction:
        """See Predictor."""
        boxes = self._inner.predict(frame_index, slots, frame_wh).boxes_xyxy
        sides = boxes[:, 2:] - boxes[:, :2]
        pad = np.maximum(0.06 * sides, (0.1 * np.array(frame_wh) - sides) / 2)
        return Prediction(boxes, np.concatenate([pad, pad], 1))


def answer(plan: FramePlan, clip: Clip, truth: Detections) -> Detections:
    """What the tiles of a plan would have shown: boxes of which half lies in a tile, cut to it."""
    parts = []
    boxes = truth.boxes_xyxy.astype(np.float64)
    for tile in plan.all_tiles:
        low, high = np.array(tile.xyxy[:2]), np.array(tile.xyxy[2:])
        cut = np.concatenate([np.maximum(boxes[:, :2], low), np.minimum(boxes[:, 2:], high)], 1)
        sides = cut[:, 2:] - cut[:, :2]
        seen = (sides > 2).all(1) & (areas(cut) >= 0.5 * areas(boxes))
        if tile is plan.look:
            seen &= sides.min(1) * tile.scale >= LOOK_SEES_PX
        scale = np.array(tile.sent_wh * 2) / np.array([tile.width, tile.height] * 2)
        local = (cut[seen] - np.concatenate([low, low])) * scale
        parts.append((tile, Detections(local, truth.scores[seen], truth.class_ids[seen], truth.names)))
    config = DetectorConfig(min_score=0.1)
    return merge(clip.frame_wh, parts, config, skipped=plan.skipped, names=truth.names)


@dataclass(slots=True)
class Figures:
    """Sums over frames."""

    boxes: int = 0
    whole: int = 0
    known: int = 0
    known_whole: int = 0
    frames: int = 0
    pixel_share: float = 0.0
    looks: int = 0

    def row(self) -> str:
        """Recall of known objects and of all; sent pixels without and with looks; all in percent."""
        known, all_boxes = self.known_whole / max(self.known, 1), self.whole / max(self.boxes, 1)
        tiles, looks = self.pixel_share / max(self.frames, 1), 0.25 * self.looks / max(self.frames, 1)
        return f"{100 * known:7.2f} {100 * all_boxes:7.2f} {100 * tiles:6.1f} {100 * (tiles + looks):6.1f}"


def pictures(video: Path | None) -> Iterator[Plane | None]:
    """Luma of every frame, then None for ever; with it the planner knows what changed."""
    if video is not None:
        reader = cv2.VideoCapture(str(video))
        while (read := reader.read())[0]:
            yield np.asarray(cv2.cvtColor(read[1], cv2.COLOR_BGR2GRAY), np.uint8)
    while True:
        yield None


def run(clip: Clip, planner: Planner, lag: int, figures: Figures, video: Path | None) -> None:
    """Plan every frame; a frame's result is known ``lag`` frames later."""
    waiting: list[tuple[int, Detections]] = []
    told = Detections.empty(clip.frames[0].names)
    for index, (truth, luma) in enumerate(zip(clip.frames, pictures(video), strict=False)):
        if luma is not None:
            planner.see(luma)
        plan = planner.plan(index, clip.frame_wh, WORKERS)
        boxes = truth[np.flatnonzero(truth.scores >= TRUTH_SCORE)].boxes_xyxy.astype(np.float64)
        if not plan.covers_all:
            _count(plan, clip, boxes, told, figures)
        waiting.append((index, answer(plan, clip, truth)))
        if len(waiting) >= lag:
            told = waiting[0][1]
            planner.observe(*waiting.pop(0))


def _count(plan: FramePlan, clip: Clip, boxes: Boxes, before: Detections, figures: Figures) -> None:
    tiles = np.array([tile.xyxy for tile in plan.tiles], np.float64).reshape(-1, 4)
    still = np.array([each.box_xyxy for each in plan.skipped], np.float64).reshape(-1, 4)
    whole = whole_within(boxes, tiles).any(1) | (overlaps(boxes, still) >= STILL_IOU).any(1)
    known = (overlaps(boxes, before.boxes_xyxy.astype(np.float64)) > 0.2).any(1)
    figures.boxes += len(boxes)
    figures.whole += int(whole.sum())
    figures.known += int(known.sum())
    figures.known_whole += int((whole & known).sum())
    figures.frames += 1
    sent = sum(tile.sent_pixels for tile in plan.tiles)
    figures.pixel_share += sent / (clip.frame_wh[0] * clip.frame_wh[1])
    figures.looks += plan.look is not None


PREDICTORS: tuple[tuple[Callable[[], Predictor], Sequence[float]], ...] = (
    (LastBoxPredictor, ()),
    (KalmanPredictor, ()),
    (AttentionLstmPredictor, ()),
    (lambda: ElfPadding(LastBoxPredictor()), (1,)),
    (lambda: ElfPadding(AttentionLstmPredictor()), (1,)),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("boxes", type=Path, nargs="+", help="JSON Lines of `veilcam detect`")
    parser.add_argument("--videos", type=Path, nargs="+", help="the clips, in the same order")
    parser.add_argument("--only", default="", help="predictors whose names begin so")
    parser.add_argument("--pads", type=float, nargs="+", default=[0, 1, 2, 3, 4, 6], help="in spreads")
    parser.add_argument("--lag", type=int, default=1, help="frames until a result is known")
    parser.add_argument("--margin", type=int, default=0, help="Policy.margin, pixels")
    parser.add_argument("--sweep", type=float, default=0.02, help="Policy.sweep_share")
    arguments = parser.parse_args()
    clips = [Clip.read(path) for path in arguments.boxes]
    videos: list[Path | None] = arguments.videos or [None] * len(clips)
    count = sum(len(clip.frames) for clip in clips)
    print(f"{', '.join(clip.name for clip in clips)}: {count} frames, results {arguments.lag} frame(s) late")
    print(f"{'predictor':32s} {'pad':>3s} {'known':>7s} {'all':>7s} {'px':>6s} {'+look':>6s} ms")
    policy = Policy(margin=arguments.margin, sweep_share=arguments.sweep)
    for make, pads in PREDICTORS:
        if not make().name.startswith(arguments.only):
            continue
        for spreads in pads or arguments.pads:
            figures, began = Figures(), time.thread_time()
            for clip, video in zip(clips, videos, strict=True):
                run(clip, Planner(policy, make(), Padding(spreads)), arguments.lag, figures, video)
            spent_ms = 1e3 * (time.thread_time() - began) / count
            print(f"{make().name:32s} {spreads:3.0f} {figures.row()} {spent_ms:.1f}", flush=True)


if __name__ == "__main__":
    main()
