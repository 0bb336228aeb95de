"""Lifting a stream whose original is split into regions: the recovered tiles over the protected video.

Tiles are streams of their own, which no player puts together: they are composed here and coded anew, in
memory. A grant of some regions shows these and leaves the rest as everybody sees it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from base.errors import FormatError
from codec.evidence import SegmentEvidence
from codec.packets import SealedPacket
from codec.pixel_formats import LIMITED_RANGE
from codec.sealed_encoder import SealedEncoder, open_sealed_encoder
from codec.segments import SegmentView
from codec.unseal import OpenedSegment
from forensics.plan import contradicted_frames
from forensics.region_video import Composer, TileVideo

_CRF = 16.0
_RATE = Fraction(25)  # nominal; every picture has its own time


class RegionPictures:
    """Makes one video of the opened regions, segment after segment."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._composer: Composer | None = None
        self._encoder: SealedEncoder | None = None
        self._last_us = 0

    def composed(self, view: SegmentView, opened: OpenedSegment, evidence: SegmentEvidence) -> OpenedSegment:
        """The segment with one video stream in the place of its regions, and no sound.

        Args:
            view: the segment's units.
            opened: with ``regions``.
            evidence: what the check of the units found.
        """
        header = opened.header
        if header is None or header.regions is None:
            return opened
        grid = header.regions
        composer, encoder = self._prepared(header.width, header.height)
        tiles: dict[int, TileVideo] = {}
        for region in opened.regions:
            try:
                tiles[region.region] = TileVideo(region, grid.tile(region.region))
            except FormatError:
                continue  # its description is lost; the segment counts as damaged
        shown = {frame.frame_index: frozenset(tiles) for frame, _ in view.own_units()}
        packets: list[SealedPacket] = []
        for picture in composer.compose(view, contradicted_frames(evidence.findings), grid, tiles, shown):
            self._last_us = max(picture.time_us, self._last_us + 1)
            packets += encoder.encode(picture.picture, not packets, time_us=self._last_us)
        return replace(opened, streams=(encoder.stream,), packets=tuple(packets))

    def _prepared(self, width: int, height: int) -> tuple[Composer, SealedEncoder]:
        if self._composer is None or self._encoder is None or self._size != (width, height):
            self._size = (width, height)
            self._composer = Composer(width, height)
            self._composer.canvas.color_range = LIMITED_RANGE
            self._encoder = open_sealed_encoder("h264", self._composer.canvas, rate=_RATE, crf=_CRF)
        return self._composer, self._encoder
