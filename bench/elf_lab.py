"""Slow machines on slow links: CPU-capped processes (cgroup) in network namespaces (veth, tbf)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")
PERIOD_US = 10_000


class NotPermittedError(Exception):
    """This machine lets nobody make namespaces, links or CPU caps; the message says which."""


class CpuCap:
    """A control group with a CPU quota: ``share`` of one core, in periods of 10 ms."""

    def __init__(self, name: str) -> None:
        self._v1 = (V1 / "cpu.cfs_quota_us").exists() or (V1 / "cpu.shares").exists()
        self.folder = (V1 if self._v1 else V2) / name
        try:
            if not self._v1 and "cpu" not in (V2 / "cgroup.controllers").read_text().split():
                raise NotPermittedError("cgroup v2 has no cpu controller here")
            self.folder.mkdir()
        except OSError as error:
            message = f"control groups: {error.strerror} ({self.folder.parent})"
            raise NotPermittedError(message) from error

    def add(self, pid: int) -> None:
        """Put a process with all its threads into it."""
        self._write("cgroup.procs", str(pid))

    def limit(self, share: float) -> None:
        """Set the quota: 0.15 is 15 % of one core."""
        quota_us = max(1000, round(share * PERIOD_US))
        if self._v1:
            self._write("cpu.cfs_period_us", str(PERIOD_US))
            self._write("cpu.cfs_quota_us", str(quota_us))
        else:
            self._write("cpu.max", f"{quota_us} {PERIOD_US}")

    def remove(self) -> None:
        """Give it back; its processes must have ended."""
        if self.folder.exists():
            self.folder.rmdir()

    def _write(self, name: str, text: str) -> None:
        try:
            (self.folder / name).write_text(text)
        except OSError as error:
            message = f"control groups: {name}: {error.strerror}"
            raise NotPermittedError(message) from error


class Link:
    """A namespace behind a veth pair with a rate limit in both directions."""

    def __init__(self, number: int, rate_mbit: float) -> None:
        tag = f"{os.getpid() % 10_000}x{number}"
        self.namespace = f"elf{tag}"
        self.host, self.address = f"10.213.{number}.1", f"10.213.{number}.2"
        outer, inner = f"eo{tag}", f"ei{tag}"
        self.rate_mbit = rate_mbit
        burst = max(4096, round(rate_mbit * 1e6 / 8 * 0.0005))  # half a millisecond: no free ride for a tile
        shape = f"tbf rate {round(rate_mbit * 1000)}kbit burst {burst} limit 400000".split()
        inside = ["ip", "-n", self.namespace]
        for command in (
            ["ip", "netns", "add", self.namespace],
            ["ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", self.namespace],
            ["ip", "addr", "add", f"{self.host}/30", "dev", outer],
            ["ip", "link", "set", outer, "up"],
            [*inside, "addr", "add", f"{self.address}/30", "dev", inner],
            [*inside, "link", "set", inner, "up"],
            [*inside, "link", "set", "lo", "up"],
            ["tc", "qdisc", "add", "dev", outer, "root", *shape],
            ["tc", "-n", self.namespace, "qdisc", "add", "dev", inner, "root", *shape],
        ):
            _run(command)

    @property
    def prefix(self) -> tuple[str, ...]:
        """What starts a program inside."""
        return ("ip", "netns", "exec", self.namespace)

    def remove(self) -> None:
        """Give it back, with its devices."""
        subprocess.run(["ip", "netns", "del", self.namespace], check=False, capture_output=True)


class Lab:
    """``count`` machines. A context manager; leaves nothing behind."""

    def __init__(self, count: int, rate_mbit: float) -> None:
        self._count, self._rate_mbit = count, rate_mbit
        self.links: list[Link] = []
        self.caps: list[CpuCap] = []

    def __enter__(self) -> Self:
        """Make them.

        Raises:
            NotPermittedError: this machine does not allow it.
        """
        try:
            for number in range(self._count):
                self.caps.append(CpuCap(f"veilcam-elf-{os.getpid()}-{number}"))
                self.caps[-1].limit(1.0)
                self.links.append(Link(number, self._rate_mbit))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for link in self.links:
            link.remove()
        for cap in self.caps:
            cap.remove()


def _run(command: list[str]) -> None:
    if shutil.which(command[0]) is None:
        message = f"{command[0]} is not installed"
        raise NotPermittedError(message)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        message = f"{' '.join(command[:3])}: {done.stderr.strip()[:120]}"
        raise NotPermittedError(message)
