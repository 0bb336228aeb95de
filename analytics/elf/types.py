"""What the planner is told and what it answers. All sizes in pixels of the whole frame unless they say so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from base.errors import UsageError

LOCAL = "local"  # the worker name of the camera's own detector; no remote worker may have it
MAX_SIDE = 16384


@dataclass(frozen=True, slots=True)
class Tile:
    """A rectangle of the frame and who detects in it; the right and the bottom edge are outside.

    Attributes:
        left, top, width, height: whole pixels of the frame.
        worker: name of a WorkerView, or LOCAL.
        scale: the tile is sent with ``sent_wh`` pixels: below 1 it is made smaller before it is coded.
    """

    left: int
    top: int
    width: int
    height: int
    worker: str
    scale: float = 1.0

    def __post_init__(self) -> None:
        inside = self.left >= 0 and self.top >= 0 and self.width > 0 and self.height > 0
        if not inside or self.left + self.width > MAX_SIDE or self.top + self.height > MAX_SIDE:
            message = f"tile: expected at least 1x1 pixel within {MAX_SIDE}, got {self.xyxy}"
            raise UsageError(message)
        if not 0 < self.scale <= 1:
            message = f"tile: expected a scale above 0, at most 1, got {self.scale}"
            raise UsageError(message)

    @property
    def right(self) -> int:
        """First column that is no longer inside."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """First row that is no longer inside."""
        return self.top + self.height

    @property
    def xyxy(self) -> tuple[int, int, int, int]:
        """Left, top, right, bottom."""
        return self.left, self.top, self.right, self.bottom

    @property
    def area(self) -> int:
        """Pixels of the frame that it shows, whatever its scale."""
        return self.width * self.height

    @property
    def sent_wh(self) -> tuple[int, int]:
        """Width and height of the picture that is sent; boxes that come back are in its pixels."""
        return max(1, round(self.width * self.scale)), max(1, round(self.height * self.scale))

    @property
    def sent_pixels(self) -> int:
        """Pixels of the picture that is sent."""
        width, height = self.sent_wh
        return width * height


@dataclass(frozen=True, slots=True)
class WorkerView:
    """What is believed about one worker right now.

    Attributes:
        name: unique; not LOCAL, except for the camera's own detector.
        pixels_per_s: detection speed in sent pixels.
        bytes_per_s: upload rate towards it.
        delay_s: time before anything of a new frame can begin there: round trip and work still queued.
        fixed_s: time that each further tile costs whatever its size.
        max_share: part of the frame's area that it may see in any one frame, 0 to 1.
        trusted: it may be given the look (see Policy.look).
    """

    name: str
    pixels_per_s: float
    bytes_per_s: float = 12.5e6
    delay_s: float = 0.0
    fixed_s: float = 0.0
    max_share: float = 1.0
    trusted: bool = False

    def __post_init__(self) -> None:
        rates = (self.pixels_per_s, self.bytes_per_s)
        if not all(math.isfinite(rate) and rate > 0 for rate in rates):
            message = f"worker {self.name}: expected finite rates above 0, got {rates}"
            raise UsageError(message)
        times = (self.delay_s, self.fixed_s)
        if not all(math.isfinite(time) and time >= 0 for time in times):
            message = f"worker {self.name}: expected finite times of at least 0, got {times}"
            raise UsageError(message)
        if not 0 <= self.max_share <= 1:
            message = f"worker {self.name}: expected max_share from 0 to 1, got {self.max_share}"
            raise UsageError(message)


SMALLEST_CUT_PX = 80_000
"""What the product takes for ``Policy.smallest_cut_px``: 320x240 is whole, 480x270 is cut (docs/elf.md)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What workers may see, and how tiles are cut.

    Attributes:
        max_share: part of the frame's area that any worker that is not trusted may see in any one frame;
            a worker's own ``max_share`` binds it too.
        look: who gets the low-resolution look at the whole frame: the camera itself; the camera or a trusted
            worker; or any worker. A worker that may not see the whole frame never gets it.
        look_scale: of the look, 0 to 1.
        look_every: fewest and most frames from one look to the next.
        sweep_share: part of the frame's area that is sent at full size for its own sake with every frame, the
            longest unseen first: finds what is too small for the look. 0 turns it off.
        stride: sides of what is sent are multiples of it where the frame allows: the detector pads to it.
        align: tiles begin at multiples of it where the frame allows, so that the detector's cells lie on the
            same pixels as in the whole frame and it answers alike; a divisor of ``stride``.
        margin: pixels around every object that a detector needs to see it as it would in the whole frame.
        bytes_per_pixel: of a coded tile, until the pool has told better.
        smallest_cut_px: frames of fewer pixels go whole, to one worker after the other, as shares allow: what
            a detector sees in pictures that small it sees by their context.
        min_side: scale tiles down as far as the smaller side of every object in them keeps so many pixels;
            0 sends everything at full size.
        scales: those that tiles may be sent at, rising to 1.
        local_detector: the camera can detect what no worker may see; without it such objects are skipped.
    """

    max_share: float = 1.0
    look: Literal["local", "trusted", "any"] = "any"
    look_scale: float = 0.5
    look_every: tuple[int, int] = (3, 12)
    sweep_share: float = 0.02
    stride: int = 32
    align: int = 16
    margin: int = 8
    bytes_per_pixel: float = 0.15
    smallest_cut_px: int = 0
    min_side: int = 0
    scales: tuple[float, ...] = (0.25, 0.375, 0.5, 0.75, 1.0)
    local_detector: bool = True

    def __post_init__(self) -> None:
        shares = (self.max_share, self.look_scale, self.sweep_share)
        if not all(0 <= share <= 1 for share in shares) or not self.look_scale:
            message = f"policy: expected shares from 0 to 1, got {shares}"
            raise UsageError(message)
        if not 1 <= self.look_every[0] <= self.look_every[1]:
            message = f"policy: expected look_every with 1 <= fewest <= most, got {self.look_every}"
            raise UsageError(message)
        if self.stride < 4 or self.stride % 4 or self.align < 1 or self.stride % self.align:
            message = (
                f"policy: expected a stride of 4, 8, ... and an align that divides it, got {self.stride}"
            )
            raise UsageError(f"{message} and {self.align}")
        if min(self.margin, self.min_side) < 0:
            raise UsageError("policy: expected margin and min_side of at least 0")
        if (
            not self.scales
            or self.scales[-1] != 1
            or min(self.scales) <= 0
            or sorted(self.scales) != [*self.scales]
        ):
            message = f"policy: expected scales that rise to 1, got {self.scales}"
            raise UsageError(message)
        if not 0 < self.bytes_per_pixel <= 16:
            message = f"policy: expected bytes_per_pixel above 0, at most 16, got {self.bytes_per_pixel}"
            raise UsageError(message)

    def share_of(self, worker: WorkerView) -> float:
        """The part of a frame's area that ``worker`` may see; the camera itself may see everything."""
        if worker.name == LOCAL:
            return 1.0
        return worker.max_share if worker.trusted else min(worker.max_share, self.max_share)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An object that is sent nowhere in this frame; what was last known stands for it.

    Attributes:
        box_xyxy: where it is believed to be.
        score, class_id: as last detected.
        reason: it stands still; or no worker may see so much of the frame.
    """

    box_xyxy: tuple[float, float, float, float]
    score: float
    class_id: int
    reason: Literal["quiet", "policy"]


@dataclass(frozen=True, slots=True)
class FramePlan:
    """What to send where for one frame.

    Attributes:
        tiles: full-resolution (or scaled) tiles; never more than known objects and moving patches, so that
            there are at most 145 of them.
        look: the whole frame, made smaller; None in most frames. Not among ``tiles``.
        skipped: known objects that are in no tile.
        predicted_finish_s: by worker, when its last answer is expected, from the moment of sending.
        covers_all: the tiles hold the whole frame (at the start, and when nothing is known).
    """

    tiles: tuple[Tile, ...]
    look: Tile | None = None
    skipped: tuple[Skipped, ...] = ()
    predicted_finish_s: Mapping[str, float] = field(default_factory=dict)
    covers_all: bool = False

    @property
    def all_tiles(self) -> tuple[Tile, ...]:
        """The tiles and the look, if there is one."""
        return self.tiles if self.look is None else (*self.tiles, self.look)

    @property
    def finish_s(self) -> float:
        """When the slowest answer is expected; 0 where nothing is sent."""
        return max(self.predicted_finish_s.values(), default=0.0)
