"""Writes tests/vectors/*.vec (docs/format.md, section 12): ``python -m tests.vectors.make_vectors``.

Pictures and originals are coded by x264. HPKE and epoch keys are random, so that every run gives
other bytes; run it when the format changes, or with the names of new vectors: ``... make_vectors NAME ...``.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.chunks import SealedChunk, split_chunk_number
from codec.h264 import ProtectedEncoder
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.reader import Tlv
from codec.records import Meta, SealedMode, end_message
from codec.region_encoder import open_region_encoder
from codec.regions import RegionGrid
from codec.sealed_encoder import open_sealed_encoder
from codec.sealer import SealerParams, SegmentSealer
from codec.segments import view_unit
from codec.sei import (
    FORMAT_VERSION,
    VEILCAM_UUID,
    SeiKind,
    pack_message,
    pack_veilcam,
    read_veilcam,
    veilcam_kind,
)
from codec.stream_info import region_extensions
from keys import CameraKey, EpochRing, Identity
from keys.secret import SecretBytes
from keys.suite import Suite
from tests.codec.vector_files import results

FOLDER = Path(__file__).parent
WIDTH, HEIGHT = 64, 48
START_US = 1_750_000_000_000_000
SEEDS = {Suite.MLKEM768_X25519: bytes(range(32)), Suite.X25519: bytes(range(0x40, 0x60))}
CAMERA = CameraKey("front-door", SecretBytes(bytes([0xC1]) * 32))
OTHER_CAMERA = CameraKey("back-door", SecretBytes(bytes([0xC2]) * 32))
AUDIO = SealedStream(
    1, StreamKind.AUDIO, "pcm_s16le", Fraction(1, 8000), sample_rate=8000, channel_layout="mono"
)


@dataclass(frozen=True, slots=True)
class Made:
    """A stream, and where its segments start."""

    units: tuple[AccessUnit, ...]
    starts: tuple[int, ...]

    def segment(self, index: int) -> tuple[AccessUnit, ...]:
        ends = (*self.starts[1:], len(self.units))
        return self.units[self.starts[index] : ends[index]]


def pixels(number: int) -> npt.NDArray[np.uint8]:
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH]
    return np.asarray((rows * 3 + columns * 2 + number * 5) % 200 + 20, np.uint8)


def identity(suite: Suite) -> Identity:
    return Identity("authority", suite, SecretBytes(SEEDS[suite]))


def make(
    plan: str,
    *,
    camera: CameraKey = CAMERA,
    suites: Sequence[Suite] = (Suite.X25519,),
    mode: SealedMode = SealedMode.H264,
    stream_byte: int = 0x51,
    start_us: int = START_US,
    cap_bytes: int = 160_000,
    ends: bool = False,
) -> Made:
    """A stream of x264 pictures with x264 originals and PCM audio."""
    ring = EpochRing(camera.camera_id, [identity(suite).recipient for suite in suites])
    params = SealerParams(WIDTH, HEIGHT, Fraction(1, 90_000), b"\x0bvectors", 2, mode)
    protected = ProtectedEncoder(WIDTH, HEIGHT, rate=25)
    clear = open_sealed_encoder("h264", _clear_frame(0))
    if mode is not SealedMode.NONE:
        params = replace(params, streams=(clear.stream, AUDIO))
    sealer = SegmentSealer(
        camera, ring, params, unit_cap_bytes=cap_bytes, stream_id=bytes([stream_byte]) * 16
    )
    units: list[AccessUnit] = []
    starts: list[int] = []
    number, starts_segment = 0, True
    for kind in plan:
        if kind == "|":
            starts_segment = True
            continue
        if starts_segment:
            starts.append(number)
        unit = protected.encode(_protected_frame(number, start_us), force_key=starts_segment)
        packets = _packets(clear, number, is_key=starts_segment) if mode is not SealedMode.NONE else []
        units += [done.unit for done in sealer.push(unit, packets, starts_segment=starts_segment)]
        number, starts_segment = number + 1, False
    units += [done.unit for done in sealer.finish(ends_stream=ends)]
    return Made(tuple(units), tuple(starts))


def make_split(plan: str) -> Made:
    """A stream whose original, 128 x 128 pixels, is split into 2 x 2 tiles."""
    ring = EpochRing(CAMERA.camera_id, [identity(Suite.X25519).recipient])
    clear = open_region_encoder("h264", _large_frame(0), 2, 2)
    sound = replace(AUDIO, index=4, extensions=region_extensions(None, START_US))
    params = SealerParams(
        WIDTH, HEIGHT, Fraction(1, 90_000), b"\x0bvectors", 2, SealedMode.H264,
        (*clear.streams(START_US), sound), clear.grid,
    )  # fmt: skip
    protected = ProtectedEncoder(WIDTH, HEIGHT, rate=25)
    sealer = SegmentSealer(CAMERA, ring, params, stream_id=b"\x55" * 16)
    units: list[AccessUnit] = []
    starts = [number for number, kind in enumerate(plan) if kind == "K"]
    for number in range(len(plan)):
        is_key = number in starts
        unit = protected.encode(_protected_frame(number, START_US), force_key=is_key)
        packets = clear.encode(_large_frame(number), is_key, time_us=number * 40_000)
        packets.append(SealedPacket(sound.index, True, number * 320, number * 320, 32, bytes([number]) * 64))
        units += [done.unit for done in sealer.push(unit, packets, starts_segment=is_key)]
    units += [done.unit for done in sealer.finish()]
    return Made(tuple(units), tuple(starts))


def _large_frame(number: int) -> av.VideoFrame:
    rows, columns = np.mgrid[0:128, 0:128]
    grey = np.asarray((rows * 3 + columns * 7 + number * 5 + (rows * columns) % 17) % 200 + 20, np.uint8)
    return av.VideoFrame.from_ndarray(np.repeat(grey[:, :, None], 3, axis=2), format="rgb24").reformat(
        format="yuv420p"
    )


def _protected_frame(number: int, start_us: int) -> ProtectedFrame:
    chroma = np.full((HEIGHT // 2, WIDTH // 2), 128, np.uint8)
    return ProtectedFrame(pixels(number), chroma, chroma, start_us + number * 40_000)


def _clear_frame(number: int) -> av.VideoFrame:
    grey = 255 - pixels(number)
    frame = av.VideoFrame.from_ndarray(np.repeat(grey[:, :, None], 3, axis=2), format="rgb24")
    frame = frame.reformat(format="yuv420p")
    frame.pts, frame.time_base = number * 40_000, Fraction(1, 1_000_000)
    return frame


def _packets(encoder: object, number: int, *, is_key: bool) -> list[SealedPacket]:
    video = encoder.encode(_clear_frame(number), force_key=is_key)  # type: ignore[attr-defined]
    sound = bytes((number * 7 + i) % 256 for i in range(64))
    return [*video, SealedPacket(AUDIO.index, True, number * 320, number * 320, 32, sound)]


# Edits of single units


def flip(unit: AccessUnit, nal: int, byte: int) -> AccessUnit:
    data = bytearray(unit.nals[nal])
    data[byte] ^= 1
    return replace(unit, nals=(*unit.nals[:nal], bytes(data), *unit.nals[nal + 1 :]))


def slice_at(unit: AccessUnit) -> int:
    return len(unit.nals) - 1


def sei_at(unit: AccessUnit, kind: SeiKind) -> int:
    return next(i for i, nal in enumerate(unit.nals) if veilcam_kind(nal) == kind)


def with_meta(unit: AccessUnit, edit: Callable[[Meta], bytes]) -> AccessUnit:
    """The unit with another META body."""
    meta = view_unit(unit).meta
    assert meta is not None
    at = sei_at(unit, SeiKind.META)
    nal = pack_veilcam(SeiKind.META, edit(meta))
    return replace(unit, nals=(*unit.nals[:at], nal, *unit.nals[at + 1 :]))


def newer_version(unit: AccessUnit) -> AccessUnit:
    meta = view_unit(unit).meta
    at = sei_at(unit, SeiKind.META)
    nal = pack_message(5, VEILCAM_UUID + bytes([FORMAT_VERSION + 1, SeiKind.META]) + bytes(meta or b""))
    return replace(unit, nals=(*unit.nals[:at], nal, *unit.nals[at + 1 :]))


def edit_header(unit: AccessUnit, edit: Callable[[bytes], bytes]) -> AccessUnit:
    return with_meta(unit, lambda meta: bytes(replace(meta, header=edit(meta.header or b""))))


GRID_RECORD = bytes(RegionGrid.even(128, 128, 2, 2).record())


def part_of(nal: bytes) -> int | None:
    """The part of a split segment that a SEALED message is of."""
    message = read_veilcam(nal) if veilcam_kind(nal) == SeiKind.SEALED else None
    return None if message is None else split_chunk_number(SealedChunk.parse(message[1]).chunk_index)[0]


def with_mark(meta: Meta) -> bytes:
    """META of a segment's last unit, with an end mark that the camera would never have made there."""
    digest = hashlib.sha256(meta.signature or b"").digest()
    message = end_message(meta.frame.stream_id, meta.frame.segment_index, digest)
    return bytes(replace(meta, end_mark=CAMERA.sign(message)))


