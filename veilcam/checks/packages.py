"""Python and the packages that veilcam stands on."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from importlib import metadata
from pathlib import Path

from veilcam.checks.finding import Finding, Status

OUR_PACKAGES = ("base", "keys", "models", "codec", "analytics", "camera", "forensics", "veilcam")
OLDEST_PYTHON = (3, 11)
_GROUP = "packages"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")


def check_python() -> list[Finding]:
    """Whether the interpreter is new enough."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()} ({sys.executable})"
    fine = sys.version_info >= OLDEST_PYTHON
    return [Finding(_GROUP, "python", Status.OK if fine else Status.BROKEN, detail)]


def check_installed() -> list[Finding]:
    """Whether every package that the base install names is there; which extras are."""
    try:
        requirements = metadata.requires("veilcam") or []
    except metadata.PackageNotFoundError:
        return [Finding(_GROUP, "veilcam", Status.NOTE, "runs from a source folder, not installed")]
    findings = []
    for requirement in requirements:
        match = _NAME.match(requirement)
        extra = _EXTRA.search(requirement)
        if match is None or (extra and extra.group(1) in {"dev", "train"}):
            continue
        findings.append(_installed(match.group(), requirement, extra.group(1) if extra else None))
    return findings


def _installed(name: str, requirement: str, extra: str | None) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if extra:
            return Finding(
                _GROUP, name, Status.NOTE, f"not installed (optional: pip install 'veilcam[{extra}]')"
            )
        return Finding(_GROUP, name, Status.BROKEN, f"not installed; needed: {requirement}")
    return Finding(_GROUP, name, Status.OK, version)


def check_not_shadowed() -> list[Finding]:
    """Whether our general package names lead to our own folders."""
    home = Path(__file__).resolve().parents[2]
    findings = []
    for name in OUR_PACKAGES:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent.parent != home:
            detail = f"import {name} finds {origin or 'nothing'}, expected {home / name}"
            findings.append(Finding(_GROUP, name, Status.BROKEN, detail))
    return findings or [
        Finding(_GROUP, "veilcam", Status.OK, f"all {len(OUR_PACKAGES)} packages come from {home}")
    ]
