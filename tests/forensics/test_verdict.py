"""The roll-up rules on streams drawn as strings; the evidence is the codec's own."""

from __future__ import annotations

import pytest

from codec.evidence import Verdict
from codec.verify import check_segment
from forensics.verdict import Conclusion, RollUp
from keys import CameraPublic
from tests.support.streams import Stream, build_stream, camera_key

KEY = camera_key().public


def _conclude(stream: Stream, camera: CameraPublic | None = KEY, *, is_excerpt: bool = False) -> Conclusion:
    roll_up = RollUp(has_camera_key=camera is not None, is_excerpt=is_excerpt)
    previous = None
    for view in stream.views():
        previous = check_segment(view, camera, previous)
        roll_up.add(previous, starts_with_key=view.units[0].unit.is_keyframe)
    return roll_up.conclude()


STREAM = build_stream("KPP|KPP|KPP|KPP")
OTHER = build_stream("KPP|KPP|KPP|KPP", camera=2)


@pytest.mark.parametrize(
    ("stream", "verdict"),
    [
        (STREAM, Verdict.AUTHENTIC),
        (STREAM.without_sealed(), Verdict.AUTHENTIC),
        (STREAM.drop(4), Verdict.GAPS),
        (STREAM.drop(0), Verdict.GAPS),
        (STREAM.drop(3, 4, 5), Verdict.GAPS),
        (STREAM.drop(11), Verdict.GAPS),
        (STREAM.cut(0, 10), Verdict.GAPS),
        (STREAM.cut(3), Verdict.GAPS),
        (STREAM.drop(5), Verdict.UNVERIFIABLE),
        (STREAM.cut(0, 2), Verdict.UNVERIFIABLE),
        (STREAM.flip_bit(4), Verdict.TAMPERED),
        (STREAM.swap(4, 5), Verdict.TAMPERED),
        (STREAM.repeat(3, 6, 6), Verdict.TAMPERED),
        (STREAM.repeat(0, 3, 9), Verdict.TAMPERED),
        (STREAM.insert(6, *OTHER.units[6:9]), Verdict.TAMPERED),
        (OTHER, Verdict.UNVERIFIABLE),
        (STREAM.without_veilcam(), Verdict.UNSIGNED),
        (STREAM.without_veilcam(6, 7, 8), Verdict.TAMPERED),
        (STREAM.then(STREAM.without_veilcam()), Verdict.TAMPERED),
        (STREAM.without_veilcam(0, 1, 2).drop(0), Verdict.GAPS),
        (STREAM.cut(0, 0), Verdict.UNSIGNED),
    ],
)
def test_each_kind_of_damage_has_its_verdict(stream: Stream, verdict: Verdict) -> None:
    conclusion = _conclude(stream)
    assert conclusion.verdict is verdict, conclusion.causes
    assert bool(conclusion.causes) is (verdict is not Verdict.AUTHENTIC)


def test_loss_is_never_tampering() -> None:
    for start in range(12):
        for length in range(1, 12 - start):
            positions = range(start, start + length)
            assert _conclude(STREAM.drop(*positions)).verdict is not Verdict.TAMPERED


def test_without_the_cameras_key_nothing_is_proven_and_contradictions_still_count() -> None:
    whole = _conclude(STREAM, None)
    assert (whole.verdict, whole.lacks_only_key) == (Verdict.UNVERIFIABLE, True)
    gaps = _conclude(STREAM.drop(4), None)
    assert (gaps.verdict, gaps.lacks_only_key) == (Verdict.UNVERIFIABLE, False)
    assert _conclude(STREAM.flip_bit(4), None).verdict is Verdict.TAMPERED
    assert _conclude(STREAM.without_veilcam(), None).verdict is Verdict.UNSIGNED


def test_an_excerpt_may_start_late_and_only_that() -> None:
    assert _conclude(STREAM.cut(3), is_excerpt=True).verdict is Verdict.AUTHENTIC
    assert _conclude(STREAM.cut(3).drop(1), is_excerpt=True).verdict is Verdict.GAPS
    assert _conclude(STREAM.drop(3, 4, 5), is_excerpt=True).verdict is Verdict.GAPS


def test_a_signature_lost_in_the_middle_is_not_a_mere_gap() -> None:
    """Whoever drops a segment's last picture could have changed the others."""
    conclusion = _conclude(STREAM.drop(5).flip_bit(4))
    assert conclusion.verdict is Verdict.UNVERIFIABLE
    assert conclusion.causes == ("segment 1: signature missing (the segment's last picture is not here)",)


def test_causes_are_bounded_and_counted() -> None:
    stream = build_stream("|".join(["KP"] * 40))
    for position in range(0, 80, 2):
        stream = stream.flip_bit(position)
    conclusion = _conclude(stream)
    assert len(conclusion.causes) == 20
    assert conclusion.num_causes >= 40


def test_damage_of_the_file_is_a_gap() -> None:
    roll_up = RollUp(has_camera_key=True)
    previous = None
    for view in STREAM.views():
        previous = check_segment(view, KEY, previous)
        roll_up.add(previous, starts_with_key=True)
    roll_up.add_damage("at 3.000 s: the file breaks off")
    assert roll_up.conclude() == Conclusion(Verdict.GAPS, ("at 3.000 s: the file breaks off",), 1)
