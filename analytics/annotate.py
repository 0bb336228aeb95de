"""Drawing detections into pictures, and pictures into a video file."""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Self

import av
import cv2
import numpy as np

from analytics.detections import Detections
from analytics.interface import Image
from base.errors import MediaError, UsageError
from base.files import atomic_file

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_REFERENCE_SIDE = 720  # pixels of the shorter side at which lines are 2 wide and text is at scale 0.6
# Okabe and Ito's colours (BGR): told apart by colour-blind readers too.
_PALETTE_BGR = (
    (0, 159, 230),
    (233, 180, 86),
    (115, 158, 0),
    (66, 228, 240),
    (178, 114, 0),
    (0, 94, 213),
    (167, 121, 204),
)


def draw(image_bgr_hwc: Image, found: Detections) -> Image:
    """A copy of the picture with every box outlined and labelled ``name 87%``, the strongest on top."""
    canvas = image_bgr_hwc.copy()
    scale = max(0.5, min(canvas.shape[:2]) / _REFERENCE_SIDE)
    for row in np.argsort(found.scores, kind="stable"):
        class_id = int(found.class_ids[row])
        left, top, right, bottom = (round(float(edge)) for edge in found.boxes_xyxy[row])
        colour = _PALETTE_BGR[class_id % len(_PALETTE_BGR)]
        cv2.rectangle(canvas, (left, top), (right, bottom), colour, max(1, round(2 * scale)), cv2.LINE_AA)
        _draw_label(canvas, f"{found.names[class_id]} {found.scores[row]:.0%}", (left, top), colour, scale)
    return canvas


def _draw_label(
    canvas: Image, text: str, corner_xy: tuple[int, int], colour: tuple[int, int, int], scale: float
) -> None:
    """Dark or light text on a filled ground above the corner, moved so that it stays inside the picture."""
    font_scale, thickness = max(0.4, 0.6 * scale), max(1, round(1.3 * scale))
    (width, height), below = cv2.getTextSize(text, _FONT, font_scale, thickness)
    margin = max(2, round(3 * scale))
    ground_wh = (width + 2 * margin, height + below + 2 * margin)
    x = max(0, min(corner_xy[0], canvas.shape[1] - ground_wh[0]))
    y = max(0, corner_xy[1] - ground_wh[1])
    cv2.rectangle(canvas, (x, y), (x + ground_wh[0] - 1, y + ground_wh[1] - 1), colour, cv2.FILLED)
    luma = 0.114 * colour[0] + 0.587 * colour[1] + 0.299 * colour[2]
    ink = (0, 0, 0) if luma > 110 else (255, 255, 255)
    origin = (x + margin, y + margin + height)
    cv2.putText(canvas, text, origin, _FONT, font_scale, ink, thickness, cv2.LINE_AA)


class AnnotatedVideo:
    """Writes an H.264 mp4 of pictures with their detections drawn in.

    A context manager: the file gets its name when the block ends well, or when the generator around it is
    closed (by a consumer that had enough); on any other error nothing is left behind. Pictures keep their
    times, so a variable rate stays variable. The first picture sets the size; others are scaled to it.

    Raises:
        MediaError: the encoder refuses.
    """

    TIME_BASE = Fraction(1, 90_000)

    def __init__(self, path: Path, *, crf: int = 23) -> None:
        self._path = path
        self._crf = crf
        self._stack = ExitStack()
        self._container: av.container.OutputContainer | None = None
        self._stream: av.VideoStream | None = None
        self._last_pts = -1

    def __enter__(self) -> Self:
        file = self._stack.enter_context(atomic_file(self._path))
        self._container = av.open(file, "w", format="mp4")
        return self

    def write(self, image_bgr_hwc: Image, found: Detections, time_s: float) -> None:
        """Append one picture at ``time_s`` seconds; a time that does not grow becomes the next possible."""
        pts = self._last_pts = max(round(time_s / self.TIME_BASE), self._last_pts + 1)
        stream = self._stream or self._add_stream(*image_bgr_hwc.shape[:2])
        canvas = draw(image_bgr_hwc, found)
        size_wh = (stream.width, stream.height)
        if canvas.shape[1::-1] != size_wh:
            canvas = np.asarray(cv2.resize(canvas, size_wh, interpolation=cv2.INTER_AREA), np.uint8)
        picture = av.VideoFrame.from_ndarray(canvas, format="bgr24").reformat(format="yuv420p")
        picture.pts, picture.time_base = pts, self.TIME_BASE
        self._mux(picture)

    def _add_stream(self, height: int, width: int) -> av.VideoStream:
        if self._container is None:
            raise UsageError("AnnotatedVideo: write() outside its with block")
        self._stream = self._container.add_stream("libx264", rate=30)
        self._stream.width, self._stream.height = width - width % 2 or 2, height - height % 2 or 2
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = self.TIME_BASE
        self._stream.options = {"crf": str(self._crf), "preset": "veryfast", "bf": "0"}
        return self._stream

    def _mux(self, picture: av.VideoFrame | None) -> None:
        if self._stream is None or self._container is None:
            return
        try:
            self._container.mux(self._stream.encode(picture))
        except av.FFmpegError as error:
            message = f"{self._path.name}: encoding failed: {error.strerror}"
            raise MediaError(message) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        complete = kind is None or issubclass(kind, GeneratorExit)
        try:
            if complete:
                self._mux(None)
        finally:
            if self._container is not None:
                self._container.close()
        if complete:
            kind = error = trace = None
        self._stack.__exit__(kind, error, trace)
