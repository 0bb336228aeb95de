"""Publishing out: the protected stream pushed to media servers, which then do the fan-out."""

from __future__ import annotations

from camera.outputs.group import Outputs
from camera.outputs.target import OutputState, PublishTarget, parse_target

__all__ = ["OutputState", "Outputs", "PublishTarget", "parse_target"]
