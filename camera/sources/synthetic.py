"""A moving scene drawn from a seed: people-like figures, a sign, a clock and sensor noise.

For demos without a camera, tests and benchmarks. Picture ``n`` of a seed is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import av
import cv2
import numpy as np
import numpy.typing as npt

from camera.sources.generated import GeneratedSource

_Image = npt.NDArray[np.uint8]
_NOISE_PICTURES = 8


@dataclass(frozen=True, slots=True)
class _Walker:
    height: float  # of the picture's height
    depth: float  # feet, as a part of the picture's height
    start: float  # part of the picture's width
    speed: float  # picture widths per second
    step_hz: float
    skin_bgr: tuple[int, int, int]
    shirt_bgr: tuple[int, int, int]
    trousers_bgr: tuple[int, int, int]


class SyntheticScene(GeneratedSource):
    """Figures that walk to and fro in front of a textured wall."""

    def __init__(
        self,
        *,
        width: int = 1280,
        height: int = 720,
        rate: Fraction = Fraction(25),
        seed: int = 1,
        seconds: float | None = None,
        realtime: bool = True,
        start_unix_us: int | None = None,
    ) -> None:
        super().__init__(
            f"synthetic:{seed}", rate=rate, realtime=realtime, loop=False, start_unix_us=start_unix_us
        )
        self._width, self._height = width & ~1, height & ~1
        self._num_pictures = None if seconds is None else max(1, round(seconds * rate))
        self._expected_pictures = self._num_pictures
        random = np.random.default_rng(seed)
        self._wall = _draw_wall(random, self._width, self._height, seed)
        self._noise = [
            random.normal(0, 2.0, (self._height, self._width)).round().astype(np.int16)
            for _ in range(_NOISE_PICTURES)
        ]
        self._walkers = sorted((_make_walker(random) for _ in range(6)), key=lambda walker: walker.depth)

    def pictures(self) -> Iterator[av.VideoFrame]:
        """The scene from its beginning."""
        number = 0
        while self._num_pictures is None or number < self._num_pictures:
            yield self.draw(number)
            number += 1

    def draw(self, number: int) -> av.VideoFrame:
        """Picture ``number`` of the scene, yuv420p."""
        time_s = float(number / self._rate)
        image = self._wall.copy()
        for walker in self._walkers:
            _draw_walker(image, walker, time_s)
        scale = self._height / 720
        clock = f"{int(time_s) // 60:02d}:{time_s % 60:05.2f}"
        where = (round(20 * scale), self._height - round(20 * scale))
        cv2.putText(image, clock, where, cv2.FONT_HERSHEY_SIMPLEX, scale, (255, 255, 255), 2, cv2.LINE_AA)
        planes = cv2.cvtColor(image, cv2.COLOR_BGR2YUV_I420)
        noisy = planes[: self._height] + self._noise[number % _NOISE_PICTURES]
        planes[: self._height] = np.clip(noisy, 16, 235)
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(planes, np.uint8), format="yuv420p")
        picture.color_range = 1
        return picture


def _make_walker(random: np.random.Generator) -> _Walker:
    def colour() -> tuple[int, int, int]:
        blue, green, red = (int(value) for value in random.integers(20, 220, 3))
        return blue, green, red

    depth = float(random.uniform(0.6, 0.97))
    tone = float(random.uniform(0.45, 1.0))
    skin = (round(140 * tone), round(180 * tone), round(225 * tone))
    return _Walker(
        height=0.15 + 0.6 * (depth - 0.5),
        depth=depth,
        start=float(random.uniform(0, 2)),
        speed=float(random.uniform(0.03, 0.12)) * float(random.choice((-1, 1))),
        step_hz=float(random.uniform(0.7, 1.2)),
        skin_bgr=skin,
        shirt_bgr=colour(),
        trousers_bgr=colour(),
    )


def _draw_wall(random: np.random.Generator, width: int, height: int, seed: int) -> _Image:
    coarse = random.integers(60, 170, (9, 16, 3)).astype(np.uint8)
    wall = np.asarray(cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)
    ground = height * 11 // 20
    wall[ground:] = wall[ground:] // 2 + 50
    for x in range(0, width, max(8, width // 20)):
        cv2.line(wall, (x, 0), (x, ground), (90, 95, 100), 1, cv2.LINE_AA)
    scale = height / 720
    corner, size = (round(0.06 * width), round(0.08 * height)), (round(0.3 * width), round(0.14 * height))
    cv2.rectangle(wall, corner, (corner[0] + size[0], corner[1] + size[1]), (235, 235, 235), -1)
    text = f"GATE {seed % 100:02d} AB-{(seed * 7919) % 10000:04d}"
    where = (corner[0] + round(12 * scale), corner[1] + round(0.7 * size[1]))
    cv2.putText(wall, text, where, cv2.FONT_HERSHEY_DUPLEX, 1.5 * scale, (30, 30, 30), 2, cv2.LINE_AA)
    return wall


def _draw_walker(image: _Image, walker: _Walker, time_s: float) -> None:
    height, width = image.shape[:2]
    way = (walker.start + walker.speed * time_s) % 2.0  # to and fro: a triangle wave
    x = round((way if way < 1 else 2 - way) * width)
    feet, tall = round(walker.depth * height), round(walker.height * height)
    swing = np.sin(2 * np.pi * walker.step_hz * time_s)
    hip, neck = feet - round(0.47 * tall), feet - round(0.82 * tall)
    limb, head = max(2, round(0.07 * tall)), max(2, round(0.085 * tall))
    for side in (-1, 1):
        reach = round(side * swing * 0.16 * tall)
        cv2.line(image, (x, hip), (x + reach, feet), walker.trousers_bgr, limb, cv2.LINE_AA)
        hand = (x - reach, neck + round(0.36 * tall))
        cv2.line(image, (x, neck + limb), hand, walker.shirt_bgr, max(1, limb * 3 // 4), cv2.LINE_AA)
    chest = (round(0.12 * tall), round(0.2 * tall))
    cv2.ellipse(image, (x, (hip + neck) // 2), chest, 0, 0, 360, walker.shirt_bgr, -1, cv2.LINE_AA)
    centre = (x, neck - head)
    cv2.ellipse(image, centre, (head * 4 // 5, head), 0, 0, 360, walker.skin_bgr, -1, cv2.LINE_AA)
    for side in (-1, 1):
        eye = (x + side * head * 3 // 10, centre[1] - head // 5)
        cv2.circle(image, eye, max(1, head // 8), (30, 25, 25), -1, cv2.LINE_AA)
    mouth = (x, centre[1] + head * 2 // 5)
    cv2.ellipse(
        image, mouth, (max(1, head // 3), max(1, head // 10)), 0, 0, 180, (60, 60, 140), 1, cv2.LINE_AA
    )
