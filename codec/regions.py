"""The grid that splits the original picture into regions, each sealed under a key of its own.

Regions are the tiles of the grid, numbered from 0 in rows from the upper left. Borders inside of the picture
lie on multiples of 16 pixels, the block size of H.264, so that a tile's coder wastes nothing and every
chroma subsampling keeps whole samples (docs/format.md, section 5).
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from base.errors import Malformed, UsageError
from codec.reader import Reader, Tlv
from keys.schedule import MAX_REGIONS

REGIONS_RECORD = 0x82
"""HEADER extension, critical: a reader without it would look for one sealed stream where there are many."""

BORDER_PIXELS = 16
MIN_TILE_PIXELS = 64
"""Smallest tile that every encoder takes (SVT-AV1: 64)."""

_SPLIT = re.compile(r"([1-9]\d?)x([1-9]\d?)")
_HEAD = struct.Struct(">IIBB")


class Tile(NamedTuple):
    """One region's rectangle in pixels of the original picture."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class RegionGrid:
    """Where the regions lie.

    Attributes:
        x_edges: columns in pixels, rising, from 0 to the picture's width.
        y_edges: rows likewise, to its height.
    """

    x_edges: tuple[int, ...]
    y_edges: tuple[int, ...]

    def __post_init__(self) -> None:
        if problem := _edges_problem(self.x_edges) or _edges_problem(self.y_edges):
            raise UsageError(f"region grid: {problem}")
        if self.num_regions > MAX_REGIONS:
            message = f"region grid: {self.columns}x{self.rows} regions, limit is {MAX_REGIONS}"
            raise UsageError(message)

    @classmethod
    def even(cls, width: int, height: int, columns: int, rows: int) -> RegionGrid:
        """Split a picture of ``width`` x ``height`` pixels as evenly as borders on multiples of 16 allow.

        Raises:
            UsageError: more than 64 regions, or a tile smaller than 64 x 64 pixels.
        """
        if not (1 <= columns <= MAX_REGIONS and 1 <= rows <= MAX_REGIONS and columns * rows <= MAX_REGIONS):
            message = f"sealed regions: expected 1 to {MAX_REGIONS}, got {columns}x{rows}"
            raise UsageError(message)
        edges = _even_edges(width, columns), _even_edges(height, rows)
        for side, size, cut in (("width", width, edges[0]), ("height", height, edges[1])):
            smallest = min(after - before for before, after in pairwise(cut))
            if smallest < MIN_TILE_PIXELS:
                message = (
                    f"sealed regions: {columns}x{rows} makes tiles of {smallest} pixels of a {side}"
                    f" of {size}, expected at least {MIN_TILE_PIXELS}"
                )
                raise UsageError(message)
        return cls(*edges)

    @property
    def width(self) -> int:
        """Of the original picture, in pixels."""
        return self.x_edges[-1]

    @property
    def height(self) -> int:
        """Of the original picture, in pixels."""
        return self.y_edges[-1]

    @property
    def columns(self) -> int:
        """Tiles in a row."""
        return len(self.x_edges) - 1

    @property
    def rows(self) -> int:
        """Tiles in a column."""
        return len(self.y_edges) - 1

    @property
    def num_regions(self) -> int:
        """How many there are."""
        return self.columns * self.rows

    def tile(self, region: int) -> Tile:
        """Return the rectangle of a region."""
        row, column = divmod(region, self.columns)
        x, y = self.x_edges[column], self.y_edges[row]
        return Tile(x, y, self.x_edges[column + 1] - x, self.y_edges[row + 1] - y)

    def tiles(self) -> Iterator[Tile]:
        """All rectangles, in the order of the regions."""
        return (self.tile(region) for region in range(self.num_regions))

    def touching(self, left: float, top: float, right: float, bottom: float) -> frozenset[int]:
        """The regions that share at least a part of a pixel with a box, in pixels of the original picture."""
        columns = _touched(self.x_edges, left, right)
        rows = _touched(self.y_edges, top, bottom)
        return frozenset(row * self.columns + column for row in rows for column in columns)

    @classmethod
    def parse(cls, body: bytes) -> RegionGrid:
        """Read the body of a REGIONS record.

        Raises:
            FormatError: it is damaged.
        """
        reader = Reader(body, "REGIONS record")
        width, height, columns, rows = _HEAD.unpack(reader.take(_HEAD.size, "head"))
        if not columns * rows or columns * rows > MAX_REGIONS:
            message = f"REGIONS record: {columns}x{rows} regions, limit is {MAX_REGIONS}"
            raise Malformed(message)
        x_edges = (0, *(reader.unsigned(4, "column border") for _ in range(columns - 1)), width)
        y_edges = (0, *(reader.unsigned(4, "row border") for _ in range(rows - 1)), height)
        reader.end()
        if problem := _edges_problem(x_edges) or _edges_problem(y_edges):
            raise Malformed(f"REGIONS record: {problem}")
        return cls(x_edges, y_edges)

    def __bytes__(self) -> bytes:
        inner = (*self.x_edges[1:-1], *self.y_edges[1:-1])
        head = _HEAD.pack(self.width, self.height, self.columns, self.rows)
        return head + b"".join(edge.to_bytes(4, "big") for edge in inner)

    def record(self) -> Tlv:
        """The grid as an extension of a HEADER."""
        return Tlv(REGIONS_RECORD, bytes(self))


def parse_split(text: str) -> tuple[int, int]:
    """Columns and rows from ``COLSxROWS``, such as ``4x3``.

    Raises:
        UsageError: another text, or not 1 to 64 regions.
    """
    match = _SPLIT.fullmatch(text)
    columns, rows = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= columns * rows <= MAX_REGIONS:
        message = f"sealed regions {text[:20]!r}: expected COLSxROWS such as 4x3, 1 to {MAX_REGIONS} regions"
        raise UsageError(message)
    return columns, rows


def _edges_problem(edges: Sequence[int]) -> str | None:
    if len(edges) < 2 or edges[0] != 0 or any(after <= before for before, after in pairwise(edges)):
        return f"borders {list(edges)}: expected numbers that rise from 0"
    if any(edge % BORDER_PIXELS for edge in edges[1:-1]):
        return f"borders {list(edges)}: expected multiples of {BORDER_PIXELS} inside of the picture"
    return None


def _even_edges(size: int, count: int) -> tuple[int, ...]:
    inner = (BORDER_PIXELS * round(size * place / (count * BORDER_PIXELS)) for place in range(1, count))
    return (0, *inner, size)


def _touched(edges: Sequence[int], start: float, stop: float) -> range:
    """The intervals between ``edges`` that overlap [start, stop) by more than a point."""
    if not (math.isfinite(start) and math.isfinite(stop)) or stop <= start:
        return range(0)
    return range(max(bisect_right(edges, start) - 1, 0), min(bisect_left(edges, stop), len(edges) - 1))
