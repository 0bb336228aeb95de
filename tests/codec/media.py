"""Small moving pictures, protected units with large SEI, and Debian's ffmpeg as the foreign peer."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from base.frames import ProtectedFrame
from codec.access_unit import AccessUnit
from codec.h264 import ProtectedEncoder
from codec.nal import NalType, nal_type
from codec.sei import SeiKind, pack_veilcam

WIDTH, HEIGHT = 96, 64
RATE = 10
FRAME_US = 1_000_000 // RATE
START_US = 1_700_000_000_000_003
BIG_SEI_BYTES = 110_000


def protected_frame(number: int, width: int = WIDTH, height: int = HEIGHT) -> ProtectedFrame:
    """A gradient that moves."""
    rows, columns = np.mgrid[:height, :width]
    luma = ((rows + columns + 3 * number) % 200 + 16).astype(np.uint8)
    cb = np.full((height // 2, width // 2), 100 + number % 50, np.uint8)
    cr = np.full((height // 2, width // 2), 128, np.uint8)
    return ProtectedFrame(luma, cb, cr, START_US + number * FRAME_US)


@functools.cache
def protected_units(count: int = 24, gop: int = 8) -> tuple[AccessUnit, ...]:
    """Coded units; key units carry 110 KB of SEI that ends in zeros, the others 2 KB."""
    rng = np.random.default_rng(20)
    units = []
    with ProtectedEncoder(WIDTH, HEIGHT, rate=RATE) as encoder:
        for number in range(count):
            is_key = number % gop == 0
            unit = encoder.encode(protected_frame(number), is_key)
            sealed = rng.bytes(BIG_SEI_BYTES if is_key else 2000) + bytes(7)
            sei = [pack_veilcam(SeiKind.META, rng.bytes(90)), pack_veilcam(SeiKind.SEALED, sealed)]
            units.append(unit.with_sei(sei))
    return tuple(units)


def kept_nals(units: Iterable[AccessUnit]) -> list[list[bytes]]:
    """All NAL units but access unit delimiters, which muxers put in and take out."""
    return [[nal for nal in unit.nals if nal_type(nal) != NalType.AUD] for unit in units]


def ffmpeg(*arguments: str | Path) -> bytes:
    """Run Debian's ffmpeg; its standard output. Nothing may be said on standard error."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def ffprobe(path: Path, *, count_frames: bool = False) -> dict[str, Any]:
    """What Debian's ffprobe says about a file, as JSON."""
    command = ["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format"]
    if count_frames:
        command.append("-count_frames")
    done = subprocess.run([*command, str(path)], capture_output=True, check=True)
    assert done.stderr == b""
    return dict(json.loads(done.stdout))


@functools.cache
def elementary_stream(path: Path, stream: str, muxer: str) -> bytes:
    """One stream of a file as ``ffmpeg -c copy`` extracts it."""
    return ffmpeg("-i", path, "-map", f"0:{stream}", "-c", "copy", "-f", muxer, "-")


def source_file(path: Path, video: str, audio: str = "", *, seconds: Fraction = Fraction(3, 2)) -> Path:
    """A clip made by ffmpeg: coded with B-frames, 4:3 pixels, a title, and perhaps a tone."""
    tone = ["-f", "lavfi", "-i", "sine=440:sample_rate=16000"] if audio else []
    coding = {
        "libx264": ["-c:v", "libx264", "-bf", "2", "-g", "12"],
        "libx265": ["-c:v", "libx265", "-x265-params", "log-level=none:keyint=12:bframes=2"],
    }[video]
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=128x96:rate=12"),
        *tone,
        *coding,
        *(["-c:a", audio] if audio else []),
        *(
            "-pix_fmt",
            "yuv420p",
            "-vf",
            "setsar=4/3",
            "-t",
            str(float(seconds)),
            "-metadata",
            "title=my kitchen",
        ),
        path,
    )
    return path
