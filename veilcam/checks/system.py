"""The machine: clock, folders, ports, camera devices."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from veilcam.checks.finding import Finding, Status

_GROUP = "system"
_MIN_FREE_BYTES = 1_000_000_000
# Leap years and slewing aside, wall clock and monotonic clock must agree over a short sleep.
_MAX_CLOCK_STEP_S = 0.5


def check_clock() -> list[Finding]:
    """Whether the wall clock can be right: not before this code was written, and not jumping."""
    wrote = Path(__file__).stat().st_mtime
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.05)
    step_s = abs((time.time() - wall) - (time.monotonic() - steady))
    shown = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if wall < wrote - 86_400:
        detail = f"{shown} is before this program was installed; capture times would be wrong"
        return [Finding(_GROUP, "clock", Status.BROKEN, detail)]
    if step_s > _MAX_CLOCK_STEP_S:
        return [
            Finding(_GROUP, "clock", Status.NOTE, f"{shown}; jumped by {step_s:.1f} s while being watched")
        ]
    return [Finding(_GROUP, "clock", Status.OK, shown)]


def check_folders() -> list[Finding]:
    """Whether files can be written here and in the temporary folder, and how much room there is."""
    return [_folder("current folder", Path.cwd()), _folder("temporary folder", Path(tempfile.gettempdir()))]


def _folder(name: str, folder: Path) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".veilcam-doctor-") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
        stat = os.statvfs(folder)
    except OSError as error:
        return Finding(_GROUP, name, Status.BROKEN, f"{folder}: {error.strerror}")
    free = stat.f_bavail * stat.f_frsize
    status = Status.OK if free >= _MIN_FREE_BYTES else Status.NOTE
    return Finding(_GROUP, name, status, f"{folder}: writable, {free / 1e9:.1f} GB free")


def check_port(host: str, port: int) -> list[Finding]:
    """Whether the address that `camera run` listens on by default is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError as error:
            reason = "in use" if error.errno == errno.EADDRINUSE else (error.strerror or "cannot be bound")
            return [
                Finding(
                    _GROUP,
                    f"port {port}",
                    Status.NOTE,
                    f"{host}:{port} {reason}; choose another with --listen",
                )
            ]
    return [Finding(_GROUP, f"port {port}", Status.OK, f"{host}:{port} is free")]


def check_devices() -> list[Finding]:
    """Which V4L2 cameras are attached, and whether they may be opened."""
    devices = sorted(Path("/dev").glob("video*"))
    if not devices:
        return [
            Finding(
                _GROUP, "camera devices", Status.NOTE, "none (/dev/video*); files and URLs work as sources"
            )
        ]
    return [_device(device) for device in devices]


def _device(device: Path) -> Finding:
    label = Path("/sys/class/video4linux") / device.name / "name"
    name = label.read_text(errors="replace").strip() if label.is_file() else "V4L2 device"
    if os.access(device, os.R_OK | os.W_OK):
        return Finding(_GROUP, str(device), Status.OK, name)
    return Finding(
        _GROUP, str(device), Status.NOTE, f"{name}; no permission (is the user in the group video?)"
    )
