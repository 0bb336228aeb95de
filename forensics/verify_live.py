"""Verify a live stream while it arrives: each segment as soon as it is whole. Needs no decryption key.

The signature comes with a segment's last picture, so a verdict is one segment (2 s by default) behind. What
is still incomplete at the end is not judged. What the network lost is a gap, as everywhere. Old signed
pictures verify as well as new ones: so that nobody passes yesterday's off as live, capture times are held
against the clock here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from analytics.stream import EncodedUnit, UnitStream
from base.errors import FormatError, PeerError
from codec.access_unit import AccessUnit
from codec.evidence import Reason, SegmentEvidence
from codec.limits import DEFAULT_LIMITS, Limits
from codec.segments import SegmentGrouper, SegmentView, view_unit
from codec.verify import check_segment
from forensics.camera_trust import CameraTrust
from forensics.canonical import JsonObject
from forensics.report import REPORT_VERSION, TOOL, SegmentRow, certified_lines
from forensics.verdict import Conclusion, RollUp, Verdict
from keys import CameraPublic

MAX_AGE_S = 60.0
_MAX_ROWS = 2000
_INTEGRITY_EXIT = 3
_PENDING = frozenset((Reason.SIGNATURE_MISSING, Reason.UNITS_MISSING))

OnSegment = Callable[[SegmentRow], None]
"""Told of every segment as soon as it is judged."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """How to judge.

    Attributes:
        max_age_s: a segment whose last picture was captured longer ago than this is no live picture.
        clock_us: Unix microseconds now.
    """

    max_age_s: float = MAX_AGE_S
    clock_us: Callable[[], int] = lambda: time.time_ns() // 1000
    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, slots=True)
class LiveReport:
    """What was found.

    Attributes:
        rows: the last 2000 segments.
        num_segments: all that were judged.
        num_units: pictures received.
        num_dropped: pictures that this side dropped because it was too slow.
        certificate: what the camera's certificate says, where one was given.
    """

    camera_id: str | None
    conclusion: Conclusion
    rows: tuple[SegmentRow, ...]
    num_segments: int
    num_units: int
    num_dropped: int
    certificate: JsonObject | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict on all that was received."""
        return self.conclusion.verdict

    @property
    def exit_code(self) -> int:
        """0 for AUTHENTIC, 3 for everything else."""
        return 0 if self.verdict is Verdict.AUTHENTIC else _INTEGRITY_EXIT

    def as_json(self) -> JsonObject:
        """Return the report as a JSON document."""
        return {
            "report": "verify live",
            "v": REPORT_VERSION,
            "tool": TOOL,
            "verdict": self.verdict.value,
            "exit_code": self.exit_code,
            "camera": self.camera_id,
            "certificate": self.certificate,
            "causes": list(self.conclusion.causes),
            "num_causes": self.conclusion.num_causes,
            "num_segments": self.num_segments,
            "pictures": self.num_units,
            "dropped": self.num_dropped,
            "segments": [row.as_json() for row in self.rows],
        }

    def text(self) -> str:
        """Return a summary for people."""
        lines = [f"{self.verdict.name}  {self.num_segments} segments, {self.num_units} pictures"]
        lines += certified_lines(self.certificate)
        return "\n".join([*lines, *(f"  {cause}" for cause in self.conclusion.causes)])


