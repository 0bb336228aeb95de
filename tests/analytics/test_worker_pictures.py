"""Pictures of strangers: bounded before they are decoded."""

from __future__ import annotations

import base64
import contextlib
import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.worker.pictures import decode_picture, picture_bytes, picture_size
from base.errors import FormatError, LimitExceeded, Malformed, Truncated


def encoded(ending: str, width: int, height: int, *options: int) -> bytes:
    picture = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    return bytes(cv2.imencode(ending, picture, options)[1])


@pytest.mark.parametrize("ending", [".jpg", ".png"])
@pytest.mark.parametrize("size_wh", [(1, 1), (33, 70), (640, 8)])
def test_the_size_is_known_before_decoding(ending: str, size_wh: tuple[int, int]) -> None:
    data = encoded(ending, *size_wh)
    assert picture_size(data) == size_wh
    assert decode_picture(data, size_wh).shape == (size_wh[1], size_wh[0], 3)


def test_progressive_jpeg_is_read_too_unless_it_has_too_many_scans() -> None:
    data = encoded(".jpg", 64, 48, cv2.IMWRITE_JPEG_PROGRESSIVE, 1)
    assert picture_size(data) == (64, 48)
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x00\x00"
    with pytest.raises(LimitExceeded, match="scans"):
        picture_size(data[:-2] + scan * 20 + data[-2:])


def test_a_png_bomb_is_refused_unopened() -> None:
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    bomb = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    with pytest.raises(LimitExceeded, match="100000x100000"):
        picture_size(bomb)


def png_chunk(kind: bytes, content: bytes, length: int | None = None) -> bytes:
    head = struct.pack(">I", len(content) if length is None else length)
    return head + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def test_a_chunk_that_announces_more_than_there_is_is_refused_unread() -> None:
    # OpenCV 5.0 takes 1.6 GB and seconds for such a file of 200 bytes; found by fuzzing
    data = encoded(".png", 24, 16)
    for bomb in (png_chunk(b"IDAT", b"x", 0x6F494441), png_chunk(b"tEXt", b"x", 0x7FFFFFFF)):
        with pytest.raises(Truncated):
            decode_picture(data[:33] + bomb + data[33:], (24, 16))


def test_what_is_not_needed_for_the_pixels_of_a_png_is_not_read() -> None:
    data = encoded(".png", 24, 16)
    inflating = png_chunk(b"iCCP", b"x\x00\x00" + zlib.compress(bytes(1_000_000)))
    assert np.array_equal(
        decode_picture(data[:33] + inflating + data[33:], (24, 16)), decode_picture(data, (24, 16))
    )
    with pytest.raises(Malformed, match="needed"):
        decode_picture(data[:33] + png_chunk(b"ABCD", b"") + data[33:], (24, 16))


def test_a_jpeg_that_announces_too_much_is_refused_unopened() -> None:
    data = bytearray(encoded(".jpg", 16, 16))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", 5000, 16)
    with pytest.raises(LimitExceeded, match="16x5000"):
        picture_size(bytes(data))


def test_base64_is_taken_and_other_text_is_not() -> None:
    data = encoded(".jpg", 8, 8)
    assert picture_bytes(data) == picture_bytes(base64.b64encode(data)) == data
    for text in (b"", b"no picture!", b"AAAA\n"):
        with pytest.raises(Malformed):
            picture_size(picture_bytes(text))


def test_a_picture_that_breaks_off_is_refused() -> None:
    data = encoded(".png", 64, 64)
    with pytest.raises(Truncated):
        picture_size(data[:20])
    with pytest.raises(Truncated):
        decode_picture(data[:40], (64, 64))
    with pytest.raises(FormatError):
        picture_size(encoded(".jpg", 64, 64)[:10])


def test_orientation_tags_do_not_turn_the_picture() -> None:
    # an Exif segment with orientation 6 (turn by 90 degrees): boxes are in pixels as they were sent
    tiff = (
        b"MM\x00\x2a\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
    )
    exif = b"Exif\x00\x00" + tiff
    plain = encoded(".jpg", 32, 16)
    data = plain[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + plain[2:]
    assert picture_size(data) == (32, 16)
    assert decode_picture(data, (32, 16)).shape == (16, 32, 3)


@settings(max_examples=100)
@given(st.binary(max_size=60), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"]))
def test_random_bytes_raise_nothing_but_our_errors(data: bytes, start: bytes) -> None:
    with contextlib.suppress(FormatError):
        picture = picture_bytes(start + data)
        decode_picture(picture, picture_size(picture))


@settings(max_examples=60)
@given(st.data())
def test_damaged_pictures_raise_nothing_but_our_errors(data: st.DataObject) -> None:
    picture = bytearray(encoded(data.draw(st.sampled_from([".jpg", ".png"])), 24, 16))
    for _ in range(data.draw(st.integers(1, 4))):
        picture[data.draw(st.integers(0, len(picture) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FormatError):
        decode_picture(bytes(picture), picture_size(bytes(picture)))
