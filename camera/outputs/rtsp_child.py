"""The process that speaks RTSP: an MPEG transport stream on standard input goes to the server unchanged.

PyAV keeps Python's global lock while libav connects to an RTSP server, so a server that accepts and says
nothing would stop every thread of a camera. Here it stops nobody but this process, which the camera ends.

The URL is the first line of standard input: it may hold a password, and command lines can be seen by others.
"""

from __future__ import annotations

import sys
from io import BufferedReader
from typing import cast

import av

_MAX_URL_BYTES = 4096
# RTP over UDP loses packets under load, and a lost packet costs evidence.
_OPTIONS = {"rtsp_transport": "tcp"}
# What comes is known: one look at the key frame is enough, and finding out a frame rate takes seconds.
_QUICKLY = {"probesize": "500000", "analyzeduration": "100000", "fpsprobesize": "0"}


class _AsItComes:
    """Input as it comes: libav asks for blocks of 32 KiB, which a quiet stream takes a second to fill."""

    def __init__(self, data: BufferedReader) -> None:
        self._data = data

    def read(self, count: int) -> bytes:
        """What is there, at least one byte; nothing at the end."""
        return self._data.read1(count)


def main() -> int:
    """Publish until the input ends; 0 then, 1 with a line on standard error if the server fails."""
    data = cast(BufferedReader, sys.stdin.buffer)
    url = data.readline(_MAX_URL_BYTES).decode().rstrip("\n")
    try:
        with (
            av.open(_AsItComes(data), "r", format="mpegts", options=_QUICKLY) as source,
            av.open(url, "w", format="rtsp", container_options=_OPTIONS) as target,
        ):
            taken = source.streams.video[0]
            given = target.add_stream_from_template(taken)
            for packet in source.demux(taken):
                if packet.dts is not None:
                    packet.stream = given
                    target.mux_one(packet)
    except (av.FFmpegError, OSError, ValueError, IndexError) as error:
        print(getattr(error, "strerror", None) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
