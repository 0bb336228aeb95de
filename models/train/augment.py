"""Training crops: random scale, faces pasted at every size, burnt-in text, sensor noise."""

from __future__ import annotations

import math
import random
import string
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from models.background import floor_around
from models.object_finder import FoundObjects
from models.pyramid import GATE_ONE
from models.strength import Strength, background_octaves
from models.train.pictures import Image, resized, soft_ellipse
from models.train.samples import Sample
from models.train.targets import Kind, Region, hide_regions, shut_bands

_FONTS = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_COMPLEX, cv2.FONT_HERSHEY_PLAIN)


@dataclass(frozen=True, slots=True)
class Crop:
    """One training example, square of ``size`` pixels."""

    clear: Image  # [S, S, 3] RGB, noisy
    target: Image  # [S, S, 3] RGB, what to draw
    sensitive: npt.NDArray[np.float32]  # [S, S], 1 inside faces, plates, text
    shut: npt.NDArray[np.float32]  # [bands, S/8, S/8], 1 where a gate must be shut
    importance: npt.NDArray[np.float32]  # [1, S/8, S/8], weight of a block, large in small regions
    pasted: npt.NDArray[np.float32]  # [S, S], 1 where the detector's opinion does not count
    floor: npt.NDArray[np.float32]  # [1, S/8, S/8], octaves that the background loses, 0 on objects


