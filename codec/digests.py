"""The hashes and the AAD that bind pictures, ciphertext and headers together (docs/format.md, section 6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from codec.access_unit import AccessUnit
from codec.nal import NalType, is_picture_nal, nal_type
from codec.reader import pack_block
from codec.records import ZERO_DIGEST
from keys.labels import Label


def unit_digest(frame_body: bytes, unit: AccessUnit) -> bytes:
    """SHA-256 over the FRAME record's body and every NAL unit of the picture, each after its length.

    SPS, PPS, SEI, delimiters and filler do not count: muxers add, drop and move them.
    """
    return _hash(Label.UNIT_DIGEST, (frame_body, *(nal for nal in unit.nals if is_picture_nal(nal))))


def chunk_digest(sealed_bodies: Sequence[bytes]) -> bytes:
    """SHA-256 over the bodies of a unit's SEALED messages, in order; 32 zero bytes if there are none."""
    return _hash(Label.CHUNK_DIGEST, sealed_bodies) if sealed_bodies else ZERO_DIGEST


def parameter_digest(nals: Iterable[bytes]) -> bytes:
    """SHA-256 over the distinct SPS, then the distinct PPS, each sorted bytewise.

    Sorted and distinct, since muxers repeat them and tell nothing about their order.
    """
    distinct = set(nals)
    sps = sorted(nal for nal in distinct if nal_type(nal) == NalType.SPS)
    pps = sorted(nal for nal in distinct if nal_type(nal) == NalType.PPS)
    return _hash(Label.PARAMETER_SETS, (*sps, *pps))


def header_digest(header_body: bytes) -> bytes:
    """SHA-256 of a HEADER body."""
    return hashlib.sha256(header_body).digest()


def chunk_aad(
    header_sha256: bytes, camera_id: bytes, segment_index: int, chunk_index: int, unit_sha256: bytes
) -> bytes:
    """What one chunk is bound to: header, camera, place, and the picture that carries it."""
    place = segment_index.to_bytes(8, "big") + chunk_index.to_bytes(4, "big")
    return Label.SEALED_CHUNK.value + header_sha256 + camera_id + place + unit_sha256


def _hash(label: Label, parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256(label.value)
    for part in parts:
        digest.update(pack_block(4, part))
    return digest.digest()
