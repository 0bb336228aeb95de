"""The smaller rendition of the protected picture, for viewers on bad links. From the same protect pass.

It is a stream of its own: signed like the main one, without a sealed layer, so that it still proves where it
comes from. It is coded only while somebody watches it; a segment begins with the first picture after a pause,
so the first viewer waits for one picture.
"""

from __future__ import annotations

import secrets
import threading
from fractions import Fraction

import cv2
import numpy as np

from base.frames import Plane, ProtectedFrame
from camera.broadcast import Broadcast
from codec.h264 import ColourTags, ProtectedEncoder
from codec.records import SealedMode
from codec.sealer import SealerParams, SegmentSealer
from keys import CameraKey

REQUEST_GAP_US = 500_000  # key frames on request come no faster
_MIN_SIDE = 64
_MICROSECONDS = Fraction(1, 1_000_000)


class SubRendition:
    """Scales, codes and signs; called from the publisher's thread."""

    def __init__(self, broadcast: Broadcast, camera_key: CameraKey, *, scale: int, crf: float) -> None:
        """Prepare; the encoder opens with the first picture that somebody watches.

        Args:
            broadcast: where its units go.
            camera_key: signs them.
            scale: main width and height are divided by it.
            crf: x264's constant rate factor.
        """
        self.broadcast = broadcast
        self.key_requested = threading.Event()
        self._camera_key = camera_key
        self._scale = scale
        self._crf = crf
        self._encoder: ProtectedEncoder | None = None
        self._sealer: SegmentSealer | None = None
        self._has_segment = False
        self._last_key_us = 0

    def push(
        self,
        protected: ProtectedFrame,
        *,
        cut: bool,
        rate: Fraction,
        colour: ColourTags,
        model_id: bytes,
        strength: int,
    ) -> None:
        """Code one picture, if anybody watches; ``cut``: the main rendition begins a segment here."""
        if not self.broadcast.num_subscribers:
            self.finish()
            return
        size = scaled_size(protected.width, protected.height, self._scale)
        if self._encoder is None or self._sealer is None:
            self._encoder = ProtectedEncoder(
                *size, rate=rate, crf=self._crf, preset="ultrafast", colour=colour
            )
            params = SealerParams(*size, _MICROSECONDS, model_id, strength, SealedMode.NONE)
            self._sealer = SegmentSealer(self._camera_key, None, params, stream_id=secrets.token_bytes(16))
        asked = self.key_requested.is_set() and protected.time_us - self._last_key_us >= REQUEST_GAP_US
        starts = cut or asked or not self._has_segment
        if starts:
            self.key_requested.clear()
            self._last_key_us = protected.time_us
        unit = self._encoder.encode(scaled(protected, *size), force_key=starts)
        for done in self._sealer.push(unit, starts_segment=starts):
            self.broadcast.publish(done)
        self._has_segment = True

    def finish(self) -> None:
        """Sign and publish the open segment; the next picture begins another."""
        if self._sealer is None or not self._has_segment:
            return
        self._has_segment = False
        for done in self._sealer.finish():
            self.broadcast.publish(done)

    def close(self) -> None:
        """Give everything back."""
        self.finish()
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None
        self.broadcast.close()


def scaled_size(width: int, height: int, scale: int) -> tuple[int, int]:
    """Even width and height of the smaller picture, at least 64 where the main one is."""

    def part(side: int) -> int:
        return min(side, max(_MIN_SIDE, side // scale)) & ~1

    return part(width), part(height)


def scaled(frame: ProtectedFrame, width: int, height: int) -> ProtectedFrame:
    """The picture at another even size, averaged over areas."""

    def plane(source: Plane, columns: int, rows: int) -> Plane:
        return np.asarray(cv2.resize(source, (columns, rows), interpolation=cv2.INTER_AREA), np.uint8)

    half = (width // 2, height // 2)
    return ProtectedFrame(
        plane(frame.luma_hw, width, height),
        plane(frame.cb_hw, *half),
        plane(frame.cr_hw, *half),
        frame.time_us,
    )
