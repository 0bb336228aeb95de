"""The ``gop`` carrier: a segment's SEI in its key frame, for recorders that drop it from other pictures.

A rearrangement for the way, nothing more: what is signed and sealed stays as it is. ``gather`` moves our SEI
NAL units of a segment's later pictures into its first one, each in a CARRIED message that says whose it is:
its place, and a digest of the picture, so that what belongs to a lost picture goes nowhere. ``restore`` puts
them back, and gives exactly the units that were gathered if the pictures arrived whole (docs/format.md).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from base.errors import FormatError
from codec.access_unit import AccessUnit
from codec.limits import DEFAULT_LIMITS, Limits
from codec.nal import NalType, is_picture_nal, nal_type
from codec.sei import SeiKind, pack_veilcam, read_veilcam, veilcam_kind

logger = logging.getLogger(__name__)

_Waiting = dict[bytes, dict[int, list[bytes]]]  # picture's digest -> its place -> SEI NAL units

PLACE_BYTES = 2
PICTURE_ID_BYTES = 8
MAX_CARRIED = 900  # SEI NAL units in one key frame; readers take 1024 NAL units per unit
_HEAD_BYTES = PLACE_BYTES + PICTURE_ID_BYTES


def picture_id(unit: AccessUnit) -> bytes:
    """8 bytes that name a picture: of the SHA-256 of its picture NAL units, each after its length (u32)."""
    digest = hashlib.sha256()
    for nal in unit.nals:
        if is_picture_nal(nal):
            digest.update(len(nal).to_bytes(4, "big") + nal)
    return digest.digest()[:PICTURE_ID_BYTES]


def gather(units: Sequence[AccessUnit]) -> tuple[AccessUnit, ...]:
    """One whole segment with the SEI of all pictures in the first."""
    if not units:
        return ()
    carried: list[bytes] = []
    bare: list[AccessUnit] = []
    for place, unit in enumerate(units[1:], start=1):
        ours = [nal for nal in unit.nals if veilcam_kind(nal) is not None]
        if not ours or len(carried) + len(ours) > MAX_CARRIED:
            bare.append(unit)
            continue
        name = place.to_bytes(PLACE_BYTES, "big") + picture_id(unit)
        carried += [pack_veilcam(SeiKind.CARRIED, name + nal) for nal in ours]
        bare.append(unit.without_veilcam())
    return (units[0].with_sei(carried), *bare)


def restore(units: Iterable[AccessUnit], limits: Limits = DEFAULT_LIMITS) -> Iterator[AccessUnit]:
    """Units with their SEI back in place; streams without CARRIED messages pass unchanged.

    What does not belong to any following picture before the next key frame is lost with that picture.
    """
    waiting: _Waiting = {}
    for unit in units:
        if unit.is_keyframe:
            waiting = _carried(unit, limits)
            yield _without_carried(unit) if waiting else unit
        elif waiting:
            yield unit.with_sei(_take(waiting, picture_id(unit)))
        else:
            yield unit


def _take(waiting: _Waiting, name: bytes) -> list[bytes]:
    """The SEI of the first picture of that digest; still scenes have several with the same bytes."""
    places = waiting.get(name)
    return places.pop(min(places)) if places else []


def _carried(unit: AccessUnit, limits: Limits) -> _Waiting:
    """SEI NAL units by picture and place; damaged messages are left out."""
    found: _Waiting = {}
    for nal in unit.nals:
        if veilcam_kind(nal) != SeiKind.CARRIED:
            continue
        try:
            message = read_veilcam(nal, limits)
        except FormatError as error:
            logger.info("a carried SEI is damaged: %s", error)
            continue
        if message is None or len(message[1]) <= _HEAD_BYTES:
            continue
        place, inner = int.from_bytes(message[1][:PLACE_BYTES], "big"), message[1][_HEAD_BYTES:]
        if nal_type(inner) == NalType.SEI and veilcam_kind(inner) in (SeiKind.META, SeiKind.SEALED):
            by_place = found.setdefault(message[1][PLACE_BYTES:_HEAD_BYTES], {})
            by_place.setdefault(place, []).append(inner)
    return found


def _without_carried(unit: AccessUnit) -> AccessUnit:
    return replace(unit, nals=tuple(nal for nal in unit.nals if veilcam_kind(nal) != SeiKind.CARRIED))
