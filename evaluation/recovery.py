"""What comes back: through the sealed layer, and through the pixels with the right, a wrong and no key."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from base.frames import ClearFrame, ProtectedFrame
from evaluation.bandwidth import PREVIEW, through_sealed
from evaluation.camera import code_video, read_clip
from evaluation.context import Context
from evaluation.pictures import to_bgr
from evaluation.pixel_path import PixelPath
from evaluation.quality import luma_psnr, psnr, ssim
from evaluation.results import Part, Row, Table
from evaluation.statistics import mean
from models.background import Background

Frame = ClearFrame | ProtectedFrame
MAX_GAIN_DB = 0.3  # a wrong key may come no nearer to the original than the protected picture, by this much
FIXED_CAMERA, CLOSE_UP = "fixed cameras", "people close up"
_BARS = {"high": ((30.0, 34.0), (0.92, 0.96)), "low": ((27.0, 27.0), (0.88, 0.88))}


@dataclass(slots=True)
class Quality:
    """Figures of one way back: a list entry per clip (mean over its pictures)."""

    psnr_whole: list[float] = field(default_factory=list)
    ssim_whole: list[float] = field(default_factory=list)
    psnr_faces: list[float] = field(default_factory=list)
    ssim_faces: list[float] = field(default_factory=list)

    def add(self, source: Sequence[Frame], back: Sequence[Frame], faces: Sequence[Sequence[Box]]) -> None:
        """Compare luma, whole and inside every face box."""
        pairs = [(one.luma_hw, other.luma_hw) for one, other in zip(source, back, strict=True)]
        self.psnr_whole.append(float(np.mean([min(psnr(*pair), 100.0) for pair in pairs])))
        self.ssim_whole.append(float(np.mean([ssim(*pair) for pair in pairs])))
        inside = [
            (one[y : y + h, x : x + w], other[y : y + h, x : x + w])
            for (one, other), boxes in zip(pairs, faces, strict=True)
            for x, y, w, h in boxes
        ]
        if inside:
            self.psnr_faces.append(float(np.mean([min(psnr(*pair), 100.0) for pair in inside])))
            self.ssim_faces.append(float(np.mean([ssim(*pair) for pair in inside])))


Box = tuple[int, int, int, int]


class FaceBoxes:
    """YuNet's faces of at least 24 pixels in clear frames; nothing where its model is missing."""

    def __init__(self, model: Path | None) -> None:
        self._net: Any = cv2.FaceDetectorYN.create(str(model), "", (320, 320), 0.7) if model else None

    def __call__(self, frame: ClearFrame) -> list[Box]:
        """(left, top, width, height), inside the picture."""
        if self._net is None:
            return []
        self._net.setInputSize((frame.width, frame.height))
        _, found = self._net.detect(to_bgr(frame))
        rows = np.zeros((0, 15)) if found is None else np.asarray(found)
        boxes = []
        for left, top, width, height in rows[:, :4].round().astype(int).tolist():
            x, y = max(left, 0), max(top, 0)
            w, h = min(left + width, frame.width) - x, min(top + height, frame.height) - y
            if min(w, h) >= 24:
                boxes.append((x, y, w, h))
        return boxes


def recovery(context: Context) -> Part:
    """The part: quality of recovered video over the clips, and the price of the pixel path in bits."""
    clips = _clips(context)
    if not clips:
        return Part("recovery", skipped="no clips in the data folder")
    found: dict[str, Quality] = {"protected itself": Quality(), "sealed av1 (default)": Quality()}
    shares: dict[tuple[str, str], list[float]] = {}
    close_up = set(context.data.action_clips())
    boxes = FaceBoxes(context.data.model("face_detection_yunet_2026may.onnx"))
    camera = context.camera.with_background(Background.FINE)  # as the product does with the pixel path
    for path in context.track("recovery", clips):
        frames, rate = read_clip(path, count=context.clip_frames)
        faces = [boxes(frame) for frame in frames]
        protected = code_video(camera.protect_video(frames), rate=rate, crf=camera.crf, adaptive=True)
        found["protected itself"].add(frames, protected.frames, faces)
        found["sealed av1 (default)"].add(frames, through_sealed(frames, rate), faces)
        for setting, pixels in context.pixel_paths.items():
            key = secrets.token_bytes(pixels.key_bytes)
            coded = code_video(pixels.hide(frames, key), rate=rate, crf=context.camera.crf, adaptive=True)
            back = list(pixels.reveal(coded.frames, key))
            found.setdefault(f"pixels {setting}", Quality()).add(frames, back, faces)
            scene = CLOSE_UP if path in close_up else FIXED_CAMERA
            shares.setdefault((setting, scene), []).append(coded.bits / protected.bits - 1)
    tables = _quality_tables(found)
    if shares:
        tables.append(_price(shares))
    notes = () if context.pixel_paths else ("The pixel path is not part of this release: not measured.",)
    return Part("recovery", tuple(tables), notes=notes)


