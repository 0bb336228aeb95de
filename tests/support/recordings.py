"""A camera's folder with recordings of one day, made in a moment: few pictures, long durations."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from codec.container import Fmp4Writer
from codec.h264 import ProtectedEncoder
from tests.support.stand_in import draw

WIDTH, HEIGHT = 320, 180


def record_day(folder: Path, spans: Iterable[tuple[datetime, float]], *, fps: float = 2.0) -> list[Path]:
    """Write one file per span.

    Args:
        folder: the camera's folder; its name is the camera's.
        spans: beginning (UTC) and length in seconds.
        fps: pictures per second; a segment holds two seconds.
    """
    paths = []
    for start, seconds in spans:
        day = folder / f"{start:%Y-%m-%d}"
        day.mkdir(parents=True, exist_ok=True)
        stamp = f"{start:%Y%m%dT%H%M%S}.{start.microsecond // 1000:03d}Z"
        path = day / f"{folder.name}_{stamp}.mp4"
        gop = max(1, round(2 * fps))
        with (
            Fmp4Writer(path, WIDTH, HEIGHT) as writer,
            ProtectedEncoder(WIDTH, HEIGHT, rate=25, preset="ultrafast") as encoder,
        ):
            for number in range(round(seconds * fps)):
                frame = draw(WIDTH, HEIGHT, number)
                unit = encoder.encode(frame, number % gop == 0)
                time_us = round(start.timestamp() * 1e6 + number * 1e6 / fps)
                writer.write(type(unit)(unit.nals, time_us, unit.is_keyframe))
        paths.append(path)
    return paths
