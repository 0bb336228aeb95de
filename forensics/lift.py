"""Open a live stream's sealed layer in memory for a while: the original, segment by segment, to be seen.

The ledger learns of it before the first segment is opened and again at the end, whatever ends it. Nothing is
written to a disk. A segment is opened when it is whole and has been checked, so what is seen is one segment
(2 s by default) behind; what does not verify under the camera's key is not shown.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from analytics.stream import UnitStream
from base.errors import FormatError, KeyUnavailable, NoMatchingIdentity, OutsideGrant, PeerError, UsageError
from codec.access_unit import AccessUnit
from codec.evidence import SegmentEvidence, Verdict
from codec.limits import DEFAULT_LIMITS, Limits
from codec.records import SegmentHeader
from codec.segments import SegmentGrouper, SegmentView, view_unit
from codec.unseal import OpenedSegment, open_segment
from codec.verify import check_segment
from forensics.canonical import JsonObject
from forensics.ledger import Ledger
from forensics.lift_regions import RegionPictures
from forensics.opening import Action, Opening, Purpose, Request, open_recorded, ranges_text, refuse
from keys import CameraPublic
from keys.source import KeySource

logger = logging.getLogger(__name__)

MAX_SECONDS = 8 * 3600
_GOOD = frozenset({Verdict.AUTHENTIC, Verdict.GAPS})  # a live stream loses packets

OnOpened = Callable[[OpenedSegment], Awaitable[None]]
"""Told of every opened segment, in order."""


@dataclass(frozen=True, slots=True)
class LiftOptions:
    """How long, why, and for whom.

    Attributes:
        seconds: after so long it ends by itself.
        purpose: goes into the ledger; a reason is asked for.
        camera: whose signatures to expect; None: nothing is proven, everything is shown.
        shown_at: where the original can be seen, for the ledger.
    """

    seconds: float
    purpose: Purpose
    camera: CameraPublic | None = None
    shown_at: str = "127.0.0.1"
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= MAX_SECONDS:
            message = f"lift: expected more than 0 s and at most {MAX_SECONDS} s, got {self.seconds:g}"
            raise UsageError(message)
        if not self.purpose.reason.strip():
            raise UsageError("lift: needs a reason, which goes into the ledger")


@dataclass(slots=True)
class Lifted:
    """What happened.

    Attributes:
        opened: indices of the segments that were opened.
        refused: segments that no key of ours opens.
        withheld: segments that do not verify and were not shown.
        damaged: opened segments of which parts are lost.
    """

    camera_id: str = ""
    opened: list[int] = field(default_factory=list)
    refused: int = 0
    withheld: int = 0
    damaged: int = 0

    def as_json(self) -> JsonObject:
        """For the ledger and programs."""
        return {
            "segments": ranges_text(sorted(set(self.opened))),
            "num_opened": len(self.opened),
            "refused": self.refused,
            "withheld": self.withheld,
            "damaged": self.damaged,
        }


async def _next_view(
    views: AsyncIterator[SegmentView], ended: asyncio.Task[bool], deadline_s: float
) -> SegmentView | None:
    """The next segment; None when the time is over, somebody stopped it or the stream has ended."""
    if ended.done():
        return None
    coming = asyncio.ensure_future(anext(views, None))
    timeout_s = max(0.0, deadline_s - time.monotonic())
    await asyncio.wait({coming, ended}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    if coming.done():
        return coming.result()
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    return None


class Lift:
    """One lift. Run once."""

    def __init__(self, source: KeySource, ledger: Ledger, options: LiftOptions) -> None:
        self._source = source
        self._ledger = ledger
        self._options = options
        self._grouper = SegmentGrouper(options.limits)
        self._previous: SegmentEvidence | None = None
        self._regions = RegionPictures()
        self.lifted = Lifted()

    async def run(
        self, stream: UnitStream, on_opened: OnOpened, *, stop: asyncio.Event | None = None
    ) -> Lifted:
        """Open segments until the time is over, ``stop`` is set or the stream ends; ends the stream.

        Raises:
            NoMatchingIdentity: the stream is sealed to others; the attempt is in the ledger.
            OutsideGrant: the grant held nothing of it; likewise.
            GrantRefused: the grant is over, used up or revoked; likewise.
            PeerError: the stream cannot be had, or has no sealed layer.
            VeilError: the ledger cannot be written; then nothing was opened.
        """
        deadline_s = time.monotonic() + self._options.seconds
        opening_ends = asyncio.create_task((stop or asyncio.Event()).wait())
        working = asyncio.create_task(self._work(stream, on_opened, opening_ends, deadline_s))
        try:
            await working
        finally:
            for task in (opening_ends, working):
                task.cancel()
            await asyncio.gather(opening_ends, working, return_exceptions=True)
            await stream.close()
        return self.lifted

    async def _work(
        self,
        stream: UnitStream,
        on_opened: OnOpened,
        ended: asyncio.Task[bool],
        deadline_s: float,
    ) -> None:
        views = self._views(stream)
        first = await _next_view(views, ended, deadline_s)
        header: SegmentHeader | None = None
        while first is not None:
            header = self._header(first)
            if header is not None and self._source.covers(header):
                break
            self.lifted.refused += header is not None
            if self._source.grant_id is None and header is not None:
                raise refuse(
                    self._ledger,
                    self._request(header),
                    NoMatchingIdentity("lift: the stream is sealed to others"),
                )
            first = await _next_view(views, ended, deadline_s)
        if first is None or header is None:
            if self.lifted.refused:
                raise OutsideGrant("lift: the grant holds no segment of this stream")
            raise PeerError("lift: no whole segment with a sealed layer came")
        with open_recorded(self._ledger, self._request(header), self._source) as opening:
            result = "ended"
            try:
                view: SegmentView | None = first
                while view is not None:
                    await self._show(view, opening, on_opened)
                    view = await _next_view(views, ended, deadline_s)
                result = "stopped" if ended.done() else "time over"
            finally:
                opening.finish(result, self.lifted.as_json())

    async def _views(self, stream: UnitStream) -> AsyncIterator[SegmentView]:
        async for unit in stream:
            try:
                parsed = AccessUnit.from_annexb(unit.data, unit.pts_us, self._options.limits)
            except FormatError:
                continue
            if parsed.has_picture:
                for view in self._grouper.push(view_unit(parsed, self._options.limits)):
                    yield view
        for view in self._grouper.finish():
            yield view

    async def _show(self, view: SegmentView, opening: Opening, on_opened: OnOpened) -> None:
        evidence = check_segment(view, self._options.camera, self._previous, limits=self._options.limits)
        self._previous = evidence
        header = self._header(view)
        if header is None:
            self.lifted.withheld += 1
            return
        if self._options.camera is not None and evidence.verdict not in _GOOD:
            self.lifted.withheld += 1
            return
        try:
            keys = opening.segment_keys(header)
            opened = await asyncio.to_thread(open_segment, view, keys, limits=self._options.limits)
            if opened.regions:
                shown = await asyncio.to_thread(self._regions.composed, view, opened, evidence)
            else:
                shown = opened
        except KeyUnavailable as error:
            logger.info("lift: segment %d: %s", header.segment_index, error)
            self.lifted.refused += 1
            return
        self.lifted.opened.append(header.segment_index)
        self.lifted.damaged += not opened.is_complete
        await on_opened(shown)

    def _header(self, view: SegmentView) -> SegmentHeader | None:
        try:
            return view.header(self._options.limits)
        except FormatError:
            return None

    def _request(self, header: SegmentHeader) -> Request:
        self.lifted.camera_id = header.camera_id.hex()
        now_us = time.time_ns() // 1000
        return Request(
            input=None,
            output_name=self._options.shown_at,
            camera_ids=(header.camera_id.hex(),),
            identity_ids=self._source.key_ids,
            asked_us=(now_us, now_us + round(1e6 * self._options.seconds)),
            segments="live",
            purpose=self._options.purpose,
            action=Action.LIFT,
            grant_id=self._source.grant_id,
        )
