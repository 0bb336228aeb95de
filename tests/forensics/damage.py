"""Ways to damage a recording, on its access units. Segments have `GOP` units each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from codec.access_unit import AccessUnit
from codec.nal import is_picture_nal
from codec.sei import SeiKind, veilcam_kind
from tests.forensics.recordings import GOP, camera_key

Units = list[AccessUnit]
Damage = Callable[[Units], Units]


def segment(units: Units, index: int) -> Units:
    """The units of one segment."""
    return units[index * GOP : (index + 1) * GOP]


def joined(units: Units, order: list[int]) -> Units:
    """Segments in another order."""
    return [unit for index in order for unit in segment(units, index)]


def flip(
    units: Units, position: int, which: Callable[[bytes], bool], offset: Callable[[bytes], int]
) -> Units:
    """Invert one bit of the last NAL unit for which ``which`` holds."""
    nals = list(units[position].nals)
    place = max(number for number, nal in enumerate(nals) if which(nal))
    data = bytearray(nals[place])
    data[offset(nals[place])] ^= 0x04
    nals[place] = bytes(data)
    return [*units[:position], replace(units[position], nals=tuple(nals)), *units[position + 1 :]]


def is_sealed(nal: bytes) -> bool:
    """Our ciphertext."""
    return veilcam_kind(nal) == SeiKind.SEALED


def is_meta(nal: bytes) -> bool:
    """Our public records."""
    return veilcam_kind(nal) == SeiKind.META


def flip_slice(units: Units) -> Units:
    """In a picture of segment 2."""
    return flip(units, 2 * GOP + 5, is_picture_nal, lambda nal: len(nal) // 2)


def flip_ciphertext(units: Units) -> Units:
    """In the sealed data of segment 2."""
    return flip(units, 2 * GOP + 4, is_sealed, lambda nal: len(nal) // 2)


def flip_header(units: Units) -> Units:
    """In the header of segment 2, behind the camera's id."""
    return flip(units, 2 * GOP, is_meta, lambda nal: nal.index(camera_key().camera_id) + 20)


def flip_signature(units: Units) -> Units:
    """In the signature of segment 2, the last bytes of its last META."""
    return flip(units, 3 * GOP - 1, is_meta, lambda nal: len(nal) - 10)


def flip_meta(units: Units) -> Units:
    """In the FRAME record of a picture of segment 2."""
    return flip(units, 2 * GOP + 6, is_meta, lambda _: 28)


def strip_sealed(units: Units) -> Units:
    """Segment 2 without ciphertext, as viewers get it."""
    return [
        unit.without_sealed() if 2 * GOP <= number < 3 * GOP else unit for number, unit in enumerate(units)
    ]


def strip_all(units: Units) -> Units:
    """No SEI of ours anywhere."""
    return [unit.without_veilcam() for unit in units]
