from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.video.frame import VideoFrame

from base.errors import UsageError
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.pixel_formats import FULL_RANGE, LIMITED_RANGE
from codec.planes import plane_rows
from codec.remux import write_packets
from codec.sealed_encoder import SealedEncoder, open_sealed_encoder
from tests.codec.media import ffmpeg, ffprobe

LOSSY = ("h264", "hevc", "av1")
# Formats that FFV1 holds as they are, and formats that are packed otherwise there.
NATIVE = (
    *("yuv420p", "yuv422p", "yuv444p", "yuv440p", "gray", "yuvj420p", "yuvj422p", "yuvj444p", "bgr0", "bgra"),
    *("yuv420p10le", "yuv422p10le", "yuv444p10le", "yuv420p12le", "yuv420p16le"),
    *("gray10le", "gray12le", "gray16le"),
    *("gbrp10le", "gbrp12le", "yuva420p", "yuva444p", "ya8"),
)
REPACKED = (
    *("yuv420p10be", "yuv422p10be", "yuv444p10be", "gray10be", "gray12be", "gray16be"),
    *("nv12", "nv21", "nv24", "nv42", "yuyv422", "uyvy422", "yvyu422"),
    *("p010le", "p016le", "p210le", "p410le", "y210le"),
    *("rgb24", "bgr24", "rgb0", "0rgb", "0bgr", "gbrp", "rgba", "argb", "abgr", "gbrap"),
    *("rgb48le", "rgb48be", "bgr48le", "bgr48be"),
)
# Significant bits per sample where they are the upper ones of 16.
HIGH_BITS = {"p010le": 10, "p012le": 12, "p210le": 10, "p410le": 10, "y210le": 10}
# Index of the byte of each pixel that means nothing.
PADDING = {"rgb0": 3, "bgr0": 3, "0rgb": 0, "0bgr": 0}


def samples(frame: VideoFrame) -> list[npt.NDArray[np.uint8]]:
    """The planes' rows without the padding of lines and of pixels."""
    planes = []
    for index, plane in enumerate(frame.planes):
        rows = plane_rows(plane, row_bytes(frame, index)).copy()
        if frame.format.name in PADDING:
            rows.reshape(plane.height, -1, 4)[:, :, PADDING[frame.format.name]] = 0
        planes.append(rows)
    return planes


def row_bytes(frame: VideoFrame, index: int) -> int:
    """Bytes of a row that hold samples."""
    name, components = frame.format.name, frame.format.components
    if len(frame.planes) == 1 and len(components) > 1:
        pairs_of_pixels = name in ("yuyv422", "uyvy422", "yvyu422", "y210le")
        pixels = frame.width + frame.width % 2 if pairs_of_pixels else frame.width
        return pixels * frame.format.padded_bits_per_pixel // 8
    is_interleaved_chroma = len(frame.planes) == 2 and index == 1
    sample_bytes = 2 if max(component.bits for component in components) > 8 else 1
    return frame.planes[index].width * sample_bytes * (2 if is_interleaved_chroma else 1)


def noise_frame(name: str, width: int, height: int, seed: int) -> VideoFrame:
    """Random values of the format's depth in every sample."""
    rng = np.random.default_rng(seed)
    frame = VideoFrame(width, height, name)
    bits = max(component.bits for component in frame.format.components)
    for plane in frame.planes:
        rows = plane_rows(plane, plane.line_size)
        rows[:] = rng.integers(0, 256, rows.shape, np.uint8)
        if bits in (9, 10, 12, 14):
            words = rows.view(">u2" if name.endswith("be") else "<u2")
            words[:] = words & ((1 << bits) - 1)
            if name in HIGH_BITS:
                words[:] = words << (16 - bits)
    frame.pts = 0
    return frame


def decode(stream: SealedStream, packets: Sequence[SealedPacket]) -> list[VideoFrame]:
    decoder = av.CodecContext.create({"av1": "libdav1d"}.get(stream.codec, stream.codec), "r")
    assert isinstance(decoder, av.VideoCodecContext)
    decoder.extradata = stream.extradata
    decoder.width, decoder.height = stream.width, stream.height
    frames: list[VideoFrame] = []
    for packet in packets:
        coded: av.Packet[av.stream.Stream] = av.Packet(packet.data)
        coded.pts = packet.pts
        frames += decoder.decode(coded)
    return frames + decoder.decode(None)


