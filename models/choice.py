"""Which run-time was the fastest here: measured once per machine, weights, size and versions.

A small JSON file in the user's cache folder. Whatever is wrong with it, it is as if it were not there.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from base.errors import FormatError, UsageError
from base.files import atomic_write, read_bounded

MAX_CACHE_BYTES = 64 * 1024
MAX_ENTRIES = 64
_LIBRARIES = ("onnxruntime", "openvino", "numpy")


def cache_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where choices are kept: ``veilcam/backends.json`` below XDG_CACHE_HOME, or below ~/.cache."""
    folder = environment.get("XDG_CACHE_HOME", "")
    return (Path(folder) if folder.startswith("/") else Path.home() / ".cache") / "veilcam" / "backends.json"


def choice_key(graphs: tuple[bytes, ...], shapes: tuple[tuple[int, ...], ...], threads: int) -> str:
    """A digest of everything that a choice depends on."""
    parts = [
        *(hashlib.sha256(graph).hexdigest() for graph in graphs),
        repr(shapes),
        str(threads),
        _processor(),
        str(os.cpu_count()),
        platform.python_version(),
        *(f"{name} {_version(name)}" for name in _LIBRARIES),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def remembered(key: str, path: Path | None = None) -> str | None:
    """The name chosen for ``key``; None if there is none, or the file cannot be used."""
    return _read(path or cache_file()).get(key)


def remember(key: str, name: str, path: Path | None = None) -> None:
    """Keep a choice, the newest 64 in all; without a word where nothing can be written."""
    path = path or cache_file()
    choices = _read(path)
    choices.pop(key, None)
    choices[key] = name
    newest = dict(list(choices.items())[-MAX_ENTRIES:])
    with suppress(OSError):  # a read-only home: measure again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, json.dumps(newest, indent=1).encode() + b"\n")


def _read(path: Path) -> dict[str, str]:
    try:
        choices = json.loads(read_bounded(path, MAX_CACHE_BYTES))
    except (OSError, ValueError, RecursionError, FormatError, UsageError):
        return {}
    if not isinstance(choices, dict):
        return {}
    return {key: name for key, name in choices.items() if isinstance(name, str)}


def _processor() -> str:
    with suppress(OSError, UnicodeDecodeError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith(("model name", "Hardware", "CPU part")):
                return line
    return f"{platform.machine()} {platform.processor()}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"
