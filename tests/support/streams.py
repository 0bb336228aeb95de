"""Streams as strings, to be damaged and checked: ``build_stream("KPP|KPP").drop(4).swap(2, 3)``.

K is a key frame's access unit, P another one, | the border of two segments. Positions count the
units of the stream from 0. Pictures are a few bytes that no decoder would take; the bitstream,
the records and the cryptography are the product's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from codec.access_unit import AccessUnit
from codec.limits import LIVE_UNIT_CAP_BYTES
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.records import SealedMode
from codec.sealer import SealerParams, SegmentSealer
from codec.segments import SegmentView, read_segments
from codec.verify import SegmentEvidence, check_segment
from keys import CameraKey, CameraPublic, EpochRing, Identity, Recipient
from keys.secret import SecretBytes
from keys.suite import Suite

SPS = bytes.fromhex("6742c01fda014016ec0440000003004000000f03c60ca8")
PPS = bytes.fromhex("68ce3c80")
VIDEO = SealedStream(
    0, StreamKind.VIDEO, "h264", Fraction(1, 90_000), 64, 48, "yuv420p", Fraction(1), Fraction(25)
)
AUDIO = SealedStream(
    1, StreamKind.AUDIO, "aac", Fraction(1, 48_000), sample_rate=48_000, channel_layout="mono"
)
START_US = 1_700_000_000_000_000
FRAME_US = 40_000


def camera_key(seed: int = 1) -> CameraKey:
    """A camera that is the same at every call."""
    return CameraKey(f"camera-{seed}", SecretBytes(bytes([seed]) * 32))


def recipient(seed: int = 1) -> tuple[Recipient, Identity]:
    """A recipient that is the same at every call."""
    identity = Identity(f"authority-{seed}", Suite.X25519, SecretBytes(bytes([0x40 + seed]) * 32))
    return identity.recipient, identity


def picture(kind: str, number: int) -> AccessUnit:
    """An access unit of kind K or P with a content of its own, 0x80 last as real slices have."""
    content = number.to_bytes(4, "big").replace(b"\x00", b"\x05") + bytes([7] * 20) + b"\x80"
    nals = (SPS, PPS, b"\x65" + content) if kind == "K" else (b"\x41" + content,)
    return AccessUnit.from_nals(nals, START_US + number * FRAME_US)


def packets_for(kind: str, number: int, num_bytes: int) -> list[SealedPacket]:
    """A video and an audio packet of the original that come with a picture."""
    video = bytes((number + offset) % 251 for offset in range(num_bytes))
    tick = number * 3600
    return [
        SealedPacket(VIDEO.index, kind == "K", tick, tick, 3600, video),
        SealedPacket(AUDIO.index, True, number * 1024, None, 1024, b"audio %d" % number),
    ]


@dataclass(frozen=True, slots=True)
class Stream:
    """Access units with the keys that belong to them; every edit returns a new stream."""

    units: tuple[AccessUnit, ...]
    packets: tuple[SealedPacket, ...]
    camera: CameraPublic
    identity: Identity

    def drop(self, *positions: int) -> Stream:
        """Without some units, as loss leaves it."""
        return self._with(unit for i, unit in enumerate(self.units) if i not in positions)

    def cut(self, start: int, stop: int | None = None) -> Stream:
        """Only units start to stop, as a clip."""
        return self._with(self.units[start:stop])

    def swap(self, first: int, second: int) -> Stream:
        """With two units exchanged."""
        units = list(self.units)
        units[first], units[second] = units[second], units[first]
        return self._with(units)

    def repeat(self, start: int, stop: int, at: int) -> Stream:
        """With a copy of units start to stop inserted before unit ``at``: a replay."""
        return self._with(self.units[:at] + self.units[start:stop] + self.units[at:])

    def insert(self, at: int, *units: AccessUnit) -> Stream:
        """With other units inserted before unit ``at``."""
        return self._with(self.units[:at] + units + self.units[at:])

    def edit(self, position: int, unit: AccessUnit) -> Stream:
        """With one unit replaced."""
        return self._with((*self.units[:position], unit, *self.units[position + 1 :]))

    def flip_bit(self, position: int, *, nal: int = -1, byte: int = 10, bit: int = 0) -> Stream:
        """With one bit of one NAL unit inverted; by default in the last slice of unit ``position``."""
        unit = self.units[position]
        data = bytearray(unit.nals[nal])
        data[byte] ^= 1 << bit
        nals = list(unit.nals)
        nals[nal] = bytes(data)
        return self.edit(position, replace(unit, nals=tuple(nals)))

    def without_sealed(self) -> Stream:
        """As viewers get it."""
        return self._with(unit.without_sealed() for unit in self.units)

    def without_veilcam(self, *positions: int) -> Stream:
        """With our SEI removed from some units, as careless muxers do; from all if none are named."""
        return self._with(
            unit.without_veilcam() if not positions or i in positions else unit
            for i, unit in enumerate(self.units)
        )

    def then(self, other: Stream) -> Stream:
        """This stream with another one behind it."""
        return self._with(self.units + other.units)

    def views(self) -> list[SegmentView]:
        """The stream's segments as the reader groups them."""
        return list(read_segments(self.units))

    def check(self, camera: CameraPublic | None = None) -> list[SegmentEvidence]:
        """Evidence for every segment, under the stream's own camera unless another is given."""
        evidence: list[SegmentEvidence] = []
        for view in self.views():
            previous = evidence[-1] if evidence else None
            evidence.append(check_segment(view, camera or self.camera, previous))
        return evidence

    def letters(self) -> str:
        """All evidence letters, | between segments."""
        return "|".join(segment.letters for segment in self.check())

    def verdicts(self) -> list[str]:
        """One verdict per segment."""
        return [segment.verdict.value for segment in self.check()]

    def _with(self, units: Iterable[AccessUnit]) -> Stream:
        return replace(self, units=tuple(units))


def build_stream(
    plan: str,
    *,
    camera: int = 1,
    num_bytes: int = 300,
    mode: SealedMode = SealedMode.COPY,
    first_number: int = 0,
    unit_cap_bytes: int = LIVE_UNIT_CAP_BYTES,
    epochs: EpochRing | None = None,
) -> Stream:
    """Seal a stream drawn as a string, such as ``KPP|KPP|KPP``.

    Args:
        plan: K, P and |.
        camera: seed of the camera's key.
        num_bytes: of the original's video packet per picture.
        mode: of the sealed layer; with NONE there is none.
        first_number: of the first picture; sets contents and times.
        unit_cap_bytes: as the sealer's.
        epochs: whose keys to use; fresh ones for the stream's identity otherwise.
    """
    key = camera_key(camera)
    public, identity = recipient()
    sealed = mode is not SealedMode.NONE
    ring = (epochs or EpochRing(key.camera_id, [public])) if sealed else None
    params = SealerParams(64, 48, Fraction(1, 90_000), b"\x11" * 8, 3, mode, (VIDEO, AUDIO) if sealed else ())
    sealer = SegmentSealer(key, ring, params, unit_cap_bytes=unit_cap_bytes)
    units: list[AccessUnit] = []
    packets: list[SealedPacket] = []
    starts = True
    number = first_number
    for kind in plan:
        if kind == "|":
            starts = True
            continue
        new = packets_for(kind, number, num_bytes) if sealed else []
        packets += new
        units += [done.unit for done in sealer.push(picture(kind, number), new, starts_segment=starts)]
        starts = False
        number += 1
    units += [done.unit for done in sealer.finish()]
    return Stream(tuple(units), tuple(packets), key.public, identity)
