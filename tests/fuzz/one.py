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
    name = sys.argv.pop(1)
    # libFuzzer merges in processes that it starts itself, by a shell, with this as the program
    sys.argv[0] = f"{sys.executable} -m tests.fuzz.one {name}"
    atheris.Setup(sys.argv, TARGETS[name].execute)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
