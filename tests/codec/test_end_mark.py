from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from base.errors import UsageError
from codec.access_unit import AccessUnit
from codec.records import Meta, SealedMode
from codec.sealer import SealerParams, SegmentSealer
from codec.segments import read_segments, view_unit
from codec.sei import SeiKind, pack_veilcam, veilcam_kind
from codec.verify import Reason, SegmentEvidence, Verdict, check_segment
from keys import CameraPublic
from tests.support.streams import build_stream, camera_key, picture

PARAMS = SealerParams(64, 48, Fraction(1, 90_000), b"\x11" * 8, 3, SealedMode.NONE)
KEY = camera_key()


def _stream(plan: str, *, ends: bool = True) -> list[AccessUnit]:
    sealer = SegmentSealer(KEY, None, PARAMS, stream_id=b"\x51" * 16)
    done = []
    for number, kind in enumerate(plan):
        done += sealer.push(picture(kind, number), starts_segment=kind == "K")
    return [each.unit for each in (*done, *sealer.finish(ends_stream=ends))]


def _check(units: list[AccessUnit], camera: CameraPublic | None = KEY.public) -> list[SegmentEvidence]:
    evidence: list[SegmentEvidence] = []
    for view in read_segments(units):
        evidence.append(check_segment(view, camera, evidence[-1] if evidence else None))
    return evidence


def _meta(unit: AccessUnit) -> Meta:
    meta = view_unit(unit).meta
    assert meta is not None
    return meta


def _with_meta(unit: AccessUnit, meta: Meta) -> AccessUnit:
    nals = (
        pack_veilcam(SeiKind.META, bytes(meta)) if veilcam_kind(nal) == SeiKind.META else nal
        for nal in unit.nals
    )
    return replace(unit, nals=tuple(nals))


def test_the_last_segment_of_a_finished_stream_says_that_nothing_follows() -> None:
    evidence = _check(_stream("KPPKPP"))
    assert [(each.verdict, each.ends_stream) for each in evidence] == [
        (Verdict.AUTHENTIC, False),
        (Verdict.AUTHENTIC, True),
    ]


def test_a_stream_cut_between_two_segments_verifies_and_lacks_the_mark() -> None:
    evidence = _check(_stream("KPPKPPKPP")[:6])
    assert [(each.verdict, each.ends_stream) for each in evidence] == [(Verdict.AUTHENTIC, False)] * 2


def test_streams_without_a_mark_verify_as_before() -> None:
    evidence = _check(_stream("KPPKPP", ends=False))
    assert [(each.verdict, each.ends_stream) for each in evidence] == [(Verdict.AUTHENTIC, False)] * 2
    assert {each.verdict for each in build_stream("KPP|KPP").check()} == {Verdict.AUTHENTIC}


def test_the_mark_is_what_the_specification_says() -> None:
    """Checked with `cryptography` alone, from the words of docs/format.md."""
    import hashlib  # noqa: PLC0415

    unit = _stream("KPPKPP")[-1]
    meta = _meta(unit)
    message = (
        b"veilcam end of stream v1"
        + b"\x51" * 16
        + (1).to_bytes(8, "big")
        + hashlib.sha256(meta.signature or b"").digest()
    )
    assert len(meta.end_mark or b"") == 64
    Ed25519PublicKey.from_public_bytes(KEY.public.public_key).verify(meta.end_mark or b"", message)
    assert (b"\x04" + (64).to_bytes(4, "big") + (meta.end_mark or b"")) in bytes(meta)


def test_a_mark_can_be_dropped_but_not_made_or_moved() -> None:
    units = _stream("KPPKPP")
    mark = _meta(units[-1]).end_mark
    dropped = _check([*units[:-1], _with_meta(units[-1], replace(_meta(units[-1]), end_mark=None))])
    assert [(each.verdict, each.ends_stream) for each in dropped] == [(Verdict.AUTHENTIC, False)] * 2
    for forged in (mark, bytes(64), b"", _meta(units[2]).signature):
        moved = [*units[:2], _with_meta(units[2], replace(_meta(units[2]), end_mark=forged))]
        (evidence,) = _check(moved)
        assert (evidence.verdict, evidence.letters) == (Verdict.TAMPERED, "AAT")
        assert evidence.reasons == {Reason.END_MARK_INVALID}
        assert not evidence.ends_stream


def test_a_mark_away_from_the_signature_counts_for_nothing() -> None:
    units = _stream("KPPKPP")
    stray = _with_meta(units[4], replace(_meta(units[4]), end_mark=_meta(units[-1]).end_mark))
    evidence = _check([*units[:4], stray])
    assert evidence[-1].verdict is Verdict.UNVERIFIABLE  # its signature is gone
    assert not evidence[-1].ends_stream


def test_a_segment_behind_the_end_is_tampering() -> None:
    """Only the camera could sign one; whoever copied its key and forgot about the end is told."""
    ended, going_on = _stream("KPPKPP"), _stream("KPPKPPKPP", ends=False)
    evidence = _check([*ended, *going_on[6:]])
    assert evidence[-1].verdict is Verdict.TAMPERED
    assert Reason.BEHIND_END in evidence[-1].reasons


def test_another_stream_may_follow() -> None:
    other = build_stream("KPP", mode=SealedMode.NONE, first_number=100)
    evidence = _check([*_stream("KPPKPP"), *other.units])
    assert evidence[-1].verdict is Verdict.AUTHENTIC
    assert evidence[-1].reasons == {Reason.NEW_STREAM}


def test_without_the_camera_s_key_nothing_is_said_about_the_end() -> None:
    assert not _check(_stream("KPP"), None)[-1].ends_stream


def test_nothing_can_be_pushed_behind_the_end() -> None:
    sealer = SegmentSealer(KEY, None, PARAMS)
    sealer.push(picture("K", 0), starts_segment=True)
    assert len(sealer.finish(ends_stream=True)) == 1
    with pytest.raises(UsageError, match="the stream was ended"):
        sealer.push(picture("K", 1), starts_segment=True)


def test_a_second_mark_refuses_the_meta() -> None:
    units = _stream("KPP")
    meta = _meta(units[-1])
    twice = bytes(meta) + b"\x04" + (64).to_bytes(4, "big") + bytes(64)
    nals = tuple(
        pack_veilcam(SeiKind.META, twice) if veilcam_kind(nal) == SeiKind.META else nal
        for nal in units[-1].nals
    )
    (evidence,) = _check([*units[:-1], replace(units[-1], nals=nals)])
    assert evidence.verdict is Verdict.TAMPERED
