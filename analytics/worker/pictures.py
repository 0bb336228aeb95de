"""Tiles from strangers: their size is known before anything is decoded."""

from __future__ import annotations

import base64
import binascii
import struct

import cv2
import numpy as np

from analytics.interface import Image
from base.errors import LimitExceeded, Malformed, Truncated

MAX_BYTES = 16 << 20
MAX_SIDE = 4096
MAX_SCANS = 16
"""Of a progressive JPEG: each costs a pass over the whole picture, however few bytes it has."""
MAX_CHUNKS = 8192
"""Of a PNG."""
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_START_OF_SCAN = b"\xff\xda"
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF0..15 without DHT, JPG and DAC
_STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
_SEGMENT = struct.Struct(">H")
_CHUNK = struct.Struct(">I4s")
_KEPT_CHUNKS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})


def picture_bytes(element: bytes) -> bytes:
    """The file in a BYTES element: as it is, or in base64 (for requests in plain JSON).

    Raises:
        LimitExceeded: larger than 16 MiB.
        Malformed: neither JPEG nor PNG.
    """
    data = element
    if not data.startswith((_JPEG, _PNG)):
        try:
            data = base64.b64decode(element, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Malformed("picture: expected JPEG or PNG, as it is or in base64") from error
    if len(data) > MAX_BYTES:
        message = f"picture: expected at most {MAX_BYTES} bytes, got {len(data)}"
        raise LimitExceeded(message)
    return data


def picture_size(data: bytes) -> tuple[int, int]:
    """Width and height that a JPEG or PNG announces.

    Raises:
        Malformed: neither, or without a size.
        Truncated: it ends before its size.
        LimitExceeded: a side above 4096, or a JPEG of too many scans.
    """
    if data.startswith(_PNG):
        width, height = _png_size(data)
    elif data.startswith(_JPEG):
        width, height = _jpeg_size(data)
        if data.count(_START_OF_SCAN) > MAX_SCANS:
            message = f"picture: expected a JPEG of at most {MAX_SCANS} scans"
            raise LimitExceeded(message)
    else:
        raise Malformed("picture: expected JPEG or PNG")
    if not width or not height:
        message = f"picture: expected sides of at least 1, got {width}x{height}"
        raise Malformed(message)
    if max(width, height) > MAX_SIDE:
        message = f"picture: expected sides of at most {MAX_SIDE}, got {width}x{height}"
        raise LimitExceeded(message)
    return width, height


def decode_picture(data: bytes, size_wh: tuple[int, int]) -> Image:
    """The pixels, BGR [H, W, 3], of a picture that announced ``size_wh``.

    Raises:
        Malformed: it does not decode, or to another size.
    """
    if data.startswith(_PNG):
        data = _essential_png(data)
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION  # boxes are in pixels as they were sent
    try:
        decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise Malformed("picture: it does not decode") from error
    if decoded is None:
        raise Malformed("picture: it does not decode")
    if decoded.shape[:2] != (size_wh[1], size_wh[0]):
        message = f"picture: announced {size_wh[0]}x{size_wh[1]}, decoded to {list(decoded.shape[:2])}"
        raise Malformed(message)
    return np.asarray(decoded, np.uint8)


def _png_size(data: bytes) -> tuple[int, int]:
    # PNG, third edition, section 11.2.1: IHDR comes first, with width and height as 4 bytes each
    if len(data) < 33:
        raise Truncated("picture: a PNG ends inside its header")
    if data[8:16] != b"\x00\x00\x00\x0dIHDR":
        raise Malformed("picture: a PNG without IHDR")
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _essential_png(data: bytes) -> bytes:
    """The PNG without what is not needed for its pixels, all lengths checked.

    OpenCV 5 allocates what a chunk announces before it looks for it (4 GB at most), and reads profiles,
    text, Exif and animations.
    """
    kept, at, num_chunks = [data[:8]], 8, 0
    while at < len(data) and num_chunks < MAX_CHUNKS:
        if at + 12 > len(data):
            raise Truncated("picture: a PNG ends inside a chunk")
        length, kind = _CHUNK.unpack_from(data, at)
        end = at + 12 + length
        if end > len(data):
            raise Truncated("picture: a PNG ends inside a chunk")
        if kind in _KEPT_CHUNKS:
            kept.append(data[at:end])
        elif not kind[0] & 0x20:  # section 5.4: a capital first letter is a chunk one must know
            raise Malformed("picture: a PNG with an unknown chunk that is needed")
        if kind == b"IEND":
            return b"".join(kept)
        at, num_chunks = end, num_chunks + 1
    raise Malformed("picture: a PNG without an end, or of too many chunks")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    # ITU-T T.81, annex B: markers with two bytes of length, until the first frame header
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            raise Malformed("picture: a JPEG without a marker where one is due")
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker in _STANDALONE:
            at += 2
        elif marker in _FRAME_HEADERS:
            if at + 9 > len(data):
                break
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        elif marker in (0xD9, 0xDA):
            raise Malformed("picture: a JPEG without a frame header")
        else:
            (length,) = _SEGMENT.unpack_from(data, at + 2)
            at += 2 + max(length, 2)
    raise Truncated("picture: a JPEG ends before its frame header")