class LiveVerifier:
    """Takes units, gives rows, concludes at the end. Holds one segment.

    ``num_units`` counts the units taken.
    """

    def __init__(
        self,
        camera: CameraPublic | None,
        options: LiveOptions | None = None,
        trust: CameraTrust | None = None,
    ) -> None:
        """Expect the signatures of ``camera``; None: nothing is proven. ``trust``: who vouches for it."""
        self._trust = trust
        self._camera = camera
        self._options = options or LiveOptions()
        self._grouper = SegmentGrouper(self._options.limits)
        self._roll_up = RollUp(has_camera_key=camera is not None)
        self._previous: SegmentEvidence | None = None
        self._rows: list[SegmentRow] = []
        self._num_segments = 0
        self.num_units = 0

    def push(self, unit: EncodedUnit) -> list[SegmentRow]:
        """Take one access unit; returns the segments that are judged by it."""
        self.num_units += 1
        try:
            parsed = AccessUnit.from_annexb(unit.data, unit.pts_us, self._options.limits)
        except FormatError as error:
            self._roll_up.add_damage(f"picture {self.num_units}: {error}")
            return []
        if not parsed.has_picture:
            return []
        viewed = view_unit(parsed, self._options.limits)
        return [self._judge(view) for view in self._grouper.push(viewed)]

    def _judge(self, view: SegmentView) -> SegmentRow:
        evidence = check_segment(view, self._camera, self._previous, limits=self._options.limits)
        return self._take(view, evidence)

    def _take(self, view: SegmentView, evidence: SegmentEvidence) -> SegmentRow:
        self._previous = evidence
        self._roll_up.add(evidence, starts_with_key=view.units[0].unit.is_keyframe)
        row = SegmentRow.of(self._num_segments, evidence)
        self._check_age(row)
        for doubt in self._trust.doubts_of(row) if self._trust else ():
            self._roll_up.add_doubt(doubt)
        self._num_segments += 1
        self._rows = [*self._rows[1 - _MAX_ROWS :], row]
        return row

    def _check_age(self, row: SegmentRow) -> None:
        if row.end_us is None:
            return
        age_s = (self._options.clock_us() - row.end_us) / 1e6
        if abs(age_s) > self._options.max_age_s:
            when = f"{abs(age_s):.0f} s {'before' if age_s > 0 else 'after'} it arrived"
            self._roll_up.add_doubt(f"{row.name}: captured {when}: a recording, or a clock is wrong")

    def finish(self, num_dropped: int = 0) -> LiveReport:
        """Conclude; a last segment of which the end is not here yet is left out."""
        for view in self._grouper.finish():
            evidence = check_segment(view, self._camera, self._previous, limits=self._options.limits)
            serious = {r for r in evidence.reasons if r.weight.value > 0}
            if Reason.SIGNATURE_MISSING in serious and serious <= _PENDING:
                continue
            self._take(view, evidence)
        for doubt in self._trust.doubts() if self._trust else ():
            self._roll_up.add_doubt(doubt)
        conclusion = self._roll_up.conclude()
        camera_id = None if self._camera is None else self._camera.camera_id.hex()
        return LiveReport(
            camera_id,
            conclusion,
            tuple(self._rows),
            self._num_segments,
            self.num_units,
            num_dropped,
            None if self._trust is None else self._trust.as_json(),
        )


async def verify_live(
    stream: UnitStream,
    camera: CameraPublic | None,
    *,
    seconds: float | None = None,
    stop: asyncio.Event | None = None,
    on_segment: OnSegment | None = None,
    options: LiveOptions | None = None,
    trust: CameraTrust | None = None,
) -> LiveReport:
    """Judge a stream until it ends, ``seconds`` are over, or ``stop`` is set.

    Where ``trust`` (the certificate of ``camera``) does not cover a segment, the verdict is UNVERIFIABLE at
    best.

    Raises:
        PeerError: the stream cannot be opened, breaks off, or nothing arrives.
    """
    verifier = LiveVerifier(camera, options, trust)

    async def receive() -> None:
        async for unit in stream:
            for row in verifier.push(unit):
                if on_segment is not None:
                    on_segment(row)

    receiving = asyncio.create_task(receive())
    ending = asyncio.create_task((stop or asyncio.Event()).wait())
    try:
        await asyncio.wait({receiving, ending}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            receiving.result()
    finally:
        for task in (receiving, ending):
            task.cancel()
        await asyncio.gather(receiving, ending, return_exceptions=True)
        await stream.close()
    if not verifier.num_units:
        message = "live stream: no picture arrived"
        raise PeerError(message)
    return verifier.finish(stream.num_dropped)