class Cropper:
    """Draws crops from samples; everything random comes from ``rng``."""

    def __init__(
        self,
        samples: list[Sample],
        faces: list[Image],
        *,
        size: int,
        bands: int,
        rng: random.Random,
        most_noise: float = 6.0,
    ) -> None:
        """``most_noise`` is the largest standard deviation of the sensor noise in grey levels."""
        self._samples = samples
        self._with_regions = [s for s in samples if s.regions] or samples
        self._faces = faces
        self._size = size
        self._bands = bands
        self._rng = rng
        self._most_noise = most_noise

    def draw(self) -> Crop:
        """A fresh crop; about six of ten come from pictures with sensitive regions."""
        pool = self._with_regions if self._rng.random() < 0.6 else self._samples
        clear, cartoon, regions, objects = self._cut(self._rng.choice(pool))
        pasted = np.zeros(clear.shape[:2], np.float32)
        if self._faces and self._rng.random() < 0.4:
            for _ in range(self._rng.randint(1, 4)):
                regions.append(self._paste_face(clear, pasted))
        if self._rng.random() < 0.3:
            for _ in range(self._rng.randint(1, 4)):
                regions += self._write_text(clear, pasted)
        target = np.where(pasted[..., None] > 0, clear, cartoon)
        hide_regions(target, clear, regions)
        height, width = clear.shape[:2]
        sensitive = np.zeros((height, width), np.float32)
        for region in regions:
            left, top, right, bottom = region.clipped(height, width)
            sensitive[top:bottom, left:right] = 1
        shut, importance = shut_bands(regions, height, width, self._bands)
        clear, target = self._relight(clear, target)
        octaves = background_octaves(Strength.STANDARD)
        floor = floor_around(objects, (height // 8, width // 8), octaves)[None]
        return Crop(clear, target, sensitive, shut, importance, pasted, (floor / GATE_ONE).astype(np.float32))

    def _cut(self, sample: Sample) -> tuple[Image, Image, list[Region], FoundObjects]:
        size, rng = self._size, self._rng
        height, width = sample.clear.shape[:2]
        scale = max(rng.uniform(0.5, 1.9), (size + 1) / min(height, width))
        wide, high = math.ceil(width * scale), math.ceil(height * scale)
        top, left = rng.randrange(high - size + 1), rng.randrange(wide - size + 1)
        if sample.regions and rng.random() < 0.8:
            aim = rng.choice(sample.regions).transformed(scale, 0, 0)
            top = min(max(0, int(aim.y - rng.uniform(0, max(1, size - aim.height)))), high - size)
            left = min(max(0, int(aim.x - rng.uniform(0, max(1, size - aim.width)))), wide - size)
        window = np.s_[top : top + size, left : left + size]
        clear = resized(sample.clear, wide, high)[window].copy()
        cartoon = resized(sample.cartoon, wide, high)[window].copy()
        regions = [r.transformed(scale, left, top) for r in sample.regions]
        boxes = sample.objects.boxes_xyxy * np.float32(scale) - np.array([left, top] * 2, np.float32)
        if rng.random() < 0.5:
            clear, cartoon = clear[:, ::-1].copy(), cartoon[:, ::-1].copy()
            regions = [Region(r.kind, size - r.x - r.width, r.y, r.width, r.height) for r in regions]
            boxes = np.stack([size - boxes[:, 2], boxes[:, 1], size - boxes[:, 0], boxes[:, 3]], 1)
        return clear, cartoon, regions, sample.objects._replace(boxes_xyxy=boxes)

    def _paste_face(self, clear: Image, pasted: npt.NDArray[np.float32]) -> Region:
        side = int(math.exp(self._rng.uniform(math.log(20), math.log(300))))
        face = self._rng.choice(self._faces)
        if self._rng.random() < 0.5:
            face = face[:, ::-1]
        face = resized(face, side, side)
        low = min(-side // 5, self._size - side)
        top = self._rng.randint(low, max(low, self._size - side * 4 // 5))
        left = self._rng.randint(low, max(low, self._size - side * 4 // 5))
        mask = soft_ellipse(side, side, (0.45, 0.49), max(0.8, side * 0.03))
        y0, x0 = max(0, top), max(0, left)
        y1, x1 = min(self._size, top + side), min(self._size, left + side)
        inner = np.s_[y0 - top : y1 - top, x0 - left : x1 - left]
        blend = mask[inner]
        patch = clear[y0:y1, x0:x1] * (1 - blend) + face[inner] * blend
        clear[y0:y1, x0:x1] = patch.astype(np.uint8)
        pasted[y0:y1, x0:x1] = 1
        # Aligned 112-pixel crops hold the face in about the inner 86 % by 95 %.
        return Region(Kind.FACE, left + side * 0.07, top + side * 0.02, side * 0.86, side * 0.95)

    def _write_text(self, clear: Image, pasted: npt.NDArray[np.float32]) -> list[Region]:
        rng = self._rng
        text = "".join(rng.choices(string.ascii_letters + string.digits + "  :-/.", k=rng.randint(2, 18)))
        font, scale = rng.choice(_FONTS), math.exp(rng.uniform(math.log(0.35), math.log(3.0)))
        thickness = max(1, round(scale * rng.uniform(0.8, 2.5)))
        (width, height), baseline = cv2.getTextSize(text, font, scale, thickness)
        x, y = (
            rng.randint(-width // 3, max(1, self._size - width // 2)),
            rng.randint(height, self._size + height // 2),
        )
        if rng.random() < 0.5:
            back = [rng.randint(0, 255) for _ in range(3)]
            cv2.rectangle(clear, (x - 3, y - height - 3), (x + width + 3, y + baseline), back, -1)
        cv2.putText(
            clear, text, (x, y), font, scale, [rng.randint(0, 255) for _ in range(3)], thickness, cv2.LINE_AA
        )
        region = Region(Kind.TEXT, x, y - height, width, height + baseline * 0.7)
        left, top, right, bottom = region.grown(0.1).clipped(self._size, self._size)
        if right <= left or bottom <= top:
            return []
        pasted[top:bottom, left:right] = 1
        return [region]

    def _relight(self, clear: Image, target: Image) -> tuple[Image, Image]:
        """The same gain, contrast and tint for both; noise for the input alone."""
        rng = self._rng
        gain, gamma = rng.uniform(0.7, 1.25), rng.uniform(0.75, 1.3)
        tint = np.array([rng.uniform(0.93, 1.07) for _ in range(3)], np.float32) * gain

        def light(image: Image) -> npt.NDArray[np.float32]:
            return 255 * (np.clip(image * tint / 255, 0, 1) ** gamma).astype(np.float32)

        noisy = light(clear)
        if rng.random() < 0.6:
            sigma = rng.uniform(0, self._most_noise)
            noisy = noisy + np.random.default_rng(rng.getrandbits(32)).normal(0, sigma, noisy.shape).astype(
                np.float32
            )
        return np.clip(noisy, 0, 255).astype(np.uint8), np.clip(light(target), 0, 255).astype(np.uint8)