def remuxed(unit: AccessUnit, sets: tuple[bytes, ...]) -> bytes:
    """With all that muxers add: delimiter, parameter sets, filler, zeros, SEI of others; short codes."""
    own = tuple(nal for nal in unit.nals if nal not in sets)
    foreign = pack_message(5, bytes(range(16)) + b"somebody else")
    nals = (b"\x09\xf0", *sets, foreign, *own, b"\x0c\xff\xff\x80")
    return b"".join(b"\x00\x00\x01" + nal + b"\x00\x00" for nal in nals)


# Writing


@dataclass(frozen=True, slots=True)
class Vector:
    """One file; see docs/format.md."""

    name: str
    expect: str
    note: str
    units: Sequence[AccessUnit | bytes]
    suites: Sequence[Suite] = (Suite.X25519,)
    secrets: Sequence[bytes] = ()
    camera: CameraKey = CAMERA
    regions: Sequence[int] | None = None

    def write(self) -> None:
        units = [unit if isinstance(unit, bytes) else unit.annexb() for unit in self.units]
        secrets = self.secrets or [SEEDS[suite] for suite in self.suites]
        pairs = list(zip(self.suites, secrets, strict=True))
        lines = [f"expect: {self.expect}", f"note: {self.note}"]
        lines += [f"camera: {self.camera.public.public_key.hex()}"]
        lines += [f"identity: {int(suite)} {secret.hex()}" for suite, secret in pairs]
        lines += ["units: " + " ".join(str(len(unit)) for unit in units)]
        if self.regions is not None:
            lines += ["regions: " + " ".join(map(str, self.regions))]
        found = results(units, self.camera.public, pairs, self.regions)
        lines += [f"{key}: {value}" for key, value in found.items() if key != "expect"]
        assert found["expect"] == self.expect, (self.name, self.expect, found)
        body = base64.encodebytes(b"".join(units)).decode()
        (FOLDER / f"{self.name}.vec").write_text("\n".join(lines) + "\n\n" + body)


