"""How fast recordings are verified and opened, in processor time of one core, and whether memory stays flat.

``python -m bench.forensics_speed [SECONDS]`` seals so many seconds of a 720p25 clip (original: x264 at
3 Mbit/s, sealed by copy), verifies and opens it. Processor time: other work on the machine does not count.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from forensics.decode import decode
from forensics.ledger import Ledger
from forensics.verify_file import verify
from tests.forensics import recordings


def measured(what: str, seconds: int, work: Callable[[], object]) -> None:
    """Run and print how many times faster than real time it was."""
    start = time.process_time()
    work()
    spent = time.process_time() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    speed = f"{spent:.2f} s of one core: {seconds / spent:.0f}x"
    print(f"{what:8} {seconds} s of 720p25 in {speed}, peak {peak_mb} MB")


def main(seconds: int) -> None:
    """Make the recording, then measure."""
    recordings.WIDTH, recordings.HEIGHT, recordings.RATE = 1280, 720, 25
    recordings.FRAME_US = 40_000
    with tempfile.TemporaryDirectory(prefix="veilcam-bench-") as name:
        folder = Path(name)
        source, protected = folder / "source.mp4", folder / "protected.mp4"
        rate = ["-b:v", "3M", "-maxrate", "3M", "-bufsize", "3M", "-preset", "ultrafast", "-g", "50"]
        lavfi = f"testsrc2=size=1280x720:rate=25:duration={seconds},noise=alls=12:allf=t"
        recordings.ffmpeg("-f", "lavfi", "-i", lavfi, "-c:v", "libx264", *rate, "-bf", "0", source)
        recordings.write_units(protected, recordings.seal_copy(source))
        mb = protected.stat().st_size / 1e6
        print(f"recording {mb:.1f} MB, {8 * mb / seconds:.2f} Mbit/s; {os.cpu_count()} processors")
        camera, identity = recordings.camera_key().public, recordings.authority()[1]
        measured("hash", seconds, protected.read_bytes)
        measured("verify", seconds, lambda: verify(protected, camera))
        ledger = Ledger(folder / "ledger.jsonl")
        out = folder / "out.mkv"
        measured("decode", seconds, lambda: decode(protected, out, [identity], camera=camera, ledger=ledger))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
