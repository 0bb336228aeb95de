from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import av
import numpy as np
from av.video.frame import VideoFrame

import veilcam.assets
from codec.packets import SealedPacket
from codec.remux import write_packets
from codec.sealed_encoder import open_sealed_encoder
from codec.unhurried_encoder import UnhurriedEncoder
from tests.codec.media import ffprobe
from tests.codec.test_sealed_encoder import decode, flat_bars, moving, samples

SAMPLE = Path(veilcam.assets.__file__).with_name("sample.mp4")


def unhurried(picture: VideoFrame, crf: float | None = None) -> UnhurriedEncoder:
    return UnhurriedEncoder(lambda: open_sealed_encoder("av1", picture, rate=10, crf=crf, unhurried=True))


def encode(encoder: UnhurriedEncoder, count: int, keys: tuple[int, ...]) -> list[SealedPacket]:
    packets: list[SealedPacket] = []
    for number in range(count):
        before = len(packets)
        packets += encoder.encode(moving(number), number in keys)
        assert len(packets) <= number + 1
        if number in keys:
            assert len(packets) >= number, "a picture before the key frame has no packet yet"
        assert before <= len(packets)
    return packets + encoder.flush()


def test_every_picture_has_one_packet_in_the_order_of_display() -> None:
    packets = encode(unhurried(moving(0)), 50, keys=(0, 20, 40))
    assert [packet.pts for packet in packets] == [100_000 * number for number in range(50)]
    assert [packet.dts for packet in packets] == [packet.pts for packet in packets]
    assert [number for number, packet in enumerate(packets) if packet.is_key] == [0, 20, 40]


def test_every_segment_decodes_alone() -> None:
    encoder = unhurried(moving(0), crf=20)
    packets = encode(encoder, 50, keys=(0, 20, 40))
    for first, last in pairwise((0, 20, 40, 50)):
        shown = decode(encoder.stream, packets[first:last])
        assert [frame.pts for frame in shown] == [100_000 * number for number in range(first, last)]
        for number, frame in enumerate(shown, start=first):
            error = samples(frame)[0].astype(int) - samples(moving(number))[0]
            assert abs(error).mean() < 6


def test_what_is_seen_in_one_flat_picture_alone_is_not_left_out() -> None:
    encoder = unhurried(flat_bars(0))
    packets = [packet for n in range(60) for packet in encoder.encode(flat_bars(n), n % 50 == 0)]
    for number, frame in enumerate(decode(encoder.stream, packets + encoder.flush())):
        error = samples(frame)[0].astype(int) - samples(flat_bars(number))[0]
        assert abs(error).mean() < 5


def test_a_cut_segment_decodes_up_to_the_cut() -> None:
    encoder = unhurried(moving(0))
    packets = encode(encoder, 40, keys=(0,))
    assert [frame.pts for frame in decode(encoder.stream, packets[:23])] == [100_000 * n for n in range(23)]


def test_an_encoder_that_coded_nothing_holds_nothing() -> None:
    encoder = unhurried(moving(0))
    assert encoder.flush() == []
    packets = encoder.encode(moving(0), True)
    assert len(packets) + len(encoder.flush()) == 1


def test_it_plays_from_an_ordinary_file(tmp_path: Path) -> None:
    encoder = unhurried(moving(0))
    path = tmp_path / "sealed.mp4"
    write_packets(path, [encoder.stream], encode(encoder, 30, keys=(0, 15)))
    stream = ffprobe(path, count_frames=True)["streams"][0]
    assert (stream["codec_name"], stream["nb_read_frames"]) == ("av1", "30")


def test_real_footage_takes_fewer_bits_and_comes_back_no_worse_than_from_live_coding() -> None:
    with av.open(str(SAMPLE)) as container:
        stream = container.streams.video[0]
        pictures = [
            picture.reformat(width=384, height=288)
            for _, picture in zip(range(40), container.decode(stream), strict=False)
        ]
    spent, error = [], []
    late, live = unhurried(pictures[0], crf=33), open_sealed_encoder("av1", pictures[0], rate=10, crf=30)
    for encoder in (late, live):
        packets: list[SealedPacket] = []
        for number, picture in enumerate(pictures):
            packets += encoder.encode(picture, number % 20 == 0, time_us=number * 100_000)
        packets += encoder.flush()
        spent.append(sum(len(packet.data) for packet in packets))
        shown = decode(encoder.stream, packets)
        differences = [
            samples(got)[0].astype(float) - samples(wanted)[0]
            for got, wanted in zip(shown, pictures, strict=True)
        ]
        error.append(float(np.mean([np.square(one).mean() for one in differences])))
    assert spent[0] < spent[1]
    assert error[0] < error[1]
