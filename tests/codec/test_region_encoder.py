from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from base.errors import UsageError
from codec.packets import SealedPacket, SealedStream
from codec.planes import plane_rows
from codec.region_encoder import open_region_encoder, plane_layouts
from codec.regions import RegionGrid, Tile
from codec.sealed_encoder import open_sealed_encoder
from codec.stream_info import clock_of, region_of

WIDTH, HEIGHT = 272, 208
MODES = ("h264", "hevc", "av1", "ffv1")


def _picture(
    number: int, pixel_format: str = "yuv420p", width: int = WIDTH, height: int = HEIGHT
) -> VideoFrame:
    rows, columns = np.mgrid[0:height, 0:width]
    random = np.random.default_rng(number)
    grey = (rows * 2 + columns + 9 * number) % 230 + random.integers(0, 20, (height, width))
    rgb = np.stack([grey, (grey + columns) % 256, (grey + rows) % 256], axis=2).astype(np.uint8)
    frame = VideoFrame.from_ndarray(rgb, format="rgb24")
    return frame if pixel_format == "rgb24" else frame.reformat(format=pixel_format)


def _decode(stream: SealedStream, packets: list[SealedPacket]) -> list[VideoFrame]:
    decoder = av.CodecContext.create("libdav1d" if stream.codec == "av1" else stream.codec, "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.extradata = stream.extradata or None
    if stream.codec == "ffv1":
        decoder.width, decoder.height = stream.width, stream.height
    frames: list[VideoFrame] = []
    for packet in packets:
        data = av.Packet(packet.data)
        data.pts = data.dts = packet.pts
        frames += decoder.decode(data)
    return frames + decoder.decode(None)


def _cut(samples: npt.NDArray[np.uint8], tile: Tile) -> npt.NDArray[np.uint8]:
    return samples[tile.y : tile.y + tile.height, tile.x : tile.x + tile.width]


def _luma(frame: VideoFrame) -> npt.NDArray[np.uint8]:
    return _plane(frame.reformat(format="gray") if frame.format.is_rgb else frame, 0)


def _plane(frame: VideoFrame, index: int) -> npt.NDArray[np.uint8]:
    plane = frame.planes[index]
    rows = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
    return rows[: plane.height, : plane.width]


@pytest.mark.parametrize("mode", MODES)
def test_every_tile_decodes_alone_to_its_part_of_the_picture(mode: str) -> None:
    pictures = [_picture(number) for number in range(4)]
    encoder = open_region_encoder(mode, pictures[0], 3, 2)
    packets = [
        packet
        for number, picture in enumerate(pictures)
        for packet in encoder.encode(picture, number in (0, 2), time_us=number * 40_000)
    ]
    assert encoder.flush() == []
    assert len(packets) == 6 * len(pictures)
    streams = encoder.streams(77)
    for region, (tile, stream) in enumerate(zip(encoder.grid.tiles(), streams, strict=True)):
        assert (region_of(stream), clock_of(stream), stream.index) == (region, 77, region)
        assert (stream.width, stream.height) == (tile.width, tile.height)
        own = [packet for packet in packets if packet.stream_index == region]
        assert [packet.is_key for packet in own] == [
            number in (0, 2) or mode == "ffv1" for number in range(4)
        ]
        frames = _decode(stream, own)
        assert [frame.pts for frame in frames] == [number * 40_000 for number in range(4)]
        for frame, picture in zip(frames, pictures, strict=True):
            difference = _cut(_luma(picture), tile).astype(int) - _luma(frame)
            if mode == "ffv1":
                assert not difference.any()
                chroma = Tile(*(value // 2 for value in tile))
                assert all(
                    np.array_equal(_cut(_plane(picture, index), chroma), _plane(frame, index))
                    for index in (1, 2)
                )
            else:
                assert np.abs(difference).mean() < 8  # the neighbouring tile differs by about 70


@pytest.mark.parametrize("mode", MODES)
def test_a_tile_is_bit_exact_to_what_its_encoder_makes_of_the_cut_picture(mode: str) -> None:
    """Against the encoder of the unsplit layer, on a picture that was cut before."""
    pictures = [_picture(number) for number in range(3)]
    encoder = open_region_encoder(mode, pictures[0], 2, 2)
    tile = encoder.grid.tile(3)
    half = Tile(*(value // 2 for value in tile))

    def cut(picture: VideoFrame) -> VideoFrame:
        planes = [_cut(_plane(picture, 0), tile), *(_cut(_plane(picture, index), half) for index in (1, 2))]
        frame = VideoFrame.from_ndarray(
            np.concatenate([plane.reshape(-1) for plane in planes]).reshape(-1, tile.width), format="yuv420p"
        )
        frame.color_range = picture.color_range
        frame.colorspace = picture.colorspace
        frame.color_primaries, frame.color_trc = picture.color_primaries, picture.color_trc
        return frame

    alone = open_sealed_encoder(mode, cut(pictures[0]))
    for number, picture in enumerate(pictures):
        made = encoder.encode(picture, number == 0, time_us=number * 40_000)
        (expected,) = alone.encode(cut(picture), number == 0, time_us=number * 40_000)
        assert next(packet.data for packet in made if packet.stream_index == 3) == expected.data


@pytest.mark.parametrize("pixel_format", ["rgb24", "yuv422p10le", "nv12", "gray", "yuvj444p", "bgra"])
def test_lossless_tiles_of_any_format_join_to_the_picture(pixel_format: str) -> None:
    picture = _picture(5, pixel_format, 275, 203)
    whole = open_sealed_encoder("ffv1", picture)
    (reference,) = _decode(whole.stream, whole.encode(picture, True, time_us=0))
    encoder = open_region_encoder("ffv1", picture, 2, 3)
    packets = encoder.encode(picture, True, time_us=0)
    for tile, stream, packet in zip(encoder.grid.tiles(), encoder.streams(0), packets, strict=True):
        assert stream.pixel_format == whole.stream.pixel_format
        assert stream.color_range == whole.stream.color_range
        (frame,) = _decode(stream, [packet])
        for layout, all_of_it, own in zip(
            plane_layouts(frame.format.name), reference.planes, frame.planes, strict=True
        ):
            first, width = layout.first_byte(tile), own.width * layout.num_bytes
            top = tile.y // layout.y_step
            rows = plane_rows(all_of_it, all_of_it.line_size)[top : top + own.height, first : first + width]
            assert np.array_equal(rows, plane_rows(own, width))


def test_an_odd_picture_loses_a_row_and_a_column_in_lossy_tiles_as_unsplit() -> None:
    encoder = open_region_encoder("h264", _picture(0, "yuv420p", 275, 203), 2, 1)
    assert encoder.grid == RegionGrid((0, 144, 274), (0, 202))


def test_a_picture_of_another_shape_is_refused() -> None:
    encoder = open_region_encoder("h264", _picture(0), 2, 1)
    assert not encoder.accepts(_picture(0, "yuv420p", 288))
    with pytest.raises(UsageError, match="opened for 272x208"):
        encoder.encode(_picture(0, "yuv420p", 288), time_us=0)


def test_tiles_that_an_encoder_could_not_take_are_refused() -> None:
    with pytest.raises(UsageError, match="expected at least 64"):
        open_region_encoder("h264", _picture(0), 5, 1)


def test_the_nominal_rate_and_aspect_go_into_every_stream() -> None:
    encoder = open_region_encoder(
        "h264", _picture(0), 2, 1, rate=Fraction(30000, 1001), sample_aspect_ratio=Fraction(4, 3)
    )
    assert {(s.frame_rate, s.sample_aspect_ratio) for s in encoder.streams(0)} == {
        (Fraction(30000, 1001), Fraction(4, 3))
    }
