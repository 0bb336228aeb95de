from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from io import BytesIO
from typing import cast

import av
import numpy as np
import pytest
from av.sidedata.sidedata import SideData
from av.video.codeccontext import VideoCodecContext
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import FormatError, LimitExceeded, Malformed, UnknownVersion
from base.frames import ProtectedFrame
from codec.h264 import ProtectedEncoder
from codec.limits import Limits
from codec.nal import escape
from codec.sei import (
    VEILCAM_UUID,
    SeiKind,
    pack_message,
    pack_veilcam,
    read_messages,
    read_veilcam,
    veilcam_kind,
)

BODIES = st.binary(max_size=600) | st.lists(st.sampled_from([0, 0, 0, 1, 2, 3]), max_size=600).map(bytes)


def _decode(annexb: list[bytes], container: str) -> list[list[bytes]]:
    """SEI_UNREGISTERED side data per frame, as FFmpeg's decoder hands it out."""
    if container == "h264":
        with av.open(BytesIO(b"".join(annexb)), "r", format="h264") as source:
            return [_unregistered(frame) for frame in source.decode(video=0)]
    decoder = av.CodecContext.create("h264", "r")
    assert isinstance(decoder, VideoCodecContext)
    packets = [av.Packet(data) for data in annexb]
    return [_unregistered(frame) for packet in [*packets, None] for frame in decoder.decode(packet)]


def _unregistered(frame: av.VideoFrame) -> list[bytes]:
    entries = cast("Iterable[SideData]", frame.side_data)  # the stubs call it a mapping by name
    return [bytes(data) for data in entries if data.type.name == "SEI_UNREGISTERED"]


def _protected(number: int) -> ProtectedFrame:
    rows, columns = np.mgrid[0:48, 0:64]
    chroma = np.full((24, 32), 128, np.uint8)
    return ProtectedFrame(
        np.asarray((rows * columns + number) % 256, np.uint8), chroma, chroma, number * 40_000
    )


@pytest.mark.parametrize("how", ["h264", "packets"])
def test_ffmpeg_decodes_the_picture_and_hands_out_our_bytes(how: str) -> None:
    encoder = ProtectedEncoder(64, 48, rate=Fraction(25))
    bodies = [
        b"",
        bytes(70_000),
        bytes([0, 0, 1] * 20_000),
        bytes([0, 0, 3] * 9),
        b"\0\0\0\1\x65 a start code inside",
        np.random.default_rng(7).bytes(150_000),
        bytes(range(256)) * 3,
        b"ends in zeros\0\0\0",
    ]
    units = [
        encoder.encode(_protected(number)).with_sei(
            [pack_veilcam(SeiKind.META, b"m%d" % number), pack_veilcam(SeiKind.SEALED, body)]
        )
        for number, body in enumerate(bodies)
    ]
    seen = _decode([unit.annexb() for unit in units], how)
    assert seen == [
        [VEILCAM_UUID + b"\1\1m%d" % number, VEILCAM_UUID + b"\1\2" + body]
        for number, body in enumerate(bodies)
    ]


@given(BODIES, st.sampled_from([1, 2, 7]))
def test_what_is_packed_is_read(body: bytes, kind: int) -> None:
    nal = pack_message(5, VEILCAM_UUID + bytes([1, kind]) + body)
    assert read_veilcam(nal) == (kind, body)
    assert veilcam_kind(nal) == kind
    assert b"\0\0\1" not in nal
    assert not nal.endswith(b"\0")


@pytest.mark.parametrize("size", [0, 1, 254, 255, 256, 509, 510, 511])
def test_sizes_around_multiples_of_255(size: int) -> None:
    nal = pack_message(300, bytes(range(256))[1:2] * size)
    (message,) = read_messages(nal)
    assert message.payload_type == 300
    assert len(message.payload) == size
    assert nal[1:3] == b"\xff\x2d"
    assert nal[3 : 3 + size // 255] == b"\xff" * (size // 255)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_format_errors(data: bytes) -> None:
    for nal in (b"\x06" + data, b"\x06\x05" + data, pack_message(5, VEILCAM_UUID + data)):
        veilcam_kind(nal)
        try:
            read_veilcam(nal)
            list(read_messages(nal))
        except FormatError:
            continue


@given(st.binary(min_size=1, max_size=80), st.data())
@settings(max_examples=200)
def test_a_damaged_message_raises_nothing_but_format_errors(body: bytes, data: st.DataObject) -> None:
    nal = bytearray(pack_veilcam(SeiKind.META, body))
    for _ in range(data.draw(st.integers(1, 4))):
        nal[data.draw(st.integers(0, len(nal) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_veilcam(bytes(nal[: data.draw(st.integers(1, len(nal)))]))
    except FormatError:
        return


def test_other_peoples_sei_is_not_ours() -> None:
    foreign = pack_message(5, bytes(16) + b"x264 - core 165")
    assert read_veilcam(foreign) is None
    assert read_veilcam(pack_message(4, VEILCAM_UUID + b"\1\1")) is None
    assert read_veilcam(b"\x06\x05\xff\xff") is None
    assert read_veilcam(b"\x65" + VEILCAM_UUID) is None


def test_another_format_version_is_refused_by_number() -> None:
    with pytest.raises(UnknownVersion, match="version is 2, this release reads 1"):
        read_veilcam(pack_message(5, VEILCAM_UUID + b"\2\1body"))


def test_a_second_message_behind_ours_is_refused() -> None:
    first = bytes([5, 18]) + VEILCAM_UUID + b"\1\1"
    with pytest.raises(Malformed, match="expected none"):
        read_veilcam(b"\x06" + escape(first + b"\x04\x01a" + b"\x80"))


def test_a_missing_stop_bit_is_refused() -> None:
    with pytest.raises(Malformed, match="stop bit"):
        list(read_messages(b"\x06\x05\x01a\x01"))


def test_too_many_messages_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="more than 3 messages"):
        list(read_messages(b"\x06" + b"\x04\x00" * 4 + b"\x80", Limits(max_sei_messages_per_unit=3)))
