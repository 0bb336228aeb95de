"""The header of each unit on the pipe to the RTSP server's program (``gst_serve`` repeats it)."""

from __future__ import annotations

import struct

HEAD = struct.Struct(">IQB")
"""length u32 | capture time in microseconds u64 | key u8"""