def moving(number: int, width: int = 96, height: int = 64, name: str = "yuv420p") -> VideoFrame:
    rows, columns = np.mgrid[:height, :width]
    luma = ((2 * rows + columns + 3 * number) % 220 + 16).astype(np.uint8)
    grey = np.repeat(luma[:, :, None], 3, axis=2)
    frame = VideoFrame.from_ndarray(grey, format="rgb24").reformat(format=name)
    frame.pts, frame.time_base = number, Fraction(1, 10)
    return frame


def encode(encoder: SealedEncoder, count: int, keys: tuple[int, ...]) -> list[SealedPacket]:
    packets = []
    for number in range(count):
        new = encoder.encode(moving(number), number in keys)
        assert len(new) == 1, "a picture is delayed"
        packets += new
    assert encoder.flush() == []
    return packets


def through_ffv1(picture: VideoFrame) -> VideoFrame:
    encoder = open_sealed_encoder("ffv1", picture)
    packets = encoder.encode(picture, time_us=0) + encoder.encode(picture, time_us=1)
    first, second = decode(encoder.stream, packets)
    assert tight(first) == tight(second)
    return first


def tight(frame: VideoFrame) -> bytes:
    return b"".join(plane.tobytes() for plane in samples(frame))


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("size", [(64, 48), (34, 22), (35, 23)], ids=["grid", "even", "odd"])
def test_ffv1_gives_every_sample_back(name: str, size: tuple[int, int]) -> None:
    picture = noise_frame(name, *size, seed=1)
    decoded = through_ffv1(picture)
    assert decoded.format.name == name.replace("yuvj", "yuv")
    for expected, got in zip(samples(picture), samples(decoded), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", REPACKED)
def test_ffv1_holds_other_packings_as_debians_ffmpeg_unpacks_them(tmp_path: Path, name: str) -> None:
    picture = noise_frame(name, 64, 48, seed=2)
    decoded = through_ffv1(picture)
    raw = tmp_path / "picture.raw"
    raw.write_bytes(tight(picture))
    expected = ffmpeg(
        *("-f", "rawvideo", "-pixel_format", name, "-video_size", "64x48", "-i", raw),
        *("-f", "rawvideo", "-pix_fmt", decoded.format.name.replace("bgr0", "bgr24"), "-"),
    )
    if decoded.format.name == "bgr0":
        bgr = samples(decoded)[0].reshape(48, 64, 4)[:, :, :3]
        assert bgr.tobytes() == expected
    else:
        assert tight(decoded) == expected


@pytest.mark.parametrize("size", [(34, 22), (35, 23)])
def test_ffv1_repacking_moves_samples_where_arithmetic_says(size: tuple[int, int]) -> None:
    width, height = size
    nv21 = noise_frame("nv21", *size, seed=5)
    luma, chroma = samples(nv21)
    assert_planes(through_ffv1(nv21), luma, chroma[:, 1::2], chroma[:, 0::2])
    uyvy = noise_frame("uyvy422", *size, seed=6)
    (packed,) = samples(uyvy)
    assert_planes(through_ffv1(uyvy), packed[:, 1::2][:, :width], packed[:, 0::4], packed[:, 2::4])
    rgb = noise_frame("rgb24", *size, seed=7)
    bgr0 = samples(through_ffv1(rgb))[0].reshape(height, width, 4)
    np.testing.assert_array_equal(bgr0[:, :, 2::-1], samples(rgb)[0].reshape(height, width, 3))
    for name in ("nv16", "nv20le"):
        nv16 = noise_frame(name, *size, seed=9)
        luma, chroma = (plane.view("<u2") if name == "nv20le" else plane for plane in samples(nv16))
        assert_planes(through_ffv1(nv16), luma, chroma[:, 0::2], chroma[:, 1::2])
    p012 = noise_frame("p012le", *size, seed=8)
    words, pairs = (plane.view("<u2") >> 4 for plane in samples(p012))
    assert_planes(through_ffv1(p012), words, pairs[:, 0::2], pairs[:, 1::2])


def assert_planes(frame: VideoFrame, *expected: npt.NDArray[Any]) -> None:
    assert len(frame.planes) == len(expected)
    for want, got in zip(expected, samples(frame), strict=True):
        np.testing.assert_array_equal(got.view(want.dtype), want)


@pytest.mark.parametrize(
    ("name", "pixels"), [("yuvj422p", "yuv422p"), ("rgb24", "rgb24"), ("yuv420p10le", "yuv420p10le")]
)
def test_debians_ffmpeg_decodes_the_same_ffv1_samples(tmp_path: Path, name: str, pixels: str) -> None:
    picture = noise_frame(name, 34, 22, seed=7)
    encoder = open_sealed_encoder("ffv1", picture)
    path = tmp_path / "sealed.mkv"
    write_packets(path, [encoder.stream], encoder.encode(picture, time_us=0))
    raw = ffmpeg("-i", path, "-f", "rawvideo", "-pix_fmt", pixels, "-")
    assert raw == b"".join(plane.tobytes() for plane in samples(picture))


@pytest.mark.parametrize(("name", "tag"), [("yuvj420p", "pc"), ("yuv420p", "tv")])
def test_range_of_ffv1_survives_into_a_file(tmp_path: Path, name: str, tag: str) -> None:
    picture = noise_frame(name, 34, 22, seed=8)
    picture.color_range = FULL_RANGE if tag == "pc" else LIMITED_RANGE
    encoder = open_sealed_encoder("ffv1", picture)
    assert encoder.stream.color_range == picture.color_range
    path = tmp_path / "sealed.mkv"
    write_packets(path, [encoder.stream], encoder.encode(picture, time_us=0))
    assert ffprobe(path)["streams"][0]["color_range"] == tag


@pytest.mark.parametrize("mode", LOSSY)
@pytest.mark.parametrize("name", ["yuvj420p", "nv12"])
def test_lossy_modes_keep_a_full_range(mode: str, name: str) -> None:
    picture = moving(0, name="yuvj420p")
    picture.color_range = FULL_RANGE
    if name == "nv12":
        picture = picture.reformat(format="nv12", src_color_range=FULL_RANGE, dst_color_range=FULL_RANGE)
        picture.color_range, picture.pts, picture.time_base = FULL_RANGE, 0, Fraction(1, 10)
    encoder = open_sealed_encoder(mode, picture, crf=10)
    (decoded,) = decode(encoder.stream, encoder.encode(picture, True))
    assert encoder.stream.color_range == decoded.color_range == FULL_RANGE
    error = samples(decoded)[0].astype(int) - samples(picture)[0]
    assert abs(error).mean() < 4


@pytest.mark.parametrize("mode", LOSSY)
def test_segments_decode_alone_and_nothing_is_delayed(mode: str) -> None:
    encoder = open_sealed_encoder(mode, moving(0), rate=10)
    packets = encode(encoder, 12, keys=(0, 5))
    assert [n for n, packet in enumerate(packets) if packet.is_key] == [0, 5]
    assert [packet.pts for packet in packets] == [packet.dts for packet in packets]
    assert [packet.pts for packet in packets] == [100_000 * n for n in range(12)]
    second = decode(encoder.stream, packets[5:])
    assert [frame.pts for frame in second] == [100_000 * n for n in range(5, 12)]
    error = samples(second[-1])[0].astype(int) - samples(moving(11))[0]
    assert abs(error).mean() < 6


@pytest.mark.parametrize(
    ("mode", "ending"), [("h264", ".mkv"), ("hevc", ".mkv"), ("av1", ".mp4"), ("ffv1", ".mp4")]
)
def test_sealed_video_plays_from_an_ordinary_file(tmp_path: Path, mode: str, ending: str) -> None:
    encoder = open_sealed_encoder(mode, moving(0), rate=10, sample_aspect_ratio=Fraction(4, 3))
    path = tmp_path / f"sealed{ending}"
    write_packets(path, [encoder.stream], encode(encoder, 6, keys=(0, 3)))
    stream = ffprobe(path, count_frames=True)["streams"][0]
    assert (stream["codec_name"], stream["nb_read_frames"]) == (encoder.stream.codec, "6")
    assert (stream["width"], stream["height"], stream["sample_aspect_ratio"]) == (96, 64, "4:3")


def test_picture_is_not_touched() -> None:
    picture = moving(3)
    before = [plane.copy() for plane in samples(picture)]
    encoder = open_sealed_encoder("h264", picture)
    encoder.encode(picture, True)
    assert (picture.pts, picture.time_base, picture.pict_type) == (3, Fraction(1, 10), 0)
    for plane, same in zip(samples(picture), before, strict=True):
        np.testing.assert_array_equal(plane, same)


def test_odd_sizes_are_cropped_by_a_row_and_a_column_in_lossy_modes() -> None:
    picture = moving(0).reformat(width=97, height=65)
    encoder = open_sealed_encoder("h264", picture)
    (decoded,) = decode(encoder.stream, encoder.encode(picture, True, time_us=0))
    assert (decoded.width, decoded.height) == (encoder.stream.width, encoder.stream.height) == (96, 64)
    error = samples(decoded)[0].astype(int) - samples(picture)[0][:64, :96]
    assert abs(error).mean() < 4


def test_stream_record_survives_its_own_bytes() -> None:
    stream = open_sealed_encoder("hevc", moving(0), stream_index=7).stream
    assert SealedStream.parse(bytes(stream)) == stream
    assert (stream.index, stream.kind) == (7, StreamKind.VIDEO)


def test_format_that_ffv1_would_change_is_refused() -> None:
    with pytest.raises(UsageError, match="rgb565le cannot be stored without loss"):
        open_sealed_encoder("ffv1", VideoFrame(32, 32, "rgb565le"))


def test_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="expected one of av1, hevc, h264, ffv1"):
        open_sealed_encoder("copy", moving(0))


