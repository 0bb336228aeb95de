from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from analytics.subscribe import SubscribeOptions, subscribe
from codec.evidence import Verdict
from forensics.camera_trust import CameraTrust
from forensics.report import SegmentRow
from forensics.verify_live import LiveOptions, LiveReport, LiveVerifier, verify_live
from keys.authority import RevocationReason
from keys.certified import CertifiedCamera, Revocation
from tests.support.serving import serving
from tests.support.stand_in import StandInCamera
from tests.support.streams import START_US, Stream, build_stream, camera_key

HOUR_US = 3_600_000_000
NOW = LiveOptions(clock_us=lambda: START_US + 1_000_000)


@dataclass(frozen=True)
class Unit:
    data: bytes
    pts_us: int = 0
    is_keyframe: bool = False


def judge(stream: Stream, options: LiveOptions = NOW, camera: int = 1) -> LiveReport:
    verifier = LiveVerifier(camera_key(camera).public, options)
    for unit in stream.units:
        verifier.push(Unit(unit.annexb()))
    return verifier.finish()


PLAN = "KPPP|KPPP|KPPP|KPPP"


def test_segments_are_judged_as_soon_as_they_are_whole() -> None:
    stream = build_stream(PLAN).without_sealed()
    verifier = LiveVerifier(stream.camera, NOW)
    counts = [len(verifier.push(Unit(unit.annexb()))) for unit in stream.units]
    assert counts == [0] * 4 + [1, 0, 0, 0] * 3
    report = verifier.finish()
    assert (report.verdict, report.exit_code, report.num_segments) == (Verdict.AUTHENTIC, 0, 4)


def test_what_is_incomplete_at_the_end_is_not_judged() -> None:
    report = judge(build_stream(PLAN).cut(4, 14))
    assert (report.verdict, report.num_segments) == (Verdict.AUTHENTIC, 2)


@pytest.mark.parametrize(
    ("edit", "verdict"),
    [
        (lambda s: s.drop(5), Verdict.GAPS),
        (lambda s: s.drop(4, 5, 6, 7), Verdict.GAPS),
        (lambda s: s.flip_bit(5), Verdict.TAMPERED),
        (lambda s: s.swap(5, 6), Verdict.TAMPERED),
        (lambda s: s.repeat(0, 4, 8), Verdict.TAMPERED),
        (lambda s: s.without_veilcam(), Verdict.UNSIGNED),
        (lambda s: s.without_veilcam(9), Verdict.TAMPERED),
        (lambda s: s.then(build_stream("KPPP", first_number=90, camera=2)), Verdict.TAMPERED),
    ],
    ids=["picture lost", "segment lost", "bit", "swap", "replay", "stripped", "one stripped", "other camera"],
)
def test_live_verdicts_are_those_of_files(edit: Callable[[Stream], Stream], verdict: Verdict) -> None:
    report = judge(edit(build_stream(PLAN)))
    assert report.verdict is verdict, report.text()
    assert report.exit_code == 3


def test_yesterdays_pictures_are_not_live() -> None:
    late = LiveOptions(clock_us=lambda: START_US + 86_400_000_000)
    report = judge(build_stream(PLAN), late)
    assert (report.verdict, report.exit_code) == (Verdict.UNVERIFIABLE, 3)
    assert "before it arrived: a recording, or a clock is wrong" in report.conclusion.causes[0]


def test_another_cameras_stream_is_named() -> None:
    report = judge(build_stream(PLAN), camera=2)
    assert report.verdict is Verdict.UNVERIFIABLE
    assert report.conclusion.is_other_camera


def test_damaged_units_are_losses() -> None:
    verifier = LiveVerifier(camera_key().public, NOW)
    for unit in build_stream(PLAN).units:
        verifier.push(Unit(unit.annexb()))
        verifier.push(Unit(b"no start code"))
    assert verifier.finish().verdict is Verdict.GAPS


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        while running.broadcast.idle_s is None:
            time.sleep(0.01)
        yield running


async def test_a_real_whep_stream_is_authentic(camera: StandInCamera) -> None:
    rows: list[SegmentRow] = []
    stop = asyncio.Event()

    def seen(row: SegmentRow) -> None:
        rows.append(row)
        if len(rows) == 2:
            stop.set()

    async with asyncio.timeout(60), serving(camera) as server:
        stream = subscribe(server.whep, options=SubscribeOptions(reconnect=False))
        report = await verify_live(
            stream, camera.camera_key.public, stop=stop, on_segment=seen, options=LiveOptions(1e12)
        )
    assert (report.verdict, report.exit_code) == (Verdict.AUTHENTIC, 0), report.text()
    assert {row.verdict for row in rows} == {Verdict.AUTHENTIC}


def certified(**changes: Any) -> CameraTrust:
    """A certificate of the camera of `build_stream`, valid for an hour around it."""
    around = {"not_before_us": START_US - HOUR_US, "not_after_us": START_US + HOUR_US}
    names = ("site", "root")
    camera = CertifiedCamera(camera_key(1).public, names, 7, bytes(32), bytes(32), **{**around, **changes})
    return CameraTrust(camera)


def judge_certified(trust: CameraTrust) -> LiveReport:
    stream = build_stream(PLAN)
    verifier = LiveVerifier(stream.camera, NOW, trust)
    for unit in stream.units:
        verifier.push(Unit(unit.annexb()))
    return verifier.finish()


def test_a_certificate_that_covers_a_live_stream_names_who_vouches() -> None:
    report = judge_certified(certified())
    assert (report.verdict, report.exit_code) == (Verdict.AUTHENTIC, 0)
    assert "< site < root" in report.text()
    assert report.as_json()["certificate"] == certified().as_json()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"not_after_us": START_US - 1}, "when the camera's certificate was not valid"),
        ({"not_before_us": START_US + HOUR_US}, "when the camera's certificate was not valid"),
        (
            {"revocations": (Revocation("gate", RevocationReason.KEY_COMPROMISE, START_US, START_US),)},
            "whoever has it can sign any time",
        ),
        (
            {"revocations": (Revocation("gate", RevocationReason.SUPERSEDED, START_US, START_US),)},
            "after gate was revoked",
        ),
    ],
)
def test_a_live_stream_that_its_certificate_does_not_cover_is_unverifiable(
    changes: dict[str, Any], why: str
) -> None:
    report = judge_certified(certified(**changes))
    assert (report.verdict, report.exit_code) == (Verdict.UNVERIFIABLE, 3)
    assert any(why in cause for cause in report.conclusion.causes)
