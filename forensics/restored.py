"""Labels for pictures that a network restored: seen by people, read by programs, refused as evidence.

What comes back over the pixel path is a network's idea of what was there. It carries its label three
times, so that no ordinary handling loses all of them: on the pictures themselves (tiled words, and a
bar with words and a pattern of cells that survives coding and scaling), in the video stream (an SEI
message in every key frame), and in the container's metadata. `find_label` looks for all three.

Not a defence against somebody who repaints the pictures: it keeps an honest chain of custody honest.
What proves a picture's origin is the camera's signature, which restored pictures do not have.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer

from base.errors import AuthenticationFailed, FormatError
from base.frames import ClearFrame
from codec.nal import NalType, nal_type, split_annexb, split_avcc
from codec.sei import pack_message, read_messages

WORDS = "RESTORED - NOT EVIDENCE"
NOTE = "restored by a network from protected pixels: an approximation, never evidence"
RESTORED_UUID = bytes.fromhex("3b7f0e52c4a94d1896f2d8a15e6c9b07")
"""Of the SEI message (user_data_unregistered); differs from the one of protected video."""

_KEY = "veilcam"
_USER_DATA = 5
_TILE_ALPHA = 0.25
_WHITE, _BLACK = 235, 16  # limited range
# Barker-13 codes forwards and backwards with a guard: no natural edge pattern looks like it.
_CELLS = np.array([int(bit) for bit in "1011111001101010101011001111101"], dtype=np.uint8)
_MIN_AGREEING = len(_CELLS) - 2
_MIN_CONTRAST = 60.0
_FORMATS = "mov,matroska,mpegts,mpeg,flv,avi,nut,h264,hevc"
_LOOK_AT_PICTURES = 48
_LOOK_AT_PACKETS = 400

Mask = npt.NDArray[np.float32]


class Sign(Enum):
    """Where a label was found."""

    METADATA = "metadata"
    STREAM = "stream"
    PICTURE = "picture"


class NotEvidence(AuthenticationFailed):
    """Pictures that a network restored were offered as evidence."""


@dataclass(frozen=True, slots=True)
class RestoredOrigin:
    """Where restored pictures come from; goes into file and report.

    Attributes:
        source_sha256: of the protected recording, hexadecimal.
        model_id: of the network that restored, hexadecimal.
    """

    source_sha256: str
    model_id: str

    def as_json(self) -> dict[str, str | bool]:
        """Return it as a JSON object."""
        return {
            "origin": "pixels",
            "evidence": False,
            "note": NOTE,
            "source_sha256": self.source_sha256,
            "model": self.model_id,
        }


class RestoredLabel:
    """Draws the label on pictures of one size; the drawing is the same for every picture."""

    def __init__(self, width: int, height: int) -> None:
        """Prepare for pictures of ``width`` x ``height`` luma pixels, both even."""
        self._bar = bar_rows(height)
        self._tiles = _tiled_words(width, height)
        self._bar_luma = _draw_bar(width, self._bar)

    def apply(self, frame: ClearFrame) -> ClearFrame:
        """Return the picture with its label; size and time stay."""
        mixed = frame.luma_hw.astype(np.float32)
        mixed += self._tiles * _TILE_ALPHA * (_WHITE - mixed)
        luma = mixed.round().astype(np.uint8)
        luma[-self._bar :] = self._bar_luma
        cb, cr = frame.cb_hw.copy(), frame.cr_hw.copy()
        cb[-self._bar // 2 :] = cr[-self._bar // 2 :] = 128
        return ClearFrame(luma, cb, cr, frame.time_us)


def bar_rows(height: int) -> int:
    """Luma rows of the bar at the lower edge, even: a tenth of the picture, at least 24."""
    return min(max(24, height // 10), height) & ~1


def _tiled_words(width: int, height: int) -> Mask:
    import cv2  # noqa: PLC0415  # drawing only: looking for labels does without

    mask = np.zeros((height, width), np.uint8)
    scale = max(width / 900.0, 0.35)
    (length, tall), _ = cv2.getTextSize(WORDS, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    step = max(tall * 5, 1)
    for number, y in enumerate(range(tall * 2, height + tall, step)):
        for x in range(-(number % 2) * length // 2, width, length + tall * 2):
            cv2.putText(mask, WORDS, (x, y), cv2.FONT_HERSHEY_SIMPLEX, scale, 255, 1, cv2.LINE_AA)
    return mask.astype(np.float32) / 255.0


def _draw_bar(width: int, rows: int) -> npt.NDArray[np.uint8]:
    """Upper part: words, white on black. Lower third: the cells over the whole width."""
    import cv2  # noqa: PLC0415  # as above

    bar = np.full((rows, width), _BLACK, np.uint8)
    cells_top = rows - rows // 3
    scale = cells_top / 36.0
    (length, tall), _ = cv2.getTextSize(WORDS, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    if length > width - 4:
        scale *= (width - 4) / length
        (length, tall), _ = cv2.getTextSize(WORDS, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    place = ((width - length) // 2, (cells_top + tall) // 2)
    cv2.putText(bar, WORDS, place, cv2.FONT_HERSHEY_SIMPLEX, scale, _WHITE, 1, cv2.LINE_AA)
    columns = np.arange(width) * len(_CELLS) // width
    bar[cells_top:] = np.where(_CELLS[columns], _WHITE, _BLACK).astype(np.uint8)
    return bar


def has_picture_label(luma_hw: npt.NDArray[np.uint8]) -> bool:
    """Say whether a decoded picture, [H, W] luma at any scale, carries the bar's cells."""
    height, width = luma_hw.shape
    if height < 16 or width < len(_CELLS):
        return False
    # Lower sixth of the bar: inside the cells after rounding, and away from the lower edge.
    bar = max(bar_rows(height), height // 10)
    rows = luma_hw[height - max(bar // 4, 2) : height - max(bar // 12, 1)].astype(np.float32)
    edges = np.linspace(0, width, len(_CELLS) + 1)
    quarter = (edges[1:] - edges[:-1]) / 4
    means = np.array(
        [
            rows[:, int(low + q) : max(int(high - q), int(low + q) + 1)].mean()
            for low, high, q in zip(edges[:-1], edges[1:], quarter, strict=True)
        ]
    )
    bright, dark = means[_CELLS == 1], means[_CELLS == 0]
    if bright.mean() - dark.mean() < _MIN_CONTRAST:
        return False
    middle = (bright.mean() + dark.mean()) / 2
    return int(((means > middle) == (_CELLS == 1)).sum()) >= _MIN_AGREEING


def label_sei(origin: RestoredOrigin) -> bytes:
    """The SEI NAL unit that goes before the first slice of every key frame."""
    text = json.dumps(origin.as_json(), sort_keys=True).encode()
    return pack_message(_USER_DATA, RESTORED_UUID + text)


def label_metadata(origin: RestoredOrigin) -> dict[str, str]:
    """Container metadata: keys that MP4 and Matroska keep and players show."""
    return {"title": WORDS, "comment": json.dumps({_KEY: origin.as_json()}, sort_keys=True)}


def find_label(path: Path) -> tuple[Sign, ...]:
    """Look for signs that a video was restored; empty if there are none, or it cannot be read.

    Looks at the metadata, the first 400 packets and the first 48 pictures.
    """
    found: list[Sign] = []
    try:
        with _open(path) as container:
            if _is_labelled(container.metadata):
                found.append(Sign.METADATA)
            if not container.streams.video:
                return tuple(found)
        with _open(path) as container:
            stream = container.streams.video[0]
            packets = itertools.islice(container.demux(stream), _LOOK_AT_PACKETS)
            if any(_has_label_sei(bytes(packet)) for packet in packets):
                found.append(Sign.STREAM)
        with _open(path) as container:
            frames = itertools.islice(container.decode(video=0), _LOOK_AT_PICTURES)
            if any(has_picture_label(frame.to_ndarray(format="gray").astype(np.uint8)) for frame in frames):
                found.append(Sign.PICTURE)
    except (av.FFmpegError, OSError, ValueError):
        return tuple(found)  # what cannot be read is judged elsewhere
    return tuple(found)


def _open(path: Path) -> InputContainer:
    # A stranger's file must not make libav open what a playlist in it names.
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "file"}
    return av.open(f"file:{path}", "r", container_options=options, metadata_errors="replace")


def refuse_restored(path: Path) -> None:
    """Make sure that a file is not labelled as restored.

    Raises:
        NotEvidence: it is; the message names where the label was found.
    """
    if signs := find_label(path):
        where = ", ".join(sign.value for sign in signs)
        message = f"{path.name}: is labelled as {NOTE} (found in: {where})"
        raise NotEvidence(message)


def _is_labelled(metadata: dict[str, str]) -> bool:
    if WORDS in metadata.values():
        return True
    for value in metadata.values():
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and isinstance(document.get(_KEY), dict):
            return document[_KEY].get("evidence") is False
    return False


def _has_label_sei(data: bytes) -> bool:
    if RESTORED_UUID not in data:  # the UUID holds no zero bytes: emulation prevention leaves it whole
        return False
    for nal in _nals(data):
        if nal_type(nal) != NalType.SEI:
            continue
        try:
            messages = list(read_messages(nal))
        except FormatError:
            continue
        if any(m.payload_type == _USER_DATA and m.payload.startswith(RESTORED_UUID) for m in messages):
            return True
    return False


def _nals(data: bytes) -> Iterator[bytes]:
    try:
        if data.startswith((b"\x00\x00\x01", b"\x00\x00\x00\x01")):
            yield from split_annexb(data)
        else:
            yield from split_avcc(data, 4)
    except FormatError:
        return
