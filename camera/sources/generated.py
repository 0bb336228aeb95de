"""Sources without coded packets: pictures come one by one, from a scene or a folder."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from fractions import Fraction

import av

from camera.sources.captured import Captured, Source
from camera.sources.convert import clear_frame
from camera.sources.pacing import Pacer


class GeneratedSource(Source):
    """Pictures at a constant rate; sealing them needs an encoder."""

    def __init__(
        self, name: str, *, rate: Fraction, realtime: bool, loop: bool, start_unix_us: int | None
    ) -> None:
        super().__init__(name, drops=realtime)
        self._rate = rate
        self._loop = loop
        self._pacer = Pacer(self._closing) if realtime else None
        self._start_unix_us = start_unix_us

    @abstractmethod
    def pictures(self) -> Iterator[av.VideoFrame]:
        """One pass."""

    def __iter__(self) -> Iterator[Captured]:
        start_us = time.time_ns() // 1000 if self._start_unix_us is None else self._start_unix_us
        number = 0
        while not self.is_closing():
            before = number
            for picture in self.pictures():
                time_us = start_us + round(number * 1_000_000 / self._rate)
                picture.pts, picture.time_base = number, 1 / self._rate
                if self._pacer is not None:
                    self._pacer.wait_for(time_us)
                if self.is_closing():
                    break
                self._state = "running"
                frame = clear_frame(picture, time_us)
                yield Captured(picture, frame, (), None, False, False, (), None, time_us, time_us - start_us)
                number += 1
            if not self._loop or number == before:
                break
        self._state = "ended"
