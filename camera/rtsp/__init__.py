"""RTSP for recorders that pull (Frigate, ZoneMinder): GStreamer's RTSP server, fed with the ready stream."""

from __future__ import annotations

from camera.rtsp.server import RtspOptions, RtspServer, RtspState

__all__ = ["RtspOptions", "RtspServer", "RtspState"]
