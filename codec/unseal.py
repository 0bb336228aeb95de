"""Opens sealed segments: from the access units and a key back to the original's packets.

Damage costs what it hit and no more (`codec.sealed_reader`). That a segment opens says nothing about
who made it; `codec.verify` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from base.errors import FormatError, KeyUnavailable
from codec.chunks import part_of_region
from codec.limits import DEFAULT_LIMITS, Limits
from codec.packets import SealedPacket, SealedStream
from codec.records import SealedMode, SegmentHeader
from codec.sealed_reader import Loss, PartChunks, PartContent, Problem, SegmentChunks
from codec.segments import SegmentView, read_segments
from keys import EpochKey, Identity, unwrap_epoch_key
from keys.schedule import SealedCipher

__all__ = ["Loss", "OpenedSegment", "Problem", "open_segment", "read_segments", "unwrap_segment_epoch"]


@dataclass(frozen=True, slots=True)
class OpenedRegion:
    """What came out of one region of a segment whose original is split.

    Attributes:
        streams: one, the tile; empty if the chunk that holds its description is lost.
        packets: one for each picture of the segment, in order.
        num_intact_packets: how many of them precede the first hole.
        problems: empty if and only if the region is complete.
    """

    region: int
    streams: tuple[SealedStream, ...] = ()
    packets: tuple[SealedPacket, ...] = field(default=(), repr=False)
    num_intact_packets: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every packet that the camera sealed is here."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class OpenedSegment:
    """What came out of one segment.

    Attributes:
        header: None if it is missing or damaged; then nothing was opened.
        streams: empty if the chunk that holds them is lost.
        packets: of all streams, in the order sealed.
        num_intact_packets: how many of them precede the first hole.
        problems: empty if and only if the segment is complete, as far as it was to be opened.
        regions: where the original is split: what the key opens of those asked for, by number. Then
            ``streams`` and ``packets`` are what belongs to no region, such as sound.
    """

    header: SegmentHeader | None
    streams: tuple[SealedStream, ...] = ()
    packets: tuple[SealedPacket, ...] = field(default=(), repr=False)
    num_intact_packets: int = 0
    problems: tuple[Problem, ...] = ()
    regions: tuple[OpenedRegion, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every packet that the camera sealed, and the key opens, is here."""
        return not self.problems and all(region.is_complete for region in self.regions)


def unwrap_segment_epoch(header: SegmentHeader, identities: Iterable[Identity]) -> EpochKey:
    """The epoch key of a segment. Keep it by ``header.epoch_id``: unwrapping costs more than opening.

    Raises:
        NoMatchingIdentity: none of the identities is among the recipients.
        AuthenticationFailed: the wrapped key was changed.
    """
    return unwrap_epoch_key(header.stanzas, identities, header.camera_id, header.epoch_id)


class PartKeys(Protocol):
    """Ciphers of one segment: `keys.SegmentKeys`, or `keys.RegionKeys` for some regions alone.

    Both raise KeyUnavailable for what they do not hold.
    """

    def sealed_cipher(self) -> SealedCipher:
        """Of the segment as a whole, or of what belongs to no region."""

    def region_cipher(self, region: int) -> SealedCipher:
        """Of one region."""


OpeningKey: TypeAlias = EpochKey | PartKeys | Sequence[Identity]


def open_segment(
    view: SegmentView,
    key: OpeningKey,
    *,
    regions: Collection[int] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> OpenedSegment:
    """Decrypt and parse the sealed layer of one segment.

    Args:
        view: from `read_segments`.
        key: the epoch's key, the segment's or some of its regions', or identities among which is a recipient.
        regions: open these alone, where the original is split, and nothing that belongs to no region;
            None: all that the key opens.
        limits: what to accept.

    Raises:
        NoMatchingIdentity: none of the identities is among the recipients.
        KeyUnavailable: the key opens nothing of what was asked for.
        AuthenticationFailed: the wrapped epoch key was changed.
    """
    try:
        header = view.header(limits)
    except FormatError as error:
        return OpenedSegment(None, problems=(Problem(Loss.HEADER_DAMAGED, str(error)),))
    body = view.header_body
    if header is None or body is None:
        return OpenedSegment(None, problems=(Problem(Loss.HEADER_MISSING, "the key frame's unit is lost"),))
    if header.sealed_mode is SealedMode.NONE:
        return OpenedSegment(header, problems=(Problem(Loss.NOT_SEALED, "made with sealed mode NONE"),))
    ciphers = _part_ciphers(header, _part_keys(header, key), regions)
    chunks = SegmentChunks(ciphers, header, body, limits)
    chunks.open_all(view)
    contents = {part: _read_part(chunks.parts[part], limits) for part in ciphers}
    common = contents.pop(0, None)
    return OpenedSegment(
        header,
        streams=tuple(common.streams) if common else (),
        packets=tuple(common.packets) if common else (),
        num_intact_packets=common.num_intact if common else 0,
        problems=tuple(chunks.problems),
        regions=tuple(_region(part - 1, content) for part, content in contents.items()),
    )


def _region(region: int, content: PartContent) -> OpenedRegion:
    return OpenedRegion(
        region,
        tuple(content.streams),
        tuple(content.packets),
        content.num_intact,
        tuple(content.problems),
    )


def _part_keys(header: SegmentHeader, key: OpeningKey) -> PartKeys:
    if isinstance(key, Sequence):
        key = unwrap_segment_epoch(header, key)
    if isinstance(key, EpochKey):
        return key.segment(header.camera_id, header.stream_id, header.epoch_id, header.segment_index)
    return key


def _part_ciphers(
    header: SegmentHeader, keys: PartKeys, regions: Collection[int] | None
) -> dict[int, SealedCipher]:
    """Ciphers by part, of all parts that are asked for and that the keys open.

    Raises:
        KeyUnavailable: there is none.
    """
    grid = header.regions
    if grid is None:
        return {0: keys.sealed_cipher()}
    wanted = range(grid.num_regions) if regions is None else sorted(set(regions))
    ciphers: dict[int, SealedCipher] = {}
    if regions is None:
        with contextlib.suppress(KeyUnavailable):
            ciphers[0] = keys.sealed_cipher()
    for region in wanted:
        if region < grid.num_regions:
            with contextlib.suppress(KeyUnavailable):
                ciphers[part_of_region(region)] = keys.region_cipher(region)
    if not ciphers:
        message = f"segment {header.segment_index}: the key given opens none of its regions asked for"
        raise KeyUnavailable(message)
    return ciphers


def _read_part(part: PartChunks, limits: Limits) -> PartContent:
    content = PartContent(limits, part.problems)
    for run in part.runs():
        content.read(run)
    content.close()
    return content