def _clips(context: Context) -> list[Path]:
    """Fixed cameras, and people close up for the faces."""
    wide = [path for path in context.data.clips() if not path.name.startswith(PREVIEW)]
    return wide[: context.limit(6, quick=1)] + context.data.action_clips(context.limit(4, quick=1))


def _quality_tables(found: dict[str, Quality]) -> list[Table]:
    note = (
        "Luma against the camera's input, mean over the pictures of a clip, then over clips; faces where "
        "YuNet finds them in "
        "the source. The sealed layer in `copy` mode gives the source's own stream back byte for byte."
    )
    kinds: tuple[tuple[str, Callable[[Quality], list[float]], int], ...] = (
        ("PSNR, whole picture", lambda one: one.psnr_whole, 0),
        ("PSNR, inside faces", lambda one: one.psnr_faces, 0),
        ("SSIM, whole picture", lambda one: one.ssim_whole, 1),
        ("SSIM, inside faces", lambda one: one.ssim_faces, 1),
    )
    tables = []
    for title, values, kind in kinds:
        rows = []
        for name, quality in found.items():
            bars = _BARS.get(name.removeprefix("pixels "), ((None, None), (None, None)))[kind]
            whole = "whole" in title
            rows.append(
                Row.of(
                    name,
                    mean(values(quality)),
                    clear=100.0 if kind == 0 else 1.0,
                    chance=float(np.mean(values(found["protected itself"]) or [np.nan])),
                    floor=bars[0] if whole else None,
                    aim=bars[1] if whole else None,
                    note="the chance column is the protected picture taken as the answer",
                )
            )
        tables.append(Table(title, "dB" if kind == 0 else "ssim", "clips", True, tuple(rows), note))
    return tables


def _price(shares: dict[tuple[str, str], list[float]]) -> Table:
    rows = []
    for (setting, scene), values in shares.items():
        bar = 0.10 if (setting, scene) == ("low", FIXED_CAMERA) else None
        rows.append(Row.of(f"pixels {setting}, {scene}", mean(values), clear=0.0, floor=bar, aim=bar))
    return Table("Bits that the pixel path adds to the protected layer", "share", "clips", False, tuple(rows))


def keys(context: Context) -> Part:
    """The part: the pixel path with keys that are not the right one."""
    if not context.pixel_paths:
        return Part("keys", skipped="no pixel path in these weights: nothing to try keys on")
    clips = _clips(context)
    if not clips:
        return Part("keys", skipped="no clips in the data folder")
    tables = []
    fine = context.camera.with_background(Background.FINE)
    for setting, pixels in context.pixel_paths.items():
        tried: dict[str, list[float]] = {}
        base: list[float] = []
        for path in context.track(f"keys: pixels {setting}", clips):
            frames, rate = read_clip(path, count=context.limit(min(context.clip_frames, 16), quick=2))
            for name, value in _tries(context, pixels, frames, rate).items():
                tried.setdefault(name, []).append(value)
            base.append(luma_psnr(frames, list(fine.protect_video(frames))))
        right = float(np.mean(tried["right"]))
        limit = float(np.mean(base))
        rows = [
            Row.of(name, mean(values), clear=right, chance=limit, floor=limit + MAX_GAIN_DB, aim=limit)
            for name, values in tried.items()
            if name != "right"
        ]
        note = (
            "Luma PSNR against the original. Clear: with the right key. Chance: Protect's own output, "
            "before any codec. "
            "The attacker's fresh random key stands for a twin camera with the same weights."
        )
        tables.append(Table(f"Pixel path {setting}, wrong keys", "dB", "clips", False, tuple(rows), note))
    return Part("keys", tuple(tables))


def _tries(context: Context, pixels: PixelPath, frames: list[ClearFrame], rate: Fraction) -> dict[str, float]:
    key = secrets.token_bytes(pixels.key_bytes)
    coded = code_video(pixels.hide(frames, key), rate=rate, crf=context.camera.crf, adaptive=True).frames
    near = bytes([key[0] ^ 1]) + key[1:]
    strangers = [secrets.token_bytes(pixels.key_bytes) for _ in range(4)]
    backs = {
        "right": list(pixels.reveal(coded, key)),
        "one bit off": list(pixels.reveal(coded, near)),
        "zero": list(pixels.reveal(coded, bytes(pixels.key_bytes))),
        "random": list(pixels.reveal(coded, strangers[0])),
    }
    values = {name: luma_psnr(frames, back) for name, back in backs.items()}
    guesses = [[one.luma_hw.astype(np.float64) for one in pixels.reveal(coded, other)] for other in strangers]
    averaged = [np.asarray(np.rint(np.mean(looks, 0)), np.uint8) for looks in zip(*guesses, strict=True)]
    values["mean over four random keys"] = float(
        np.mean([min(psnr(one.luma_hw, two), 100.0) for one, two in zip(frames, averaged, strict=True)])
    )
    return values
