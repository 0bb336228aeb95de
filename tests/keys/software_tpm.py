"""A TPM in software (swtpm) for tests, with a state of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def software_tpm(state: Path) -> Iterator[str]:
    """Run a TPM whose seeds are in ``state``; yields TPM2TOOLS_TCTI. Skips the test without the programs."""
    for program in ("swtpm", "tpm2_unseal"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: swtpm, tpm2-tools)")
    state.mkdir(exist_ok=True)
    port = _two_free_ports()
    command = ["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={state}", "--flags"]
    command += ["not-need-init,startup-clear", "--server", f"type=tcp,port={port}"]
    process = subprocess.Popen([*command, "--ctrl", f"type=tcp,port={port + 1}"])
    try:
        _wait_for(port + 1)
        yield f"swtpm:host=127.0.0.1,port={port}"
    finally:
        process.terminate()
        process.wait(10)


def _two_free_ports() -> int:
    """tpm2-tools expect the control channel at the port after the TPM's."""
    for _ in range(50):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise TimeoutError


def _wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(port)
