"""The second reading of a recording whose original is split: chosen regions over the protected video.

The output is made for viewing and coded anew; what the camera sealed can be written beside it, packet by
packet. A region opens from the beginning of its segment, since its pictures are predicted from one another;
shown and kept is what was asked for, up to the last such picture of the segment.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from base.errors import AuthenticationFailed, FormatError, KeyUnavailable
from codec.limits import Limits
from codec.packets import SealedPacket, SealedStream, StreamKind
from codec.pixel_formats import LIMITED_RANGE
from codec.records import SegmentHeader
from codec.remux import write_packets
from codec.sealed_encoder import SealedEncoder, open_sealed_encoder
from codec.segments import SegmentView
from codec.stream_info import clock_of
from codec.unseal import OpenedSegment, open_segment
from forensics.decode_report import OpenedRow, Outcome, TrackDigest
from forensics.extract import Reading, TrackHash, planned_views, problem_texts, segment_keys, trusted_view
from forensics.input_file import Advance, Evidence
from forensics.plan import Candidate, Plan
from forensics.region_choice import ResolvedChoice
from forensics.region_report import Recovered, RegionReport, frame_runs
from forensics.region_video import ComposedPicture, Composer, TileVideo, decodable
from keys.source import KeySource

_LOSSLESS_SUFFIXES = (".mkv", ".avi", ".nut")
_VIEWING_CRF = 14.0
_DEFAULT_RATE = Fraction(25)
_MAX_RATE = 240  # what a stream says may be nonsense
_MIN_ASPECT = Fraction(1, 100)
_MICROSECONDS = Fraction(1, 1_000_000)

Wanted = dict[int, frozenset[int]]
"""Regions asked for, by frame index."""


@dataclass(frozen=True, slots=True)
class _Split:
    """One segment, opened as far as it was asked for and the keys go."""

    candidate: Candidate
    view: SegmentView
    header: SegmentHeader
    wanted: Wanted
    opened: OpenedSegment
    closed: frozenset[int]  # asked for, and not opened by the keys


class RegionExtraction(Reading):
    """Shows regions over the protected video. Runs once: `write`, then look at what it did."""

    def __init__(
        self,
        evidence: Evidence,
        plan: Plan,
        source: KeySource,
        limits: Limits,
        advance: Advance,
        *,
        choice: ResolvedChoice,
    ) -> None:
        super().__init__(evidence, plan, source, limits, advance)
        self._choice = choice
        self._tiles: dict[int, SealedStream] = {}
        self._recovered: list[Recovered] = []
        self._is_lossless = False

    @property
    def tracks(self) -> tuple[TrackDigest, ...]:
        """Hashes of the tiles (by the region's number) and of the sound, as the camera sealed them."""
        return tuple(self._hashes[index].digest() for index in sorted(self._hashes))

    @property
    def report(self) -> RegionReport:
        """Which regions are shown in which pictures."""
        return RegionReport(self._is_lossless, tuple(self._recovered))

    def write(self, path: Path) -> bool:
        """Write the output to ``path``; False if there was nothing to write.

        Raises:
            UsageError: the container cannot hold the pictures or the sound.
            MediaError: the output cannot be written.
        """
        segments = self._segments()
        first = next(segments, None)
        if first is None:
            return False
        writer = _Writer(path.suffix.lower(), first)
        self._is_lossless = writer.is_lossless
        sound = tuple(s for s in first.opened.streams if s.kind is StreamKind.AUDIO)
        if sound and not any(clock_of(stream) is None for stream in sound):
            streams = (writer.stream, *sound)
        else:
            streams = (writer.stream,)
        self._hashes = {stream.index: TrackHash(stream) for stream in streams[1:]}
        write_packets(path, streams, self._packets(writer, itertools.chain((first,), segments)))
        return bool(self.delivered)

    def write_tiles(self, path: Path) -> bool:
        """After `write`: write the tiles as the camera sealed them, one track for each region.

        Reads and opens the delivered segments once more.

        Raises:
            MediaError: the output cannot be written.
        """
        if not self._tiles:
            return False
        write_packets(path, tuple(self._tiles.values()), self._tile_packets())
        return True

    def _segments(self) -> Iterator[_Split]:
        """Open the planned segments in order; those that do not open leave a row."""
        order = self._plan.order
        for number, (candidate, view) in enumerate(planned_views(self._evidence, order, self._limits)):
            self._advance(number / len(order))
            try:
                yield self._open(candidate, view)
            except (KeyUnavailable, AuthenticationFailed, FormatError) as error:
                self._add_row(candidate, Outcome.NOT_OPENED, (str(error),))

    def _open(self, candidate: Candidate, view: SegmentView) -> _Split:
        header = view.header(self._limits)
        if header is None or candidate.grid is None:
            message = "its original is not split into regions; decode it with a range of its own"
            raise FormatError(message)
        wanted = {
            frame.frame_index: self._choice.regions_at(
                frame.time_us, candidate.grid, header.width, header.height
            )
            for frame, _ in view.own_units()
        }
        asked = frozenset().union(*wanted.values())
        if not asked:  # the protected video alone: no key is needed, and none is used
            return _Split(candidate, view, header, wanted, OpenedSegment(header), frozenset())
        opened = open_segment(
            trusted_view(view, candidate),
            segment_keys(self._source, view),
            regions=None if self._choice.is_whole else asked,
            limits=self._limits,
        )
        has = {region.region for region in opened.regions}
        closed = frozenset() if self._choice.is_whole else asked - has
        return _Split(candidate, view, header, wanted, opened, closed)

    def _packets(self, writer: _Writer, segments: Iterable[_Split]) -> Iterator[SealedPacket]:
        for split in segments:
            if not writer.takes(split.header):
                why = "the size of the picture changes here; decode the rest with a range of its own"
                self._add_row(split.candidate, Outcome.NOT_OPENED, (why,))
                continue
            yield from self._segment_packets(writer, split)

    def _segment_packets(self, writer: _Writer, split: _Split) -> Iterator[SealedPacket]:
        tiles, problems = _tile_videos(split)
        shown: dict[int, frozenset[int]] = {}
        sound = _Sound(split.opened, self._hashes)
        assert split.candidate.grid is not None  # noqa: S101 - _open saw to it
        for picture in writer.composer.compose(
            split.view, split.candidate.bad_frames, split.candidate.grid, tiles, split.wanted
        ):
            shown[picture.frame_index] = picture.recovered
            yield from sound.until(picture.time_us)
            yield from writer.encode(picture, is_first=len(shown) == 1)
        yield from sound.until(None)
        problems += [tile.problem for tile in tiles.values() if tile.problem]
        self._finish_segment(split, shown, problems)

    def _finish_segment(
        self, split: _Split, shown: Mapping[int, frozenset[int]], problems: list[str]
    ) -> None:
        for region, packets in _kept_packets(split).items():
            stream = split.opened.regions[[r.region for r in split.opened.regions].index(region)].streams[0]
            self._tiles.setdefault(region, stream)
            track = self._hashes.setdefault(region, TrackHash(stream))
            for packet in packets:
                track.update(packet)
        open_to_us = {region.region for region in split.opened.regions}
        lost = sum(
            1
            for frame, regions in split.wanted.items()
            if (regions & open_to_us) - shown.get(frame, frozenset())
        )
        problems += problem_texts(split.opened)
        problems += [
            f"region {r.region}: {text}" for r in split.opened.regions for text in problem_texts(r)[:3]
        ]
        if split.closed:
            names = ", ".join(map(str, sorted(split.closed)))
            problems.append(f"regions {names}: the keys given do not open them")
        if lost:
            problems.append(f"{lost} pictures lack a region that was asked for")
        self._recovered.append(Recovered(split.candidate.name, split.candidate.grid, frame_runs(shown)))
        num_tiles = sum(len(regions) for regions in shown.values())
        outcome = Outcome.PARTLY if problems else Outcome.DELIVERED
        self._add_row(split.candidate, outcome, tuple(problems[:20]), num_tiles)
        self.delivered.append(split.candidate)

    def _tile_packets(self) -> Iterator[SealedPacket]:
        done = {candidate.ordinal for candidate in self.delivered}
        order = [candidate for candidate in self._plan.order if candidate.ordinal in done]
        for candidate, view in planned_views(self._evidence, order, self._limits):
            split = self._open(candidate, view)
            kept = _kept_packets(split)
            packets = [packet for region in kept.values() for packet in region]
            yield from sorted(packets, key=lambda packet: (packet.pts or 0, packet.stream_index))

    def _add_row(
        self, candidate: Candidate, outcome: Outcome, problems: tuple[str, ...], num_packets: int = 0
    ) -> None:
        proof = self._plan.proof_of(candidate)
        self.rows.append(
            OpenedRow(candidate.ordinal, candidate.name, outcome, proof, num_packets, problems=problems)
        )


def _tile_videos(split: _Split) -> tuple[dict[int, TileVideo], list[str]]:
    tiles: dict[int, TileVideo] = {}
    problems: list[str] = []
    for region in split.opened.regions:
        assert split.candidate.grid is not None  # noqa: S101 - _open saw to it
        try:
            tiles[region.region] = TileVideo(region, split.candidate.grid.tile(region.region))
        except FormatError as error:
            problems.append(str(error))
    return tiles, problems


def _kept_packets(split: _Split) -> dict[int, list[SealedPacket]]:
    """By region: what decodes, up to the last picture of the segment for which the region was asked."""
    times = {frame.frame_index: frame.time_us for frame, _ in split.view.own_units()}
    kept: dict[int, list[SealedPacket]] = {}
    for region in split.opened.regions:
        clock_us = clock_of(region.streams[0]) if region.streams else None
        asked = [times[frame] for frame, regions in split.wanted.items() if region.region in regions]
        if clock_us is None or not asked:
            continue
        last_us = max(asked) - clock_us
        base = region.streams[0].time_base / _MICROSECONDS
        kept[region.region] = [
            replace(packet, stream_index=region.region)
            for packet in decodable(region)
            if packet.pts is not None and packet.pts * base <= last_us
        ]
    return kept


class _Sound:
    """The sound of one segment, on the clock of the pictures."""

    def __init__(self, opened: OpenedSegment, hashes: Mapping[int, TrackHash]) -> None:
        self._hashes = hashes
        self._clocks = {stream.index: clock_of(stream) for stream in opened.streams}
        self._bases = {stream.index: stream.time_base for stream in opened.streams}
        self._packets = list(opened.packets)
        self._place = 0

    def until(self, time_us: int | None) -> Iterator[SealedPacket]:
        """Packets up to a capture time; None: all that are left."""
        while self._place < len(self._packets):
            packet = self._packets[self._place]
            clock_us, base = self._clocks.get(packet.stream_index), self._bases.get(packet.stream_index)
            if clock_us is not None and base is not None and packet.stream_index in self._hashes:
                offset = round(clock_us * _MICROSECONDS / base)
                placed = replace(
                    packet,
                    pts=None if packet.pts is None else packet.pts + offset,
                    dts=None if packet.dts is None else packet.dts + offset,
                )
                at = placed.dts if placed.dts is not None else placed.pts
                if time_us is not None and at is not None and at * base > time_us * _MICROSECONDS:
                    return
                self._hashes[packet.stream_index].update(packet)
                yield placed
            self._place += 1


class _Writer:
    """Codes the pictures of the output."""

    def __init__(self, suffix: str, first: _Split) -> None:
        self._size = (first.header.width, first.header.height)
        self.composer = Composer(*self._size)
        self.is_lossless = suffix in _LOSSLESS_SUFFIXES
        mode = "ffv1" if self.is_lossless else ("hevc" if suffix == ".h265" else "h264")
        sealed = next((r.streams[0] for r in first.opened.regions if r.streams), None)
        grid = first.candidate.grid
        canvas = self.composer.canvas
        canvas.color_range = LIMITED_RANGE
        aspect = sealed.sample_aspect_ratio if sealed else Fraction(0)
        self._encoder: SealedEncoder = open_sealed_encoder(
            mode,
            canvas,
            rate=sealed.frame_rate if sealed and 1 <= sealed.frame_rate <= _MAX_RATE else _DEFAULT_RATE,
            crf=_VIEWING_CRF,
            stream_index=grid.num_regions + 64 if grid else 0,
            sample_aspect_ratio=aspect if _MIN_ASPECT <= aspect <= 1 / _MIN_ASPECT else Fraction(0),
        )
        self._last_us: int | None = None

    @property
    def stream(self) -> SealedStream:
        """Of the output's video."""
        return self._encoder.stream

    def takes(self, header: SegmentHeader) -> bool:
        """Whether a segment's pictures have the size of the first one's."""
        return (header.width, header.height) == self._size

    def encode(self, picture: ComposedPicture, *, is_first: bool) -> Sequence[SealedPacket]:
        """Code one picture; a segment begins with a key picture."""
        time_us = picture.time_us
        if self._last_us is not None and time_us <= self._last_us:
            time_us = self._last_us + 1
        self._last_us = time_us
        return self._encoder.encode(picture.picture, is_first, time_us=time_us)