def vectors() -> list[Vector]:
    plain = make("KPPP|KPPP|KPPP")
    hybrid = make("KPP|KPP", suites=(Suite.X25519, Suite.MLKEM768_X25519))
    u = plain.units
    first, second, third = (plain.segment(i) for i in range(3))
    other_stream = make("KPPP|KPPP", stream_byte=0x52, start_us=START_US - 3_600_000_000)
    later_stream = make("KPPP", stream_byte=0x53, start_us=START_US + 3_600_000_000)
    foreign = make("KPPP|KPPP", camera=OTHER_CAMERA, stream_byte=0x54)
    small = make("KPPPPPPP", cap_bytes=1600)
    split = make_split("KPPPKPPP")
    s = split.units
    ended = make("KPPP|KPPP", ends=True)
    e = ended.units
    one_gone = replace(s[5], nals=tuple(nal for nal in s[5].nals if part_of(nal) != 3))
    borders = edit_header(s[0], lambda b: b.replace(GRID_RECORD, GRID_RECORD[:-8] + b"\0\0\0\x41\0\0\0\x40"))
    two_grids = edit_header(s[0], lambda b: b + GRID_RECORD)
    moved_mark = with_meta(e[3], lambda m: bytes(replace(m, end_mark=view_unit(e[-1]).meta.end_mark)))  # type: ignore[union-attr]
    sets = u[0].parameter_sets()
    bad_sps = bytearray(sets[0])
    bad_sps[-2] ^= 1
    changed_sets = replace(u[4], nals=(bytes(bad_sps), *u[4].nals[1:]))
    optional = with_meta(u[4], lambda meta: bytes(meta) + bytes(Tlv(0x11, b"from a later release")))
    critical = with_meta(u[5], lambda meta: bytes(meta) + bytes(Tlv(0x91, b"from a later release")))
    no_sealed = [unit.without_sealed() for unit in u]
    bare = [unit.without_veilcam() for unit in u]
    return [
        Vector("intact", "success", "three segments as the camera made them", u),
        Vector(
            "hybrid",
            "success",
            "second recipient, ML-KEM-768 with X25519",
            hybrid.units,
            (Suite.MLKEM768_X25519,),
        ),
        Vector(
            "two_identities",
            "success",
            "the second identity fits",
            u,
            (Suite.X25519, Suite.X25519),
            (bytes([9]) * 32, SEEDS[Suite.X25519]),
        ),
        Vector(
            "no_sealed_layer",
            "success",
            "made with sealed mode 0",
            make("KPP|KP", mode=SealedMode.NONE).units,
        ),
        Vector("spread", "success", "a cap of 1600 bytes: records cross chunks", small.units),
        Vector("remuxed", "success", "what muxers may do", [remuxed(unit, sets) for unit in u]),
        Vector(
            "optional_record", "success", "an unknown optional record in a META", [*u[:4], optional, *u[5:]]
        ),
        Vector("restart", "success", "another stream follows", [*u, *later_stream.units]),
        Vector("stripped", "success", "all SEALED messages dropped", no_sealed),
        Vector(
            "stripped_one",
            "success",
            "the SEALED message of unit 5 dropped",
            [*u[:5], u[5].without_sealed(), *u[6:]],
        ),
        Vector("regions", "success", "the original in 2 x 2 tiles, and sound", s),
        Vector("regions_some", "success", "the keys of two regions of four, no sound", s, regions=(1, 2)),
        Vector(
            "regions_chunk_lost",
            "success",
            "the SEALED message of region 2 dropped from unit 5",
            [*s[:5], one_gone, *s[6:]],
        ),
        Vector(
            "regions_flip",
            "tampered",
            "a bit of the ciphertext of a region in unit 5",
            [*s[:5], flip(s[5], sei_at(s[5], SeiKind.SEALED), 120), *s[6:]],
        ),
        Vector("regions_border", "format error", "a border that is no multiple of 16", [borders, *s[1:4]]),
        Vector("regions_twice", "format error", "two REGIONS records", [two_grids, *s[1:4]]),
        Vector("end_mark", "success", "a stream that was ended", e),
        Vector("end_mark_cut", "success", "the same, cut behind the first segment", ended.segment(0)),
        Vector(
            "end_mark_dropped",
            "success",
            "the same, its mark taken out",
            [*e[:-1], with_meta(e[-1], lambda m: bytes(replace(m, end_mark=None)))],
        ),
        Vector(
            "end_mark_moved",
            "tampered",
            "the mark of the second segment in the first",
            [*e[:3], moved_mark, *e[4:]],
        ),
        Vector(
            "behind_end",
            "tampered",
            "a third segment, signed, behind one with a mark",
            [*u[:7], with_meta(u[7], with_mark), *u[8:]],
        ),
        Vector("lost_unit", "gap", "unit 5 lost", [*u[:5], *u[6:]]),
        Vector("lost_key", "gap", "the second segment's key frame lost", [*u[:4], *u[5:]]),
        Vector("lost_segment", "gap", "the second segment lost", [*first, *third]),
        Vector("resume", "gap", "unit 2 of the spread stream lost", [*small.units[:2], *small.units[3:]]),
        Vector("clip_front", "gap", "cut from the middle of the first segment on", u[2:]),
        Vector("clip_segments", "success", "cut at segment borders", [*second, *third]),
        Vector("clip_end", "unverifiable", "cut within the last segment", u[:-1]),
        Vector(
            "newer_version",
            "unverifiable",
            "one META of format version 2, the rest cut",
            [*first, newer_version(u[4])],
        ),
        Vector("plain", "unsigned", "all SEI dropped: the protected video alone", bare),
        Vector(
            "no_match", "no match", "an identity that is no recipient", u, (Suite.X25519,), (bytes([9]) * 32,)
        ),
        Vector(
            "flip_picture",
            "tampered",
            "a bit of unit 6's slice",
            [*u[:6], flip(u[6], slice_at(u[6]), 12), *u[7:]],
        ),
        Vector(
            "flip_chunk",
            "tampered",
            "a bit of unit 6's ciphertext",
            [*u[:6], flip(u[6], sei_at(u[6], SeiKind.SEALED), 60), *u[7:]],
        ),
        Vector(
            "flip_signature",
            "tampered",
            "a bit of the first segment's signature",
            [*u[:3], with_meta(u[3], lambda m: bytes(replace(m, signature=_flip_last(m.signature)))), *u[4:]],
        ),
        Vector(
            "flip_header",
            "tampered",
            "a bit of the second segment's start time",
            [*u[:4], edit_header(u[4], lambda body: body[:60] + bytes([body[60] ^ 1]) + body[61:]), *u[5:]],
        ),
        Vector(
            "parameter_sets", "tampered", "another SPS in the second segment", [*u[:4], changed_sets, *u[5:]]
        ),
        Vector("swapped_units", "tampered", "units 5 and 6", [*u[:5], u[6], u[5], *u[7:]]),
        Vector("repeated_unit", "tampered", "unit 5 twice", [*u[:6], *u[5:]]),
        Vector(
            "inserted", "tampered", "a picture without META in the second segment", [*u[:6], bare[2], *u[6:]]
        ),
        Vector("removed_meta", "tampered", "META taken from unit 5", [*u[:5], bare[5], *u[6:]]),
        Vector(
            "critical_record",
            "unverifiable",
            "an unknown critical record in unit 5's META",
            [*first, u[4], critical],
        ),
        Vector("swapped_segments", "tampered", "the second and the third", [*first, *third, *second]),
        Vector(
            "replayed_segment",
            "tampered",
            "the first segment again behind the second",
            [*first, *second, *first, *third],
        ),
        Vector(
            "spliced_stream",
            "tampered",
            "a segment of another stream of the same camera in place of the second",
            [*first, *other_stream.segment(1), *third],
        ),
        Vector(
            "spliced_camera",
            "tampered",
            "a segment of another camera in place of the second",
            [*first, *foreign.segment(1), *third],
            (Suite.X25519,),
        ),
        Vector("other_camera", "tampered", "all of it by another camera", foreign.units),
        Vector(
            "lost_chunk0",
            "success",
            "the SEALED messages of the second segment's first unit dropped, and with them chunk 0",
            [*u[:4], u[4].without_sealed(), *u[5:]],
        ),
        Vector(
            "damaged_key_meta",
            "tampered",
            "META of the second segment's key frame cut short",
            [*u[:4], with_meta(u[4], lambda m: bytes(m)[:60]), *u[5:]],
        ),
        Vector(
            "broken_chunk",
            "tampered",
            "a SEALED message of five zero bytes beside the good ones of unit 5",
            [*u[:5], u[5].with_sei([pack_veilcam(SeiKind.SEALED, bytes(5))]), *u[6:]],
        ),
        Vector(
            "header_version",
            "format error",
            "HEADER of version 2",
            [edit_header(u[0], lambda b: b"\x02" + b[1:]), *u[1:4]],
        ),
        Vector(
            "header_flags",
            "format error",
            "a flag that is not defined",
            [edit_header(u[0], lambda b: b[:FLAGS_AT] + b"\x03" + b[FLAGS_AT + 1 :]), *u[1:4]],
        ),
        Vector(
            "header_critical",
            "format error",
            "an unknown critical extension",
            [edit_header(u[0], lambda b: b + bytes(Tlv(0x91, b"new"))), *u[1:4]],
        ),
        Vector(
            "header_cut",
            "format error",
            "HEADER one byte short",
            [edit_header(u[0], lambda b: b[:-1]), *u[1:4]],
        ),
    ]


# version, ids, index, start, previous, size, time base, parameters, model, strength, mode
FLAGS_AT = 1 + 48 + 8 + 8 + 32 + 8 + 8 + 32 + 8 + 1 + 1


def _flip_last(data: bytes | None) -> bytes:
    assert data is not None
    return data[:-1] + bytes([data[-1] ^ 1])


if __name__ == "__main__":
    for vector in vectors():
        if not sys.argv[1:] or vector.name in sys.argv[1:]:
            vector.write()
