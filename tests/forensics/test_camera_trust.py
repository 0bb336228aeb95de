"""What certificates do to a verdict: arithmetic over a report, no video needed."""

from __future__ import annotations

import dataclasses

import pytest

from codec.evidence import Verdict
from forensics.camera_trust import CameraTrust
from forensics.report import FileDigest, SegmentRow, VerificationReport
from forensics.verdict import Conclusion
from keys.authority import RevocationReason
from keys.certified import CertifiedCamera, Revocation
from tests.forensics.recordings import camera_key

DAY_US = 86_400_000_000
START_US = 1_800_000_000_000_000
CAMERA = CertifiedCamera(
    camera_key().public, ("site", "root"), 7, bytes(32), bytes(32), START_US - DAY_US, START_US + 30 * DAY_US
)


def row(index: int, start_us: int) -> SegmentRow:
    end_us = start_us + 2_000_000
    return SegmentRow(
        index, "s", index, "c", "e", start_us, end_us, 1, 1, "A", Verdict.AUTHENTIC, (), 0, digest="d"
    )


def report(verdict: Verdict = Verdict.AUTHENTIC, *starts_us: int) -> VerificationReport:
    rows = tuple(row(i, start_us) for i, start_us in enumerate(starts_us or (START_US,)))
    return VerificationReport(FileDigest("x.mp4", 1, "0"), "c", Conclusion(verdict, ("as found",), 1), rows)


def revoked(reason: RevocationReason, since_us: int) -> CertifiedCamera:
    return dataclasses.replace(CAMERA, revocations=(Revocation("gate", reason, since_us, since_us),))


def test_a_certificate_that_covers_the_recording_changes_nothing_but_names_the_camera() -> None:
    judged = CameraTrust(CAMERA).judge(report())
    assert judged.conclusion == report().conclusion
    assert judged.as_json()["certificate"] == CameraTrust(CAMERA).as_json()
    assert "certified camera-1 < site < root" in judged.text()


@pytest.mark.parametrize(
    ("found", "judged"),
    [
        (Verdict.AUTHENTIC, Verdict.UNVERIFIABLE),
        (Verdict.GAPS, Verdict.UNVERIFIABLE),
        (Verdict.TAMPERED, Verdict.TAMPERED),
        (Verdict.UNSIGNED, Verdict.UNSIGNED),
        (Verdict.UNVERIFIABLE, Verdict.UNVERIFIABLE),
    ],
)
def test_a_recording_outside_the_validity_is_unverifiable_at_best(found: Verdict, judged: Verdict) -> None:
    after = CameraTrust(CAMERA).judge(report(found, START_US, START_US + 31 * DAY_US))
    assert after.verdict is judged
    assert any("segment 1: recorded" in cause for cause in after.conclusion.causes)
    assert not any("segment 0" in cause for cause in after.conclusion.causes)


@pytest.mark.parametrize("has_end_mark", [True, False])
def test_the_certificate_has_no_say_in_whether_the_camera_stopped(has_end_mark: bool) -> None:
    found = report(Verdict.AUTHENTIC, START_US + 31 * DAY_US)
    concluded = dataclasses.replace(found.conclusion, has_end_mark=has_end_mark)
    after = CameraTrust(CAMERA).judge(dataclasses.replace(found, conclusion=concluded))
    assert after.verdict is Verdict.UNVERIFIABLE
    assert after.conclusion.has_end_mark is has_end_mark


@pytest.mark.parametrize("reason", RevocationReason)
@pytest.mark.parametrize("recorded_days", [-1, 1])
@pytest.mark.parametrize("seen_days", [None, -0.5, 0.5])
def test_revocation_counts_by_reason_and_by_who_saw_the_recording_when(
    reason: RevocationReason, recorded_days: int, seen_days: float | None
) -> None:
    since_us = START_US + DAY_US
    recorded_us = since_us + recorded_days * DAY_US
    seen_us = None if seen_days is None else since_us + int(seen_days * DAY_US)
    judged = CameraTrust(revoked(reason, since_us), seen_us).judge(report(Verdict.AUTHENTIC, recorded_us))
    if recorded_days > 0:
        is_believed = False  # recorded after it was taken back; or said to be seen before it was recorded
        if reason.key_may_be_known and seen_us is not None and seen_us <= since_us:
            assert any("cannot have existed" in cause for cause in judged.conclusion.causes)
    else:
        is_believed = not reason.key_may_be_known or (seen_us is not None and seen_us <= since_us)
    assert (judged.verdict is Verdict.AUTHENTIC) is is_believed


def test_a_time_stamp_is_a_witness_and_the_earliest_counts() -> None:
    trust = CameraTrust(CAMERA)
    assert trust.seen(None) is trust
    assert trust.seen(9).seen_before_us == 9
    assert trust.seen(9).seen(12).seen_before_us == 9


def test_segments_that_no_signature_proves_are_not_held_against_the_certificate() -> None:
    unproven = dataclasses.replace(row(0, START_US + 99 * DAY_US), digest=None)
    found = dataclasses.replace(report(), segments=(unproven,))
    assert CameraTrust(CAMERA).judge(found).conclusion == found.conclusion
