"""Fuzz one target in this process with atheris: ``python -m tests.fuzz.one NAME libFuzzer-options``."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(
    include=["analytics.oip", "analytics.worker", "base", "codec", "forensics", "keys", "camera.settings"]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Hand over to libFuzzer, which ends the process."""
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target.execute)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
