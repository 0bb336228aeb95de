"""Elf-style planning: where objects will be, which tiles hold them whole, and which worker gets which tile.

Pure: boxes in, tiles out; no input or output, no clock, no thread. docs/elf.md tells how it works.
"""

from __future__ import annotations

from analytics.elf.merge import merge
from analytics.elf.planner import Planner
from analytics.elf.types import LOCAL, FramePlan, Policy, Skipped, Tile, WorkerView

__all__ = ["LOCAL", "FramePlan", "Planner", "Policy", "Skipped", "Tile", "WorkerView", "merge"]
