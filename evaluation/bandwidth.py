"""Bits: the protected layer alone, and protected plus sealed against plain x264 at equal quality."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.video.codeccontext import VideoCodecContext

from base.frames import ClearFrame, ProtectedFrame
from codec import AccessUnit, SegmentSealer
from codec.h264 import FILE_LOOKAHEAD, ProtectedEncoder
from codec.packets import SealedPacket
from codec.planes import to_picture
from codec.records import SealedMode
from codec.sealed_encoder import open_sealed_encoder
from codec.sealer import SealerParams
from codec.unhurried_encoder import UnhurriedEncoder
from evaluation.bdrate import RatePoint, bd_rate
from evaluation.camera import SEGMENT_S, code_video, read_clip
from evaluation.context import Context
from evaluation.pictures import from_video_frame
from evaluation.quality import luma_psnr
from evaluation.results import Curve, Part, Plot, Row, Table
from evaluation.statistics import Floats, resampled
from keys import CameraKey, EpochRing, Recipient

X264_CRFS = (19.0, 23.0, 27.0, 31.0)
AV1_CRFS = (20.0, 30.0, 40.0, 50.0)
PREVIEW = "preview_"  # clips with 256 colours: no measure of a codec
ANCHORS = {
    "veryfast zerolatency": {"preset": "veryfast", "tune": "zerolatency"},
    "medium": {"preset": "medium"},
}


@dataclass(frozen=True, slots=True)
class ClipRates:
    """One clip: bits of the protected layer and of the original by the same encoder, and all rate points."""

    name: str
    pictures: int
    protected_bits: int
    original_bits: int
    anchors: dict[str, tuple[RatePoint, ...]]
    total: tuple[RatePoint, ...]
    sealed: tuple[RatePoint, ...]

    @property
    def share(self) -> float:
        """Protected by original at the same CRF."""
        return self.protected_bits / self.original_bits

    def gain(self, anchor: str, *, sealed_only: bool = False) -> float:
        """How many times the total's bits the anchor needs at equal quality; nan without overlap."""
        return 1 / (1 + bd_rate(self.anchors[anchor], self.sealed if sealed_only else self.total))


def bandwidth(context: Context) -> Part:
    """The part: every real clip of the data folder, consecutive frames from its beginning."""
    paths = [path for path in context.data.clips() if not path.name.startswith(PREVIEW)]
    paths = paths[: context.limit(len(paths), quick=1)]
    if not paths:
        return Part(
            "bandwidth", skipped="no clips in the data folder (names that begin with preview_ do not count)"
        )
    count = context.clip_frames if context.quick else max(context.clip_frames, 100)
    measured = [measure(context, path, count) for path in context.track("bandwidth", paths)]
    return Part(
        "bandwidth", (_layer_table(measured, context), _total_table(measured, context)), _plots(measured)
    )


def measure(context: Context, path: Path, count: int) -> ClipRates:
    """Code one clip in all ways."""
    frames, rate = read_clip(path, count=count)
    protected = list(context.camera.protect_video(frames))
    total, sealed = [], []
    for crf in AV1_CRFS:
        whole, layer, decoded = _veilcam(frames, protected, rate, crf, context.camera.crf)
        quality = luma_psnr(frames, decoded)
        total.append((float(whole), quality))
        sealed.append((float(layer), quality))
    return ClipRates(
        name=path.stem,
        pictures=len(frames),
        protected_bits=code_video(protected, rate=rate, crf=context.camera.crf).bits,
        original_bits=code_video(frames, rate=rate, crf=context.camera.crf).bits,
        anchors={name: _x264(frames, rate, options) for name, options in ANCHORS.items()},
        total=tuple(total),
        sealed=tuple(sealed),
    )


