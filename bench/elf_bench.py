"""The machines of the bench: workers, capped and linked, or simulated."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from analytics.elf import Policy
from analytics.pool import PoolOptions, WorkerAddress
from bench.elf_lab import Lab, NotPermittedError
from veilcam.edge.processes import ProcessOptions, WorkerProcess

SIMULATED_PIXELS_PER_S, SIMULATED_FIXED_S = 5e6, 0.0025  # YOLOX-nano on a whole core, measured


class Bench:
    """Workers, capped and linked or simulated. A context manager."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.lab: Lab | None = None
        self.processes: list[WorkerProcess] = []
        self.why_simulated = ""
        self._stack = ExitStack()

    def __enter__(self) -> Bench:
        with ExitStack() as stack:
            if self.arguments.simulate:
                self.why_simulated = "asked for with --simulate"
            else:
                try:
                    self.lab = stack.enter_context(Lab(self.arguments.workers, self.arguments.link_mbit))
                except NotPermittedError as error:
                    self.why_simulated = str(error)
            stack.callback(self._stop)
            self.processes = [self.start(number) for number in range(self.arguments.workers)]
            for number, process in enumerate(self.processes):
                process.wait(120)
                self.cap(number, self.arguments.cap)
            self._stack = stack.pop_all()
        return self

    def _stop(self) -> None:
        for process in self.processes:
            process.stop()

    def __exit__(self, *exc: object) -> None:
        for number in range(len(self.processes)):
            self.cap(number, 1.0)  # so that they end quickly
        self._stack.close()

    def start(self, number: int, share: float | None = None) -> WorkerProcess:
        """Start one worker, not capped yet."""
        detector = self.arguments.detector
        if self.lab is None:
            share = share or self.arguments.cap
            speed, fixed_ms = SIMULATED_PIXELS_PER_S * share, 1000 * SIMULATED_FIXED_S / share
            more = ("--pixels-per-s", str(speed), "--fixed-ms", str(fixed_ms))
            return WorkerProcess(
                ProcessOptions(detector, module="bench.elf_simulated", listen=None, more=more)
            )
        link = self.lab.links[number]
        process = WorkerProcess(
            ProcessOptions(detector, f"{link.address}:0", link.prefix, ("--insecure", "--threads", "1"))
        )
        self.lab.caps[number].add(process.pid)
        return process

    def cap(self, number: int, share: float) -> None:
        """Change a worker's quota; a simulated one keeps its speed."""
        if self.lab is not None:
            self.lab.caps[number].limit(share)

    def addresses(self) -> list[WorkerAddress]:
        """Of the workers, in their order."""
        return [WorkerAddress(process.url, f"w{n}") for n, process in enumerate(self.processes)]

    def options(self, *, deadline_s: float = 30.0) -> PoolOptions:
        """Of every way."""
        arguments = self.arguments
        return PoolOptions(
            deadline_s, arguments.quality, arguments.min_score, "bench", Policy(), audit_every=0
        )


@contextmanager
def quick_workers(bench: Bench) -> Iterator[list[WorkerAddress]]:
    """The same workers without a cap, where only what they find counts."""
    for number in range(len(bench.processes)):
        bench.cap(number, 1.0)
    try:
        yield bench.addresses()
    finally:
        for number in range(len(bench.processes)):
            bench.cap(number, bench.arguments.cap)
