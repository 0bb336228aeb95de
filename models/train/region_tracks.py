"""Boxes of one object over time, from what `veilcam detect` wrote: the samples of region prediction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
_MIN_OVERLAP = 0.3  # intersection over union with the object's last box
_MAX_GAP = 3  # pictures in which the detector may miss it


@dataclass(frozen=True, slots=True)
class Track:
    """One object: the pictures it was found in, [n], rising, and its boxes [n, 4] in pixels."""

    frames: npt.NDArray[np.int64]
    boxes_xyxy: Numbers


def read_tracks(paths: Iterable[Path], min_score: float, min_length: int) -> list[Track]:
    """The tracks in JSON Lines files of `veilcam detect`; short ones are left out."""
    return [
        track for path in paths for track in _link(_rows(path, min_score)) if len(track.frames) >= min_length
    ]


def _rows(path: Path, min_score: float) -> list[tuple[int, list[str], Numbers]]:
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        picture = json.loads(line)
        strong = [row for row in picture["detections"] if row["score"] >= min_score]
        boxes = np.array([row["box_xyxy"] for row in strong], np.float64).reshape(-1, 4)
        rows.append((int(picture["frame"]), [row["label"] for row in strong], boxes))
    return rows


def _link(pictures: Sequence[tuple[int, list[str], Numbers]]) -> list[Track]:
    """Join each box to the track of its class that it overlaps most (greedily), else begin one."""
    open_tracks: list[tuple[str, list[int], list[Numbers]]] = []
    done: list[tuple[str, list[int], list[Numbers]]] = []
    for frame, labels, boxes in pictures:
        done += [track for track in open_tracks if frame - track[1][-1] > _MAX_GAP]
        open_tracks = [track for track in open_tracks if frame - track[1][-1] <= _MAX_GAP]
        pairs = sorted(
            (
                (-_overlap(track[2][-1], box), index, row)
                for index, track in enumerate(open_tracks)
                for row, box in enumerate(boxes)
                if track[0] == labels[row]
            ),
        )
        used_tracks: set[int] = set()
        used_rows: set[int] = set()
        for score, index, row in pairs:
            if -score < _MIN_OVERLAP or index in used_tracks or row in used_rows:
                continue
            used_tracks.add(index)
            used_rows.add(row)
            open_tracks[index][1].append(frame)
            open_tracks[index][2].append(boxes[row])
        open_tracks += [
            (labels[row], [frame], [boxes[row]]) for row in range(len(boxes)) if row not in used_rows
        ]
    return [Track(np.array(frames), np.array(boxes)) for _, frames, boxes in done + open_tracks]


def _overlap(a: Numbers, b: Numbers) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (sides <= 0).any():
        return 0.0
    shared = float(sides.prod())
    return shared / float((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared)


@dataclass(frozen=True, slots=True)
class Samples:
    """Histories and what came next.

    Attributes:
        history: float32 [n, window, 4] boxes in pixels, oldest first.
        age: float32 [n, window] frames from each to the target.
        target: float32 [n, 4].
    """

    history: npt.NDArray[np.float32]
    age: npt.NDArray[np.float32]
    target: npt.NDArray[np.float32]


def cut_samples(
    tracks: Sequence[Track], window: int, horizons: Sequence[int], strides: Sequence[int]
) -> Samples:
    """Every stretch of every track at every speed (each ``stride``-th picture) and horizon, in frames.

    Histories that are too short are filled with their first box, as at run time.
    """
    history, age, target = [], [], []
    for track in tracks:
        for stride in strides:
            frames, boxes = track.frames[::stride] // stride, track.boxes_xyxy[::stride]
            for horizon in horizons:
                for last in range(len(frames) - horizon):
                    ahead = int(frames[last + horizon] - frames[last])
                    if ahead > 2 * max(horizons):
                        continue
                    index = np.maximum(np.arange(last - window + 1, last + 1), 0)
                    history.append(boxes[index])
                    age.append(frames[last + horizon] - frames[index])
                    target.append(boxes[last + horizon])
    return Samples(
        np.array(history, np.float32).reshape(-1, window, 4),
        np.array(age, np.float32).reshape(-1, window),
        np.array(target, np.float32).reshape(-1, 4),
    )
