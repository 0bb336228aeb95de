"""SRT by way of the ffmpeg program: PyAV's wheels are built without libsrt.

The program only carries an MPEG transport stream between a pipe and the network (``-c copy``); what is in it
passes unchanged. Its command line, and so a passphrase in the URL, can be seen by other users of the machine.
"""

from __future__ import annotations

import shutil
import subprocess

from analytics.piped_program import PipedProgram
from base.errors import MissingDependency

_QUIET = ("-hide_banner", "-loglevel", "error")


class SrtProgram(PipedProgram):
    """A running ffmpeg."""

    def __init__(self, url: str, *, sends: bool) -> None:
        """Start it; whether the other side answers is known when bytes flow.

        Raises:
            MissingDependency: there is no ffmpeg.
        """
        program = shutil.which("ffmpeg")
        if program is None:
            message = "SRT: needs the ffmpeg program (this build of PyAV has no SRT); install ffmpeg"
            raise MissingDependency(message)
        if sends:
            # What comes is known: finding out its frame rate would take seconds.
            quick = ["-probesize", "500000", "-analyzeduration", "100000", "-fpsprobesize", "0"]
            way = ["-f", "mpegts", *quick, "-i", "pipe:0", "-c", "copy", "-f", "mpegts", url]
        else:
            way = ["-probesize", "500000", "-i", url, "-c", "copy", "-flush_packets", "1"]
            way += ["-f", "mpegts", "pipe:1"]
        command = [program, *_QUIET, *way]
        process = subprocess.Popen(  # noqa: S603  # no shell; the URL is the operator's own
            command,
            stdin=subprocess.PIPE if sends else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if sends else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        super().__init__(process, sends=sends)