def flat_bars(number: int, width: int = 320, height: int = 240) -> VideoFrame:
    """A picture without noise, its number written in black and white bars."""
    luma = np.full((height, width), 30, np.uint8)
    for bit in range(7):
        if number >> bit & 1:
            luma[:, bit * width // 8 : (bit + 1) * width // 8] = 220
    frame = VideoFrame.from_ndarray(np.repeat(luma[:, :, None], 3, 2), format="rgb24")
    frame = frame.reformat(format="yuv420p")
    frame.pts, frame.time_base = number, Fraction(1, 25)
    return frame


@pytest.mark.parametrize("mode", LOSSY)
def test_what_is_seen_in_one_flat_picture_alone_is_not_left_out(mode: str) -> None:
    encoder = open_sealed_encoder(mode, flat_bars(0), rate=25)
    packets = [packet for n in range(60) for packet in encoder.encode(flat_bars(n), n % 50 == 0)]
    for number, frame in enumerate(decode(encoder.stream, packets)):
        error = samples(frame)[0].astype(int) - samples(flat_bars(number))[0]
        assert abs(error).mean() < 5


@pytest.mark.parametrize("preset", ["9", "10", "13", "fast", "-1"])
def test_presets_of_av1_that_leave_out_changes_are_refused(preset: str) -> None:
    with pytest.raises(UsageError, match=f"expected 0 to 8, got '{preset}'"):
        open_sealed_encoder("av1", moving(0), preset=preset)


@pytest.mark.parametrize("mode", ["h264", "hevc", "ffv1"])
def test_only_av1_is_coded_out_of_order(mode: str) -> None:
    with pytest.raises(UsageError, match="only av1 can be coded out of order"):
        open_sealed_encoder(mode, moving(0), unhurried=True)


def test_other_size_or_format_asks_for_another_encoder() -> None:
    encoder = open_sealed_encoder("h264", moving(0))
    other = moving(1, name="yuv444p")
    assert encoder.accepts(moving(1)) and not encoder.accepts(other)
    with pytest.raises(UsageError, match="opened for 96x64 yuv420p, got 96x64 yuv444p"):
        encoder.encode(other)


def test_time_that_does_not_rise_is_refused() -> None:
    encoder = open_sealed_encoder("h264", moving(0))
    encoder.encode(moving(4))
    with pytest.raises(UsageError, match="is not after"):
        encoder.encode(moving(4))
