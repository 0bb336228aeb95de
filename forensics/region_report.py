"""What a report says about an original that is split: frame by frame, which regions are shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from codec.regions import RegionGrid
from forensics.canonical import JsonObject
from forensics.opening import ranges_text
from forensics.report import FileDigest


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Pictures of one segment that show the same regions. ``frames`` is text such as ``0-41,43``."""

    frames: str
    num_frames: int
    regions: tuple[int, ...]

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"frames": self.frames, "regions": list(self.regions)}


@dataclass(frozen=True, slots=True)
class Recovered:
    """One segment of the output."""

    name: str
    grid: RegionGrid | None
    runs: tuple[FrameRun, ...]

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        grid: JsonObject | None = None
        if self.grid is not None:
            grid = {"x_edges": list(self.grid.x_edges), "y_edges": list(self.grid.y_edges)}
        return {"segment": self.name, "grid": grid, "shown": [run.as_json() for run in self.runs]}


@dataclass(frozen=True, slots=True)
class RegionReport:
    """Which regions of which pictures show the original.

    Attributes:
        is_lossless: the output holds every sample of the composed pictures.
        segments: in the order of the output.
        tiles: the file with what the camera sealed, packet by packet; None: it was not asked for.
        asked: the boxes and tracks asked for, as they were given; empty: all that the keys open.
    """

    is_lossless: bool
    segments: tuple[Recovered, ...]
    asked: tuple[str, ...] = ()
    tiles: FileDigest | None = None

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {
            "asked": list(self.asked),
            "rest": "protected video",
            "pictures": "composed, coded without loss" if self.is_lossless else "composed, coded for viewing",
            "tiles": None if self.tiles is None else self.tiles.as_json(),
            "segments": [segment.as_json() for segment in self.segments],
        }

    def text(self) -> str:
        """Return a line for people."""
        runs = [run for segment in self.segments for run in segment.runs]
        total = sum(run.num_frames for run in runs)
        with_some = sum(run.num_frames for run in runs if run.regions)
        seen = sorted({region for run in runs for region in run.regions})
        size = max((segment.grid.num_regions for segment in self.segments if segment.grid), default=0)
        return (
            f"  regions   {len(seen)} of {size} ({ranges_text(seen) or 'none'}) shown in {with_some} of"
            f" {total} pictures; the rest is the protected video"
        )


def frame_runs(shown: Mapping[int, frozenset[int]]) -> tuple[FrameRun, ...]:
    """Group the pictures of a segment by what they show, in the order of their first ones."""
    frames: dict[frozenset[int], list[int]] = {}
    for frame, regions in shown.items():
        frames.setdefault(regions, []).append(frame)
    return tuple(
        FrameRun(ranges_text(sorted(numbers)), len(numbers), tuple(sorted(regions)))
        for regions, numbers in frames.items()
    )