def _x264(frames: Sequence[ClearFrame], rate: Fraction, options: dict[str, str]) -> tuple[RatePoint, ...]:
    """Plain x264 (high profile) of the original at four CRFs: bits and luma PSNR."""
    points = []
    group = max(1, round(SEGMENT_S * rate))
    for crf in X264_CRFS:
        encoder = av.CodecContext.create("libx264", "w")
        encoder.width, encoder.height, encoder.pix_fmt = frames[0].width, frames[0].height, "yuv420p"
        encoder.time_base, encoder.framerate = 1 / rate, rate
        encoder.options = options | {
            "crf": f"{crf:g}",
            "x264-params": f"keyint={group}:min-keyint={group}:scenecut=0:threads=1",
        }
        packets = []
        for index, frame in enumerate(frames):
            picture = to_picture(frame)
            picture.pts, picture.time_base = index, 1 / rate
            packets += encoder.encode(picture)
        packets += encoder.encode(None)
        decoded = _decoded("h264", [bytes(packet) for packet in packets])
        points.append((8.0 * sum(packet.size for packet in packets), luma_psnr(frames, decoded)))
    return tuple(points)


def _veilcam(
    frames: Sequence[ClearFrame],
    protected: Iterable[ProtectedFrame],
    rate: Fraction,
    av1_crf: float,
    crf: float,
) -> tuple[int, int, list[ProtectedFrame]]:
    """The stream as a recorder gets it: bits of it all, bits of the AV1 packets, the recovered pictures."""
    group = max(1, round(SEGMENT_S * rate))
    first = to_picture(frames[0])
    original = UnhurriedEncoder(
        lambda: open_sealed_encoder("av1", first, rate=rate, crf=av1_crf, unhurried=True)
    )
    camera_key = CameraKey.generate("evaluation")
    recipient, _ = Recipient.generate("evaluation")
    params = SealerParams(
        frames[0].width,
        frames[0].height,
        Fraction(1, 1_000_000),
        bytes(8),
        0,
        SealedMode.AV1,
        (original.stream,),
    )
    sealer = SegmentSealer(camera_key, EpochRing(camera_key.camera_id, [recipient]), params)
    sealed: list[SealedPacket] = []
    for index, clear in enumerate(frames):
        time_us = round(index * 1_000_000 / rate)
        sealed += original.encode(to_picture(clear), force_key=index % group == 0, time_us=time_us)
    sealed += original.flush()
    units: list[AccessUnit] = []
    size = frames[0].width, frames[0].height
    shown: list[AccessUnit] = []
    with ProtectedEncoder(*size, rate=rate, crf=crf, lookahead=FILE_LOOKAHEAD) as encoder:
        for index, drawn in enumerate(protected):
            if index % group == 0:
                shown += encoder.flush()
            shown += encoder.push(drawn, force_key=index % group == 0)
        shown += encoder.flush()
    for index, (packet, unit) in enumerate(zip(sealed, shown, strict=True)):
        starts = index % group == 0
        units += [one.unit for one in sealer.push(unit, [packet], starts_segment=starts)]
    units += [one.unit for one in sealer.finish()]
    packets = [packet.data for packet in sealed]
    decoded = _decoded("libdav1d", packets, original.stream.extradata)
    return 8 * sum(unit.num_bytes for unit in units), 8 * sum(map(len, packets)), decoded


def through_sealed(frames: Sequence[ClearFrame], rate: Fraction) -> list[ProtectedFrame]:
    """The original through the sealed layer's AV1 at its defaults, key frames every two seconds."""
    group = max(1, round(SEGMENT_S * rate))
    original = open_sealed_encoder("av1", to_picture(frames[0]), rate=rate)
    packets: list[bytes] = []
    for index, frame in enumerate(frames):
        time_us = round(index * 1_000_000 / rate)
        coded = original.encode(to_picture(frame), force_key=index % group == 0, time_us=time_us)
        packets += [packet.data for packet in coded]
    packets += [packet.data for packet in original.flush()]
    return _decoded("libdav1d", packets, original.stream.extradata)


