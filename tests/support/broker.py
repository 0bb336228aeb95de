"""A real MQTT broker (Debian's mosquitto) on a free loopback port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

START_S = 10.0


def find_mosquitto() -> str | None:
    """The broker's path, or None; Debian puts it where only root's PATH looks."""
    return shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


def free_port() -> int:
    """A TCP port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Broker:
    """``with Broker(tmp_path) as broker``; ``stop`` and ``start`` stand for a restart without memory."""

    def __init__(self, folder: Path, *, user: str = "", password: str = "") -> None:
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        lines = [f"listener {self.port} 127.0.0.1", f"allow_anonymous {'false' if user else 'true'}"]
        if user:
            passwords = folder / "passwords"
            passwords.touch(mode=0o600)
            tool = shutil.which("mosquitto_passwd")
            assert tool is not None
            subprocess.run([tool, "-b", str(passwords), user, password], check=True, capture_output=True)
            lines.append(f"password_file {passwords}")
        if Path("/proc/self").stat().st_uid == 0:
            lines.append("user root")  # else it becomes a user that cannot read pytest's folder
        self._config.write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it listens."""
        binary = find_mosquitto()
        assert binary is not None
        self._process = subprocess.Popen(
            [binary, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        message = "mosquitto does not listen"
        raise AssertionError(message)

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
