"""One coded picture with everything that travels with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codec.limits import DEFAULT_LIMITS, Limits
from codec.nal import NalType, is_picture_nal, join_annexb, join_avcc, nal_type, split_annexb, split_avcc
from codec.sei import SeiKind, veilcam_kind


@dataclass(frozen=True, slots=True)
class AccessUnit:
    """NAL units of one picture in decoding order, without start codes.

    Attributes:
        nals: canonical NAL units (no start code, no trailing zero bytes), none empty.
        pts_us: presentation time in microseconds. In the camera: Unix time of capture.
            From a file: the file's own time.
        is_keyframe: the picture is an IDR picture.
    """

    nals: tuple[bytes, ...]
    pts_us: int
    is_keyframe: bool

    @classmethod
    def from_annexb(cls, data: bytes, pts_us: int, limits: Limits = DEFAULT_LIMITS) -> AccessUnit:
        """Parse one access unit with start codes.

        Raises:
            FormatError: the bytes are not Annex-B or above the limits.
        """
        return cls.from_nals(split_annexb(data, limits), pts_us)

    @classmethod
    def from_avcc(
        cls, data: bytes, pts_us: int, length_size: int = 4, limits: Limits = DEFAULT_LIMITS
    ) -> AccessUnit:
        """Parse one sample with length prefixes, as MP4 and Matroska store it.

        Raises:
            FormatError: a length points past the end, or a limit is exceeded.
        """
        return cls.from_nals(split_avcc(data, length_size, limits), pts_us)

    @classmethod
    def from_nals(cls, nals: Sequence[bytes], pts_us: int) -> AccessUnit:
        """Take NAL units as they are; the picture is a key frame if one of them is an IDR slice."""
        return cls(tuple(nals), pts_us, any(nal_type(nal) == NalType.IDR for nal in nals))

    def annexb(self) -> bytes:
        """The unit as an Annex-B byte stream with four-byte start codes."""
        return join_annexb(self.nals)

    def avcc(self) -> bytes:
        """The unit as an MP4 sample with four-byte lengths."""
        return join_avcc(self.nals)

    @property
    def num_bytes(self) -> int:
        """Length of ``annexb()``, and of ``avcc()``."""
        return sum(len(nal) + 4 for nal in self.nals)

    @property
    def has_picture(self) -> bool:
        """Whether there is a slice; an SEI-only unit makes players stumble."""
        return any(is_picture_nal(nal) for nal in self.nals)

    def parameter_sets(self) -> tuple[bytes, ...]:
        """SPS and PPS NAL units in this unit, in order."""
        return tuple(nal for nal in self.nals if nal_type(nal) in (NalType.SPS, NalType.PPS))

    def with_parameter_sets(self, sets: Sequence[bytes]) -> AccessUnit:
        """The unit with ``sets`` in front (after a delimiter) unless it already holds an SPS and a PPS."""
        present = {nal_type(nal) for nal in self.nals}
        missing = tuple(nal for nal in sets if nal_type(nal) not in present)
        start = 1 if self.nals and nal_type(self.nals[0]) == NalType.AUD else 0
        return replace(self, nals=self.nals[:start] + missing + self.nals[start:])

    def with_sei(self, sei_nals: Sequence[bytes]) -> AccessUnit:
        """The unit with SEI NAL units spliced in before its first slice.

        That is after SPS, PPS and other SEI: a buffering period message has to stay the first one.
        """
        first = next((i for i, nal in enumerate(self.nals) if is_picture_nal(nal)), len(self.nals))
        return replace(self, nals=self.nals[:first] + tuple(sei_nals) + self.nals[first:])

    def without_sealed(self) -> AccessUnit:
        """The unit without ciphertext, for viewers that have no key. It still verifies."""
        return replace(self, nals=tuple(nal for nal in self.nals if veilcam_kind(nal) != SeiKind.SEALED))

    def without_veilcam(self) -> AccessUnit:
        """The unit without any SEI of ours: the protected video alone, unsigned."""
        return replace(self, nals=tuple(nal for nal in self.nals if veilcam_kind(nal) is None))