def _decoded(codec: str, packets: Sequence[bytes], extradata: bytes = b"") -> list[ProtectedFrame]:
    decoder = cast("VideoCodecContext", av.CodecContext.create(codec, "r"))
    if extradata:
        decoder.extradata = extradata
    shown = [picture for packet in packets for picture in decoder.decode(av.Packet(packet))]
    found = []
    for picture in [*shown, *decoder.decode(None)]:
        frame = from_video_frame(picture)
        found.append(ProtectedFrame(frame.luma_hw, frame.cb_hw, frame.cr_hw, frame.time_us))
    return found


def _layer_table(measured: list[ClipRates], context: Context) -> Table:
    def pooled(weights: Floats) -> float:
        return float(np.average([clip.share for clip in measured], weights=weights))

    rows = [Row.of("mean over clips", resampled(pooled, len(measured)), clear=1.0, floor=0.35, aim=0.20)]
    rows += [_single(clip.name, clip.share, clip.pictures, clear=1.0, bars=(0.35, 0.20)) for clip in measured]
    return Table(
        "Protected layer by x264 of the original at the same CRF",
        "ratio",
        "clips (one clip: pictures, no interval)",
        False,
        tuple(rows),
        "Both by the product's encoder: constrained baseline, veryfast zerolatency, CRF "
        f"{context.camera.crf:g}, a key "
        "frame every two seconds. Bits of slices.",
    )


def _total_table(measured: list[ClipRates], context: Context) -> Table:
    rows = []
    for anchor, bars in zip(ANCHORS, ((1.5, 2.0), (1.2, 1.5)), strict=True):
        gains = np.array([clip.gain(anchor) for clip in measured])
        bounds = np.array([clip.gain(anchor, sealed_only=True) for clip in measured])
        known = np.isfinite(gains) & np.isfinite(bounds)
        # The mean of logarithms: a clip that doubles and one that halves cancel.
        estimate = resampled(_geometric_mean_of(gains[known]), int(known.sum()))
        bound = float(np.exp(np.log(bounds[known]).mean())) if known.any() else float("nan")
        rows.append(
            Row.of(
                f"geometric mean, against x264 {anchor}",
                estimate,
                clear=bound,
                floor=bars[0],
                aim=bars[1],
                note=f"{int((~known).sum())} clips without common quality left out"
                if not known.all()
                else "",
            )
        )
        rows += [
            _single(f"{clip.name}, {anchor}", gain, clip.pictures, clear=bound, bars=bars)
            for clip, gain, bound in zip(measured, gains.tolist(), bounds.tolist(), strict=True)
        ]
    return Table(
        "Protected + sealed (AV1) against plain x264 at equal quality: how many times fewer bits",
        "times",
        "clips (one clip: pictures, no interval)",
        True,
        tuple(rows),
        f"1 / (1 + BD-rate) over {len(X264_CRFS)} points (x264 CRF {_listed(X264_CRFS)}, AV1 CRF "
        f"{_listed(AV1_CRFS)}), luma PSNR "
        "of the recovered video. The total is every byte that `protect` writes: protected layer at CRF "
        f"{context.camera.crf:g}, AV1 coded out of order as for files, "
        "encryption, headers, signatures. The clear column is the AV1 layer alone, as if protection cost "
        "nothing.",
    )


def _geometric_mean_of(values: Floats) -> Callable[[Floats], float]:
    logs = np.log(values)
    return lambda weights: float(np.exp(np.average(logs, weights=weights)))


def _single(name: str, value: float, n: int, *, clear: float, bars: tuple[float, float]) -> Row:
    return Row(name, value, float("nan"), float("nan"), n, clear=clear, floor=bars[0], aim=bars[1])


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _plots(measured: list[ClipRates]) -> tuple[Plot, ...]:
    found = []
    for clip in measured:
        lines = {f"x264 {name}": points for name, points in clip.anchors.items()}
        lines |= {"protected + sealed": clip.total, "sealed alone": clip.sealed}
        curves = tuple(
            Curve(name, tuple((bits / clip.pictures / 1000, quality) for bits, quality in points))
            for name, points in lines.items()
        )
        found.append(Plot(f"Rate against quality: {clip.name}", "kbit per picture", "luma PSNR, dB", curves))
    return tuple(found)
